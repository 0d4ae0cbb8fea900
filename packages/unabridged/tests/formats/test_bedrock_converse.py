"""Bedrock's Converse: what is read, changed and refused, held against the schema that AWS's own SDK checks with."""

from __future__ import annotations

from base64 import b64decode, b64encode
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings

from conversations import converse_round, user
from legal_case import Case, judge
from rows import rows
from unabridged import Compactor
from unabridged.archive import codec
from unabridged.formats import FORMATS, Slot, detect_message_format
from unabridged.legality import check, repair
from unabridged.messages import Media, Reasoning
from unabridged_testing import Shape, make_conversation, shapes
from unabridged_testing.wire import PIXEL

NAME = "bedrock-converse"
CONVERSE = FORMATS[NAME]
PICTURE = {"image": {"format": "png", "source": {"bytes": b64decode(PIXEL)}}}
POINT = {"cachePoint": {"type": "default"}}


@cache
def validator() -> Any:
    import botocore.session
    from botocore.validate import ParamValidator

    client = botocore.session.get_session().get_service_model("bedrock-runtime")
    return ParamValidator(), client.operation_model("Converse").input_shape


def faults(messages: list[Any]) -> str:
    """What botocore says of the request before it is sent; "" when it would be."""
    check_, shape = validator()
    report = check_.validate({"modelId": "anthropic.claude-sonnet-4-5-v1:0", "messages": messages}, shape)
    return str(report.generate_report()) if report.has_errors() else ""


def said(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"text": block} if isinstance(block, str) else block for block in blocks]}


def use(id_: str = "a", **more: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id_, "name": "read", "input": {}, **more}}


def result(id_: str = "a", *content: Any, **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id_, "content": list(content) or [{"text": "It says 7."}], **more}}


def thought(text: str = "Hm.", **more: str) -> dict[str, Any]:
    return {"reasoningContent": {"reasoningText": {"text": text, **more}}}


USER, DONE = said("user", "Go on."), said("assistant", "Done.")
CALLED = said("assistant", use())


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(shapes(NAME))
def test_what_goes_in_and_what_comes_out_is_what_the_sdk_of_aws_takes(shape: Shape) -> None:
    messages = make_conversation(shape).messages
    assert faults(messages) == ""
    with Compactor(archive="memory:", window=3_000, format=NAME) as compactor:
        assert faults(compactor.fit(messages).messages) == ""


