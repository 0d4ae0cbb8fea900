"""How earlier versions read contents that are now read better: only for the keys of the records they made.

The meaning of a message is part of the key under which a compaction is found again. A message that was read the same
way has the same meaning; for the others `View.older` holds the view of that time, made by each format with what is
here. Nothing else may look at it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unabridged.formats.fields import get, kind_of, word
from unabridged.formats.parts import TEXT_TYPES, Content, read_media
from unabridged.messages import Media, View


class OnceRead(Content):
    """Collects texts and media as earlier versions did; other parts were passed over."""

    def add(self, part: Any) -> None:
        """Take in one part."""
        media = None if isinstance(part, str) else media_once(part)
        if media is not None:
            self.media.append(media)
        elif isinstance(part, str) or kind_of(part) in TEXT_TYPES:
            super().add(part)


def media_once(part: Any) -> Media | None:
    """The media in a part, as far as it was seen: documents made of text too, screenshots and drawn pictures not."""
    kind = word(part, "type")
    if kind in {"computer_screenshot", "image_generation_call"}:
        return None
    if kind not in {"image", "document"}:
        return read_media(part)
    source = get(part, "source") or {}
    data = get(source, "data") or get(source, "url") or get(source, "file_id") or get(source, "content") or ""
    data = data if isinstance(data, str) else OnceRead().add_all(data).text
    return Media("image" if kind == "image" else "document", "", data)


def read_once(view: View, content: Any) -> View:
    """A message of Chat's, or of Responses', as earlier versions read it."""
    found = OnceRead().add_all(content)
    if view.answers:
        answer = replace(view.answers[0], text=found.text)
        return View(view.role, view.origin, "", view.calls, (answer,), tuple(found.media))
    return View(view.role, view.origin, found.text, view.calls, (), tuple(found.media))
