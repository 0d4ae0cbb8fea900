"""An agent moved over from LangChain's middleware: only the import changes.

python examples/langchain_moving_over.py openai:gpt-5-mini "Tell me a long story."
"""

from __future__ import annotations

import sys
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langgraph.checkpoint.memory import InMemorySaver

# from langchain.agents.middleware import SummarizationMiddleware
from unabridged.adapters.langchain import SummarizationMiddleware


def build(model: Any, tools: Any = (), **more: Any) -> Any:
    """Return the same agent as before; `more` takes our own arguments, such as `archive="sqlite:///agent.db"`."""
    return create_agent(
        model,
        list(tools),
        middleware=[SummarizationMiddleware(model, trigger=("tokens", 4_000), keep=("messages", 20), **more)],
        checkpointer=InMemorySaver(),
    )


def ask(agent: Any, question: str, thread: str = "example") -> str:
    """Ask one question."""
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 1_000}
    return str(agent.invoke({"messages": [("user", question)]}, config)["messages"][-1].content)


if __name__ == "__main__":
    name, question = sys.argv[1:]
    print(ask(build(init_chat_model(name)), question))