@rows(
    ("message", "expected"),
    [
        (said("user", "Look:", PICTURE), {"text": "Look:", "media": (Media("image", "image/png", PIXEL),)}),
        (said("user", {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/a.png"}}}}),
         {"media": (Media("image", "image/png", "s3://b/a.png"),)}),
        (said("user", {"document": {"format": "md", "name": "plan", "source": {"text": "Ship it."}}}),
         {"text": "", "attached": ("Ship it.",)}),
        (said("user", {"guardContent": {"text": {"text": "Is it safe?", "qualifiers": ["query"]}}}),
         {"text": "Is it safe?", "attached": ()}),
        (said("user", {"guardContent": {"text": {"text": "Water boils.", "qualifiers": ["grounding_source"]}}}),
         {"text": "", "attached": ("Water boils.",)}),
        (said("assistant", {"citationsContent": {"content": [{"text": "As it says."}], "citations": []}}),
         {"text": "As it says.", "attached": ()}),
        (said("assistant", thought(signature="s"), "So."), {"text": "So.", "reasoning": (Reasoning("Hm.", "s"),)}),
        (said("assistant", {"reasoningContent": {"redactedContent": b"\x00x"}}, "So."),
         {"reasoning": (Reasoning("", b64encode(b"\x00x").decode()),)}),
        (said("assistant", use(type="server_tool_use"), result("a", type="x")), {"calls": (), "answers": ()}),
        (said("user", {"searchResult": {"source": "https://e.org", "title": "T", "content": [{"text": "Found."}]}}),
         {"text": "", "attached": ("https://e.org\nT\nFound.",)}),
        (said("user", POINT), {"text": "", "attached": (), "unread_digest": ""}),
    ],
)  # fmt: skip
def test_every_kind_of_block_is_read_as_what_it_is(message: Any, expected: dict[str, Any]) -> None:
    view = CONVERSE.read(message)
    assert {name: getattr(view, name) for name in expected} == expected
    assert CONVERSE.edit(message, lambda _slot, text: text) is message
    assert codec.decode(codec.encode(message)) == message


def test_results_are_the_tools_words_and_a_failed_one_says_so() -> None:
    message = said("user", result("a", {"json": {"n": 7}}, PICTURE), result("b", {"text": "No."}, status="error"))
    view = CONVERSE.read(message)
    assert (view.origin, [(a.text, a.error) for a in view.answers]) == ("tool", [('{"n":7}', False), ("No.", True)])
    assert [media.kind for media in view.media] == ["image"]


def test_an_edited_block_stays_the_block_that_it_is() -> None:
    def shout(slot: Slot, text: str) -> str:
        return text if slot.kind in {"call", "media"} else f"{text} [{slot.kind}]"

    guarded = {"guardContent": {"text": {"text": "Is it safe?", "qualifiers": ["query"]}}}
    asked = CONVERSE.edit(said("user", guarded), shout)["content"][0]["guardContent"]
    assert asked == {"text": {"text": "Is it safe? [text]", "qualifiers": ["query"]}}
    page = {"document": {"format": "txt", "name": "plan", "source": {"text": "Ship it."}}}
    cited = {"citationsContent": {"content": [{"text": "As it says."}], "citations": [{"title": "plan"}]}}
    edited = CONVERSE.edit(said("assistant", "Look.", page, cited, thought(signature="s"), use()), shout)["content"]
    assert edited[0] == {"text": "Look. [text]"}
    assert edited[1]["document"] == {"format": "txt", "name": "plan", "source": {"text": "Ship it. [attached]"}}
    assert edited[2]["citationsContent"]["content"] == [{"text": "As it says. [text]"}]
    assert edited[3:] == [thought(signature="s"), use()]
    answered = CONVERSE.edit(said("user", result("a", {"json": {"n": 7}}), POINT), shout)["content"]
    assert answered == [result("a", {"text": '{"n":7} [answer]'}), POINT]
    stubbed = CONVERSE.edit(said("user", PICTURE), lambda slot, _text: slot.kind)
    assert stubbed["content"] == [{"text": "media"}]


def test_fields_that_a_framework_keeps_in_a_message_stay() -> None:
    kept = {**said("user", "Go on."), "tracking_id": "t1", "metadata": {"custom": {}}}
    assert CONVERSE.edit(kept, lambda _slot, text: text.upper()) == {**kept, "content": [{"text": "GO ON."}]}


@pytest.mark.parametrize(
    ("messages", "name"),
    [
        ([USER], NAME),
        (converse_round("read", "x"), NAME),
        ([user("Go on.")], "openai-chat"),
        ([{"role": "user", "content": [{"type": "text", "text": "Go on."}]}], "openai-chat"),
    ],
)
def test_blocks_that_are_named_by_their_key_are_known_for_converse(messages: list[Any], name: str) -> None:
    assert detect_message_format(messages).name == name


CLAUDE, OLDER = "us.anthropic.claude-sonnet-4-6-v1:0", "anthropic.claude-3-7-sonnet-20250219-v1:0"


@rows(
    "case",
    [
        Case("turns that alternate", [USER, CALLED, said("user", result(), "And?"), DONE]),
        Case("two of the user's", [USER, said("user", "And?")], [("alternation", 1)]),
        Case("two of the assistant's", [USER, DONE, said("assistant", "Really.")], [("alternation", 2)]),
        Case("the assistant first", [DONE, USER], [("first-user", 0)]),
        Case("a text as content", [user("Go on.")], [("content-list", 0)]),
        Case("blank text", [said("user", "Go on.", " ")], [("blank-text", 0)]),
        Case("nothing at all", [USER, said("assistant"), said("user", "And?")], [("empty-message", 1)]),
        Case("an empty result", [USER, CALLED, said("user", {"toolResult": {"toolUseId": "a", "content": []}})]),
        Case(
            "an error that says nothing",
            [USER, CALLED, said("user", {"toolResult": {"toolUseId": "a", "content": [], "status": "error"}})],
            [("silent-error", 2)],
        ),
        Case("a result behind text", [USER, CALLED, said("user", "And?", result())], [("results-first", 2)]),
        Case("thinking at the end", [USER, said("assistant", thought(signature="s")), USER], [("thinking-last", 1)]),
        Case("unsigned, of another model", [USER, said("assistant", thought(), "So."), USER], model="deepseek.r1-v1:0"),
        Case(
            "unsigned, of Claude",
            [USER, said("assistant", thought(), "So."), USER],
            [("unsigned-thinking", 1)],
            CLAUDE,
        ),
        Case(
            "thinking behind text, for an older Claude",
            [USER, said("assistant", "So.", thought(signature="s"), use()), said("user", result())],
            [("thinking-first", 1)],
            OLDER,
        ),
        Case("five cache points", [said("user", *["x", POINT] * 5)], [("cache-marks", 0)]),
        Case("the assistant last", [USER, DONE], [("prefill", 1)], CLAUDE),
        Case("the assistant last, older", [USER, DONE], model=OLDER),
        Case("no result", [USER, CALLED, said("user", "And?")], [("unanswered-call", 1)]),
        Case("a tool of the provider's", [USER, said("assistant", use(type="server_tool_use"), result("a"), "So.")]),
    ],
    ids=str,
)  # fmt: skip
def test_what_bedrock_refuses_is_found_and_mended(case: Case) -> None:
    judge(case, NAME)


def test_a_result_that_goes_leaves_no_cache_point_alone() -> None:
    mended = repair([USER, DONE, said("user", result("gone"), POINT)], format=NAME).messages
    assert mended == [USER, DONE]
    assert check(mended, format=NAME) == []
