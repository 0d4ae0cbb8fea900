"""A hand-written `StateGraph`: one node that keeps the messages inside the window, in front of the one that answers.

    python examples/langchain_graph.py openai:gpt-5-mini

Needs `pip install langgraph langchain` with your provider's package, and its API key.
"""

from __future__ import annotations

import sys
from typing import Any

from langchain.chat_models import init_chat_model
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from unabridged.adapters.langchain import SummarizationMiddleware, compact, undo


def build(model: Any, archive: str = "sqlite:///graph.db") -> tuple[Any, SummarizationMiddleware]:
    """Return the graph and the middleware that compacts its messages."""
    summarization = SummarizationMiddleware(model, archive=archive)
    graph: Any = StateGraph(MessagesState)
    graph.add_node("fit", lambda state, runtime: summarization.before_model(state, runtime) or {})
    graph.add_node("answer", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "fit").add_edge("fit", "answer").add_edge("answer", END)
    return graph.compile(checkpointer=InMemorySaver()), summarization


def chat(graph: Any, text: str, thread: str = "example") -> str:
    """Run one turn of a conversation."""
    state = graph.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": thread}})
    return str(state["messages"][-1].content)


def commands(graph: Any, summarization: SummarizationMiddleware, text: str, thread: str = "example") -> str:
    """Run `/compact` or `/undo`, or send any other text to the model."""
    if text == "/compact":
        done = compact(graph, thread, using=summarization)
        return f"{done.tokens_before:,} tokens became {done.tokens_after:,}." if done else "Nothing to gain."
    if text == "/undo":
        return "Taken back." if undo(graph, thread, using=summarization) else "There was no compaction."
    return chat(graph, text, thread)


if __name__ == "__main__":
    built = build(init_chat_model(sys.argv[1]))
    for line in sys.stdin:
        print(commands(*built, line.strip()))
