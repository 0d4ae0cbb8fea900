"""A process that runs an agent on a Postgres checkpointer and kills itself in the middle of its third compaction."""

from __future__ import annotations

import os
import signal
import sys
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


if __name__ == "__main__":
    with PostgresSaver.from_conn_string(sys.argv[1]) as saver:
        saver.setup()
        build(sys.argv[1], saver, Killer(sys.argv[2]))[0].invoke(
            {"messages": [HumanMessage("Work through all of it.")]}, RUN, durability="sync"
        )
