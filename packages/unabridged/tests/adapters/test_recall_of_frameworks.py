"""Messages of frameworks, read from an archive by a program that does not name their format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rows import rows
from unabridged import Compactor
from unabridged.archive import codec
from unabridged.archive.protocol import Part
from unabridged.formats import OpenAIChat, detect_message_format
from unabridged.recall.excerpts import split_by_voice

ASKED, CALLED, ANSWERED = "Where is the heron?", "read_log", "a purple heron signed the log"


def langchain() -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    class Own(HumanMessage):
        """A class that a program derived for itself."""

    call = {"id": "c", "name": CALLED, "args": {"n": 1}}
    return [
        HumanMessage(ASKED),
        AIMessage("", tool_calls=[call]),
        ToolMessage(ANSWERED, tool_call_id="c"),
        Own(content=ASKED),
    ]


def llama_index() -> list[Any]:
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

    call = ToolCallBlock(tool_call_id="c", tool_name=CALLED, tool_kwargs={"n": 1})
    answer = ChatMessage(ANSWERED, role="tool", additional_kwargs={"tool_call_id": "c"})
    return [ChatMessage(ASKED, role="user"), ChatMessage(role="assistant", blocks=[call]), answer]


def pydantic_ai() -> list[Any]:
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart

    return [
        ModelRequest(parts=[UserPromptPart(ASKED)]),
        ModelResponse(parts=[ToolCallPart(CALLED, {"n": 1}, "c")]),
        ModelRequest(parts=[ToolReturnPart(CALLED, ANSWERED, "c"), UserPromptPart(ASKED)]),
    ]


def agent_framework() -> list[Any]:
    def message(role: str, **content: Any) -> dict[str, Any]:
        return {"type": "message", "role": role, "contents": [content]}

    return [
        message("user", type="text", text=ASKED),
        message("assistant", type="function_call", call_id="c", name=CALLED, arguments='{"n": 1}'),
        message("tool", type="function_result", call_id="c", result=ANSWERED),
    ]


@pytest.mark.parametrize("make", [langchain, llama_index, pydantic_ai, agent_framework])
def test_each_message_has_the_voices_that_its_framework_gave_it(make: Callable[[], list[Any]]) -> None:
    pytest.importorskip(str(make.__name__).replace("langchain", "langchain_core"))
    said: list[tuple[str, str]] = []
    for message in make():
        body = codec.encode(message)
        view = detect_message_format([message]).read(message)
        part = Part(codec.digest(body), body, 0, view.role, view.origin, view.whole_text())
        said += [(piece.whose, piece.text) for piece in split_by_voice(part)]
    assert {text for whose, text in said if whose == "the user wrote"} == {ASKED}
    assert {text for whose, text in said if whose == "tool output"} == {ANSWERED}
    assert {whose for whose, text in said if text not in {ASKED, ANSWERED}} == {f"the assistant called {CALLED}"}


@rows("message", [{"type": "human", "content": ASKED}, {"kind": "request", "parts": [{"content": ASKED}]}])
def test_a_message_of_a_framework_that_is_not_installed_is_attributed_to_nobody(message: dict[str, Any]) -> None:
    body = codec.encode(message)
    part = Part(codec.digest(body), body, 0, "user", "person", ASKED)
    pieces = split_by_voice(part)
    assert [piece.text for piece in pieces] == [ASKED]
    assert pieces[0].whose in {"text of unknown origin", "attached material, nobody's words"}


def test_a_compactor_takes_the_messages_of_a_framework_without_naming_their_format() -> None:
    from langchain_core.messages import AIMessage, HumanMessage

    messages = [item for n in range(40) for item in (HumanMessage(f"{ASKED} {n}"), AIMessage("It is here. " * 60))]
    with Compactor(window=4_000, archive="memory:") as compactor:
        fitted = compactor.fit(messages, thread="t")
        assert compactor.replay(fitted.messages, thread="t") == messages
        assert compactor.search(f"{ASKED} 1", thread="t")[0].origin == "person"
    assert detect_message_format([{"role": "user", "content": ASKED}]).name == OpenAIChat.name
