"""Reading the parts of a request and of a response, and editing their texts in place.

The `part_kind` says which part it is, so that parts of a newer version are read too: as something attached.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, get_args

from pydantic_ai.messages import BinaryContent, CachePoint, FileUrl, TextContent, TextPart, UploadedFile
from pydantic_core import to_jsonable_python

from unabridged.formats.base import Edit, Slot
from unabridged.formats.fields import Unreadable, are_same_objects, as_json, parse_call_arguments
from unabridged.formats.parts import MessageContent, edit_leaves, find_media_kind
from unabridged.messages import Answer, Call, Media, MediaKind, Reasoning

NOTE_KINDS = frozenset({
    "tool-availability-delta", "capability-load-delta", "model-settings-delta", "instruction-baseline",
})  # fmt: skip
"""Parts of a request that the framework keeps for itself: no model reads their text."""
PROMPT_KINDS = NOTE_KINDS | {"system-prompt"}
"""The same and what the system says: a request of nothing else is nobody's turn."""
FAILED_OUTCOMES = frozenset({"failed", "retried", "interrupted"})

_URL_KINDS: dict[str, MediaKind] = {f"{kind}-url": kind for kind in get_args(MediaKind)}


class Parts(MessageContent):
    """Collects what the parts of one message hold."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[str] = []
        """System prompts of the application's."""
        self.host_texts: list[str] = []
        """Texts of the framework or of a foreign compaction in the user's place."""

    def add(self, part: Any) -> None:
        """Take in one item of a user's content."""
        if isinstance(part, str):
            self.add_text(part)
        elif isinstance(part, TextContent):
            self.add_text(part.content)
        elif (media := read_item_media(part)) is not None:
            self.media.append(media)
        elif not isinstance(part, CachePoint):
            self.attach_part(part)

    def add_message_part(self, part: Any, *, model: bool) -> None:
        """Take in one part of a request, or of a model's response."""
        kind = part.part_kind
        if kind in {"text", "speech"}:
            self.add_text(part.content or "")
            self.media += [media for media in [read_item_media(getattr(part, "audio", None))] if media]
        elif kind == "user-prompt":
            self.add_all(part.content if isinstance(part.content, str) else list(part.content))
        elif is_answer(part):
            failed = getattr(part, "outcome", "failed") in FAILED_OUTCOMES
            self.answers.append(Answer(part.tool_call_id, answer_text(part), failed))
            self.media += [media for media in map(read_item_media, getattr(part, "files", ())) if media]
        elif kind == "tool-call":
            self.calls.append(Call(part.tool_call_id, part.tool_name, call_text(part)))
        elif kind == "thinking":
            self.reasoning.append(Reasoning(part.content or "", part.signature or ""))
        elif kind == "system-prompt":
            self.prompts.append(part.content)
        elif kind == "file":
            self.media += [media for media in [read_item_media(part.content)] if media]
        elif kind in {"retry-prompt", "retry-feedback"} or (kind == "compaction" and not model):
            self.host_texts.append(host_text(part))
        elif kind not in NOTE_KINDS:
            self._attach_provider_part(part, kind)

    def _attach_provider_part(self, part: Any, kind: str) -> None:
        """Take in a provider's own tool or compaction, or a part that this version does not know."""
        if kind == "compaction":
            self.opaque = True
            self.resets = self.resets or bool(part.content or part.provider_details)
        self.attach_part(part)

    def attach_part(self, part: Any) -> None:
        """Take in a part that is nobody's words here."""
        self.add_attached(to_shown_data(part))


def to_shown_data(part: Any) -> dict[str, Any]:
    """Return a part as plain data: what a model is shown of it, and what tells it apart from others of its kind."""
    fields = {key: value for key, value in vars(part).items() if value is not None and key not in _IGNORED_FIELDS}
    shown: dict[str, Any] = to_jsonable_python(fields, fallback=str, bytes_mode="base64")
    return shown


_IGNORED_FIELDS = frozenset({
    "timestamp", "metadata", "otel_metadata", "part_kind", "kind", "provider_name", "tool_call_id", "id", "outcome",
})  # fmt: skip
"""Fields that no model is shown, or that may differ where a part is the same."""


def is_answer(part: Any) -> bool:
    """Return whether it answers a call; a retry may be about a response as a whole."""
    return part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and part.tool_name is not None)


def answer_text(part: Any) -> str:
    """Return what a tool answered, as the model reads it."""
    if part.part_kind == "retry-prompt":
        return str(part.model_response())
    return part.content if isinstance(part.content, str) else str(part.model_response_str(wrap_if_error=False))


