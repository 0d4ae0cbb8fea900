"""Pydantic AI's messages as a format: what is read, edited, archived and mended of each kind of part."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    CapabilityLoadDeltaPart,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    InstructionDeltaPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    RetryPromptPart,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
    VideoUrl,
)

from rows import rows
from unabridged import IllegalConversation, check, repair
from unabridged.adapters.pydantic_ai import PydanticAI
from unabridged.archive import codec
from unabridged.formats.base import Slot
from unabridged.marks import format_summary_turn
from unabridged.messages import Answer, Call, Media, Reasoning, View

FORMAT = PydanticAI()
PNG = BinaryContent(b"\x89PNG", media_type="image/png")
SUMMARY = format_summary_turn(
    "9f3a1c2e4b5d",
    "The pumps were read.\n\n"
    "## Rules of the user (word for word, picked out by a model)\n- [0] \u201cNever touch pump 7.\u201d\n\n"
    "## Files, by the calls that named them\n- edited: a.txt",
    0,
    9,
)
RULES = "## Rules of the user (word for word, picked out by a model)\n- [0] \u201cNever touch pump 7.\u201d"


class Weather(BaseModel):
    city: str
    degrees: int


def asked(*parts: Any) -> ModelRequest:
    return ModelRequest(parts=list(parts))


def said(*parts: Any) -> ModelResponse:
    return ModelResponse(parts=list(parts))


def result(content: Any, call_id: str = "c", **fields: Any) -> ToolReturnPart:
    return ToolReturnPart("f", content, call_id, **fields)


def _old_retry() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RetryPromptPart("no", tool_name="f", tool_call_id="c")


RETRIED = RetryFeedbackPart("Say it in JSON.", retry=RetryInfo(cause="model_retry"))
READ: list[tuple[ModelMessage, View]] = [
    (asked(UserPromptPart("Hello")), View("user", "person", "Hello")),
    (asked(SystemPromptPart("Be exact.")), View("system", "host", "Be exact.")),
    (asked(SystemPromptPart("Be exact."), UserPromptPart("Hello")), View("user", "person", "Hello")),
    (
        asked(UserPromptPart(["See", TextContent("this:", metadata={"a": 1}), PNG, CachePoint()])),
        View("user", "person", "See\nthis:", media=(Media("image", "image/png", PNG.base64),)),
    ),
    (
        asked(UserPromptPart([ImageUrl("https://x.org/a.png"), AudioUrl("https://x.org/a.mp3")])),
        View(
            "user",
            "person",
            media=(
                Media("image", "image/png", "https://x.org/a.png"),
                Media("audio", "audio/mpeg", "https://x.org/a.mp3"),
            ),
        ),
    ),
    (
        asked(UserPromptPart([VideoUrl("https://x.org/a.mp4"), DocumentUrl("https://x.org/any")])),
        View(
            "user",
            "person",
            media=(Media("video", "video/mp4", "https://x.org/a.mp4"), Media("document", "", "https://x.org/any")),
        ),
    ),
    (
        asked(UserPromptPart([UploadedFile("file-1", provider_name="openai", media_type="image/png")])),
        View("user", "person", media=(Media("image", "image/png", "file-1"),)),
    ),
    (asked(SpeechPart(speaker="user", transcript="Hello")), View("user", "person", "Hello")),
    (asked(result("r")), View("user", "tool", answers=(Answer("c", "r"),))),
    (
        asked(result("no", outcome="failed"), result({"a": 1}, "d")),
        View("user", "tool", answers=(Answer("c", "no", error=True), Answer("d", '{"a":1}'))),
    ),
    (
        asked(result(["see", PNG])),
        View("user", "tool", answers=(Answer("c", "see"),), media=(Media("image", "image/png", PNG.base64),)),
    ),
    (
        asked(result(Weather(city="Ulm", degrees=7))),
        View("user", "tool", answers=(Answer("c", '{"city":"Ulm","degrees":7}'),)),
    ),
    (asked(result("r"), UserPromptPart("Go on")), View("user", "person", "Go on", answers=(Answer("c", "r"),))),
    (
        asked(_old_retry()),
        View("user", "tool", answers=(Answer("c", "no\n\nFix the errors and try again.", error=True),)),
    ),
    (asked(RETRIED), View("user", "host", "Say it in JSON.")),
    (asked(result("r"), RETRIED), View("user", "tool", answers=(Answer("c", "r"),), attached=("Say it in JSON.",))),
    (asked(CompactionPart("Somebody else's summary.")), View("user", "host", "Somebody else's summary.")),
    (
        asked(UserPromptPart("Hello"), CapabilityLoadDeltaPart(loaded=["x"])),
        View("user", "person", "Hello"),
    ),
    (said(TextPart("Yes")), View("assistant", "model", "Yes")),
    (
        said(ThinkingPart("hm", signature="s"), TextPart("Yes"), ToolCallPart("f", {"x": 1}, "c")),
        View("assistant", "model", "Yes", calls=(Call("c", "f", '{"x":1}'),), reasoning=(Reasoning("hm", "s"),)),
    ),
    (said(ToolCallPart("f", '{"x": 1', "c")), View("assistant", "model", calls=(Call("c", "f", '{"x": 1'),))),
    (said(ToolCallPart("f", None, "c")), View("assistant", "model", calls=(Call("c", "f", "{}"),))),
    (said(FilePart(PNG)), View("assistant", "model", media=(Media("image", "image/png", PNG.base64),))),
]


@rows(("message", "view"), READ)
def test_every_kind_of_part_is_read(message: ModelMessage, view: View) -> None:
    assert FORMAT.read(message) == view


OWN = [
    said(
        NativeToolCallPart("web_search", {"query": "pumps"}, "s1"),
        NativeToolReturnPart("web_search", {"results": [{"title": "Pump 7", "text": "It leaks."}]}, "s1"),
        TextPart("It leaks."),
    ),
    said(CompactionPart("They talked.", provider_name="anthropic")),
    asked(InstructionDeltaPart(id=None, content="It is noon."), UserPromptPart("Hello")),
]


def test_what_a_providers_own_tools_gave_is_attached_and_its_compaction_resets() -> None:
    searched, compacted, told = map(FORMAT.read, OWN)
    assert "It leaks." in searched.attached[1]
    assert "pumps" in searched.attached[0]
    assert searched.text == "It leaks."
    assert searched.unread_digest
    assert (compacted.opaque, compacted.resets) == (True, True)
    assert told.attached == ("It is noon.",)
    assert told.text == "Hello"


MESSAGES = [*(message for message, _ in READ), *OWN, asked(UserPromptPart(SUMMARY)), FORMAT.text("user", SUMMARY)]


@rows("message", MESSAGES)
def test_an_edit_that_changes_nothing_gives_the_very_message(message: ModelMessage) -> None:
    assert FORMAT.edit(message, lambda _, text: text) is message


@rows("message", MESSAGES)
def test_an_edit_reaches_every_text_and_the_original_stays(message: ModelMessage) -> None:
    before = ModelMessagesTypeAdapter.dump_json([message])
    edited = FORMAT.read(FORMAT.edit(message, lambda slot, text: text if slot.kind == "call" else "x"))
    assert ModelMessagesTypeAdapter.dump_json([message]) == before
    view = FORMAT.read(message)
    assert len(edited.answers) == len(view.answers)
    assert edited.reasoning == view.reasoning
    assert not edited.media or not all(isinstance(part, UserPromptPart) for part in message.parts)
    for said_now in (edited.text, *(answer.text for answer in edited.answers)):
        old_retry = any(part.part_kind.startswith("retry") for part in message.parts)
        assert old_retry or set(said_now.split()) <= {"x"} or view.role == "system"


def test_arguments_are_edited_as_they_were_written() -> None:
    def shorten(slot: Slot, text: str) -> str:
        return '{"x":"…"}' if slot.kind == "call" else text

    parts = FORMAT.edit(said(ToolCallPart("f", {"x": 1}, "c"), ToolCallPart("f", '{"x": 1}', "d")), shorten).parts
    assert [part.args for part in parts] == [{"x": "…"}, '{"x":"…"}']


@rows("message", MESSAGES)
def test_an_archived_message_comes_back_equal(message: ModelMessage) -> None:
    if not any(isinstance(getattr(part, "content", None), Weather) for part in message.parts):
        assert codec.decode(codec.encode(message)) == message


@rows("message", MESSAGES)
def test_a_message_from_json_means_the_same(message: ModelMessage) -> None:
    (restored,) = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([message]))
    assert FORMAT.read(restored).meaning_digest == FORMAT.read(message).meaning_digest or isinstance(
        message.parts[0], RetryPromptPart
    )


# -- a summary turn ---------------------------------------------------------------------------------------------------


def test_a_summary_has_two_voices_and_is_one_text() -> None:
    message = FORMAT.text("user", SUMMARY)
    assert [part.part_kind for part in message.parts] == ["compaction", "user-prompt", "compaction"]
    assert message.parts[1].content.endswith(RULES)
    assert message.parts[0].metadata == {"unabridged": "9f3a1c2e4b5d"}
    assert FORMAT.read(message) == View("user", "person", SUMMARY)
    carried = asked(SystemPromptPart("Be exact."), *message.parts, CapabilityLoadDeltaPart(loaded=["x"]))
    assert FORMAT.read(carried) == FORMAT.read(message)


def test_what_only_looks_like_a_part_of_a_summary_stays_what_it_is() -> None:
    assert FORMAT.text("user", RULES).parts[0].part_kind == "user-prompt"
    more = asked(*FORMAT.text("user", SUMMARY).parts, UserPromptPart("And now?"))
    assert FORMAT.read(more).text == f"{RULES.join(SUMMARY.split(RULES))}" or FORMAT.read(more).text.endswith(
        "And now?"
    )
    assert FORMAT.read(asked(CompactionPart(SUMMARY[:-3]))).origin == "host"


# -- mending ----------------------------------------------------------------------------------------------------------


def mended(*messages: ModelMessage) -> Sequence[Any]:
    given = list(messages)
    fixed = repair(given, format=FORMAT).messages
    assert not check(fixed, format=FORMAT)
    return fixed


def test_a_call_without_a_result_gets_one_and_whole_rounds_are_the_same_objects() -> None:
    calls = said(ToolCallPart("f", {}, "c"), ToolCallPart("f", {}, "d"))
    whole: list[ModelMessage] = [
        asked(UserPromptPart("Go")),
        calls,
        asked(result("1"), result("2", "d")),
        said(TextPart("Done")),
    ]
    assert all(one is other for one, other in zip(mended(*whole), whole, strict=True))
    fixed = mended(asked(UserPromptPart("Go")), calls, asked(result("1")), said(TextPart("Done")))
    assert [part.tool_call_id for part in fixed[2].parts] == ["c", "d"]
    assert fixed[2].parts[1].outcome == "interrupted"


def test_a_result_without_a_call_goes_and_what_stands_beside_it_stays() -> None:
    fixed = mended(asked(UserPromptPart("Go")), said(TextPart("Yes")), asked(result("1"), UserPromptPart("Thanks")))
    assert [part.part_kind for part in fixed[-1].parts] == ["user-prompt"]


def test_thinking_is_left_out_and_nothing_else() -> None:
    both = said(ThinkingPart("hm"), TextPart("Yes"))
    assert FORMAT.read(FORMAT.without_reasoning(both)) == View("assistant", "model", "Yes")
    assert FORMAT.without_reasoning(said(ThinkingPart("hm"))) is None
    assert FORMAT.without_reasoning(READ[0][0]) is READ[0][0]


@pytest.mark.parametrize("odd", [{"role": "user", "content": "x"}, "x", None])
def test_what_is_no_message_of_theirs_is_refused(odd: Any) -> None:
    with pytest.raises(IllegalConversation, match="ModelRequest"):
        check([odd], format=FORMAT)
