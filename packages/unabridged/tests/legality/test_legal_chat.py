"""What OpenAI Chat Completions refuses, and its legal look-alikes."""

from __future__ import annotations

from typing import Any

from openai.types.chat import ChatCompletionMessage

from legal_case import Case, judge
from rows import rows
from unabridged.legality import NO_RESULT, check, repair

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Read both files."}
DONE = {"role": "assistant", "content": "Done."}


def calls(*ids: str, text: str | None = None, path: str = "a.py") -> dict[str, Any]:
    made = [
        {"id": id_, "type": "function", "function": {"name": "read", "arguments": f'{{"path":"{path}"}}'}}
        for id_ in ids
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(id_: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": text}


def sdk_calls(*ids: str) -> ChatCompletionMessage:
    return ChatCompletionMessage.model_validate(calls(*ids))


ILLEGAL = [
    Case("a call and then the user", [USER, calls("a"), USER], [("unanswered-call", 1)]),
    Case("a call at the end", [USER, calls("a")], [("unanswered-call", 1)]),
    Case("one of two calls answered", [USER, calls("a", "b"), result("a"), DONE], [("unanswered-call", 1)]),
    Case(
        "an SDK message whose call is not answered", [USER, sdk_calls("a", "b"), result("b")], [("unanswered-call", 1)]
    ),
    Case("two calling messages in a row", [USER, calls("a"), calls("b"), result("b")], [("unanswered-call", 1)]),
    Case(
        "the answer comes after the user spoke",
        [USER, calls("a"), USER, result("a")],
        [("unanswered-call", 1), ("orphan-answer", 3)],
    ),
    Case(
        "a system message parts call and answer",
        [USER, calls("a"), SYSTEM, result("a")],
        [("unanswered-call", 1), ("orphan-answer", 3)],
    ),
    Case(
        "the answer comes before its call",
        [USER, result("a"), calls("a"), USER],
        [("orphan-answer", 1), ("unanswered-call", 2)],
    ),
    Case("an answer to nothing", [USER, result("a"), DONE], [("orphan-answer", 1)]),
    Case("an answer with another id", [USER, calls("a"), result("a"), result("z")], [("orphan-answer", 3)]),
    Case("a list that begins with an answer", [result("a"), USER], [("orphan-answer", 0)]),
    Case("one id for two calls", [USER, calls("a", "a"), result("a")], [("duplicate-call", 1)]),
    Case(
        "one id for two calls, both answered",
        [USER, calls("a", "a"), result("a", "1"), result("a", "2")],
        [("duplicate-call", 1), ("duplicate-answer", 3)],
    ),
    Case("a call answered twice", [USER, calls("a"), result("a"), result("a", "again")], [("duplicate-answer", 3)]),
    Case(
        "one of two answered twice",
        [USER, calls("a", "b"), result("a"), result("b"), result("a"), DONE],
        [("duplicate-answer", 4)],
    ),
    Case(
        "a tool message without an id",
        [USER, calls("a"), {"role": "tool", "content": "ok"}],
        [("unanswered-call", 1), ("missing-id", 2)],
    ),
    Case(
        "two tool messages with a name and no id",
        [USER, calls("a", "b"), *({"role": "tool", "name": "read", "content": text} for text in "12"), DONE],
        [("unanswered-call", 1), ("missing-id", 2), ("missing-id", 3)],
    ),
    Case("a call without an id", [USER, calls(""), result("a")], [("missing-id", 1), ("orphan-answer", 2)]),
    Case(
        "an assistant that says nothing", [USER, {"role": "assistant", "content": None}, USER], [("empty-message", 1)]
    ),
    Case("an SDK message that says nothing", [USER, ChatCompletionMessage(role="assistant")], [("empty-message", 1)]),
    Case("a user without content", [USER, DONE, {"role": "user", "content": None}], [("empty-message", 2)]),
    Case("an empty list of parts", [USER, {"role": "user", "content": []}], [("empty-message", 1)]),
    Case(
        "a tool without content",
        [USER, calls("a"), {"role": "tool", "tool_call_id": "a", "content": None}],
        [("empty-message", 2)],
    ),
    Case("an empty list of calls", [USER, {**DONE, "tool_calls": []}], [("empty-tool-calls", 1)]),
    Case(
        "an empty list of calls and nothing else",
        [USER, {"role": "assistant", "content": None, "tool_calls": []}, USER],
        [("empty-message", 1), ("empty-tool-calls", 1)],
    ),
]
LEGAL = [
    Case("a call and its answer", [USER, calls("a"), result("a"), DONE]),
    Case("answers in another order", [USER, calls("a", "b"), result("b"), result("a")]),  # R14
    Case("an SDK message and its answers", [USER, sdk_calls("a", "b"), result("a"), result("b"), DONE]),
    Case("the same id in another round", [USER, calls("a"), result("a"), calls("a"), result("a")]),
    Case("the assistant first", [DONE, USER]),
    Case("only a system message", [SYSTEM]),
    Case("a system message in the middle", [USER, DONE, SYSTEM, USER]),  # R18
    Case("users and assistants in a row", [USER, USER, DONE, DONE, USER]),
    Case("an assistant with an empty string", [USER, {"role": "assistant", "content": ""}, USER]),
    Case("an empty tool result", [USER, calls("a"), result("a", "")]),
    Case("a refusal instead of content", [USER, {"role": "assistant", "content": None, "refusal": "No."}]),
    Case("no list of calls at all", [USER, {**DONE, "tool_calls": None}]),
    Case(
        "an old function call, answered by name",
        [
            USER,
            {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}},
            {"role": "function", "name": "read", "content": "ok"},
        ],
    ),
    Case(
        "an old function call, not answered",
        [USER, {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}}, USER],
    ),
]