def host_text(part: Any) -> str:
    """Return what the framework, or the author of a foreign summary, says."""
    if part.part_kind == "compaction":
        return part.content or ""
    return part.content if isinstance(part.content, str) else str(part.model_response())


def call_text(part: Any) -> str:
    """Return the arguments of a call as the model wrote them."""
    return as_json({} if part.args is None else part.args)


def read_item_media(item: Any) -> Media | None:
    """Return the image, sound, film or document that an item of a content is; None for anything else."""
    detail = str((getattr(item, "vendor_metadata", None) or {}).get("detail") or "")
    if isinstance(item, BinaryContent):
        return Media(find_media_kind(item.media_type), item.media_type, item.base64, detail)
    if isinstance(item, UploadedFile):
        return Media(find_media_kind(item.media_type), item.media_type, item.file_id)
    if isinstance(item, FileUrl):
        mime = ""
        with suppress(ValueError):  # an address that does not tell
            mime = item.media_type
        return Media(_URL_KINDS.get(str(getattr(item, "kind", "")), find_media_kind(mime)), mime, item.url, detail)
    return None


# -- edited copies ----------------------------------------------------------------------------------------------------


def edit_part(part: Any, edit: Edit, *, host: Slot) -> Any:
    """Return the part with its pieces run through `edit`, the framework's words as `host`; itself when unchanged."""
    kind = part.part_kind
    if kind in _EDITORS:
        return _EDITORS[kind](part, edit)
    if (kind == "compaction" and part.provider_name is None) or kind == "retry-feedback":
        content = part.content
        return _replace_field(part, "content", edit(host, content) if content and isinstance(content, str) else content)
    return part


def _replace_field(part: Any, field: str, value: Any) -> Any:
    old = getattr(part, field)
    return part if value is old or value == old else replace(part, **{field: value})


def _edit_content_field(part: Any, edit: Edit) -> Any:
    return _replace_field(part, "content", _edit_content(part.content, edit))


def _edit_file(part: Any, edit: Edit) -> Any:
    shown = _edit_item(part.content, edit)
    return TextPart(shown) if isinstance(shown, str) else part


def _edit_builtin_result(part: Any, edit: Edit) -> Any:
    return _replace_field(part, "content", edit_leaves(part.content, lambda text: edit(Slot("attached"), text)))


def _edit_text(text: str, edit: Edit) -> str:
    return edit(Slot("text"), text) if text else text


def _edit_content(content: Any, edit: Edit) -> Any:
    if isinstance(content, str):
        return _edit_text(content, edit)
    items = [_edit_item(item, edit) for item in content]
    return content if are_same_objects(items, content) else items


def _edit_item(item: Any, edit: Edit) -> Any:
    """Return one item of a user's content; a media whose source was replaced becomes a text."""
    if isinstance(item, str):
        new = _edit_text(item, edit)
        return item if new == item else new
    if isinstance(item, TextContent):
        new = _edit_text(item.content, edit)
        return item if new == item.content else TextContent(new, metadata=item.metadata)
    media = read_item_media(item)
    new = edit(Slot("media"), media.source) if media is not None else ""
    return item if media is None or new == media.source else new


def _edit_answer(part: Any, edit: Edit) -> Any:
    """Return a result; one that the framework itself reads again (a search for tools, a loaded capability) stays."""
    if part.tool_kind:
        return part
    old = answer_text(part)
    new = edit(Slot("answer", part.tool_call_id), old) if old else old
    files = [_edit_item(file, edit) for file in part.files]
    if new == old and are_same_objects(files, part.files):
        return part
    text = "\n".join(one for one in (new, *files) if isinstance(one, str) and one)
    kept = [file for file in files if not isinstance(file, str)]
    return replace(part, content=[*([text] if text else []), *kept] if kept else text)


def _edit_call(part: Any, edit: Edit) -> Any:
    if part.tool_kind:
        return part
    old = call_text(part)
    new = edit(Slot("call", part.tool_call_id), old)
    if new == old:
        return part
    return replace(part, args=new if isinstance(part.args, str) else parse_call_arguments(new))


_EDITORS: dict[str, Callable[[Any, Edit], Any]] = {
    "user-prompt": _edit_content_field,
    "text": _edit_content_field,
    "speech": lambda part, edit: _replace_field(part, "transcript", _edit_text(part.transcript, edit)),
    "file": _edit_file,
    "tool-return": _edit_answer,
    "tool-call": _edit_call,
    "builtin-tool-return": _edit_builtin_result,
}


def read_parts(message: Any) -> list[Any]:
    """Return the parts of a message; raise `Unreadable` for one that has no list of parts."""
    parts = message.parts
    if not isinstance(parts, list | tuple):
        raise Unreadable("parts", parts, "a list of parts")
    return list(parts)
