"""LangChain's messages as a format: what is read, edited and archived of each kind of block."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_support import ScriptedChat, call, long_chat, rounds
from rows import rows
from unabridged import Compactor, IllegalConversation, UnabridgedError, check, repair
from unabridged.adapters.kit import apply_change, change_between
from unabridged.adapters.langchain import LangChain, SummarizationMiddleware, summariser_of
from unabridged.adapters.langchain.graph_state import assign_new_ids
from unabridged.archive import codec
from unabridged.asking.ask import Ask, Reply
from unabridged.formats.base import Slot
from unabridged.legality import PROVIDERS
from unabridged.messages import Answer, Call, Media, Reasoning, View
from unabridged.tokens.meter import Meter

FORMAT = LangChain()
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
PIXEL = {"type": "image", "base64": PNG, "mime_type": "image/png"}

INVALID: Any = {"id": "i", "name": "f", "args": "{", "error": "no", "type": "invalid_tool_call"}
USE = {"type": "tool_use", "id": "call-1", "name": "f", "input": {"x": 1}}


def ai(*blocks: Any, **fields: Any) -> AIMessage:
    return AIMessage(list(blocks), **fields)


@rows(
    ("message", "view"),
    [
        (SystemMessage("Be exact."), View("system", "host", "Be exact.")),
        (HumanMessage("Hello"), View("user", "person", "Hello")),
        (HumanMessage("S", additional_kwargs={"lc_source": "summarization"}), View("user", "host", "S")),
        (ChatMessage(content="Hm", role="assistant"), View("assistant", "model", "Hm")),
        (ToolMessage("r", tool_call_id="c"), View("tool", "tool", answers=(Answer("c", "r"),))),
        (
            ToolMessage("r", tool_call_id="c", status="error"),
            View("tool", "tool", answers=(Answer("c", "r", error=True),)),
        ),
        (FunctionMessage(content="r", name="f"), View("tool", "tool", answers=(Answer("function:f", "r"),))),
        (call("f", 1, "t", x=1), View("assistant", "model", "t", calls=(Call("call-1", "f", '{"x":1}'),))),
        (
            AIMessage("", invalid_tool_calls=[INVALID]),
            View("assistant", "model", calls=(Call("i", "f", "{"),)),
        ),
        (
            ai({"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "t"}),
            View("assistant", "model", "t", reasoning=(Reasoning("hm", "s"),)),
        ),
        (
            ai({"type": "redacted_thinking", "data": "sealed"}, {"type": "text", "text": "t"}),
            View("assistant", "model", "t", reasoning=(Reasoning("", "sealed"),)),
        ),
        (
            ai({"type": "reasoning", "summary": [{"text": "why"}], "encrypted_content": "e"}, "t"),
            View("assistant", "model", "t", reasoning=(Reasoning("why", "e"),)),
        ),
        (
            AIMessage("t", additional_kwargs={"reasoning_content": "hm"}),
            View("assistant", "model", "t", reasoning=(Reasoning("hm"),)),
        ),
        (
            ai(USE, tool_calls=call("f", 1, x=1).tool_calls),
            View("assistant", "model", calls=(Call("call-1", "f", '{"x":1}'),)),
        ),
        (HumanMessage([PIXEL]), View("user", "person", media=(Media("image", "image/png", PNG),))),
        (
            HumanMessage([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]),
            View("user", "person", media=(Media("image", "image/png", f"data:image/png;base64,{PNG}"),)),
        ),
        (
            HumanMessage([{"type": "file", "base64": "JVBE", "mime_type": "application/pdf", "filename": "a.pdf"}]),
            View("user", "person", media=(Media("document", "application/pdf", "JVBE", name="a.pdf"),)),
        ),
        (
            HumanMessage([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]),
            View("user", "person", media=(Media("image", "image/png", PNG),)),
        ),
    ],
)  # fmt: skip
def test_each_kind_of_message_is_read(message: BaseMessage, view: View) -> None:
    assert FORMAT.read(message) == view


ODD: tuple[Any, ...] = (
    0,
    -1.5,
    True,
    b"b",
    [],
    [0],
    {},
    {"type": 3},
    {"type": []},
    {"type": "text", "text": 5},
    {1: 2},
    {(1, 2): 3},
    None,
)


@rows("odd", ODD)
@rows("place", ["message", "content", "block", "source", "text", "input", "summary", "extras", "id"])
def test_an_odd_value_anywhere_gives_a_result_or_an_error_of_ours(place: str, odd: Any) -> None:
    blocks: list[Any] = [
        {"type": "text", "text": odd if place == "text" else "a"},
        {"type": "image", "source": odd if place == "source" else {"data": PNG}},
        {**USE, "input": odd if place == "input" else {}, "id": odd if place == "id" else "call-1"},
        {"type": "reasoning", "summary": odd if place == "summary" else [], "extras": odd if place == "extras" else {}},
        odd if place == "block" else "b",
    ]
    message = AIMessage.model_construct(content=odd if place == "content" else blocks, tool_calls=[], type="ai")
    message.__dict__ |= {"additional_kwargs": {}, "invalid_tool_calls": [], "id": "1", "response_metadata": {}}
    given = [*rounds(12), HumanMessage("go on"), odd if place == "message" else message]
    before = repr(given)
    for window in (1_500, 100_000):
        with Compactor(window=window, archive="memory:", format=FORMAT) as compactor:
            for asked in (compactor.fit, compactor.compact, compactor.plan, compactor.replay):
                with suppress(UnabridgedError):
                    asked(given, thread="t")
    assert repr(given) == before


def test_calls_that_stand_only_in_the_content_are_mended_there() -> None:
    message = ai({"type": "text", "text": "a"}, {**USE, "id": None})
    message.tool_calls.clear()
    mended = repair([HumanMessage("go on"), message, ToolMessage("r", tool_call_id="x")], format=FORMAT).messages
    assert not check(mended, format=FORMAT)
    assert FORMAT.read(mended[1]).calls[0].id == mended[2].tool_call_id != ""
    assert mended[1].content[0] == {"type": "text", "text": "a"}


def test_what_is_no_message_of_langchain_is_named_by_its_index() -> None:
    with Compactor(archive="memory:", format=FORMAT) as compactor:
        with pytest.raises(
            IllegalConversation, match=r"message 1 .* langchain: it is \{'role'.*a message of LangChain's"
        ):
            compactor.fit([HumanMessage("Hello"), {"role": "user", "content": "Hello"}])
        with pytest.raises(IllegalConversation, match=r"message 0 .* content\[1\] is 5 \(int\)"):
            compactor.fit([HumanMessage.model_construct(content=["a", 5], type="human")])


def test_an_unknown_block_is_readable_and_counted() -> None:
    view = FORMAT.read(ai({"type": "web_search_call", "action": {"query": "pumps"}}))
    assert "pumps" in view.whole_text()
    assert not view.text, "nobody wrote it"
    assert Meter().message(view) > Meter().message(FORMAT.read(ai()))


MESSAGES: list[BaseMessage] = [
    SystemMessage([{"type": "text", "text": "Be exact.", "cache_control": {"type": "ephemeral"}}], id="s"),
    HumanMessage(["plain", PIXEL], id="h", name="ann", additional_kwargs={"at": 1.5}),
    AIMessage("t", id="a", usage_metadata={"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}),
    AIMessageChunk(content="t", id="k"),
    ToolMessage("r", tool_call_id="c", id="t", artifact={"rows": (1, 2), "raw": b"\x00"}, status="error"),
    ToolMessage("r", tool_call_id="c", artifact=[Document("page", metadata={"n": 1})]),
    FunctionMessage(content="r", name="f"),
    ChatMessage(content="Hm", role="critic"),
    call("f", 1, x=[1, {"y": None}]),
]


@rows("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_what_is_archived_comes_back_type_for_type(message: BaseMessage) -> None:  # R40
    back = codec.decode(codec.encode(message))
    assert type(back) is type(message)
    assert back == message
    assert back.model_dump() == message.model_dump()


def test_an_artifact_that_no_archive_can_hold_does_not_stop_a_compaction(caplog: pytest.LogCaptureFixture) -> None:
    odd = ToolMessage("r", tool_call_id="call-0", id="t0", artifact=object())
    messages = [odd if m.id == "t0" else m for m in rounds(30)]
    update = SummarizationMiddleware(None, archive="memory:", window=4_000).before_model({"messages": messages}, None)
    assert len(update["messages"]) < 20
    with Compactor(window=4_000, archive="memory:", format=LangChain()) as compactor, caplog.at_level("WARNING"):
        whole = compactor.replay(compactor.fit(messages, thread="t").messages, thread="t")
    assert "archived without its artifact" in caplog.text
    assert whole == [m.model_copy(update={"artifact": None}) if m is odd else m for m in messages]


def test_edits_reach_every_copy_of_a_call_and_keep_the_id() -> None:
    block = {"type": "tool_use", "id": "call-1", "name": "f", "input": {"x": "long"}}
    raw = {"tool_calls": [{"id": "call-1"}]}
    message = ai(block, id="a", tool_calls=call("f", 1, x="long").tool_calls, additional_kwargs=raw)
    edited = FORMAT.edit(message, lambda slot, text: '{"x":"…"}' if slot == Slot("call", "call-1") else text)
    assert (edited.id, edited.tool_calls[0]["args"], edited.content[0]["input"]) == ("a", {"x": "…"}, {"x": "…"})
    assert edited.additional_kwargs == {}
    assert FORMAT.edit(message, lambda _, text: text) is message


def test_a_picture_becomes_a_text_where_it_is_cleared() -> None:
    message = HumanMessage([{"type": "text", "text": "Look."}, PIXEL], id="h")
    edited = FORMAT.edit(message, lambda slot, text: "[a picture]" if slot.kind == "media" else text)
    assert edited.content == [{"type": "text", "text": "Look."}, {"type": "text", "text": "[a picture]"}]


def test_thinking_is_taken_out_and_a_message_of_nothing_else_goes() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    rest = FORMAT.without_reasoning(ai(thought, {"type": "text", "text": "t"}, id="a"))
    assert rest is not None
    assert (rest.id, rest.content) == ("a", [{"type": "text", "text": "t"}])
    assert FORMAT.without_reasoning(ai(thought)) is None
    plain = AIMessage("t")
    assert FORMAT.without_reasoning(plain) is plain


def test_pictures_and_files_count_as_what_they_cost_and_come_back_as_bytes() -> None:  # R12, R29
    pdf = base64.b64encode(b"%PDF-1.7\n" + b"/Type /Page\n" * 3 + b"x" * 300_000).decode()
    file = {"type": "file", "base64": pdf, "mime_type": "application/pdf", "filename": "contract.pdf"}
    photo = {"type": "image", "base64": PNG + "A" * 200_000, "mime_type": "image/png"}
    messages: list[Any] = [
        HumanMessage([{"type": "text", "text": "Read the contract."}, file], id="f"),
        AIMessage("Read.", id="g"),
        HumanMessage([{"type": "text", "text": "And the photo."}, photo], id="p"),
        AIMessage("Seen.", id="q"),
        *long_chat(30),
    ]
    compactor = Compactor(window=100_000, archive="memory:", format=FORMAT)
    assert compactor.plan(messages).tokens < len(pdf) // 4
    done = compactor.compact(messages, thread="t")
    assert done is not None
    assert compactor.replay(done.messages, thread="t") == messages
    assert base64.b64decode(compactor.replay(done.messages, thread="t")[0].content[1]["base64"]).startswith(b"%PDF-1.7")


# -- chat models as summarisers ----------------------------------------------------------------------------------------


def test_a_chat_model_answers_an_ask_with_why_it_stopped_and_what_it_used() -> None:
    used: Any = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
    said = AIMessage("Kept.", response_metadata={"finish_reason": "length"}, usage_metadata=used)
    model = ScriptedChat(script=lambda _i, _m: said, model_name="m")
    ask = Ask(system="Be exact.", messages=[HumanMessage("live")], instruction="Summarise.")
    summarise = summariser_of(model)
    assert summarise is not None
    reply: Reply = summarise(ask)
    assert (reply.text, reply.stop, reply.model) == ("Kept.", "length", "m")
    assert reply.usage is not None
    assert reply.usage.input == 9
    assert [m.content for m in model.log.requests[0]] == ["Be exact.", "live", "Summarise."]


def test_a_reply_that_calls_a_tool_says_so() -> None:
    summarise = summariser_of(ScriptedChat(script=lambda _i, _m: call("f", 1)))
    assert summarise is not None
    assert summarise(Ask(instruction="Summarise.")).stop == "tool"


def test_an_async_function_summarises_too() -> None:
    async def shorten(messages: Any) -> str:
        return f"{len(messages)} messages"

    summarise = summariser_of(shorten)
    assert summarise is not None
    assert summarise(Ask(instruction="Summarise.")).text == "1 messages"
    assert summariser_of(None) is None


# -- how a state follows -----------------------------------------------------------------------------------------------


def chat(*ids: str) -> list[BaseMessage]:
    return [HumanMessage(id_, id=id_) for id_ in ids]


def test_a_state_follows_with_all_that_the_compaction_never_saw() -> None:
    before = chat("a", "b", "c", "d")
    after = assign_new_ids(before, [HumanMessage("S"), before[0], before[3]], None)
    assert [m.id for m in after] == ["b", "a", "d"]
    pending = change_between(before, after)
    assert pending is not None
    state = [*chat("a", "b", "x", "c", "d"), HumanMessage("answer", id="e")]
    assert [m.content for m in apply_change(state, pending)] == ["S", "a", "x", "d", "answer"]
    assert [m.content for m in apply_change(chat("d", "e"), pending)] == ["S", "d", "e"]
    assert change_between(before, list(before)) is None


def test_the_rules_that_every_provider_has_hold_for_these_messages_too() -> None:
    broken = [message for message in rounds(4) if message.id not in {"a1", "t2"}]
    assert {finding.rule for finding in check(broken, format=LangChain())} == {"orphan-answer", "unanswered-call"}
    mended = repair(broken, format=LangChain())
    assert check(mended.messages, format=LangChain()) == []
    assert [m for m in broken if m in mended.messages] == [m for m in broken if m.id != "t1"]
    twice = [*long_chat(2), HumanMessage("And?")]
    assert check(twice, format=LangChain()) == []
    assert check(twice, "strict", format=LangChain())


def test_the_adapter_leaves_the_tables_of_the_core_alone() -> None:
    assert LangChain().provider.name in PROVIDERS
    assert LangChain().name not in PROVIDERS
