"""LlamaIndex's messages as a format: what is read, edited, archived and mended of each kind of block."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

from rows import rows
from unabridged import IllegalConversation, check, repair
from unabridged.adapters.llama_index import LlamaIndexMessages
from unabridged.archive import codec
from unabridged.formats.base import Slot
from unabridged.messages import Answer, Call, Media, Reasoning, View

FORMAT = LlamaIndexMessages()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n")
CALL = ToolCallBlock(tool_call_id="c", tool_name="read", tool_kwargs={"number": 7})
BESIDE = ChoiceDeltaToolCall.model_validate(
    {"index": 0, "id": "c", "type": "function", "function": {"name": "read", "arguments": '{"number": 7}'}}
)


def said(role: str, *blocks: Any, **beside: Any) -> ChatMessage:
    made = [TextBlock(text=block) if isinstance(block, str) else block for block in blocks]
    return ChatMessage(role=role, blocks=made, additional_kwargs=beside)


def result(*blocks: Any, call_id: str = "c") -> ChatMessage:
    return said("tool", *blocks, tool_call_id=call_id)


IMAGE = ImageBlock(image=b"\x89PNG\r\n\x1a\n", image_mimetype="image/png")
READ = [
    (said("user", "Hello", "there"), View("user", "person", "Hello\nthere")),
    (said("system", "Be exact."), View("system", "host", "Be exact.")),
    (said("chatbot", "Yes."), View("assistant", "model", "Yes.")),
    (
        said("user", "Look", IMAGE),
        View("user", "person", "Look", media=(Media("image", "image/png", PNG.decode()),)),
    ),
    (
        said("user", ImageBlock(url="https://x.org/a.png", image_mimetype="image/png")),
        View("user", "person", media=(Media("image", "image/png", "https://x.org/a.png"),)),
    ),
    (
        said("user", AudioBlock(url="https://x.org/a.mp3", format="mp3")),
        View("user", "person", media=(Media("audio", "audio/mp3", "https://x.org/a.mp3"),)),
    ),
    (
        said("user", DocumentBlock(url="https://x.org/a.pdf", title="a.pdf", document_mimetype="application/pdf")),
        View("user", "person", media=(Media("document", "application/pdf", "https://x.org/a.pdf", name="a.pdf"),)),
    ),
    (said("assistant", "So:", CALL), View("assistant", "model", "So:", calls=(Call("c", "read", '{"number":7}'),))),
    (
        said("assistant", tool_calls=[BESIDE]),
        View("assistant", "model", calls=(Call("c", "read", '{"number": 7}'),)),
    ),
    (
        said("assistant", CALL, tool_calls=[BESIDE]),
        View("assistant", "model", calls=(Call("c", "read", '{"number":7}'),)),
    ),
    (
        said("assistant", tool_calls=[{"id": "c", "name": "read", "input": {"number": 7}}]),
        View("assistant", "model", calls=(Call("c", "read", '{"number":7}'),)),
    ),
    (
        said("assistant", ThinkingBlock(content="Hm.", additional_information={"signature": "sealed"}), "Yes."),
        View("assistant", "model", "Yes.", reasoning=(Reasoning("Hm.", "sealed"),)),
    ),
    (result("one", "two"), View("tool", "tool", answers=(Answer("c", "one\ntwo"),))),
    (said("tool", "one", call_id="c"), View("tool", "tool", answers=(Answer("c", "one"),))),
    (said("user", "Hello", CachePoint(cache_control=CacheControl(type="ephemeral"))), View("user", "person", "Hello")),
]  # fmt: skip


@rows(("message", "view"), READ)
def test_a_message_says_what_its_blocks_say_and_is_archived_exactly(message: ChatMessage, view: View) -> None:
    assert FORMAT.read(message) == view
    assert FORMAT.claims(message)
    back = codec.decode(codec.encode(message))
    assert type(back) is ChatMessage
    assert FORMAT.read(back) == view
    if not any(getattr(block, "url", None) for block in message.blocks):  # which comes back as a text
        assert back == message


def test_what_a_search_found_is_attached_and_nobodys_words() -> None:
    found = CitableBlock(title="Pumps", source="pumps.md", content=[TextBlock(text="Pump 7 is broken.")])
    view = FORMAT.read(said("user", "See:", found))
    assert view.text == "See:"
    assert "Pump 7 is broken." in view.whole_text()
    edited = FORMAT.edit(
        said("user", "See:", found), lambda slot, text: text.upper() if slot.kind == "attached" else text
    )
    assert edited.blocks[1].content[0].text == "PUMP 7 IS BROKEN."
    assert edited.blocks[0].text == "See:"


@pytest.mark.parametrize("message", [{"role": "user", "content": "Hello"}, "Hello", None])
def test_what_is_no_message_is_refused(message: Any) -> None:
    with pytest.raises(IllegalConversation, match="ChatMessage"):
        FORMAT.read(message)
    assert not FORMAT.claims(message)


@rows(
    ("kind", "message", "changed"),
    [
        ("text", said("user", "Hello"), said("user", "HELLO")),
        ("answer", result("one", "two"), result("ONE", "TWO")),
        (
            "call",
            said("assistant", CALL, tool_calls=[BESIDE]),
            said("assistant", CALL.model_copy(update={"tool_kwargs": {"NUMBER": 7}})),
        ),
        (
            "call",
            said("assistant", tool_calls=[BESIDE]),
            said("assistant", CALL.model_copy(update={"tool_kwargs": '{"NUMBER": 7}'})),
        ),
        ("media", said("user", IMAGE), said("user", PNG.decode().upper())),
    ],
)
def test_an_edit_changes_one_place_and_no_message_that_was_given(
    kind: str, message: ChatMessage, changed: ChatMessage
) -> None:
    before = message.model_copy(deep=True)
    assert FORMAT.edit(message, lambda slot, text: text.upper() if slot.kind == kind else text) == changed
    assert message == before
    assert FORMAT.edit(message, lambda _, text: text) is message


def test_thinking_can_be_left_out_with_what_was_signed_of_each_block() -> None:
    message = said("assistant", ThinkingBlock(content="Hm."), "Yes.", thought_signatures=[b"a", b"b"], stop_reason="x")
    assert FORMAT.without_reasoning(message) == said("assistant", "Yes.", stop_reason="x")
    assert FORMAT.without_reasoning(said("assistant", ThinkingBlock(content="Hm."))) is None
    plain = said("assistant", "Yes.", thought_signatures=[b"a"])
    assert FORMAT.without_reasoning(plain) is plain
    assert FORMAT.edit(plain, lambda _, text: text.upper()).additional_kwargs == {"thought_signatures": [b"a"]}


def test_a_call_without_its_result_gets_one_and_a_result_without_its_call_goes() -> None:
    calls = [ToolCallBlock(tool_call_id=f"c{i}", tool_name="read", tool_kwargs={"n": i}) for i in range(3)]
    talk = [
        said("user", "Read them."),
        said("assistant", *calls),
        result("a", call_id="c0"),
        result("b", call_id="c2"),
        result("x", call_id="nobody's"),
        said("assistant", "Done."),
    ]
    assert check(talk, format=FORMAT)
    mended = repair(talk, format=FORMAT).messages
    assert check(mended, format=FORMAT) == []
    answers = [answer.call_id for message in mended for answer in FORMAT.read(message).answers]
    assert sorted(answers) == ["c0", "c1", "c2"]


def test_calls_without_ids_of_their_own_are_told_apart_by_their_order() -> None:
    calls = [ToolCallBlock(tool_call_id="read", tool_name="read", tool_kwargs={"n": i}) for i in range(3)]
    results = [result(str(i), call_id="read") for i in range(3)]
    mended = repair([said("user", "Go."), said("assistant", *calls), *results], format=FORMAT).messages
    assert check(mended, format=FORMAT) == []
    pairs = [(call.id, call.arguments) for call in FORMAT.read(mended[1]).calls]
    answers = [(answer.call_id, f'{{"n":{answer.text}}}') for m in mended for answer in FORMAT.read(m).answers]
    assert pairs == answers


def test_a_slot_of_a_result_names_its_call() -> None:
    answer = Slot("answer", "c")
    assert FORMAT.edit(result("one"), lambda slot, text: "gone" if slot == answer else text) == result("gone")
