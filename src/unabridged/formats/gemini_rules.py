"""What Gemini refuses of a conversation that a client translates for it, or that its Chat endpoint is sent.

Its turns are the user's, the model's and, after calls, the function responses'. It counts the responses and looks at
where the turns stand; ids are the translating client's, which needs them to find a response's function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from unabridged.formats.base import Finding, Message, Outgoing, Provider, ThinkingRule
from unabridged.formats.fields import get, plain
from unabridged.formats.openai_chat import OpenAIChat
from unabridged.formats.rule_blocks import CONTINUE, begin_with_user, first_user, insert, leave_out, says_nothing
from unabridged.messages import View

_VERSION = re.compile(r"gemini-(\d{1,2})(?!\d)")
_FIRST_SIGNED = 3
"""The version that signs its calls, and of all that came after."""
_NO_SIGNATURE = "skip_thought_signature_validator"
"""What Gemini takes in place of a signature that is not to be had."""


def _signs(model: str | None) -> bool:
    """Whether the model is a Gemini that signs its calls."""
    found = _VERSION.search(model.lower()) if model else None
    return found is not None and int(found[1]) >= _FIRST_SIGNED


def _calls_after_model(given: Outgoing) -> Iterator[Finding]:
    """A turn with calls comes right after the user's, or after function responses: not after the model's own."""
    if given.format.items:
        return  # several items are one turn: the client joins them
    before: View | None = None
    for index, view in enumerate(given.views):
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


def _empty_turns(given: Outgoing) -> Iterator[Finding]:
    """Every turn has a part."""
    for index, view in enumerate(given.views):
        if _is_empty_turn(view):
            yield Finding("empty-message", index, f"message {index} ({view.role}) is empty: leave it out")


def _is_empty_turn(view: View) -> bool:
    return view.role in {"user", "assistant"} and says_nothing(view)


def _unsigned_calls(given: Outgoing) -> Iterator[Finding]:
    """From Gemini 3 on, the first call of every message since the user last spoke carries its thought signature.

    Only where other calls of the conversation do: a client that keeps signatures elsewhere shows none at all.
    """
    messages = given.messages
    if not isinstance(given.format, OpenAIChat) or messages is None or not _signs(given.model):
        return
    if not any(_signature(call) for message in messages for call in get(message, "tool_calls") or ()):
        return
    turn = max((i for i, view in enumerate(given.views) if view.role == "user"), default=-1) + 1
    for index in range(turn, len(messages)):
        calls = get(messages[index], "tool_calls")
        if calls and not _signature(calls[0]):
            yield Finding(
                "unsigned-call",
                index,
                f"message {index}: its first call has no thought signature, which Gemini demands in the current turn: "
                f"bring it back, or send {_NO_SIGNATURE!r} in its place",
            )


def _signature(call: Any) -> str:
    """Where Gemini's own Chat endpoint puts the signature."""
    return get(get(get(call, "extra_content") or {}, "google") or {}, "thought_signature") or ""


def _sign(message: Message) -> Message:
    """A copy whose first call has the sign that stands for a signature that is not to be had."""
    first, *others = get(message, "tool_calls")
    extra = {**plain(get(first, "extra_content") or {})}
    extra["google"] = {**plain(extra.get("google") or {}), "thought_signature": _NO_SIGNATURE}
    return {**plain(message), "tool_calls": [{**plain(first), "extra_content": extra}, *others]}


class Gemini(Provider):
    """Google's models; no format is their own here."""

    name = "gemini"
    system_apart = True
    rules = (first_user, _calls_after_model, _empty_turns, _unsigned_calls)

    def thinking_rule(self, model: str) -> ThinkingRule | None:
        """`signed` from 3 on."""
        return "signed" if _signs(model) else None

    def clean(self, given: Outgoing) -> Outgoing:
        """Without empty turns."""
        return leave_out(given, lambda _, view: _is_empty_turn(view))

    def arrange(self, given: Outgoing) -> Outgoing:
        """With a user's turn first and between two turns of the model's that call, and every call signed."""
        given = begin_with_user(given)
        messages = list(given.messages or ())
        for finding in _unsigned_calls(given):
            messages[finding.index] = _sign(messages[finding.index])
        given = given.having(messages)
        go_on = given.format.text("user", CONTINUE)
        return insert(given, {finding.index: go_on for finding in _calls_after_model(given)})
