"""What Gemini refuses of a translated conversation, and what templates with strict alternation refuse."""

from __future__ import annotations

from typing import Any

import pytest

from legal_case import Case, judge
from rows import rows
from unabridged.legality import check_views, repair
from unabridged.messages import Answer, Call, View

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Read both files."}
DONE = {"role": "assistant", "content": "Done."}
GEMINI_3 = "google/gemini-3-pro-preview"


def calls(*ids: str, sign: str | None = None) -> dict[str, Any]:
    made: list[dict[str, Any]] = [
        {"id": id_, "type": "function", "function": {"name": "read", "arguments": "{}"}} for id_ in ids
    ]
    if sign:
        made[0]["extra_content"] = {"google": {"thought_signature": sign}}
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": "ok"}


def use(id_: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id_, "name": "read", "input": {}}]}


def used(*ids: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": "ok"} for id_ in ids]}


def item(id_: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": id_, "name": "read", "arguments": "{}"}


def output(id_: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id_, "output": "ok"}


ILLEGAL = [
    Case("a call and then the user", [USER, calls("a"), USER], [("unanswered-call", 1)]),
    Case("fewer responses than calls", [USER, calls("a", "b"), result("a"), DONE], [("unanswered-call", 1)]),
    Case("an Anthropic call not answered", [USER, use("a"), USER], [("unanswered-call", 1)], format="anthropic"),
    Case(
        "Responses outputs that come after the user",
        [USER, item("a"), USER, output("a")],
        [("unanswered-call", 1), ("orphan-answer", 3)],
        format="openai-responses",
    ),
    Case("a response to nothing", [USER, result("a"), DONE], [("orphan-answer", 1)]),
    Case("more responses than calls", [USER, calls("a"), result("a"), result("b")], [("orphan-answer", 3)]),
    Case("a call answered twice", [USER, calls("a"), result("a"), result("a")], [("duplicate-answer", 3)]),
    Case(
        "an Anthropic call answered twice",
        [USER, use("a"), used("a", "a")],
        [("duplicate-answer", 2)],
        format="anthropic",
    ),
    Case("one id for two calls", [USER, calls("a", "a"), result("a")], [("duplicate-call", 1)]),
    Case(
        "one id for two of three calls", [USER, calls("a", "b", "b"), result("b"), result("a")], [("duplicate-call", 1)]
    ),
    Case("a call without an id", [USER, calls(""), USER], [("missing-id", 1)]),
    Case(
        "an Anthropic call without an id",
        [USER, use(""), used("")],
        [("missing-id", 1), ("missing-id", 2)],
        format="anthropic",
    ),
    Case("the model first", [DONE, USER], [("first-user", 0)]),
    Case("a call first, behind the system message", [SYSTEM, calls("a"), result("a")], [("first-user", 1)]),
    Case("a call right after the model spoke", [USER, DONE, calls("a"), result("a")], [("call-after-model", 2)]),
    Case(
        "a call after the model, a system message between",
        [USER, DONE, SYSTEM, use("a"), used("a")],
        [("call-after-model", 3)],
        format="anthropic",
    ),
    Case("a user who says nothing", [USER, DONE, {"role": "user", "content": ""}], [("empty-message", 2)]),
    Case("a model that says nothing", [USER, {"role": "assistant", "content": None}, USER], [("empty-message", 1)]),
    Case(
        "a call that lost its signature",
        [USER, calls("a", sign="s1"), result("a"), calls("b"), result("b")],
        [("unsigned-call", 3)],
        GEMINI_3,
    ),
    Case(
        "the first of parallel calls lost it",
        [USER, calls("z", sign="s0"), result("z"), USER, calls("a", "b"), result("a"), result("b")],
        [("unsigned-call", 4)],
        GEMINI_3,
    ),
]
LEGAL = [
    Case("calls and responses", [SYSTEM, USER, calls("a", "b"), result("b"), result("a"), DONE, USER]),  # R14
    Case("rounds in a row", [USER, calls("a"), result("a"), calls("b"), result("b")]),
    Case("the same id in another round", [USER, calls("a"), result("a"), calls("a"), result("a")]),
    Case("Anthropic rounds", [USER, use("a"), used("a"), use("b"), used("b"), USER], format="anthropic"),
    Case(
        "Responses items of one turn",
        [USER, DONE, item("a"), item("b"), output("a"), output("b")],
        format="openai-responses",
    ),
    Case("a user in a row", [USER, USER, calls("a"), result("a"), USER]),
    Case("a model in a row without calls", [USER, DONE, DONE, USER]),
    Case("a model at the end", [USER, DONE]),
    Case("white space", [{"role": "user", "content": " "}, DONE]),
    Case(
        "an image alone",
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}, DONE],
    ),
    Case(
        "signed calls",
        [USER, calls("a", "b", sign="s1"), result("a"), result("b"), calls("c", sign="s2"), result("c")],
        model=GEMINI_3,
    ),
    Case(
        "unsigned calls of an earlier turn",
        [USER, calls("a"), result("a"), USER, calls("b", sign="s"), result("b")],
        model=GEMINI_3,
    ),
    Case("no signatures at all: the client keeps them", [USER, calls("a"), result("a")], model=GEMINI_3),
    Case(
        "signatures for a model that does not ask",
        [USER, calls("a", sign="s"), result("a"), calls("b"), result("b")],
        model="gemini-2.5-pro",
    ),
]
UNEVEN = [
    Case("the assistant first", [DONE, USER], [("strict-alternation", 0)]),
    Case("two users in a row", [USER, USER, DONE], [("strict-alternation", 1)]),
    Case("two assistants in a row", [SYSTEM, USER, DONE, DONE], [("strict-alternation", 3)]),
    Case("two assistants around a system message", [USER, DONE, SYSTEM, DONE], [("strict-alternation", 2)]),
    Case("two users around a round", [USER, calls("a"), result("a"), USER], [("strict-alternation", 3)]),
    Case("the format's own rules hold too", [USER, calls("a"), DONE], [("unanswered-call", 1)]),
]
EVEN = [
    Case("turns", [USER, DONE, USER, DONE]),
    Case("a system message first", [SYSTEM, USER, DONE, USER]),
    Case("a round inside the assistant's turn", [USER, calls("a"), result("a"), calls("b"), result("b"), DONE, USER]),
    Case(
        "what the user says beside results",
        [USER, use("a"), {"role": "user", "content": [*used("a")["content"], {"type": "text", "text": "And?"}]}, DONE],
        format="anthropic",
    ),
    Case("system messages between", [USER, SYSTEM, DONE, SYSTEM, USER]),
]


