"""Content parts that several formats share: a string, or a list of text, image, sound and file parts and of others.

Only text parts are in the voice of whoever wrote the message. Whatever else has text in it is attached to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from unabridged.formats.attached import content_of, edit_leaves, read_leaves, read_media
from unabridged.formats.base import Unreadable, get, kind_of, listed, plain, text_at, word
from unabridged.messages import Media

CONTENT = "a text, a list of parts or None"
SPOKEN = frozenset({"text", "input_text"})
"""Parts of a `user` message that are its author's own words."""
TEXT_TYPES = SPOKEN | {"output_text", "refusal", "summary_text", "reasoning_text"}


def spoken_by(role: str) -> frozenset[str]:
    """The kinds of parts that are the own words of whoever has this role: what a model writes is no user's."""
    return TEXT_TYPES if role in {"assistant", "tool", "function"} else SPOKEN


class Content(NamedTuple):
    """What a content holds: `text` is its author's own, `every` all that is readable, in order."""

    text: str = ""
    every: str = ""
    media: tuple[Media, ...] = ()
    attached: tuple[str, ...] = ()
    sealed: int = 0
    unread: str = ""


class Parts:
    """Collects what the parts of one content hold."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.attached: list[str] = []
        self.every: list[str] = []
        self.media: list[Media] = []
        self.sealed = 0
        self.others: list[Any] = []
        """Parts that are neither plain text nor plain media: what tells them apart is kept as a digest."""

    def say(self, text: str) -> None:
        """Take in a text of the author's own."""
        if text:
            self.texts.append(text)
            self.every.append(text)

    def add(self, part: Any, spoken: frozenset[str] = TEXT_TYPES) -> None:
        """Take in one part."""
        if isinstance(part, str):
            self.say(part)
        elif (kind := kind_of(part)) in spoken:
            self.say(text_at(part, "text") or text_at(part, "refusal"))
        elif (item := read_media(part)) is not None and not get(part, "context"):
            self.media.append(item)
        else:
            self.attach(part, kind in TEXT_TYPES)

    def attach(self, part: Any, plainly: bool = False) -> None:
        """Take in a part that is nobody's words here; `plainly` when its text is all that it holds."""
        found = read_leaves({"text": get(part, "text") or get(part, "refusal")} if plainly else part)
        if found.text:
            self.attached.append(found.text)
            self.every.append(found.text)
        self.media += found.media
        self.sealed += found.sealed
        self.others.append(part)

    def content(self) -> Content:
        """All of it."""
        return Content(
            "\n".join(self.texts),
            "\n".join(self.every),
            tuple(self.media),
            tuple(self.attached),
            self.sealed,
            content_of(self.others),
        )


def read_content(content: Any, place: str = "content", spoken: frozenset[str] = TEXT_TYPES) -> Content:
    """What a content holds; parts of the kinds in `spoken` are its author's own words."""
    if content is None:
        return Content()
    if isinstance(content, str):
        return Content(content, content)
    return collect(content, place, spoken).content()


def plain_text(content: Any, spoken: frozenset[str] = SPOKEN) -> str | None:
    """The text of a content that holds nothing but its author's own words; None for any other."""
    if type(content) is str:
        return content
    texts = [part["text"] for part in content if part["type"] in spoken]
    plainly = type(content) is list and len(texts) == len(content) and all(type(t) is str and t for t in texts)
    return "\n".join(texts) if plainly else None


def collect(content: Any, place: str = "content", spoken: frozenset[str] = TEXT_TYPES) -> Parts:
    """What the parts of a content hold."""
    found, number = Parts(), 0
    parts = [content] if isinstance(content, str) else listed(content, place, CONTENT)
    try:
        for number, part in enumerate(parts):  # noqa: B007 - the error names it
            found.add(part, spoken)
    except Unreadable as odd:
        raise odd.within(f"{place}[{number}]") from None
    return found


class Hands(NamedTuple):
    """What is done to each kind of piece: an author's own text, the source of a media, a text that is attached."""

    text: Callable[[str], str]
    media: Callable[[str], str]
    attached: Callable[[str], str]
    text_type: str = "text"
    """The kind of part that a media becomes when it is replaced."""
    spoken: frozenset[str] = TEXT_TYPES


def edit_content(content: Any, hands: Hands) -> Any:
    """The content with its pieces edited; the same object when nothing changed."""
    if content is None:
        return None
    if isinstance(content, str):
        new = hands.text(content)
        return content if new == content else new
    parts = [edit_part(part, hands) for part in content]
    if all(new is old for new, old in zip(parts, content, strict=True)):
        return content
    return parts


def edit_part(part: Any, hands: Hands) -> Any:
    """One part, edited; a media part whose source was replaced becomes a text part."""
    if isinstance(part, str):
        new = hands.text(part)
        return part if new == part else new
    if (kind := word(part, "type")) in hands.spoken:
        field = "refusal" if kind == "refusal" else "text"
        old = get(part, field) or ""
        new = hands.text(old) if old else old
        return part if new == old else {**plain(part), field: new}
    media = read_media(part)
    if media is not None and (new := hands.media(media.source)) != media.source:
        return {"type": hands.text_type, "text": new}
    return edit_leaves(part, hands.attached)
