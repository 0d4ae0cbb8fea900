"""A LangChain agent that never outgrows its model's window: one import, one line in the stack.

    python examples/langchain_agent.py anthropic:claude-sonnet-4-5 "Which of the logs mentions the broken pump?" logs/

Needs `pip install langchain` with your provider's package, and its API key.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from unabridged.adapters.langchain import SummarizationMiddleware, SummarizationToolMiddleware


@tool
def list_files(folder: str) -> str:
    """Return the names of the files in a folder."""
    return "\n".join(sorted(path.name for path in Path(folder).iterdir()))


@tool
def read_file(path: str) -> str:
    """Return the text of a file."""
    return Path(path).read_text(encoding="utf-8")


def build(model: Any, archive: str = "sqlite:///agent.db") -> Any:
    """Return an agent that compacts its messages when they near the window, and can search what was archived."""
    summarization = SummarizationMiddleware(model, archive=archive)
    return create_agent(
        model,
        [list_files, read_file],
        middleware=[summarization, SummarizationToolMiddleware(summarization, compact=False)],
        checkpointer=InMemorySaver(),
    )


def ask(agent: Any, question: str, thread: str = "example") -> str:
    """Ask one question, in a thread of its own or in an existing one."""
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 1_000}
    state = agent.invoke({"messages": [("user", question)]}, config)
    return str(state["messages"][-1].content)


if __name__ == "__main__":
    name, question, *folders = sys.argv[1:]
    print(ask(build(init_chat_model(name)), " ".join([question, *folders])))
