"""A session file as it grows: each line that is a message, from where the last reading stopped.

Nothing is joined and nothing is followed back: a line is a message, and its number among them is its turn, in every
reading the same. So what is new costs what is new, however long the file is; and what a client took back, or left on
another branch, is there as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unabridged_cli.clients.threads import build_session_thread

if TYPE_CHECKING:
    from unabridged.messages import Origin

_DIGEST_BYTES: Final = 4_096
"""Bytes before a position in the file by which it is recognised: lines have ids and times."""
_PROBED_LINES: Final = 50
"""Lines by which the client of a file is recognised."""
_PROJECT_BYTES: Final = 1 << 18
"""Bytes at the beginning of a file in which a session says where it is."""
_BLANK_BYTES: Final = b" \t\r\n\0"
"""What a line without a word in it is made of; a crash may leave NULs."""
_OUR_TEXTS_BEGIN: Final = "[unabridged"
"""How every text begins that we put into a conversation."""

Message = dict[str, Any]
MessageAndOrigin = tuple[Message, "Origin | None"]
"""A message, and whose words it is where its line says so."""


class TranscriptMessage(NamedTuple):
    """One message of a session, whose words it is where the file says so, and where its line begins and ends."""

    message: Message
    origin: Origin | None
    start: int
    end: int

    @property
    def size(self) -> int:
        """Return the bytes of its line."""
        return self.end - self.start


class FilePosition(NamedTuple):
    """How far a file was read: so many bytes, so many messages; `digest` is of the bytes just before."""

    offset: int = 0
    turn: int = 0
    digest: str = ""

    @classmethod
    def from_json(cls, facts: Any) -> FilePosition:
        """Return the position that a record has as plain data; the beginning for anything else."""
        try:
            return cls(int(facts["offset"]), int(facts["turn"]), str(facts["digest"]))
        except (TypeError, KeyError, ValueError):
            return cls()


class TranscriptKind(NamedTuple):
    """How the lines of one client are recognised and read."""

    client: str
    format: str
    """Name of the wire format of its messages."""
    recognises: Callable[[dict[str, Any]], bool]
    read: Callable[[dict[str, Any]], MessageAndOrigin | None]
    """Returns the message of a line; None for a line without one."""
    is_lasting: bool = True
    """Whether its file stays when the hook is done."""


class HookSession(NamedTuple):
    """A session that a hook was called for."""

    kind: TranscriptKind
    id: str
    path: Path
    namespace: str = ""
    """Whose session it is, in the archive; empty for the default one."""
    project: str = ""
    """The folder that the event names, for a client that names none in its file."""

    @property
    def thread(self) -> str:
        """Return its name in the archive."""
        return build_session_thread(self.kind.client, self.id)


def build_position(path: Path, offset: int, turn: int) -> FilePosition:
    """Return the position at this offset, with a digest of the bytes before it."""
    return FilePosition(offset, turn, _hash_bytes_before(path, offset))


def matches_position(path: Path, position: FilePosition) -> bool:
    """Return whether the file up to this position is unchanged; it may have grown after it."""
    if position.offset == 0:
        return True
    try:
        is_long_enough = path.stat().st_size >= position.offset
        return is_long_enough and _hash_bytes_before(path, position.offset) == position.digest
    except OSError:
        return False


def _hash_bytes_before(path: Path, offset: int) -> str:
    with path.open("rb") as stream:
        stream.seek(max(offset - _DIGEST_BYTES, 0))
        return sha256(stream.read(min(offset, _DIGEST_BYTES))).hexdigest()


def detect_transcript_kind(path: Path) -> TranscriptKind | None:
    """Return whose session file this is, by its first lines; None for one that we don't know."""
    lines = read_json_lines(path, _PROBED_LINES)
    return next((kind for line in lines for kind in TRANSCRIPT_KINDS if kind.recognises(line)), None)


