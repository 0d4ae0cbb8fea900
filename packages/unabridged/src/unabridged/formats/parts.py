"""Read and edit the content of a message, in every shape that providers have for it: a string, or a list of parts.

Only text parts are in the voice of whoever wrote the message. Whatever else has text in it is attached to it: pages,
documents, results of a provider's own tools. Such a part is read leaf by leaf, whatever its shape: its texts, its
media, and how much of it only the provider can read. `edit_leaves` changes those texts where they stand, so that a
shortened page is still a page and never becomes somebody's words. `compute_digest` tells parts apart by everything but
ids and marks.

Encrypted content (a web search's pages, a code's output) is sealed: it is counted by its length, since the provider
charges for what is in it, and is never searched or changed. Citations are not charged and are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple, Self, cast

from unabridged.formats import fields
from unabridged.formats.base import Edit, Slot
from unabridged.formats.fields import Unreadable, are_same_objects, get, to_plain_dict, with_field
from unabridged.messages import Answer, Call, Media, MediaKind, Origin, Reasoning, Role, View

ROLES: dict[str, tuple[Role, Origin]] = {
    "system": ("system", "host"),
    "developer": ("system", "host"),
    "user": ("user", "person"),
    "assistant": ("assistant", "model"),
}
"""Where in the protocol a message of OpenAI's stands, and whose words it is, by the role it names."""
SPOKEN_TYPES = frozenset({"text", "input_text"})
"""Parts of a `user` message that are its author's own words."""
TEXT_TYPES = SPOKEN_TYPES | {"output_text", "refusal", "summary_text", "reasoning_text"}


def find_spoken_types(role: str) -> frozenset[str]:
    """Return the types of parts that are a role's own words: only a model's or a tool's may be `output_text`."""
    return TEXT_TYPES if role in {"assistant", "tool", "function"} else SPOKEN_TYPES


def find_missing_fields(message: Any) -> Iterator[str]:
    """Yield the fields that are not there in the parts of a content: each has its type, and one of text its text."""
    for place, part in fields.enumerate_items(message, "content"):
        yield from fields.find_absent(part, "type", at=place)
        if (kind := fields.read_word(part, "type")) in TEXT_TYPES:
            yield from fields.find_absent(part, "refusal" if kind == "refusal" else "text", at=place)


class MessageContent:
    """What the parts of a message hold, collected in one walk; parts of the `spoken` types are its author's words.

    A format reads a message into one, and a `View` is made of it.
    """

    def __init__(self, spoken: frozenset[str] = TEXT_TYPES) -> None:
        self.spoken = spoken
        self.texts: list[str] = []
        self.attached: list[str] = []
        self.every: list[str] = []
        """All that is readable, in order."""
        self.calls: list[Call] = []
        self.answers: list[Answer] = []
        self.media: list[Media] = []
        self.reasoning: list[Reasoning] = []
        self.sealed = 0
        self.others: list[Any] = []
        """Parts that are neither plain text nor plain media: what tells them apart is kept as a digest."""
        self.opaque = self.resets = False

    def add_all(self, content: Any, place: str = "content") -> Self:
        """Take in a whole content; an odd part is refused by its place."""
        if content is None or isinstance(content, str):
            self.add_text(content or "")
            return self
        if not isinstance(content, list | tuple):
            raise Unreadable(place, content, "a text, a list of parts or None")
        fields.read_each(content, self.add, place)
        return self

    def add(self, part: Any) -> None:
        """Take in one part."""
        if isinstance(part, str):
            self.add_text(part)
        elif (kind := fields.read_type(part)) in self.spoken:
            self.add_text(fields.read_text(part, "text") or fields.read_text(part, "refusal"))
        elif (item := self.read_media(part)) is not None and not get(part, "context"):
            self.media.append(item)
        else:
            self.add_attached(part, plainly=kind in TEXT_TYPES)

    def add_text(self, text: str) -> None:
        """Take in a text of the author's own."""
        if text:
            self.texts.append(text)
            self.every.append(text)

    def add_attached(self, part: Any, *, plainly: bool = False) -> None:
        """Take in a part that is nobody's words here; `plainly` when its text is all that it holds."""
        texts: list[str] = []
        for key, leaf in _iterate_leaves({"text": get(part, "text") or get(part, "refusal")} if plainly else part):
            if isinstance(leaf, Media):
                self.media.append(leaf)
            elif key.startswith(_ENCRYPTED_PREFIX):
                self.sealed += len(leaf)
            elif leaf:
                texts.append(leaf)
        if texts:
            self.attached.append("\n".join(texts))
            self.every.append(self.attached[-1])
        self.others.append(part)

    def add_answer(self, call_id: str, inner: MessageContent, *, is_error: bool = False) -> None:
        """Take in the result of a call: all that is readable in it is the tool's."""
        self.answers.append(Answer(call_id, inner.all_text, is_error))
        self.media += inner.media
        self.sealed += inner.sealed
        self.others += inner.others

    def read_media(self, part: Any) -> Media | None:
        """Return the media that the part is; a format with shapes of its own has its own."""
        return read_media(part)

    @property
    def text(self) -> str:
        """Return the author's own words."""
        return "\n".join(self.texts)

    @property
    def all_text(self) -> str:
        """Return all that is readable."""
        return "\n".join(self.every)

    @property
    def has_only_answers(self) -> bool:
        """Return whether there are results and no words of the author's beside them."""
        return bool(self.answers) and not self.texts

    def build_answer_view(self, call_id: str, *, is_error: bool = False) -> View:
        """Return the view of a tool's message: all that is readable in it answers the call."""
        answers, media = (Answer(call_id, self.all_text, is_error),), tuple(self.media)
        return View("tool", "tool", "", (), answers, media, (), (), (), "", self.sealed, compute_digest(self.others))

    def build_view(self, role: Role, origin: Origin, *, speaker: str = "") -> View:
        """Return the view of a message that holds this."""
        texts = self.texts
        block_starts = tuple(accumulate(len(text) + 1 for text in texts[:-1])) if len(texts) > 1 else ()
        return View(  # by place: names would cost half as much again
            role, origin, "\n".join(texts), tuple(self.calls), tuple(self.answers), tuple(self.media),
            tuple(self.reasoning), tuple(self.attached), (), speaker, self.sealed, compute_digest(self.others),
            self.opaque, self.resets, False, block_starts,
        )  # fmt: skip


