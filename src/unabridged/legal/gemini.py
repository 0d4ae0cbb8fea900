"""What Gemini refuses of a conversation that a client translates for it.

Its turns are the user's, the model's and, after calls, the function responses'. It counts the responses and looks at
where the turns stand; ids are the translating client's, which needs them to find a response's function.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unabridged.formats.base import Message, get, plain
from unabridged.legal.conversation import Conversation, Finding, Rule, says_nothing
from unabridged.legal.pairing import PAIRING, first_user
from unabridged.legal.reasoning import gemini_version
from unabridged.messages import View

NO_SIGNATURE = "skip_thought_signature_validator"
"""What Gemini takes in place of a signature that is not to be had."""


def calls_after_model(conversation: Conversation) -> Iterator[Finding]:
    """A turn with calls comes right after the user's, or after function responses: not after the model's own."""
    if conversation.items:
        return  # several items are one turn: the client joins them
    before: View | None = None
    for index, view in enumerate(conversation.views):
        if view.role == "system":
            continue
        if view.calls and before is not None and before.role == "assistant":
            yield Finding(
                "call-after-model",
                index,
                f"message {index} calls a tool right after another message of the model's: "
                "join the two, or put a user message between them",
            )
        before = view


def empty_turns(conversation: Conversation) -> Iterator[Finding]:
    """Every turn has a part."""
    for index, view in enumerate(conversation.views):
        if view.role in {"user", "assistant"} and says_nothing(view):
            yield Finding("empty-message", index, f"message {index} ({view.role}) is empty: leave it out")


def unsigned_calls(conversation: Conversation) -> Iterator[Finding]:
    """From Gemini 3 on, the first call of every message since the user last spoke carries its thought signature.

    Only where other calls of the conversation do: a client that keeps signatures elsewhere shows none at all.
    """
    for index in unsigned(conversation):
        yield Finding(
            "unsigned-call",
            index,
            f"message {index}: its first call has no thought signature, which Gemini demands in the current turn: "
            f"bring it back, or send {NO_SIGNATURE!r} in its place",
        )


def unsigned(conversation: Conversation) -> list[int]:
    """The messages of the current turn whose first call should be signed and is not."""
    messages = conversation.messages
    if conversation.format != "openai-chat" or messages is None:
        return []
    if (gemini_version(conversation.model) or (0, 0)) < (3, 0):
        return []
    if not any(_signature(call) for message in messages for call in get(message, "tool_calls") or ()):
        return []
    turn = max((i for i, view in enumerate(conversation.views) if view.role == "user"), default=-1) + 1
    first = {i: (get(messages[i], "tool_calls") or (None,))[0] for i in range(turn, len(messages))}
    return [i for i, call in first.items() if call is not None and not _signature(call)]


def signed(message: Message) -> Message:
    """A copy whose first call has the sign that stands for a signature that is not to be had."""
    first, *others = get(message, "tool_calls")
    extra = {**plain(get(first, "extra_content") or {})}
    extra["google"] = {**plain(extra.get("google") or {}), "thought_signature": NO_SIGNATURE}
    return {**plain(message), "tool_calls": [{**plain(first), "extra_content": extra}, *others]}


def _signature(call: Any) -> str:
    """Where Gemini's own Chat endpoint puts the signature."""
    return get(get(get(call, "extra_content") or {}, "google") or {}, "thought_signature") or ""


RULES: tuple[Rule, ...] = (*PAIRING, first_user, calls_after_model, empty_turns, unsigned_calls)
