"""Two models behind one middleware: each request is measured by the model it goes to, whoever else is asked."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_support import ScriptedChat, create_agent
from unabridged.adapters.kit import Agent
from unabridged.adapters.langchain import SummarizationMiddleware
from unabridged.adapters.langchain.compactors import AskedModel, LastAskedModels


def test_of_several_models_a_new_thread_is_measured_by_none_of_them() -> None:
    last, (small, large) = LastAskedModels(Agent("named", 50_000)), (object(), object())
    assert last.find("a").agent == Agent("named", 50_000)
    last.remember("a", AskedModel(Agent("small", 8_000), small))
    assert last.find("new") == AskedModel(Agent("small", 8_000), small), "the only one so far"
    last.remember("b", AskedModel(Agent("large", 100_000), large))
    assert last.find("new") == AskedModel(Agent("named", 50_000))
    assert last.find("a").model is small
    assert last.find("b").model is large


@pytest.mark.filterwarnings("ignore:Direct attribute assignment")  # LangChain hides it in a way that threads undo
def test_two_models_in_two_threads_are_each_measured_by_their_own_window() -> None:
    seen: list[tuple[str, int]] = []
    middleware = SummarizationMiddleware(model=None, archive="memory:", trigger=("fraction", 0.8))
    call = middleware._make_request  # noqa: SLF001 - what a request is measured by is nowhere else to be seen

    def noted(asked: AskedModel, *arguments: Any, **options: Any) -> Any:
        request = call(asked, *arguments, **options)
        seen.append((str(asked.agent.name), request.compactor.limits.window))
        return request

    middleware._make_request = noted  # type: ignore[method-assign] # noqa: SLF001 - likewise

    def talk(name: str, window: int) -> None:
        chat = ScriptedChat(script=lambda i, _: f"Answer {i}.", model_name=name, profile={"max_input_tokens": window})
        agent = create_agent(chat, [], middleware=[middleware], checkpointer=InMemorySaver())
        for n in range(25):
            agent.invoke({"messages": [HumanMessage(f"Question {n}.")]}, {"configurable": {"thread_id": name}})

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        both = [threading.Thread(target=talk, args=one) for one in (("small", 8_000), ("large", 100_000))]
        for one in both:
            one.start()
        for one in both:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert len(seen) == 50
    assert set(seen) == {("small", 8_000), ("large", 100_000)}
