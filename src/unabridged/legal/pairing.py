"""The rules on calls and their answers that Chat, Anthropic and Gemini share: all of them, once each, right behind."""

from __future__ import annotations

from collections.abc import Iterator

from unabridged.formats.base import get
from unabridged.legal.conversation import LEGACY, Conversation, Finding, Seen, grouped


def unanswered_calls(conversation: Conversation) -> Iterator[Finding]:
    """Each call is answered before anything else is said."""
    missing: list[tuple[int, str]] = []
    for round_ in conversation.rounds:
        if conversation.pending and round_.stop == len(conversation.views):
            continue
        answered = {answer.call_id for _, answer in round_.answers}
        missing += [(i, call.id) for i, call in round_.calls if call.id and call.id not in answered]
    for index, ids in grouped(missing):
        yield Finding(
            "unanswered-call",
            index,
            f"message {index} calls {ids} and no result follows directly: put one result for each call right behind it",
        )


def orphan_answers(conversation: Conversation) -> Iterator[Finding]:
    """Each answer is to a call right before it."""
    orphans: list[tuple[int, str]] = []
    for round_ in conversation.rounds:
        called = {call.id for _, call in round_.calls}
        orphans += [(i, a.call_id) for i, a in round_.answers if a.call_id and a.call_id not in called]
    for index, ids in grouped(orphans):
        yield Finding(
            "orphan-answer",
            index,
            f"message {index} answers {ids}, which the message before it did not call: "
            "put the result behind its call, or leave it out",
        )


def duplicate_calls(conversation: Conversation) -> Iterator[Finding]:
    """No two calls share an id: in one round for Chat and Gemini, in the whole conversation for the others."""
    twice: list[tuple[int, str]] = []
    everywhere = Seen()
    for round_ in conversation.rounds:
        seen = everywhere if conversation.provider in {"anthropic", "openai-responses"} else Seen()
        twice += [(i, call.id) for i, call in round_.calls if seen.again(call.id)]
    for index, ids in grouped(twice):
        yield Finding("duplicate-call", index, f"message {index} calls {ids} again: give each call an id of its own")


def duplicate_answers(conversation: Conversation) -> Iterator[Finding]:
    """No call is answered twice."""
    twice: list[tuple[int, str]] = []
    for round_ in conversation.rounds:
        seen = Seen()
        twice += [(i, answer.call_id) for i, answer in round_.answers if seen.again(answer.call_id)]
    for index, ids in grouped(twice):
        yield Finding("duplicate-answer", index, f"message {index} answers {ids} again: keep one result for each call")


def missing_ids(conversation: Conversation) -> Iterator[Finding]:
    """Every call has an id, and every answer says which call it is to."""
    for index, view in enumerate(conversation.views):
        calls = any(not call.id for call in view.calls)
        answers = any(answer.call_id in {"", LEGACY} for answer in view.answers) or _unaddressed(conversation, index)
        if calls or answers:
            what = "calls a tool without an id" if calls else "has a result without the id of its call"
            yield Finding("missing-id", index, f"message {index} {what}: give the call and its result the same id")


def _unaddressed(conversation: Conversation, index: int) -> bool:
    """Whether this is a Chat tool message without `tool_call_id`: its view can't be told from an old function's."""
    if conversation.format != "openai-chat" or conversation.messages is None:
        return False
    message = conversation.messages[index]
    return get(message, "role") == "tool" and not get(message, "tool_call_id")


def empty_conversation(conversation: Conversation) -> Iterator[Finding]:
    """There is at least one message; Anthropic and Gemini take system messages from elsewhere and count the others."""
    counted = conversation.views
    if conversation.provider in {"anthropic", "gemini"}:
        counted = [view for view in conversation.views if view.role != "system"]
    if not counted:
        yield Finding("empty-conversation", 0, "there is no message for the model to answer: add a user message")


def first_user(conversation: Conversation) -> Iterator[Finding]:
    """The conversation begins with the user."""
    for index, view in enumerate(conversation.views):
        if view.role == "system":
            continue
        if view.role == "assistant" and not view.opaque:
            yield Finding(
                "first-user", index, f"message {index}, the first, is the assistant's: put a user message in front"
            )
        return


PAIRING = (empty_conversation, missing_ids, duplicate_calls, unanswered_calls, orphan_answers, duplicate_answers)
"""What every provider refuses that pairs calls and answers by their place."""