def read_json_lines(path: Path, count: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield every line that is a JSON object, among the first so many."""
    with path.open("rb") as stream:
        yield from filter(None, map(parse_line, islice(stream, count)))


def read_project(path: Path) -> str:
    """Return the folder that the beginning of the file says the client works in; empty when it says none."""
    with path.open("rb") as stream:
        while stream.tell() < _PROJECT_BYTES and (raw := stream.readline(_PROJECT_BYTES - stream.tell())):
            line = (parse_line(raw) or {}) if b'"cwd"' in raw else {}
            for holder in (line, line.get("payload")):
                folder = holder.get("cwd") if isinstance(holder, dict) else None
                if folder and isinstance(folder, str):
                    return folder
    return ""


def parse_line_time(line: dict[str, Any]) -> float | None:
    """Return when a line was written (Unix time), where it says so."""
    with suppress(KeyError, TypeError, ValueError, OverflowError):
        written = datetime.fromisoformat(line["timestamp"])
        return (written if written.tzinfo else written.replace(tzinfo=UTC)).timestamp()
    return None


def read_messages_from(path: Path, kind: TranscriptKind, offset: int) -> Iterator[TranscriptMessage]:
    """Yield every message whose line begins at `offset` or behind it.

    The last line is left for the next time if it does not end: the client may be about to write the rest of it.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(offset)
        for raw in stream:
            start, offset = offset, offset + len(raw)
            if offset > size or not raw.endswith(b"\n"):
                return
            message = _read_message(raw, kind)
            if message is not None:
                yield TranscriptMessage(*message, start, offset)


def read_message_line(path: Path, message: TranscriptMessage) -> bytes:
    """Return the line of a message, as it is in the file."""
    with path.open("rb") as stream:
        stream.seek(message.start)
        return stream.read(message.size)


def to_text_message(raw: bytes) -> Message:
    """Return a line that can't be read as a user message that contains the line's raw text."""
    return {"role": "user", "content": raw.decode("utf-8", "backslashreplace").strip()}


def _read_message(raw: bytes, kind: TranscriptKind) -> MessageAndOrigin | None:
    """Return the message of a line. One that its client did not write like this is the host's, and not lost."""
    line = parse_line(raw)
    if line is not None:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            return kind.read(line)
    return (to_text_message(raw), "host") if raw.strip(_BLANK_BYTES) else None


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object on a line; None for anything else."""
    with suppress(ValueError, RecursionError):
        line = json.loads(raw)
        return line if isinstance(line, dict) else None
    return None


# -- Claude Code -------------------------------------------------------------------------------------------------------


def _is_claude_code_line(line: dict[str, Any]) -> bool:
    has_ids = not {"sessionId", "parentUuid", "leafUuid", "isSidechain"}.isdisjoint(line)
    return isinstance(line.get("type"), str) and (has_ids or line["type"] == "file-history-snapshot")


def _read_claude_code_line(line: dict[str, Any]) -> MessageAndOrigin | None:
    """Return a user or assistant line of the main thread, or what a person typed while the assistant was at work."""
    if line.get("isSidechain") or line.get("isApiErrorMessage"):
        return None
    if line.get("type") == "attachment":
        return _read_queued_prompt(line.get("attachment"))
    message = line.get("message")
    if line.get("type") not in {"user", "assistant"} or not isinstance(message, dict) or not message.get("content"):
        return None
    read = {"role": line["type"], "content": message["content"]}
    if line["type"] == "assistant":
        return read, None
    return read, "summary" if line.get("isCompactSummary") else "host" if line.get("isMeta") else _detect_origin(read)


def _read_queued_prompt(attachment: Any) -> MessageAndOrigin | None:
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command" or not attachment.get("prompt"):
        return None
    read = {"role": "user", "content": attachment["prompt"]}
    return read, _detect_origin(read) if attachment.get("commandMode") in {None, "prompt"} else "host"


# -- Codex -------------------------------------------------------------------------------------------------------------

_HOST_TEXTS: Final = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md", _OUR_TEXTS_BEGIN)
_UNSENT_ITEM_TYPES: Final = frozenset({"ghost_snapshot", "other"})


def _is_codex_line(line: dict[str, Any]) -> bool:
    return isinstance(line.get("payload"), dict) and isinstance(line.get("type"), str)


def _read_codex_line(line: dict[str, Any]) -> MessageAndOrigin | None:
    """Return an item of the conversation, or the summary of a compaction."""
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return None
    if line.get("type") == "compacted":
        text = payload.get("message")
        part = {"type": "input_text", "text": text}
        return ({"type": "message", "role": "user", "content": [part]}, "summary") if text else None
    if line.get("type") != "response_item" or payload.get("type") in _UNSENT_ITEM_TYPES:
        return None
    return payload, _detect_origin(payload)


def _detect_origin(message: Message) -> Origin | None:
    """Return the host where a user turn begins as its own texts do; None where nothing says whose words it is."""
    content = message.get("content")
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    is_hosts = message.get("role") == "user" and isinstance(text, str) and text.lstrip().startswith(_HOST_TEXTS)
    return "host" if is_hosts else None


# -- pi ----------------------------------------------------------------------------------------------------------------


def _is_pi_line(line: dict[str, Any]) -> bool:
    body = line.get("message") if line.get("type") == "message" else None
    return (line.get("type") == "session" and "cwd" in line) or (isinstance(body, dict) and "role" in body)


def _read_pi_line(line: dict[str, Any]) -> MessageAndOrigin | None:
    """Return an entry as pi sends it; one that it does not send is no message."""
    from unabridged.sessions.pi import to_anthropic  # noqa: PLC0415 - the others need nothing of it

    message, origin = next(iter(to_anthropic(line)), (None, None))
    return None if message is None or not message["content"] else (message, origin or _detect_origin(message))


# -- opencode ----------------------------------------------------------------------------------------------------------


def _is_opencode_line(line: dict[str, Any]) -> bool:
    return isinstance(line.get("opencode"), str) and "role" in line


def _read_opencode_line(line: dict[str, Any]) -> MessageAndOrigin | None:
    """Return a message as our plugin writes it: opencode has its own in a database."""
    read = {"role": "assistant" if line["role"] == "assistant" else "user", "content": line["content"]}
    origin = line.get("from")
    return read, "summary" if origin == "summary" else "host" if origin == "host" else _detect_origin(read)


TRANSCRIPT_KINDS: Final = (
    TranscriptKind("codex", "openai-responses", _is_codex_line, _read_codex_line),
    TranscriptKind("claude-code", "anthropic", _is_claude_code_line, _read_claude_code_line),
    TranscriptKind("opencode", "anthropic", _is_opencode_line, _read_opencode_line, is_lasting=False),
    TranscriptKind("pi", "anthropic", _is_pi_line, _read_pi_line),
)
"""In the order in which a line is looked at."""
