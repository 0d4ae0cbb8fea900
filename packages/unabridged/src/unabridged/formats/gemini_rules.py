"""What Gemini refuses: of its own `contents`, of what a client translates for it, or of what its Chat endpoint is sent.

Its turns are the user's, the model's and, after calls, the function responses'. It counts the responses and looks at
where the turns stand; in a translated conversation ids are the client's, which needs them to find a response's
function.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
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


_CAMEL = {
    name: name.split("_")[0] + "".join(word.title() for word in name.split("_")[1:])
    for name in (
        "function_call", "function_response", "inline_data", "file_data", "file_uri", "mime_type", "display_name",
        "executable_code", "code_execution_result", "tool_call", "tool_response", "thought_signature",
    )
}  # fmt: skip
"""Fields with two names in dicts: as the SDK has them, as REST sends them."""


# -- fields ----------------------------------------------------------------------------------------------------------


def at(holder: Any, key: str) -> Any:
    """A field of a dict, under either of its names, or of an SDK's object; None where there is none."""
    if not isinstance(holder, Mapping):
        return getattr(holder, key, None)
    value = holder.get(key)
    return holder.get(_CAMEL.get(key, key)) if value is None else value


def put(holder: Any, **fields: Any) -> Any:
    """A copy with these fields, of the class that it is; those that are None are left out."""
    if not isinstance(holder, Mapping):
        if fields.get("parts"):
            fields["parts"] = [_as_part(part, type(holder)) for part in fields["parts"]]
        return holder.model_copy(update=fields)
    new = dict(holder)
    for key, value in fields.items():
        name = key if key in new or any("_" in other for other in new) else _CAMEL.get(key, key)
        new[name] = value
        if value is None:
            del new[name]
    return new


def _as_part(part: Any, kind: Any) -> Any:
    """A part that was made here, as an object where its turn is one: no object holds a dict in its place."""
    return kind.model_validate({"parts": [part]}).parts[0] if isinstance(part, Mapping) else part


def signature_of(part: Any) -> str:
    """The thought signature of a part; bytes as base64."""
    signature = None if isinstance(part, str) else at(part, "thought_signature")
    if isinstance(signature, bytes | bytearray):
        return b64encode(signature).decode()
    return signature if isinstance(signature, str) else ""


# -- what is refused -------------------------------------------------------------------------------------------------


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

    Of Chat's messages only where other calls do: a client that keeps signatures elsewhere shows none at all.
    """
    messages = given.messages
    if not (given.own or isinstance(given.format, OpenAIChat)) or messages is None or not _signs(given.model):
        return
    signatures = [[_signature(call) for call in _signed_calls(message)] for message in messages]
    if not given.own and not any(map(any, signatures)):
        return
    spoke = (i for i, view in enumerate(given.views) if view.role == "user" and not view.answers)
    for index in range(max(spoke, default=-1) + 1, len(messages)):
        if signatures[index] and not signatures[index][0]:
            yield Finding(
                "unsigned-call",
                index,
                f"message {index}: its first call has no thought signature, which Gemini demands in the current turn: "
                f"bring it back, or send {_NO_SIGNATURE!r} in its place",
            )


def _signed_calls(message: Message) -> list[Any]:
    """The calls of a message, or the parts with the calls of a turn: what a signature stands on."""
    parts = [part for part in at(message, "parts") or () if at(part, "function_call")]
    return parts or [*(get(message, "tool_calls") or ())]


def _signature(call: Any) -> str:
    """Where Gemini puts the signature, and where its own Chat endpoint does."""
    extra = get(call, "extra_content")
    return signature_of(call) or get(get(extra or {}, "google") or {}, "thought_signature") or ""


def _sign(message: Message) -> Message:
    """A copy whose first call has the sign that stands for a signature that is not to be had."""
    if parts := at(message, "parts"):
        first = next(part for part in parts if at(part, "function_call"))
        sign = _NO_SIGNATURE if isinstance(first, Mapping) else _NO_SIGNATURE.encode()
        return put(message, parts=[put(p, thought_signature=sign) if p is first else p for p in parts])
    first, *others = get(message, "tool_calls")
    extra = {**plain(get(first, "extra_content") or {})}
    extra["google"] = {**plain(extra.get("google") or {}), "thought_signature": _NO_SIGNATURE}
    return {**plain(message), "tool_calls": [{**plain(first), "extra_content": extra}, *others]}


def _joined_responses(given: Outgoing) -> Outgoing:
    """With the responses of turns in a row in one: only there are those without ids found by their places."""
    messages: list[Message] = []
    answers = False
    for view, message in zip(given.views, given.messages or (), strict=True):
        joins, answers = answers and bool(view.answers), bool(view.answers) and view.role == "user"
        if joins and answers:
            messages[-1] = put(messages[-1], parts=[*at(messages[-1], "parts"), *at(message, "parts")])
        else:
            messages.append(message)
    return given.having(messages) if len(messages) < len(given.views) else given


class Gemini(Provider):
    """Google's models."""

    name = "gemini"
    system_apart = True
    rules = (first_user, _calls_after_model, _empty_turns, _unsigned_calls)

    def thinking_rule(self, model: str) -> ThinkingRule | None:
        """`signed` from 3 on."""
        return "signed" if _signs(model) else None

    def clean(self, given: Outgoing) -> Outgoing:
        """Without empty turns; of its own, with responses in a row in one."""
        given = leave_out(given, lambda _, view: _is_empty_turn(view))
        return _joined_responses(given) if given.own else given

    def arrange(self, given: Outgoing) -> Outgoing:
        """With a user's turn first and between two turns of the model's that call, and every call signed."""
        given = begin_with_user(given)
        messages = list(given.messages or ())
        for finding in _unsigned_calls(given):
            messages[finding.index] = _sign(messages[finding.index])
        given = given.having(messages)
        go_on = given.format.text("user", CONTINUE)
        return insert(given, {finding.index: go_on for finding in _calls_after_model(given)})
