"""LangChain: our middleware beside its own, in agents with a checkpointer."""

from __future__ import annotations

from functools import partial
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware as Theirs
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.adapter_steps import FAR, Side, Watch, read, rounds, serve, used
from unabridged.adapters.langchain import SummarizationMiddleware as Ours

RUN: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 10_000}


class Working(BaseChatModel):
    """A model that calls the tool until its run is over."""

    size: int
    watch: Any

    @property
    def _llm_type(self) -> str:
        return "working"

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002 - the protocol's
        """Return the model unchanged."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ARG002 - likewise
        with self.watch.paused():
            number, tokens = self.watch.answer(), used(self.size, self.watch)
            calls = [] if number is None else [_call(f"new{number}")]
            usage: Any = {"input_tokens": tokens, "output_tokens": 10, "total_tokens": tokens + 10}
            said = AIMessage(f"Step {number}.", tool_calls=calls, usage_metadata=usage)
            return ChatResult(generations=[ChatGeneration(message=said)])


def _call(name: str) -> Any:
    return {"id": name, "name": "read", "args": {"path": f"src/{name}.py"}}


def run(make: Any, size: int, watch: Watch) -> None:
    """Run an agent twice, whose thread holds the conversation."""
    model = Working(size=size, watch=watch)
    agent: Any = create_agent(model, [tool(read)], middleware=[make(model)], checkpointer=InMemorySaver())
    messages: list[BaseMessage] = [HumanMessage("Work through all of it.")]
    for said, call, result in rounds(size):
        messages += [AIMessage(said, tool_calls=[_call(call)]), ToolMessage(result, tool_call_id=call)]
    agent.invoke({"messages": [*messages, AIMessage("So far."), HumanMessage("Go on.")]}, RUN, durability="exit")
    agent.invoke({"messages": [HumanMessage("And on.")]}, RUN, durability="exit")


def with_ours(_: Any) -> Ours:
    """Return our middleware."""
    return Ours(trigger=("tokens", FAR // 2), window=FAR, archive="memory:")


def with_theirs(model: Any) -> Theirs:
    """Return LangChain's middleware."""
    return Theirs(model, trigger=("tokens", FAR // 2))


if __name__ == "__main__":
    ours = Side(
        partial(run, with_ours), [(Ours, "wrap_model_call"), (Ours, "after_model")], [(BaseChatModel, "invoke")]
    )
    serve(
        {
            "LangChain": {
                "ours": ours,
                "SummarizationMiddleware": Side(partial(run, with_theirs), [(Theirs, "before_model")]),
            }
        }
    )
