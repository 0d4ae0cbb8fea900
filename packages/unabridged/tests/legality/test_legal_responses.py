"""What OpenAI Responses refuses, and its legal look-alikes."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

from legal_case import Case, judge
from rows import rows
from unabridged.legality import NO_RESULT, repair

USER = {"role": "user", "content": "Read both files."}
DONE = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
REFERENCE = {"type": "item_reference", "id": "fc_stored"}


def call(id_: str, path: str = "a.py", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": id_, "name": "read", "arguments": f'{{"path":"{path}"}}', **more}


def output(id_: str, text: str = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id_, "output": text}


def thinking(id_: str = "rs_1") -> dict[str, Any]:
    return {"type": "reasoning", "id": id_, "summary": [], "encrypted_content": f"sealed-{id_}"}


def custom(id_: str) -> dict[str, Any]:
    return {"type": "custom_tool_call", "call_id": id_, "name": "patch", "input": "*** Begin"}


def shell(id_: str) -> dict[str, Any]:
    return {"type": "shell_call", "call_id": id_, "action": {"commands": ["ls"]}}


def screen(id_: str) -> dict[str, Any]:
    return {
        "type": "computer_call", "id": "cu_1", "call_id": id_, "status": "completed", "pending_safety_checks": [],
        "action": {"type": "screenshot"},
    }  # fmt: skip


SHOT = {
    "type": "computer_call_output", "call_id": "a",
    "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="},
}  # fmt: skip
SDK_CALL = ResponseFunctionToolCall(type="function_call", id="fc_1", call_id="a", name="read", arguments="{}")
SDK_THINKING = ResponseReasoningItem(type="reasoning", id="rs_9", summary=[])
SDK_DONE = ResponseOutputMessage.model_validate({
    "type": "message", "id": "msg_9", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
})  # fmt: skip

ILLEGAL = [
    Case("a call without output", [USER, call("a"), DONE, USER], [("unanswered-call", 1)]),
    Case("one of two calls answered", [USER, call("a"), call("b"), output("b")], [("unanswered-call", 1)]),
    Case("an SDK call without output", [USER, SDK_THINKING, SDK_CALL], [("unanswered-call", 2)]),
    Case("a custom call without output", [USER, custom("a"), USER], [("unanswered-call", 1)]),
    Case("a shell call without output", [USER, thinking(), shell("a"), USER], [("unanswered-call", 2)]),
    Case("an output without call", [USER, output("a"), DONE], [("orphan-answer", 1)]),
    Case("an output at the very beginning", [output("a"), USER], [("orphan-answer", 0)]),
    Case(
        "an output before its call",
        [USER, output("a"), call("a"), DONE],
        [("orphan-answer", 1), ("unanswered-call", 2)],
    ),
    Case("an output twice", [USER, call("a"), output("a"), output("a", "again")], [("duplicate-answer", 3)]),
    Case(
        "an output again, much later",
        [USER, call("a"), output("a"), DONE, USER, output("a")],
        [("duplicate-answer", 5)],
    ),
    Case("a call twice", [USER, call("a"), call("a"), output("a")], [("duplicate-call", 2)]),
    Case(
        "a call_id used again for another call",
        [USER, call("a"), output("a"), call("a", "b.py"), output("a", "2")],
        [("duplicate-call", 3), ("duplicate-answer", 4)],
    ),
    Case("an item twice", [USER, DONE, USER, DONE], [("duplicate-item", 3)]),
    Case(
        "one id for several calls and their outputs",
        [USER, call("a", id="fc"), call("b", id="fc"), {**output("a"), "id": "fc"}, {**output("b"), "id": "fc"}, DONE],
        [("duplicate-item", 2), ("duplicate-item", 3), ("duplicate-item", 4)],
    ),
    Case(
        "one id for two screens",
        [USER, screen("a"), SHOT, screen("b"), {**SHOT, "call_id": "b"}],
        [("duplicate-item", 3)],
    ),
    Case(
        "a reasoning item twice",
        [USER, thinking(), DONE, USER, thinking(), SDK_DONE],
        [("duplicate-item", 4)],
    ),
    Case("reasoning at the end", [USER, DONE, USER, thinking()], [("lone-reasoning", 3)]),
    Case("reasoning before the user", [USER, thinking(), USER], [("lone-reasoning", 1)]),
    Case(
        "reasoning before an output",
        [USER, call("a"), thinking(), output("a"), DONE],
        [("lone-reasoning", 2)],
    ),
    Case(
        "two reasoning items that led nowhere",
        [USER, thinking(), SDK_THINKING, USER],
        [("lone-reasoning", 1), ("lone-reasoning", 2)],
    ),
    Case("a call without an id", [USER, call(""), output("a")], [("missing-id", 1), ("orphan-answer", 2)]),
    Case("an output without an id", [USER, call("a"), output("")], [("unanswered-call", 1), ("missing-id", 2)]),
]
LEGAL = [
    Case("a call and its output", [USER, call("a"), output("a"), DONE]),
    Case("outputs in another order", [USER, call("a"), call("b"), output("b"), output("a")]),  # R14
    Case("something between call and output", [USER, call("a"), USER, DONE, output("a")]),
    Case("SDK items and dicts", [USER, SDK_THINKING, SDK_CALL, output("a"), SDK_DONE, USER]),
    Case(
        "a custom call and its output",
        [custom("a"), {"type": "custom_tool_call_output", "call_id": "a", "output": "ok"}],
    ),
    Case(
        "a local shell call, answered by id",
        [
            {
                "type": "local_shell_call",
                "id": "ls_1",
                "call_id": "a",
                "status": "completed",
                "action": {"type": "exec"},
            },
            {"type": "local_shell_call_output", "id": "a", "output": "{}"},
        ],
    ),
    Case("the output of a call that is only referred to", [USER, REFERENCE, output("a"), DONE]),
    Case("a sealed compaction first", [{"type": "compaction", "encrypted_content": "x"}, DONE, USER]),
    Case("reasoning before a message", [USER, thinking(), DONE]),
    Case("reasoning before parallel calls", [USER, thinking(), call("a"), call("b"), output("a"), output("b")]),
    Case("two reasoning items before a call", [USER, thinking(), SDK_THINKING, call("a"), output("a")]),
    Case("reasoning before a reference", [USER, thinking(), REFERENCE, USER]),
    Case("a call whose reasoning is gone", [USER, SDK_CALL, output("a")]),
    Case(
        "two items without ids",
        [USER, {"role": "assistant", "content": "Hm."}, {"role": "assistant", "content": "Hm."}],
    ),
    Case("the provider's own search", [USER, {"type": "web_search_call", "id": "ws_1", "status": "completed"}, DONE]),
]


@rows("case", ILLEGAL, ids=str)
def test_responses_refuses_and_repair_mends(case: Case) -> None:
    # R14
    assert case.expected
    judge(case, "openai-responses")


@rows("case", LEGAL, ids=str)
def test_responses_takes_as_it_is(case: Case) -> None:
    assert not case.expected
    judge(case, "openai-responses")


def test_stubs_stand_behind_all_parallel_calls() -> None:
    messages = [USER, thinking(), call("a"), call("b"), USER]
    mended = repair(messages).messages
    assert mended == [*messages[:4], output("a", NO_RESULT), output("b", NO_RESULT), USER]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (call("a"), output("a", NO_RESULT)),
        (custom("a"), {"type": "custom_tool_call_output", "call_id": "a", "output": NO_RESULT}),
        (
            {"type": "local_shell_call", "id": "ls_1", "call_id": "a", "action": {"type": "exec"}},
            {"type": "local_shell_call_output", "id": "a", "output": NO_RESULT},
        ),
        (
            {"type": "apply_patch_call", "call_id": "a", "operation": {"type": "delete_file", "path": "a.py"}},
            {"type": "apply_patch_call_output", "call_id": "a", "status": "failed", "output": NO_RESULT},
        ),
        (
            shell("a"),
            {
                "type": "shell_call_output",
                "call_id": "a",
                "output": [{"stdout": "", "stderr": NO_RESULT, "outcome": {"type": "exit", "exit_code": 1}}],
            },
        ),
    ],
)
def test_each_kind_of_call_gets_its_own_kind_of_stub(made: dict[str, Any], expected: dict[str, Any]) -> None:
    assert repair([USER, made, USER]).messages == [USER, made, expected, USER]


def test_a_screen_call_without_a_screenshot_goes_with_its_reasoning() -> None:
    messages = [USER, thinking(), screen("a"), USER]
    assert repair(messages).messages == [USER, USER]


def test_a_call_with_a_new_call_id_loses_the_item_id_the_provider_knows() -> None:
    messages = [USER, call("a", id="fc_1"), output("a"), call("a", "b.py", id="fc_2"), output("a", "2")]
    mended = repair(messages).messages
    assert mended[3]["call_id"] == mended[4]["call_id"] != "a"
    assert "id" not in mended[3]
    assert all(new is old for new, old in zip(mended[:3], messages[:3], strict=True))
