"""Content parts that several formats share: a string, or a list of text, image, sound and file parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unabridged.formats.base import get, plain
from unabridged.messages import Media

TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text"})


def read_content(content: Any) -> tuple[str, tuple[Media, ...]]:
    """All text of a content, paragraphs apart, and its media."""
    if content is None:
        return "", ()
    if isinstance(content, str):
        return content, ()
    texts: list[str] = []
    media: list[Media] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = get(part, "type")
        if kind in TEXT_TYPES:
            texts.append(get(part, "text") or get(part, "refusal") or "")
        elif (item := read_media(part)) is not None:
            media.append(item)
    return "\n".join(text for text in texts if text), tuple(media)


def read_media(part: Any) -> Media | None:
    """The image, sound or document in a content part of OpenAI's or Anthropic's, else None."""
    kind = get(part, "type")
    if kind == "image_url":
        image = get(part, "image_url")
        url = image if isinstance(image, str) else get(image, "url", "")
        return Media("image", _mime(url), url or "", "" if isinstance(image, str) else get(image, "detail") or "")
    if kind == "input_image":
        url = get(part, "image_url") or get(part, "file_id") or ""
        return Media("image", _mime(url), url, get(part, "detail") or "")
    if kind == "input_audio":
        audio = get(part, "input_audio") or part
        return Media("audio", f"audio/{get(audio, 'format') or 'wav'}", get(audio, "data") or "")
    if kind in {"file", "input_file"}:
        file = get(part, "file") or part
        data = get(file, "file_data") or get(file, "file_url") or get(file, "file_id") or ""
        return Media("document", _mime(data) or "application/pdf", data, name=get(file, "filename") or "")
    if kind in {"image", "document"}:
        source = get(part, "source") or {}
        data = get(source, "data") or get(source, "url") or get(source, "file_id") or ""
        if not isinstance(data, str):  # a document made of text blocks
            data = read_content(data)[0]
        return Media(
            "image" if kind == "image" else "document",
            get(source, "media_type") or "",
            data,
            name=get(part, "title") or "",
        )
    return None


def edit_content(content: Any, on_text: Callable[[str], str], on_media: Callable[[str], str], text_type: str) -> Any:
    """The content with its texts and media edited; the same object when nothing changed."""
    if content is None:
        return None
    if isinstance(content, str):
        new = on_text(content)
        return content if new == content else new
    parts = [edit_part(part, on_text, on_media, text_type) for part in content]
    if all(new is old for new, old in zip(parts, content, strict=True)):
        return content
    return parts


def edit_part(part: Any, on_text: Callable[[str], str], on_media: Callable[[str], str], text_type: str) -> Any:
    """One part, edited; a media part whose source was replaced becomes a text part."""
    if isinstance(part, str):
        new = on_text(part)
        return part if new == part else new
    if get(part, "type") in TEXT_TYPES:
        field = "refusal" if get(part, "type") == "refusal" else "text"
        old = get(part, field) or ""
        new = on_text(old) if old else old
        return part if new == old else {**plain(part), field: new}
    media = read_media(part)
    if media is None:
        return part
    new = on_media(media.source)
    return part if new == media.source else {"type": text_type, "text": new}


def _mime(url: str | None) -> str:
    if url and url.startswith("data:"):
        return url[5 : url.find(";")] if ";" in url[:100] else ""
    return ""
