"""A deep agent with our compaction in the place of its own, in its sub-agents too.

    python examples/langchain_deep_agent.py anthropic:claude-sonnet-4-5 "Write a report on …"

Needs `pip install deepagents` with your provider's package, and its API key.
"""

from __future__ import annotations

import sys
from typing import Any

from langchain.chat_models import init_chat_model
from langgraph.checkpoint.memory import InMemorySaver

from unabridged import Settings
from unabridged.adapters.langchain import create_deep_agent, replay


def build(model: Any, tools: Any = (), settings: Settings | None = Settings()) -> Any:  # noqa: B008 - frozen
    """Return the agent; `settings=None` turns compaction off, Deep Agents' own included."""
    return create_deep_agent(
        model,
        list(tools),
        summarization=settings,
        subagents=[{"name": "reader", "description": "Reads long texts.", "system_prompt": "You read closely."}],
        checkpointer=InMemorySaver(),
    )


def ask(agent: Any, question: str, thread: str = "example") -> tuple[str, int, int]:
    """Return the answer, the number of messages in the state, and the number in the whole conversation."""
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 1_000}
    messages = agent.invoke({"messages": [("user", question)]}, config)["messages"]
    return str(messages[-1].content), len(messages), len(replay(agent, thread))


if __name__ == "__main__":
    name, question = sys.argv[1:]
    print(*ask(build(init_chat_model(name)), question), sep="\n")
