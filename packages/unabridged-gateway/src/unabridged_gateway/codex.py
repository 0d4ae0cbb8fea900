"""Compact for Codex, which with its built-in provider has its server compact.

The last item of such a request is a `compaction_trigger`. The answer is one `compaction` item whose content only its
server can read, and which Codex sends back in every later request, behind people's own messages. The content that is
made here is the compacted conversation itself: it is put in place of everything up to that item, so it needs no memory.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from unabridged_gateway.json_body import READ_ERRORS, JsonCache

_TRIGGER_TYPE, _COMPACTION_TYPE = "compaction_trigger", "compaction"
_CONTENT_PREFIX = "unabridged1."
"""The beginning of a content that was made here; any other is its provider's, and is left alone."""
_MAX_CONTENT_BYTES = 64 << 20
"""Bytes that a content may hold."""


def find_items_to_compact(items: Sequence[Any]) -> list[Any] | None:
    """Return the items before a compaction trigger at the end; None if the client does not ask for a compaction."""
    if not items or not isinstance(items[-1], Mapping) or items[-1].get("type") != _TRIGGER_TYPE:
        return None
    return list(items[:-1])


def unpack_compactions(items: list[Any], cache: JsonCache) -> list[Any]:
    """Replace everything up to the newest compaction item of ours by its messages; without one return the same list."""
    for place in range(len(items) - 1, -1, -1):
        messages = _unpack_compaction(items[place], cache)
        if messages is not None:
            return [*messages, *items[place + 1 :]]
    return items


def pack_messages(messages: Sequence[Any]) -> dict[str, Any]:
    """Return the item that stands for these messages."""
    data = base64.b64encode(zlib.compress(msgspec.json.encode(messages))).decode()
    return {"type": _COMPACTION_TYPE, "encrypted_content": f"{_CONTENT_PREFIX}{data}"}


def _unpack_compaction(item: Any, cache: JsonCache) -> list[Any] | None:
    content = (
        item.get("encrypted_content") if isinstance(item, Mapping) and item.get("type") == _COMPACTION_TYPE else None
    )
    if not isinstance(content, str) or not content.startswith(_CONTENT_PREFIX):
        return None
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(
            base64.b64decode(content.removeprefix(_CONTENT_PREFIX), validate=True), _MAX_CONTENT_BYTES
        )
        messages = cache.parse_value(data) if stream.eof else None
    except (ValueError, zlib.error, *READ_ERRORS):
        return None
    return messages if isinstance(messages, list) else None


def build_response(model: str, item: Mapping[str, Any], tokens: tuple[int, int], record: str) -> dict[str, Any]:
    """Return the response that holds the item; `tokens` are those of the conversation before and after."""
    usage = {
        "input_tokens": tokens[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(tokens),
    }
    return {
        "id": f"resp_unabridged_{record}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": model,
        "output": [dict(item, id=f"cmp_{record}")],
        "usage": usage,
    }


def build_events(response: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the same response as events."""
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    item = response["output"][0]
    sent = (
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    )
    for number, event in enumerate(sent):
        data = msgspec.json.encode({**event, "sequence_number": number})
        yield b"event: " + str(event["type"]).encode() + b"\ndata: " + data + b"\n\n"
