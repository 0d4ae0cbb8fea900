"""The marks by which a summary turn, a shortened text and a stub name their record."""

from __future__ import annotations

import re

_MARK = re.compile(r"(?:\[unabridged (?:summary )?|; record )([0-9a-f]{12})\b")


def ids_in(text: str) -> list[str]:
    """The ids of the records that a text names. Names prove nothing: the archive decides which to trust."""
    return _MARK.findall(text) if "[unabridged " in text or "; record " in text else []


def without_ids(text: str) -> str:
    """The text without the ids in our marks: they are no names of the conversation's."""
    return _MARK.sub("", text) if ids_in(text) else text
