"""An SDK's response as a `Reply`: text, why it stopped, tool calls, thinking, usage. No SDK is imported for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any, get_args

from unabridged.asking.ask import Reply, Stop
from unabridged.formats.fields import get
from unabridged.measure.calibrate import Usage, usage_of

_STOPS: dict[str, Stop] = {
    "stop": "end",
    "end_turn": "end",
    "stop_sequence": "end",
    "completed": "end",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool",
    "tool_call": "tool",
    "function_call": "tool",
    "tool_use": "tool",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
}
_CALLS = ("tool_use", "_call")
"""How the kinds of content blocks and output items end that call a tool."""


def read_reply(said: Any, name: str) -> Reply:
    """What a summariser returned, as a reply whose every field is what it should be; `TypeError` when it is none.

    A text, a `Reply`, a list of content blocks, or a response that `reply_of` reads. Fields of a `Reply` may be as an
    SDK has them: no text where there is none, content blocks, its own word for why it stopped, its own usage object.
    """
    if isinstance(said, str):
        return Reply(said, model=name)
    try:
        found: Any = (
            said if isinstance(said, Reply) else _read_blocks(said) if isinstance(said, list) else reply_of(said)
        )
        blocks = _read_blocks(found.text) if isinstance(found.text, list) else Reply(_text(found.text))
        calls = len(found.calls) if isinstance(found.calls, list | tuple) else int(found.calls or 0)
        return Reply(
            blocks.text,
            found.stop if found.stop in get_args(Stop) else stop_of(found.stop),
            _usage(found.usage),
            max(calls, blocks.calls),
            found.reasoning if found.reasoning and isinstance(found.reasoning, str) else blocks.reasoning,
            found.model if found.model and isinstance(found.model, str) else name,
        )
    except Exception as error:
        raise TypeError(
            f"{name} returned {type(said).__name__} that is no reply: return a str or a Reply, or a response as it is "
            "(Chat, Responses, Anthropic)"
        ) from error


def reply_of(response: Any) -> Reply:
    """What an OpenAI Chat, OpenAI Responses or Anthropic response (object or dict) says."""
    output, content = get(response, "output"), get(response, "content")
    if get(response, "choices"):
        said = _read_choice(get(response, "choices")[0])
    elif output is not None:
        said = _read_blocks([part for item in output for part in _parts_of(item)])
        reason = get(get(response, "incomplete_details"), "reason") or get(response, "status")
        said = replace(said, stop=said.stop or ("tool" if said.calls else stop_of(reason)))
    elif isinstance(content, list | tuple):
        said = replace(_read_blocks(content), stop=stop_of(get(response, "stop_reason")))
    else:
        raise TypeError(
            f"can't read a reply from {type(response).__name__}: expected a Chat, Responses or Anthropic response"
        )
    return replace(said, usage=usage_of(response), model=get(response, "model") or "")


def stop_of(reason: Any) -> Stop | None:
    """Why a model stopped, from the word its provider has for it; None where it said nothing."""
    reason = getattr(reason, "value", reason)  # some SDKs have a word of their own for each, as an enumeration
    return None if reason is None else _STOPS.get(str(reason).lower(), "other")


def _read_choice(choice: Any) -> Reply:
    message = get(choice, "message")
    refusal = get(message, "refusal") or ""
    return Reply(
        get(message, "content") or refusal,
        "refusal" if refusal else stop_of(get(choice, "finish_reason")),
        calls=len(get(message, "tool_calls") or ()),
        reasoning=get(message, "reasoning_content") or get(message, "reasoning") or "",
    )


def _parts_of(item: Any) -> Sequence[Any]:
    """The content blocks of an output item: those of a message, a summary's of a reasoning, else the item itself."""
    kind = get(item, "type")
    if kind == "reasoning":
        return [{"type": "thinking", "thinking": get(part, "text")} for part in get(item, "summary") or ()]
    return get(item, "content") or () if kind == "message" else [item]


def _read_blocks(blocks: Sequence[Any]) -> Reply:
    """Content blocks: their text, their thinking, and how many of them call a tool; what they refuse is a refusal."""
    kinds = ["text" if isinstance(block, str) else get(block, "type") for block in blocks]
    if None in kinds:
        raise TypeError("a list that holds no content blocks")

    def texts(key: str, *wanted: str) -> list[str]:
        found = (
            b if isinstance(b, str) else get(b, key) for b, kind in zip(blocks, kinds, strict=True) if kind in wanted
        )
        return [text for text in found if text]

    refusal = "".join(texts("refusal", "refusal"))
    return Reply(
        "".join(texts("text", "text", "output_text")) or refusal,
        "refusal" if refusal else None,
        calls=sum(str(kind).endswith(_CALLS) for kind in kinds),
        reasoning="\n".join(texts("thinking", "thinking")),
    )


def _text(text: Any) -> str:
    if text is not None and not isinstance(text, str):
        raise TypeError(f"the text of a reply is a str; got {type(text).__name__}")
    return text or ""


def _usage(told: Any) -> Usage | None:
    """What was used, as an SDK or a dict tells it; None for what can't be read: a summary does not fail for that."""
    try:
        found = usage_of(told)
        return found if found is None or all(type(value) is int for value in astuple(found)) else None
    except Exception:  # noqa: BLE001 - whatever a stranger's object raises when it is read
        return None
