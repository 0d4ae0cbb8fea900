"""What OpenAI's Responses refuses: it pairs calls and outputs by `call_id`, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from unabridged.formats.attached import content_of
from unabridged.formats.base import Message, get, plain
from unabridged.legal.conversation import Conversation, Finding, Rule, Seen, grouped
from unabridged.legal.pairing import duplicate_calls, empty_conversation, missing_ids
from unabridged.messages import View

_NEED_ID = frozenset({
    "reasoning", "file_search_call", "web_search_call", "code_interpreter_call", "image_generation_call",
    "computer_call", "local_shell_call", "mcp_call", "mcp_list_tools", "mcp_approval_request", "item_reference",
    "program", "program_output",
})  # fmt: skip
"""Items that are not taken without an `id`."""


def calls_without_output(conversation: Conversation) -> Iterator[Finding]:
    """Each call has its output somewhere behind it."""
    views = conversation.views
    waiting: dict[str, int] = {}
    for index, view in enumerate(views):
        waiting.update((call.id, index) for call in view.calls if call.id)
        for answer in view.answers:
            waiting.pop(answer.call_id, None)
    running = _last_round(views) if conversation.pending else len(views)
    for index, ids in grouped((index, id_) for id_, index in waiting.items() if index < running):
        yield Finding(
            "unanswered-call", index, f"item {index} calls {ids} and has no output: add an output with this call_id"
        )


def outputs_without_call(conversation: Conversation) -> Iterator[Finding]:
    """Each output has its call before it; a call may hide behind a reference to an item the provider stored."""
    called: set[str] = set()
    hidden = False
    for index, view in enumerate(conversation.views):
        called.update(call.id for call in view.calls)
        hidden = hidden or view.opaque
        orphans = [(index, a.call_id) for a in view.answers if a.call_id and a.call_id not in called]
        for _, ids in grouped(() if hidden else orphans):
            yield Finding(
                "orphan-answer",
                index,
                f"item {index} is an output for {ids} and no call with this id stands before it: "
                "put it behind its call, or leave it out",
            )


def duplicate_outputs(conversation: Conversation) -> Iterator[Finding]:
    """No call has two outputs."""
    seen = Seen()
    for index, view in enumerate(conversation.views):
        for _, ids in grouped((index, a.call_id) for a in view.answers if seen.again(a.call_id)):
            yield Finding("duplicate-answer", index, f"item {index} is a second output for {ids}: keep one")


def duplicate_items(conversation: Conversation) -> Iterator[Finding]:
    """No two items share an `id`."""
    seen = Seen()
    for index, item in conversation.wire():
        if get(item, "type") == "local_shell_call_output":
            continue  # its `id` is the call's
        if seen.again(get(item, "id") or ""):
            yield Finding(
                "duplicate-item",
                index,
                f"item {index} repeats the id {get(item, 'id')!r}: leave the id out, or the item if it is the same one",
            )


def told_apart(conversation: Conversation) -> list[Message]:
    """The items with no `id` twice: the same item again is left out, any other one loses its id, or gets a new one.

    Calls and outputs are paired by `call_id`: none goes for its `id`.
    """
    again = {finding.index for finding in duplicate_items(conversation)}
    taken = {get(item, "id") for _, item in conversation.wire()}
    first: dict[str, Message] = {}
    kept: list[Message] = []
    for index, item in conversation.wire():
        if index not in again:
            first.setdefault(get(item, "id") or "", item)
            kept.append(item)
            continue
        view, id_ = conversation.views[index], get(item, "id")
        if not view.calls and not view.answers and content_of([item]) == content_of([first[id_]]):
            continue
        bare = {key: value for key, value in plain(item).items() if key != "id"}
        if get(item, "type") in _NEED_ID:
            bare["id"] = next(new for n in count(2) if (new := f"{id_}_{n}") not in taken)
            taken.add(bare["id"])
        kept.append(bare)
    return kept


def lone_reasoning(conversation: Conversation) -> Iterator[Finding]:
    """A reasoning item stands before what the model then wrote."""
    for index in lone(conversation.views):
        yield Finding(
            "lone-reasoning",
            index,
            f"reasoning item {index} is not followed by what it led to: leave it out, or bring back what followed",
        )


def lone(views: Sequence[View]) -> list[int]:
    """The reasoning items that no item of the model follows; several in a row share what follows the last."""
    found: list[int] = []
    followed = False
    for index in range(len(views) - 1, -1, -1):
        if not views[index].glued:
            followed = views[index].role == "assistant"
        elif not followed:
            found.append(index)
    return found[::-1]


def stub_output(item: Message, call_id: str, text: str) -> Message | None:
    """An output for the call, in the shape that its kind of call takes; None when only a screenshot would do."""
    kind = get(item, "type")
    if kind == "computer_call":
        return None
    if kind == "local_shell_call":
        return {"type": "local_shell_call_output", "id": call_id, "output": text}
    output: dict[str, Any] = {"type": f"{kind}_output", "call_id": call_id, "output": text}
    if kind == "shell_call":
        output["output"] = [{"stdout": "", "stderr": text, "outcome": {"type": "exit", "exit_code": 1}}]
    elif kind == "apply_patch_call":
        output["status"] = "failed"
    return output


def _last_round(views: Sequence[View]) -> int:
    """Where the run of the model's items begins that only outputs follow, if any."""
    start = len(views)
    while start and views[start - 1].role == "tool":
        start -= 1
    while start and views[start - 1].role == "assistant":
        start -= 1
    return start


RULES: tuple[Rule, ...] = (
    empty_conversation,
    missing_ids,
    duplicate_calls,
    duplicate_items,
    calls_without_output,
    outputs_without_call,
    duplicate_outputs,
    lone_reasoning,
)