class Editor(NamedTuple):
    """Runs the pieces of a content through an edit: an author's own texts, sources of media, attached texts."""

    edit: Edit
    text: Slot = Slot("text")
    attached: Slot = Slot("attached")
    spoken: frozenset[str] = TEXT_TYPES
    text_type: str = "text"
    """The kind of part that a media becomes when it is replaced."""

    def content(self, content: Any) -> Any:
        """Return the content, edited; the same object when nothing changed."""
        if content is None or isinstance(content, str):
            return content and self._edit_own_text(content)
        parts = [self.edit_part(part) for part in content]
        return content if are_same_objects(parts, content) else parts

    def edit_part(self, part: Any) -> Any:
        """Return one part, edited; a media part whose source was replaced becomes a text part."""
        if isinstance(part, str):
            return self._edit_own_text(part)
        if (kind := fields.read_word(part, "type")) in self.spoken:
            field = "refusal" if kind == "refusal" else "text"
            old = get(part, field)
            return with_field(part, field, self._edit_own_text(old)) if old else part
        return self.edit_other_part(part, read_media(part))

    def edit_other_part(self, part: Any, media: Media | None) -> Any:
        """Return, edited, a part that is no text of the author's, and the media that it is, if it is one."""
        if media is not None and (new := self.edit(Slot("media"), media.source)) != media.source:
            return {"type": self.text_type, "text": new}
        if media is not None and not get(part, "context"):
            return part
        return edit_leaves(part, lambda text: self.edit(self.attached, text))

    def _edit_own_text(self, text: str) -> str:
        new = self.edit(self.text, text)
        return text if new == text else new


_FIELDS_WITHOUT_TEXT = frozenset(
    {"type", "id", "role", "status", "cache_control", "citations", "signature", "caller", "fingerprint",
     "media_type", "mime_type"}
)  # fmt: skip
"""Fields of blocks that are no text: how a block is addressed, marked or sealed."""
_ADDRESS_FIELDS = ("url", "uri", "name", "source", "path")
"""Ends of the names of fields that are taken as they are or not at all: counted, never shortened."""
_CALL_FIELDS = frozenset({"arguments", "input", "code", "action", "queries"})
"""What a provider's own tool was called with: counted, never shortened."""
_IDENTIFIER_FIELDS = frozenset({"id", "tool_use_id", "call_id", "cache_control", "status", "caller", "created_by"})
"""Fields that may differ where the content is the same."""
_ENCRYPTED_PREFIX = "encrypted_"
_SHOWN_FIELDS = frozenset({
    "source", "title", "url", "image_url", "file", "input_audio", "file_data", "file_url", "filename", "detail",
    "result", "output_format",
})  # fmt: skip
"""Fields of a media part that its `Media` holds."""


