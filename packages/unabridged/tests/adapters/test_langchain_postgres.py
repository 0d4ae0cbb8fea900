"""Agents on a Postgres checkpointer: the state as promised, and a second process after `kill -9`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver

from langchain_child import RUN, STEPS, Killer, build
from langchain_support import fresh_database, refuse_illegal
from places import HELPERS
from unabridged.adapters.langchain import replay, undo

pytestmark = pytest.mark.posix


def numbers(messages: list[Any]) -> list[int]:
    """The steps in a conversation, in order."""
    return [m.tool_calls[0]["args"]["number"] for m in messages if getattr(m, "tool_calls", None)]


POINTS = ("compacting", "compacted", "answering", "following")


@pytest.fixture(scope="module")
def databases() -> dict[str, str]:
    """What a process left that was killed at each of the points."""
    made = {point: fresh_database() for point in POINTS}
    command = [sys.executable, str(HELPERS / "langchain_child.py"), *(word for pair in made.items() for word in pair)]
    killed = subprocess.run(command, check=False, capture_output=True, text=True, cwd=HELPERS)
    assert json.loads(killed.stdout) == [-signal.SIGKILL] * len(POINTS), killed.stderr
    return made


@pytest.mark.parametrize("point", POINTS)
def test_a_second_process_goes_on_from_the_old_or_the_new_state(point: str, databases: dict[str, str]) -> None:
    database = databases[point]
    with PostgresSaver.from_conn_string(database) as saver:
        agent, model, own = build(database, saver, Killer(""))
        found = agent.get_state(RUN).values["messages"]
        summaries = [i for i, m in enumerate(found) if str(m.content).startswith("[unabridged summary")]
        assert summaries == [0]  # never two, never one in the middle
        told = replay(agent, RUN)
        assert numbers(told) == list(range(len(numbers(told))))
        state = agent.invoke(None, RUN)["messages"]
        assert state[-1].content == "All done."
        assert model.log.overflows == 0
        refuse_illegal([*state, HumanMessage("And?")])
        assert numbers(replay(agent, RUN)) == list(range(STEPS))
        before = replay(agent, RUN)
        assert undo(agent, RUN)
        assert replay(agent, RUN) == before
        own.close()
