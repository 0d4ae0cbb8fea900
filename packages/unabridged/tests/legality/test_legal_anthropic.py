"""What Anthropic Messages refuses, and its legal look-alikes."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message, TextBlock, ThinkingBlock, ToolUseBlock

from legal_case import Case, judge
from rows import rows
from unabridged.errors import IllegalConversation
from unabridged.legality import NO_RESULT, check, repair

USER = {"role": "user", "content": "Read both files."}
SYSTEM = {"role": "system", "content": "Be brief."}
DONE = {"role": "assistant", "content": "Done."}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
SEALED = {"type": "redacted_thinking", "data": "c2VhbGVk"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use(id_: str, path: str = "a.py") -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "read", "input": {"path": path}}


def result(id_: str, content: Any = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def marked(count: int) -> list[dict[str, Any]]:
    return [user(text(f"part {i}", cache_control={"type": "ephemeral"})) for i in range(count)]


SDK_USE = ToolUseBlock(type="tool_use", id="a", name="read", input={"path": "a.py"})
SDK_MESSAGE = Message.model_validate({
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "tool_use",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}, "content": [text("Reading."), use("a")],
})  # fmt: skip
OLD, NEW = "claude-sonnet-4-5-20250929", "claude-opus-5"

PAIRS = [
    Case("a call and then the user", [USER, assistant(use("a")), USER], [("unanswered-call", 1)]),
    Case("a call at the end", [USER, assistant(text("Reading."), use("a"))], [("unanswered-call", 1)]),
    Case(
        "one of two calls answered",
        [USER, assistant(use("a"), use("b")), user(result("b"), text("Well?"))],
        [("unanswered-call", 1)],
    ),
    Case(
        "an SDK block not answered",
        [USER, assistant(TextBlock(type="text", text="I read."), SDK_USE), USER],
        [("unanswered-call", 1)],
    ),
    Case("an SDK message not answered", [USER, SDK_MESSAGE, USER], [("unanswered-call", 1)]),
    Case(
        "results spread over two messages",
        [USER, assistant(use("a"), use("b")), user(result("a")), user(result("b")), DONE],
        [("unanswered-call", 1), ("orphan-answer", 3)],
    ),
    Case(
        "the result comes one message late",
        [USER, assistant(use("a")), USER, user(result("a"))],
        [("unanswered-call", 1), ("orphan-answer", 3)],
    ),
    Case("a result of nothing", [USER, DONE, user(result("a"))], [("orphan-answer", 2)]),
    Case(
        "a result of an older call beside a good one",
        [USER, assistant(use("a")), user(result("a")), assistant(use("b")), user(result("z"), result("b"))],
        [("orphan-answer", 4)],
    ),
    Case(
        "one id twice in a message", [USER, assistant(use("a"), use("a")), user(result("a"))], [("duplicate-call", 1)]
    ),
    Case(
        "one id twice in the conversation",
        [USER, assistant(use("a")), user(result("a")), assistant(use("a", "b.py")), user(result("a", "2"))],
        [("duplicate-call", 3)],
    ),
    Case("a result twice", [USER, assistant(use("a")), user(result("a"), result("a", "2"))], [("duplicate-answer", 2)]),
    Case(
        "one of two results twice",
        [USER, assistant(use("a"), use("b")), user(result("a"), result("b"), result("b")), DONE],
        [("duplicate-answer", 2)],
    ),
    Case("a call without an id", [USER, assistant(use("")), USER], [("missing-id", 1)]),
    Case(
        "a result without an id",
        [USER, assistant(use("a")), user(result(""))],
        [("unanswered-call", 1), ("missing-id", 2)],
    ),
    Case(
        "text before the result", [USER, assistant(use("a")), user(text("Here:"), result("a"))], [("results-first", 2)]
    ),
    Case(
        "an image between results",
        [USER, assistant(use("a"), use("b")), user(result("a"), text("and"), result("b"))],
        [("results-first", 2)],
    ),
]
TEXTS = [
    Case("a message without content", [USER, DONE, {"role": "user", "content": ""}], [("empty-message", 2)]),
    Case("an assistant without blocks, not at the end", [USER, assistant(), USER], [("empty-message", 1)]),
    Case(
        "an empty compaction",
        [USER, assistant({"type": "compaction", "content": ""}, text("Hi.")), USER],
        [("compaction-empty", 1)],
    ),
    Case("an empty text block", [USER, assistant(text(""), use("a")), user(result("a"))], [("empty-text", 1)]),
    Case(
        "an empty text in a result",
        [USER, assistant(use("a")), user(result("a", [text("")]))],
        [("empty-text", 2)],
    ),
    Case("white space as text", [user(text(" \n")), USER], [("blank-text", 0)]),
    Case("white space beside a call", [USER, assistant(text("\n"), use("a")), user(result("a"))], [("blank-text", 1)]),
    Case("a prefill that ends in space", [USER, {"role": "assistant", "content": "It is "}], [("trailing-space", 1)]),
    Case("a prefill block that ends in a line", [USER, assistant(text("So:\n"))], [("trailing-space", 1)]),
]
PLACES = [
    Case("the assistant first", [DONE, USER], [("first-user", 0)]),
    Case("a call first", [assistant(use("a")), user(result("a"))], [("first-user", 0)]),
    Case("a system message first", [SYSTEM, USER], [("system-first", 0)]),
    Case("a system message first, then the assistant", [SYSTEM, DONE, USER], [("system-first", 0), ("first-user", 1)]),
    Case("a system message behind the assistant", [USER, DONE, SYSTEM, USER], [("system-misplaced", 2)]),
    Case("a system message before the user", [USER, SYSTEM, USER, DONE], [("system-misplaced", 1)]),
    Case(
        "two system messages in a row",
        [USER, SYSTEM, {**SYSTEM, "content": "Be kind."}, DONE],
        [("system-misplaced", 1), ("system-misplaced", 2)],
    ),
    Case("a system message behind the assistant at the end", [USER, DONE, SYSTEM], [("system-misplaced", 2)]),
    Case("five cache marks", marked(5), [("cache-marks", 0)]),
    Case(
        "seven cache marks, one in a result",
        [
            *marked(5),
            assistant(use("a")),
            user(result("a", [text("x", cache_control={"type": "ephemeral"})])),
            *marked(1),
        ],
        [("cache-marks", 0), ("cache-marks", 1), ("cache-marks", 2)],
    ),
    Case("prefill for a model that takes none", [USER, DONE], [("prefill", 1)], NEW),
    Case("an empty prefill behind a system message", [USER, SYSTEM, assistant()], [("prefill", 2)], NEW),
    Case(
        "prefill for another", [USER, DONE, USER, assistant(text("It"))], [("prefill", 3)], "anthropic/claude-opus-4.6"
    ),
]
THINKING = [
    Case(
        "thinking without a signature",
        [USER, assistant({**THOUGHT, "signature": ""}, text("Hi."))],
        [("unsigned-thinking", 1)],
    ),
    Case(
        "nothing but thinking without a signature",
        [USER, assistant({"type": "thinking", "thinking": "Hm."}), USER],
        [("unsigned-thinking", 1)],
    ),
    Case("thinking at the very end", [USER, assistant(text("Hi."), THOUGHT)], [("thinking-last", 1)]),
    Case("nothing but thinking at the very end", [USER, assistant(SEALED)], [("thinking-last", 1)]),
    Case(
        "text before thinking", [USER, assistant(text("Hi."), THOUGHT, text("Ha.")), USER], [("thinking-first", 1)], OLD
    ),
    Case(
        "a call before thinking",
        [USER, assistant(use("a"), SEALED, use("b")), user(result("a"), result("b"))],
        [("thinking-first", 1)],
        "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
    ),
]
LEGAL = [
    Case("a call and its result", [USER, assistant(text("Reading."), use("a")), user(result("a")), DONE, USER]),
    Case("results in another order", [USER, assistant(use("a"), use("b")), user(result("b"), result("a"))]),  # R14
    Case("text behind the results", [USER, assistant(use("a")), user(result("a"), text("Go on."))]),
    Case("the user speaks in a message of its own", [USER, assistant(use("a")), user(result("a")), USER]),
    Case(
        "SDK blocks and messages", [USER, SDK_MESSAGE, user(result("a")), assistant(TextBlock(type="text", text="Ok."))]
    ),
    Case(
        "SDK thinking",
        [USER, assistant(ThinkingBlock(type="thinking", thinking="", signature="s"), SDK_USE), user(result("a"))],
    ),
    Case("users and assistants in a row", [USER, USER, DONE, DONE, USER]),
    Case(
        "a server tool and its result in one message",
        [
            USER,
            assistant(
                SEARCH, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, text("So.")
            ),
            USER,
        ],
    ),
    Case("a server tool that is not finished", [USER, assistant(SEARCH)], model=NEW),
    Case("an empty result", [USER, assistant(use("a")), user(result("a", "")), DONE]),
    Case("a result with an empty list", [USER, assistant(use("a")), user(result("a", [])), DONE]),
    Case("an empty assistant at the very end", [USER, assistant()]),
    Case("an empty string at the very end", [USER, {"role": "assistant", "content": ""}]),
    Case("white space beside visible text", [user(text(" "), text("Hi.")), DONE]),
    Case(
        "an image alone",
        [user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}})],
    ),
    Case("text that ends in space, not at the end", [USER, {"role": "assistant", "content": "It is "}, USER]),
    Case("a user who ends in space", [USER, DONE, user(text("And then? "))]),
    Case("a prefill", [USER, assistant(text("The answer is ("))]),
    Case("a prefill for a model that takes it", [USER, assistant(text("The answer is ("))], model=OLD),
    Case("the user at the end for one that takes none", [USER, DONE, USER], model=NEW),
    Case("a system message behind the user at the end", [USER, DONE, USER, SYSTEM]),  # R18
    Case("a system message between user and assistant", [USER, SYSTEM, DONE, USER]),  # R18
    Case("a system message behind results", [USER, assistant(use("a")), user(result("a")), SYSTEM]),
    Case("a system message behind a server tool", [USER, assistant(text("I search."), SEARCH), SYSTEM, DONE, USER]),
    Case("a compaction block first", [assistant({"type": "compaction", "content": "So far."}), USER]),
    Case("a compaction that failed", [USER, assistant({"type": "compaction", "content": None}, text("Hi.")), USER]),
    Case("four cache marks", marked(4)),
    Case("no cache marks that count", [*marked(3), user(text("x", cache_control=None)), *marked(1)]),
    Case("thinking before text", [USER, assistant(THOUGHT, text("Hi.")), USER], model=OLD),
    Case("sealed thinking before a call", [USER, assistant(SEALED, THOUGHT, use("a")), user(result("a"))], model=OLD),
    Case("nothing but thinking in the middle", [USER, assistant(THOUGHT), USER]),
    Case(
        "text before thinking where it is adaptive",
        [USER, assistant(text("Hi."), THOUGHT, text("Ha.")), USER],
        model=NEW,
    ),
    Case("text before thinking, model unknown", [USER, assistant(text("Hi."), THOUGHT, text("Ha.")), USER]),
]


@rows("case", [*PAIRS, *TEXTS, *PLACES, *THINKING], ids=str)
def test_anthropic_refuses_and_repair_mends(case: Case) -> None:
    # R14
    assert case.expected
    judge(case, "anthropic")


@rows("case", LEGAL, ids=str)
def test_anthropic_takes_as_it_is(case: Case) -> None:
    assert not case.expected
    judge(case, "anthropic")


def test_a_stub_goes_into_a_message_of_its_own_when_the_next_one_has_no_results() -> None:
    # R14
    messages = [USER, assistant(use("a")), USER]
    stub = {"type": "tool_result", "tool_use_id": "a", "content": NO_RESULT, "is_error": True}
    mended = repair(messages).messages
    assert mended == [USER, assistant(use("a")), user(stub), USER]
    assert mended[3] is USER


def test_a_stub_joins_the_results_that_are_there_before_what_the_user_says() -> None:
    # R14
    messages = [USER, assistant(use("a"), use("b")), user(result("b"), text("Well?"))]
    content = repair(messages).messages[2]["content"]
    assert content[0] is messages[2]["content"][0]
    assert (content[1]["tool_use_id"], content[1]["content"]) == ("a", NO_RESULT)
    assert content[2] is messages[2]["content"][1]


def test_a_late_result_message_moves_as_the_same_object() -> None:
    messages = [USER, assistant(use("a")), DONE, user(result("a"))]
    mended = repair(messages).messages
    assert [id(message) for message in mended] == [id(messages[i]) for i in (0, 1, 3, 2)]


def test_spread_results_become_one_message_of_the_same_blocks() -> None:
    messages = [USER, assistant(use("a"), use("b")), user(result("a")), user(result("b"), text("Well?"))]
    mended = repair(messages).messages
    assert [id(block) for block in mended[2]["content"]] == [
        id(block) for message in messages[2:] for block in message["content"]
    ]
    assert len(mended) == 3


def test_an_id_used_again_is_changed_on_call_and_result() -> None:
    messages = [USER, assistant(use("a")), user(result("a")), assistant(use("a", "b.py")), user(result("a", "2"))]
    mended = repair(messages).messages
    assert all(new is old for new, old in zip(mended[:3], messages[:3], strict=True))
    assert mended[3]["content"][0]["id"] == mended[4]["content"][0]["tool_use_id"] != "a"
    assert mended[4]["content"][0]["content"] == "2"


def test_a_repeated_calling_message_goes() -> None:
    messages = [USER, assistant(THOUGHT, use("a")), assistant(THOUGHT, use("a")), user(result("a"))]
    mended = repair(messages).messages
    assert [id(message) for message in mended] == [id(messages[i]) for i in (0, 1, 3)]


def test_system_messages_are_moved_or_joined_and_never_reworded() -> None:
    # R18
    first, second = {**SYSTEM, "content": "Be kind."}, {**SYSTEM, "content": [text("Be quick.")]}
    moved = repair([first, USER, DONE, USER], format="anthropic").messages
    assert [id(message) for message in moved[:2]] == [id(USER), id(first)]
    joined = repair([USER, first, second, DONE], format="anthropic").messages
    assert [block["text"] for block in joined[1]["content"]] == ["Be kind.", "Be quick."]


def test_a_system_message_for_a_model_that_takes_none_cannot_be_mended() -> None:
    # R18
    for model in (OLD, "claude-opus-4-7"):
        found = check([USER, SYSTEM, DONE, USER], format="anthropic", model=model)
        assert [(finding.rule, finding.index) for finding in found] == [("system-unsupported", 1)]
        with pytest.raises(IllegalConversation, match="`system` parameter"):
            repair([USER, SYSTEM, DONE, USER], format="anthropic", model=model)
    for newer in ("claude-opus-4-8", "claude-opus-5-5"):
        assert check([USER, SYSTEM, DONE, USER], format="anthropic", model=newer) == []


def test_white_space_behind_the_assistants_words_is_refused_only_where_nothing_is_to_come() -> None:
    messages = [USER, {"role": "assistant", "content": "Done.\n"}]
    assert repair(messages, format="anthropic").messages == [USER, {"role": "assistant", "content": "Done."}]
    assert check(messages, format="anthropic", pending=True) == []
    assert repair([DONE, *messages], format="anthropic", pending=True).messages[-1] is messages[-1]


def test_the_last_cache_marks_are_kept() -> None:
    messages = marked(6)
    mended = repair(messages).messages
    assert ["cache_control" in message["content"][0] for message in mended] == [False, False, True, True, True, True]
    assert all(new is old for new, old in zip(mended[2:], messages[2:], strict=True))


def test_mending_a_bound_conversation_drops_the_thinking_behind_the_change_and_says_so() -> None:
    before, after = assistant(THOUGHT, text("Hi.")), assistant(THOUGHT, text("Ho."))
    messages = [USER, before, USER, assistant(THOUGHT, use("a")), USER, after, USER]
    bound = repair(messages, model="claude-opus-5-5")
    assert [finding.rule for finding in bound.findings] == ["unanswered-call", "bound-thinking"]
    assert bound.messages[1] is before
    assert bound.messages[3] is messages[3]
    assert bound.messages[6] == assistant(text("Ho."))
    signed = repair(messages, model="claude-opus-5")
    assert signed.messages[6] is after


def test_mending_only_cache_marks_leaves_bound_thinking_alone() -> None:
    thinking = assistant(THOUGHT, text("Hi."))
    assert repair([*marked(5), thinking, USER], model="claude-opus-5-5").messages[5] is thinking
