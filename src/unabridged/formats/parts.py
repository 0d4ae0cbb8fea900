"""Content parts that several formats share: a string, or a list of text, image, sound and file parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unabridged.formats.base import Unreadable, get, kind_of, listed, plain, text_at, word
from unabridged.messages import Media

CONTENT = "a text, a list of parts or None"
TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text"})


def read_content(content: Any, place: str = "content") -> tuple[str, tuple[Media, ...]]:
    """All text of a content, paragraphs apart, and its media."""
    if content is None:
        return "", ()
    if isinstance(content, str):
        return content, ()
    texts: list[str] = []
    media: list[Media] = []
    parts, number = listed(content, place, CONTENT), 0
    try:
        for number, part in enumerate(parts):  # noqa: B007 - the error names it
            if isinstance(part, str):
                texts.append(part)
                continue
            kind = kind_of(part)
            if kind in TEXT_TYPES:
                texts.append(text_at(part, "text") or text_at(part, "refusal"))
            elif (item := read_media(part)) is not None:
                media.append(item)
    except Unreadable as odd:
        raise odd.within(f"{place}[{number}]") from None
    return "\n".join(text for text in texts if text), tuple(media)


def read_media(part: Any) -> Media | None:
    """The image, sound or document in a content part of OpenAI's or Anthropic's, else None."""
    kind = word(part, "type")
    if kind == "image_url":
        image = get(part, "image_url")
        image = {"url": image} if isinstance(image, str) else image
        url = text_at(image, "url")
        return Media("image", _mime(url), url, text_at(image, "detail"))
    if kind == "input_image":
        url = text_at(part, "image_url") or text_at(part, "file_id")
        return Media("image", _mime(url), url, text_at(part, "detail"))
    if kind == "input_audio":
        audio = get(part, "input_audio") or part
        return Media("audio", f"audio/{text_at(audio, 'format') or 'wav'}", text_at(audio, "data"))
    if kind in {"file", "input_file"}:
        file = get(part, "file") or part
        data = text_at(file, "file_data") or text_at(file, "file_url") or text_at(file, "file_id")
        return Media("document", _mime(data) or "application/pdf", data, name=text_at(file, "filename"))
    if kind in {"image", "document"}:
        source = get(part, "source") or {}
        data = get(source, "data") or get(source, "url") or get(source, "file_id") or get(source, "content") or ""
        if not isinstance(data, str):  # a document made of text blocks
            data = read_content(data, "source")[0]
        return Media(
            "image" if kind == "image" else "document",
            text_at(source, "media_type"),
            data,
            name=text_at(part, "title"),
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
    if (kind := word(part, "type")) in TEXT_TYPES:
        field = "refusal" if kind == "refusal" else "text"
        old = get(part, field) or ""
        new = on_text(old) if old else old
        return part if new == old else {**plain(part), field: new}
    media = read_media(part)
    if media is None:
        return part
    new = on_media(media.source)
    return part if new == media.source else {"type": text_type, "text": new}


def _mime(url: str) -> str:
    if url.startswith("data:"):
        return url[5 : url.find(";")] if ";" in url[:100] else ""
    return ""
