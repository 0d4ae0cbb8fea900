"""History in a file of Deep Agents' backend, and the line of a summary turn that names it."""

from __future__ import annotations

import base64
import hashlib
import logging
import mimetypes
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from langchain_core.messages import BaseMessage, get_buffer_string

from unabridged.adapters.kit import Steps, call_method
from unabridged.adapters.langchain.format import SOURCE_KEY, SUMMARY_SOURCE
from unabridged.adapters.langchain.message_names import MessageNames, Messages
from unabridged.formats.fields import are_same_objects

log = logging.getLogger("unabridged")

_FILE_SENTENCE = "What went is also in the file {}."
_NO_FILE_SENTENCE = "What went is in no file."
_FILE_SENTENCE_PATTERN = re.compile(re.escape(_FILE_SENTENCE).replace(r"\{\}", "[^\n]{0,1000}"))


class HistoryFileWriter(NamedTuple):
    """Writes what went to the backend, where the agent's own file tools can read it: one file a thread, appended to.

    Images, sounds and files that messages hold are files of their own beside it, and it names them. The archive has it
    all anyway, so a backend that fails costs a warning and nothing else.
    """

    backend: Any

    @property
    def folder(self) -> str:
        """Return the folder of the files of all threads."""
        return f"{str(getattr(self.backend, 'artifacts_root', '/')).rstrip('/')}/conversation_history"

    def path(self, thread: str) -> str:
        """Return the file of this thread. Two threads never share one, whatever their names are."""
        name = re.sub(r"[^\w.-]|\.(?=\.|$)", "_", thread)[:100]  # backends refuse every path with two dots in a row
        if name != thread:
            name += f"-{hashlib.sha256(thread.encode()).hexdigest()[:12]}"
        return f"{self.folder}/{name}.md"

    def write(self, thread: str, messages: Messages) -> Steps[bool | None]:
        """Append these messages; return whether that was done, None where there is nothing to do."""
        if not messages or self.backend is None:
            return None
        path = self.path(thread)
        try:
            shown = yield from self._put_media_in_files(messages)
            text = f"## Summarized at {datetime.now(UTC).isoformat()}\n\n{get_buffer_string(shown, format='xml')}\n\n"
            files = yield call_method(self.backend, "download_files", [path])
            before = files[0].content.decode() if files and files[0].error is None and files[0].content else ""
            edit, write = ("edit", path, before, before + text), ("write", path, text)
            done = yield call_method(self.backend, *(edit if before else write))
            problem = done.error if done is not None else "the backend said nothing"
        except Exception as error:  # noqa: BLE001 - the backend is the host's
            problem = error
        if problem:
            log.warning("history was not written to %s (%s); the archive has it", path, problem)
        return not problem

    def _put_media_in_files(self, messages: Messages) -> Steps[list[BaseMessage]]:
        """Return the messages with the path of a file in the place of each image, sound or file that they hold."""
        paths: dict[str, str | None] = {}
        new: list[BaseMessage] = []
        for message in messages:
            blocks: list[Any] = [] if isinstance(message.content, str) else list(message.content_blocks)
            inline = {i: found for i, block in enumerate(blocks) if (found := read_inline_data(block))}
            for i, (mime, data) in inline.items():
                if data not in paths:
                    paths[data] = yield from self._upload(mime, data)
                blocks[i] = _build_file_block(mime, paths[data])
            new.append(message.model_copy(update={"content": blocks}) if inline else message)
        return new

    def _upload(self, mime: str, data: str) -> Steps[str | None]:
        """Store what a message holds, in base64, and return where; None, with a warning, where that can't be done."""
        try:
            raw = base64.b64decode(data)
            name = hashlib.sha256(raw).hexdigest()[:16] + (mimetypes.guess_extension(mime) or ".bin")
            path = f"{self.folder}/media/{name}"
            done = yield call_method(self.backend, "upload_files", [(path, raw)])
            problem = done[0].error if done else "the backend said nothing"
        except Exception as error:  # noqa: BLE001 - the backend is the host's
            problem = error
        if problem:
            log.warning("a file of type %s was not stored beside the history (%s); the archive has it", mime, problem)
            return None
        return path


def read_inline_data(block: Any) -> tuple[str, str] | None:
    """Return the type and the base64 of what a standard content block holds itself; None where it holds nothing."""
    mime = str(block.get("mime_type") or "application/octet-stream")
    if block.get("base64"):
        return mime, str(block["base64"])
    head, comma, data = str(block.get("url") or "").partition(",")
    if not head.startswith("data:") or not comma:
        return None
    mime = head.removeprefix("data:").partition(";")[0] or mime
    plain = not head.lower().endswith(";base64")
    return mime, base64.b64encode(unquote_to_bytes(data)).decode() if plain else data


def _build_file_block(mime: str, path: str | None) -> dict[str, str]:
    """Return the content block that names a file, in a shape that the text of the history shows."""
    kind = mime.partition("/")[0]
    if path is None:
        return {"type": "text", "text": f"[{mime}: not stored]"}
    if kind in {"image", "audio", "video"}:
        return {"type": kind, "url": path}
    return {"type": "text", "text": f"[file: {path}]"}


def format_file_line(path: str) -> str:
    """Return the line of a summary turn that names the history file."""
    return _FILE_SENTENCE.format(path)


def remove_file_line(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with summary turns that name no file, for a request where there is none.

    The recorded turn was written before the file. A turn becomes shorter by this, so the request fits as before.
    """

    def edited(message: BaseMessage) -> BaseMessage:
        if message.additional_kwargs.get(SOURCE_KEY) != SUMMARY_SOURCE or not isinstance(message.content, str):
            return message
        text = _FILE_SENTENCE_PATTERN.sub(_NO_FILE_SENTENCE, message.content)
        return message if text == message.content else message.model_copy(update={"content": text})

    new = [edited(message) for message in messages]
    return messages if are_same_objects(new, messages) else new


def find_evicted(state: Messages, before: Messages, after: Messages) -> list[BaseMessage]:
    """Return the messages of the state that the model was shown as they are until now, and no longer is."""
    names = MessageNames(state, before, after)
    shown, stays = ({names(m): m for m in messages} for messages in (before, after))

    def same(there: dict[str | None, BaseMessage], message: BaseMessage) -> bool:
        other = there.get(names(message))
        return other is message or other == message

    originals = [m for m in state if m.additional_kwargs.get(SOURCE_KEY) != SUMMARY_SOURCE]
    return [m for m in originals if same(shown, m) and not same(stays, m)]