def _format(case: Case) -> Case:
    return Case(case.name, case.messages, case.expected, case.model, case.format or "openai-chat")


@rows("case", ILLEGAL, ids=str)
def test_gemini_refuses_and_repair_mends(case: Case) -> None:
    # R14
    assert case.expected
    judge(_format(case), "gemini")


@rows("case", LEGAL, ids=str)
def test_gemini_takes_as_it_is(case: Case) -> None:
    assert not case.expected
    judge(_format(case), "gemini")


@rows("case", UNEVEN, ids=str)
def test_strict_templates_refuse_and_repair_mends(case: Case) -> None:
    assert case.expected
    judge(_format(case), "strict")


@pytest.mark.parametrize("case", EVEN, ids=str)
def test_strict_templates_take_as_it_is(case: Case) -> None:
    assert not case.expected
    judge(_format(case), "strict")


def test_alternation_is_demanded_by_nobody_else() -> None:
    for provider in ("openai-chat", "anthropic", "gemini"):
        assert repair([USER, USER, DONE, DONE, USER], provider, format="openai-chat").findings == ()


def test_a_signature_that_is_not_to_be_had_is_replaced_by_the_sign_for_it() -> None:
    messages = [USER, calls("a", sign="s1"), result("a"), calls("b"), result("b")]
    mended = repair(messages, "gemini", model=GEMINI_3).messages
    google = mended[3]["tool_calls"][0]["extra_content"]["google"]
    assert google == {"thought_signature": "skip_thought_signature_validator"}
    assert mended[1] is messages[1]


def test_views_alone_are_enough_for_pairing_and_order() -> None:
    views = [
        View("assistant", "model", "Hello."),
        View("assistant", "model", calls=(Call("a", "read", "{}"), Call("b", "read", "{}"))),
        View("tool", "tool", answers=(Answer("a", "ok"),)),
    ]
    found = {p: [(f.rule, f.index) for f in check_views(views, p)] for p in ("openai-chat", "gemini")}
    assert found["openai-chat"] == [("unanswered-call", 1)]
    assert found["gemini"] == [("first-user", 0), ("unanswered-call", 1), ("call-after-model", 1)]


def test_views_of_items_are_told_by_their_format() -> None:
    call, other = (View("assistant", "model", calls=(Call(id_, "read", "{}"),)) for id_ in "ab")
    answers = [View("tool", "tool", answers=(Answer(id_, "ok"),)) for id_ in "ab"]
    views = [View("user", "person", "Hi."), call, other, *answers]
    assert check_views(views, "gemini", format="openai-responses") == []
    assert check_views(views, "openai-responses") == []
    assert [finding.rule for finding in check_views(views, "gemini")] == [
        "unanswered-call",
        "call-after-model",
        "orphan-answer",
    ]