@rows("case", ILLEGAL, ids=str)
def test_chat_refuses_and_repair_mends(case: Case) -> None:
    # R14
    assert case.expected
    judge(case, "openai-chat")


@rows("case", LEGAL, ids=str)
def test_chat_takes_as_it_is(case: Case) -> None:
    assert not case.expected
    judge(case, "openai-chat")


def test_a_call_without_a_result_gets_a_stub_right_behind_it() -> None:
    # R14
    messages = [USER, calls("a", "b"), result("b"), DONE]
    assert repair(messages).messages == [*messages[:3], result("a", NO_RESULT), DONE]


def test_a_late_result_moves_to_its_call_as_the_same_object() -> None:
    # R14
    messages = [USER, calls("a"), DONE, result("a")]
    mended = repair(messages).messages
    assert [id(message) for message in mended] == [id(messages[i]) for i in (0, 1, 3, 2)]


def test_an_early_result_moves_too_and_no_stub_is_made() -> None:
    messages = [USER, result("a"), calls("a"), USER]
    mended = repair(messages).messages
    assert [id(message) for message in mended] == [id(messages[i]) for i in (0, 2, 1, 3)]


def test_a_real_result_takes_the_place_of_the_stub_it_was_given_before() -> None:
    stubbed = repair([USER, calls("a")]).messages
    mended = repair([*stubbed, result("a", "the real one"), DONE]).messages
    assert mended == [USER, calls("a"), result("a", "the real one"), DONE]


def test_calls_that_share_an_id_each_keep_their_own_result() -> None:
    one, two = calls("a")["tool_calls"][0], calls("a", path="b.py")["tool_calls"][0]
    both = {"role": "assistant", "content": None, "tool_calls": [one, two]}
    mended = repair([USER, both, result("a", "1"), result("a", "2")]).messages
    ids = [call["id"] for call in mended[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert [(message["tool_call_id"], message["content"]) for message in mended[2:]] == [(ids[0], "1"), (ids[1], "2")]


def test_a_running_round_is_left_to_run() -> None:
    messages = [USER, calls("a", "b"), result("a")]
    assert [finding.rule for finding in check(messages)] == ["unanswered-call"]
    assert check(messages, pending=True) == []
    assert repair(messages, pending=True).messages is messages


def test_only_the_last_round_can_be_running() -> None:
    messages = [USER, calls("a"), USER, calls("b")]
    assert [finding.index for finding in check(messages, pending=True)] == [1]
    assert repair(messages, pending=True).messages == [USER, calls("a"), result("a", NO_RESULT), USER, calls("b")]
