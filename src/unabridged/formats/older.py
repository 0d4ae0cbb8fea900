"""How earlier versions read contents that are now read better: only for the keys of the records they made.

The meaning of a message is part of the key under which a compaction is found again. A message that was read the same
way has the same meaning; for the others `View.older` holds the view of that time, made by each format with these
functions. Nothing else may look at it.
"""

from __future__ import annotations

from typing import Any

from unabridged.formats.fields import get, kind_of, text_at, word
from unabridged.formats.parts import TEXT_TYPES, read_media
from unabridged.messages import Answer, Media, View


def content(value: Any) -> tuple[str, tuple[Media, ...]]:
    """The texts and media of a content; other parts were passed over."""
    texts: list[str] = []
    found: list[Media] = []
    for part in [value] if isinstance(value, str) else value or ():
        if isinstance(part, str):
            texts.append(part)
        elif kind_of(part) in TEXT_TYPES:
            texts.append(text_at(part, "text") or text_at(part, "refusal"))
        elif (item := media(part)) is not None:
            found.append(item)
    return "\n".join(text for text in texts if text), tuple(found)


def media(part: Any) -> Media | None:
    """What was taken for media: documents made of text too, pictures of a computer or a generator not."""
    kind = word(part, "type")
    if kind in {"computer_screenshot", "image_generation_call"}:
        return None
    if kind not in {"image", "document"}:
        return read_media(part)
    source = get(part, "source") or {}
    data = get(source, "data") or get(source, "url") or get(source, "file_id") or get(source, "content") or ""
    return Media("image" if kind == "image" else "document", "", data if isinstance(data, str) else content(data)[0])


def message(view: View, parts: Any) -> View:
    """A message of Chat's, or of Responses'."""
    text, shown = content(parts)
    if view.answers:
        answer = Answer(view.answers[0].call_id, text, view.answers[0].error)
        return View(view.role, view.origin, "", view.calls, (answer,), shown)
    return View(view.role, view.origin, text, view.calls, (), shown)
