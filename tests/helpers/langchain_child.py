"""Processes that run an agent on a Postgres checkpointer and kill themselves in the middle of its third compaction.

python langchain_child.py POINT DATABASE POINT DATABASE...    one process for each point, all at once
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver

from langchain_support import ScriptedChat, create_agent, work, working
from unabridged import Settings
from unabridged.adapters.langchain import SummarizationMiddleware

STEPS = 40
RUN: Any = {"configurable": {"thread_id": "killed"}, "recursion_limit": 500}


class Killer:
    """Ends the process, as `kill -9` does, at the named point of the third compaction; "" never."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.compacted = 0

    def at(self, point: str) -> None:
        if point == self.point and self.compacted >= 2:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(self, event: Any) -> None:
        name = type(event).__name__.lower()
        self.at(name)
        self.compacted += name == "compacted"


def build(url: str, saver: Any, killer: Killer) -> tuple[Any, ScriptedChat, SummarizationMiddleware]:
    class Killed(SummarizationMiddleware):
        def after_model(self, state: Any, runtime: Any) -> Any:
            update = super().after_model(state, runtime)
            if update:
                killer.at("following")
            return update

    def script(_: int, messages: list[Any]) -> Any:
        if any(str(message.content).startswith("[unabridged summary") for message in messages):
            killer.at("answering")
        done = [m.tool_calls[0]["args"]["number"] for m in messages if getattr(m, "tool_calls", None)]
        return working(STEPS)(max(done, default=-1) + 1, messages)

    own = Killed(archive=url, on_event=killer.heard, namespace="children", settings=Settings(clear=None))
    model = ScriptedChat(script=script, window=5_000, profile={"max_input_tokens": 5_000})
    return create_agent(model, [work], middleware=[own], checkpointer=saver), model, own


def run(point: str, url: str) -> None:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        build(url, saver, Killer(point))[0].invoke(
            {"messages": [HumanMessage("Work through all of it.")]}, RUN, durability="sync"
        )


if __name__ == "__main__":
    started = []
    for point, url in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        pid = os.fork()  # nothing is open yet, and LangChain is imported once
        if pid == 0:
            try:
                run(point, url)
            finally:
                traceback.print_exc()
                os._exit(1)  # it was not killed
        started.append(pid)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in started]))  # noqa: T201 - its result
