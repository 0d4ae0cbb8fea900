"""One content block, in LangChain's standard shapes (old and new) and in those of the providers."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from unabridged.formats.fields import as_json
from unabridged.formats.parts import find_media_kind, read_media
from unabridged.messages import Call, Media, Reasoning

THINKING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_TOOL_CALL_TYPES = {"tool_use", "tool_call", "invalid_tool_call", "tool_call_chunk", "custom_tool_call"}
CALL_TYPES = frozenset({*_TOOL_CALL_TYPES, "function_call"})
"""Copies of `tool_calls` that content carries; they are the same calls, not more of them."""

_MEDIA_TYPES = frozenset({"file", "media", "image", "audio", "video"})
_SOURCE_FIELDS = ("base64", "data", "url", "file_id", "id")
_ARGUMENT_FIELDS = {"tool_use": "input", "custom_tool_call": "input", "function_call": "arguments"}


def is_untyped_text(block: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether the block is a text in Bedrock's own shape, which has no type."""
    return isinstance(block, dict) and block.get("type") is None and isinstance(block.get("text"), str)


def is_call(block: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether the block is a copy of a call."""
    return isinstance(block, dict) and block.get("type") in CALL_TYPES


def call_id(block: dict[str, Any]) -> str:
    """Return the id of the call that the block is a copy of."""
    return str(block.get("call_id") or block.get("id") or "")


def read_block_media(block: dict[str, Any]) -> Media | None:
    """Return the image, sound, film or file in a block; None where it has text or is anything else."""
    kind = block.get("type")
    if kind == "text-plain" and not block.get("text"):
        return _read_standard_media("file", block)
    if kind in _MEDIA_TYPES and "source" not in block and "file" not in block:
        return _read_standard_media(kind, block)
    return read_media(block)


def _read_standard_media(kind: str, block: dict[str, Any]) -> Media:
    """Return LangChain's own image, sound, film or file: the bytes, an address, or an id at the provider."""
    mime = str(block.get("mime_type") or "")
    source = next((str(block[key]) for key in _SOURCE_FIELDS if block.get(key)), "")
    by_mime = find_media_kind(mime)
    shown = by_mime if by_mime != "document" else find_media_kind(kind)
    extras = block.get("extras") or block.get("metadata") or {}
    name = block.get("filename") or block.get("name") or extras.get("filename") or extras.get("name") or ""
    return Media(shown, mime, source, str(extras.get("detail") or ""), str(name))


def read_thinking_block(block: dict[str, Any]) -> Reasoning:
    """Return a thinking block of Anthropic, Bedrock, Google or OpenAI, or LangChain's standard one."""
    inner = block.get("reasoning_content")
    if isinstance(inner, dict):
        block = {**block, **inner}
    summary = block.get("summary")
    parts = [part for part in summary if isinstance(part, dict)] if isinstance(summary, list) else []
    extras = block.get("extras") or {}
    summed_up = "\n".join(part.get("text") or "" for part in parts)
    text = block.get("thinking") or block.get("reasoning") or block.get("text") or summed_up
    sealed = block.get("signature") or block.get("data") or block.get("encrypted_content")
    return Reasoning(str(text or ""), str(sealed or extras.get("signature") or extras.get("encrypted_content") or ""))


def read_call_block(block: dict[str, Any]) -> Call:
    """Return a call as content carries it, for messages that carry it nowhere else."""
    arguments = block.get(_ARGUMENT_FIELDS.get(str(block.get("type")), "args"))
    return Call(call_id(block), str(block.get("name") or ""), as_json(arguments or {}))


def with_call_arguments(block: dict[str, Any], new_texts: dict[str, str]) -> dict[str, Any]:
    """Return the copy of a call with the arguments the call has now."""
    if (text := new_texts.get(call_id(block))) is None:
        return block
    field = _ARGUMENT_FIELDS.get(str(block.get("type")), "args")
    return {**block, field: text if isinstance(block.get(field), str) else json.loads(text)}


def replace_call_ids(content: list[Any], ids: list[tuple[str, str | None]]) -> list[Any]:
    """Return the content with new ids for its copies of calls; `ids` are pairs of old and new, None drops the copy."""
    kept: list[Any] = []
    for block in content:
        if not is_call(block):
            kept.append(block)
            continue
        position = next((n for n, (old, _) in enumerate(ids) if old == call_id(block)), None)
        new = ids.pop(position)[1] if position is not None else call_id(block)
        if new:
            kept.append({**block, "call_id" if block.get("call_id") else "id": new})
    return kept