def compute_digest(blocks: list[Any]) -> str:
    """Return a digest of these blocks without their ids and marks; "" when there are none."""
    if not blocks:
        return ""
    bare = json.dumps(_remove_identifiers(blocks), sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(bare.encode()).hexdigest()


def read_media(part: Any) -> Media | None:
    """Return the image, sound or document in a part of OpenAI's or Anthropic's; None where there is none."""
    kind = fields.read_word(part, "type")
    if kind == "image_url":
        image = get(part, "image_url")
        image = {"url": image} if isinstance(image, str) else image
        source = fields.read_text(image, "url")
        return Media("image", read_mime_type(source), source, fields.read_text(image, "detail"))
    if kind in {"input_image", "computer_screenshot"}:
        source = fields.read_text(part, "image_url") or fields.read_text(part, "file_id")
        return Media("image", read_mime_type(source), source, fields.read_text(part, "detail"))
    if kind == "image_generation_call":
        drawn = fields.read_text(part, "result")
        return Media("image", f"image/{fields.read_word(part, 'output_format') or 'png'}", drawn) if drawn else None
    if kind == "input_audio":
        audio = get(part, "input_audio") or part
        return Media("audio", f"audio/{fields.read_text(audio, 'format') or 'wav'}", fields.read_text(audio, "data"))
    if kind in {"file", "input_file"}:
        file = get(part, "file") or part
        data, name = _read_first_text(file, "file_data", "file_url", "file_id"), fields.read_text(file, "filename")
        return Media("document", read_mime_type(data) or "application/pdf", data, name=name)
    return _read_source(part, kind) if kind in {"image", "document"} else None


def _read_first_text(holder: Any, *keys: str) -> str:
    """Return the first of these fields that holds a text."""
    return next(filter(None, (fields.read_text(holder, key) for key in keys)), "")


def _read_source(part: Any, kind: str) -> Media | None:
    """Return an image or document with a `source`; None where that is text or a list of blocks."""
    source = get(part, "source") or {}
    if fields.read_word(source, "type") in {"text", "content"} or not isinstance(get(source, "content") or "", str):
        return None
    data = _read_first_text(source, "data", "url", "file_id", "content")
    data = data or fields.read_text(part, "url")  # what a code interpreter drew
    mime, name = fields.read_text(source, "media_type"), fields.read_text(part, "title")
    return Media("image" if kind == "image" else "document", mime, data, name=name)


def find_media_kind(mime: str) -> MediaKind:
    """Return the kind of media with this MIME type; a document where it is no image, sound or film."""
    kind = mime.partition("/")[0]
    return cast("MediaKind", kind) if kind in {"image", "audio", "video"} else "document"


def read_mime_type(url: str) -> str:
    """Return the kind of data in a data URL; "" for any other address."""
    return url[5 : url.find(";")] if url.startswith("data:") and ";" in url[:100] else ""


def _iterate_leaves(value: Any, key: str = "") -> Iterator[tuple[str, str | Media]]:
    """Yield every text and every media of the value, with the name of the field it stands in."""
    if isinstance(value, str):
        if value.startswith("data:") and ";base64," in value[:100]:
            kind = read_mime_type(value).partition("/")[0]
            yield key, Media("image" if kind == "image" else "document", read_mime_type(value), value)
        else:
            yield key, value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _iterate_leaves(item, key)
    elif (inner := _read_fields(value)) is not None:
        media = read_media(value)
        if media is not None:
            yield "", media
        for name, item in inner.items():
            if not _is_metadata_field(name) and not (media is not None and name in _SHOWN_FIELDS):
                yield from _iterate_leaves(item, name)


def _read_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of an object; None for what has none."""
    if isinstance(value, Mapping):
        return value if all(isinstance(key, str) for key in value) else {str(key): item for key, item in value.items()}
    return to_plain_dict(value) if hasattr(value, "model_dump") else None


def _is_metadata_field(key: str) -> bool:
    return key in _FIELDS_WITHOUT_TEXT or key.endswith(("_id", "_ids"))


def edit_leaves(value: Any, on_text: Callable[[str], str], key: str = "") -> Any:
    """Return the value of the field `key` with its texts edited where they stand; itself when nothing changed."""
    if isinstance(value, str):
        fixed = key.startswith(_ENCRYPTED_PREFIX) or key.endswith(_ADDRESS_FIELDS) or value.startswith("data:")
        new = value if fixed or not value else on_text(value)
        return value if new == value else new
    if isinstance(value, list | tuple):
        items = [edit_leaves(item, on_text, key) for item in value]
        return value if are_same_objects(items, value) else items
    if (inner := _read_fields(value)) is None:
        return value
    kept = _CALL_FIELDS | _SHOWN_FIELDS if read_media(value) is not None else _CALL_FIELDS
    kept = kept.union(filter(_is_metadata_field, inner))
    edited = {name: item if name in kept else edit_leaves(item, on_text, name) for name, item in inner.items()}
    return value if are_same_objects([*edited.values()], [*inner.values()]) else edited


def _remove_identifiers(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_remove_identifiers(item) for item in value]
    if (inner := _read_fields(value)) is None:
        return value
    referred = inner.get("type") == "item_reference" or [*inner] == ["id"]
    marks = _IDENTIFIER_FIELDS - {"id"} if referred else _IDENTIFIER_FIELDS
    return {key: _remove_identifiers(item) for key, item in inner.items() if key not in marks and item is not None}
