"""One content block, in LangChain's standard shapes (old and new) and in those of the providers."""

from __future__ import annotations

import json
from typing import Any

from unabridged.formats import older
from unabridged.formats.attached import read_media
from unabridged.formats.base import as_json
from unabridged.messages import Call, Media, MediaKind, Reasoning

THINKING = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
CALLS = frozenset(
    {"tool_use", "tool_call", "function_call", "invalid_tool_call", "tool_call_chunk", "custom_tool_call"}
)
"""Copies of `tool_calls` that content carries; they are the same calls, not more of them."""

_KINDS: dict[str, MediaKind] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "file": "document",
    "media": "document",
}
_SOURCES = ("base64", "data", "url", "file_id", "id")
_ARGUMENTS = {"tool_use": "input", "custom_tool_call": "input", "function_call": "arguments"}


def is_text(block: dict[str, Any], *, model: bool) -> bool:
    """Whether the block is its author's own words; `output_text` and a refusal are only where the model writes."""
    kind = block.get("type")
    if kind == "refusal":
        return model
    spoken = kind in {"text", "input_text"} or (model and kind == "output_text")
    if kind is None:  # Bedrock's own shape has no type
        return isinstance(block.get("text"), str)
    return spoken and isinstance(block.get("text"), str | None)


def text_of(block: dict[str, Any]) -> str:
    """The own words in a block that `is_text`."""
    return str(block.get("refusal" if block.get("type") == "refusal" else "text") or "")


def media_of(block: dict[str, Any]) -> Media | None:
    """The image, sound, film or file in a block; None where it has text or is anything else."""
    kind = block.get("type")
    if kind == "text-plain" and not block.get("text"):
        return _standard("file", block)
    if kind in _KINDS and "source" not in block and "file" not in block:
        return _standard(kind, block)
    return read_media(block)


def as_once_read(block: Any) -> str | Media:  # noqa: PLR0911 - one return for each shape reads best
    """What earlier versions took a block for: only for the keys of their records."""
    if isinstance(block, str):
        return block
    kind = block.get("type")
    if kind in THINKING or kind in CALLS:
        return ""
    if kind in {"text", "text-plain", "output_text", "input_text"} and isinstance(block.get("text"), str | None):
        return block.get("text") or ""
    if kind == "refusal":
        return str(block.get("refusal") or "")
    if kind == "image_generation_call":
        return Media("image", "image/png", str(block.get("result") or ""))
    if kind in _KINDS and "source" not in block and "file" not in block:
        return _standard(kind, block)
    if (media := older.media(block)) is not None:
        return media
    return block["text"] if isinstance(block.get("text"), str) else as_json(block)


def _standard(kind: str, block: dict[str, Any]) -> Media:
    """LangChain's own image, sound, film or file: the bytes, an address, or an id at the provider."""
    mime = str(block.get("mime_type") or "")
    source = next((str(block[key]) for key in _SOURCES if block.get(key)), "")
    by_mime = mime.partition("/")[0]
    shown = _KINDS[by_mime] if by_mime in {"image", "audio", "video"} else _KINDS[kind]
    extras = block.get("extras") or block.get("metadata") or {}
    name = block.get("filename") or block.get("name") or extras.get("filename") or extras.get("name") or ""
    return Media(shown, mime, source, str(extras.get("detail") or ""), str(name))


def thinking_of(block: dict[str, Any]) -> Reasoning:
    """A thinking block of Anthropic, Bedrock, Google or OpenAI, or LangChain's standard one."""
    inner = block.get("reasoning_content")
    if isinstance(inner, dict):
        block = {**block, **inner}
    summary = block.get("summary")
    told = [part.get("text") or "" for part in summary if isinstance(part, dict)] if isinstance(summary, list) else []
    extras = block.get("extras") or {}
    text = block.get("thinking") or block.get("reasoning") or block.get("text") or "\n".join(told)
    sealed = block.get("signature") or block.get("data") or block.get("encrypted_content")
    return Reasoning(str(text or ""), str(sealed or extras.get("signature") or extras.get("encrypted_content") or ""))


def read_call_block(block: dict[str, Any]) -> Call:
    """A call as content carries it, for messages that carry it nowhere else."""
    arguments = block.get(_ARGUMENTS.get(str(block.get("type")), "args"))
    return Call(
        str(block.get("call_id") or block.get("id") or ""), str(block.get("name") or ""), as_json(arguments or {})
    )


def with_call_text(block: dict[str, Any], new_texts: dict[str, str]) -> dict[str, Any]:
    """The copy of a call with the arguments the call has now."""
    id_ = str(block.get("call_id") or block.get("id") or "")
    if id_ not in new_texts:
        return block
    field = _ARGUMENTS.get(str(block.get("type")), "args")
    text = new_texts[id_]
    return {**block, field: text if isinstance(block.get(field), str) else json.loads(text)}
