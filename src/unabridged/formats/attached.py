"""What stands in a block that nobody in the conversation says: pages, documents, results of a provider's own tools.

Such a block is read leaf by leaf, whatever its shape: its texts, its media, and how much of it only the provider can
read. `edit_leaves` changes those texts where they stand, so that a shortened page is still a page and never becomes
somebody's words. `content_of` is what tells two blocks apart: everything but ids and marks.

Encrypted content (a web search's pages, a code's output) is sealed: it is counted by its length, since the provider
charges for what is in it, and is never searched or changed. Citations are not charged and are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from unabridged.formats.base import get, plain, text_at, word
from unabridged.messages import Media

_NO_TEXT = frozenset(
    {"type", "id", "role", "status", "cache_control", "citations", "signature", "caller", "fingerprint",
     "media_type", "mime_type"}
)  # fmt: skip
"""Fields of blocks that are no text: how a block is addressed, marked or sealed."""
_ADDRESSES = ("url", "uri", "name", "source", "path")
"""Ends of the names of fields that are taken as they are or not at all: counted, never shortened."""
_CALLED = frozenset({"arguments", "input", "code", "action", "queries"})
"""What a provider's own tool was called with: counted, never shortened."""
_MARKS = frozenset({"id", "tool_use_id", "call_id", "cache_control", "status", "caller", "created_by"})
"""Fields that may differ where the content is the same."""
_SEALED = "encrypted_"
_SHOWN = frozenset({
    "source", "title", "url", "image_url", "file", "input_audio", "file_data", "file_url", "filename", "detail",
    "result", "output_format",
})  # fmt: skip
"""Fields of a media part that its `Media` holds."""


class Found(NamedTuple):
    """What one block holds: its readable texts, in order, its media, and how many characters of it are encrypted."""

    text: str = ""
    media: tuple[Media, ...] = ()
    sealed: int = 0


def read_leaves(block: Any) -> Found:
    """What the block holds, at any depth."""
    texts: list[str] = []
    media: list[Media] = []
    sealed = 0
    for key, leaf in _leaves(block):
        if isinstance(leaf, Media):
            media.append(leaf)
        elif key.startswith(_SEALED):
            sealed += len(leaf)
        else:
            texts.append(leaf)
    return Found("\n".join(text for text in texts if text), tuple(media), sealed)


def edit_leaves(block: Any, on_text: Callable[[str], str]) -> Any:
    """The block with its texts edited where they stand; the same object when nothing changed."""
    return _edited(block, "", on_text)


def content_of(blocks: Iterable[Any]) -> str:
    """A digest of all that is in these blocks but their ids and marks; "" when there are none."""
    bare = [_bare(block) for block in blocks]
    if not bare:
        return ""
    told = json.dumps(bare, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


def read_media(part: Any) -> Media | None:
    """The image, sound or document in a content part of OpenAI's or Anthropic's, else None; a text is not one."""
    kind = word(part, "type")
    if kind == "image_url":
        image = get(part, "image_url")
        image = {"url": image} if isinstance(image, str) else image
        return _image(text_at(image, "url"), text_at(image, "detail"))
    if kind in {"input_image", "computer_screenshot"}:
        return _image(text_at(part, "image_url") or text_at(part, "file_id"), text_at(part, "detail"))
    if kind == "image_generation_call":
        drawn = text_at(part, "result")
        return Media("image", f"image/{word(part, 'output_format') or 'png'}", drawn) if drawn else None
    if kind == "input_audio":
        audio = get(part, "input_audio") or part
        return Media("audio", f"audio/{text_at(audio, 'format') or 'wav'}", text_at(audio, "data"))
    if kind in {"file", "input_file"}:
        file = get(part, "file") or part
        data = text_at(file, "file_data") or text_at(file, "file_url") or text_at(file, "file_id")
        return Media("document", mime_of(data) or "application/pdf", data, name=text_at(file, "filename"))
    return _sourced(part, kind) if kind in {"image", "document"} else None


def _image(source: str, detail: str) -> Media:
    return Media("image", mime_of(source), source, detail)


def _sourced(part: Any, kind: str) -> Media | None:
    """An image or document with a `source`; None where that is text or a list of blocks, which is read as such."""
    source = get(part, "source") or {}
    if word(source, "type") in {"text", "content"} or not isinstance(get(source, "content") or "", str):
        return None
    data = text_at(source, "data") or text_at(source, "url") or text_at(source, "file_id") or text_at(source, "content")
    data = data or text_at(part, "url")  # what a code interpreter drew
    mime, name = text_at(source, "media_type"), text_at(part, "title")
    return Media("image" if kind == "image" else "document", mime, data, name=name)


def resets(block: Any) -> bool:
    """Whether a block is Anthropic's own compaction: the server drops what stands before. One that failed is not."""
    return word(block, "type") == "compaction" and bool(word(block, "content"))


def mime_of(url: str) -> str:
    """What a data URL says it holds."""
    if url.startswith("data:"):
        return url[5 : url.find(";")] if ";" in url[:100] else ""
    return ""


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, str | Media]]:
    """Every text and every media of the value, with the name of the field it stands in."""
    if isinstance(value, str):
        if value.startswith("data:") and ";base64," in value[:100]:
            kind = mime_of(value).partition("/")[0]
            yield key, Media("image" if kind == "image" else "document", mime_of(value), value)
        else:
            yield key, value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, key)
    elif (fields := _fields(value)) is not None:
        media = read_media(value)
        if media is not None:
            yield "", media
        for name, item in fields.items():
            if not _is_mark(name) and not (media is not None and name in _SHOWN):
                yield from _leaves(item, name)


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of an object; None for what has none."""
    if isinstance(value, Mapping):
        return value if all(isinstance(key, str) for key in value) else {str(key): item for key, item in value.items()}
    return plain(value) if hasattr(value, "model_dump") else None


def _is_mark(key: str) -> bool:
    return key in _NO_TEXT or key.endswith(("_id", "_ids"))


def _edited(value: Any, key: str, on_text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        fixed = key.startswith(_SEALED) or key.endswith(_ADDRESSES) or value.startswith("data:")
        new = value if fixed or not value else on_text(value)
        return value if new == value else new
    if isinstance(value, list | tuple):
        items = [_edited(item, key, on_text) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if (fields := _fields(value)) is None:
        return value
    kept = _CALLED | _SHOWN if read_media(value) is not None else _CALLED
    edited = {k: item if k in kept or _is_mark(k) else _edited(item, k, on_text) for k, item in fields.items()}
    return value if all(edited[k] is item for k, item in fields.items()) else edited


def _bare(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_bare(item) for item in value]
    if (fields := _fields(value)) is None:
        return value
    referred = fields.get("type") == "item_reference" or [*fields] == ["id"]
    marks = _MARKS - {"id"} if referred else _MARKS
    return {key: _bare(item) for key, item in fields.items() if key not in marks and item is not None}
