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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unabridged_cli.clients.threads import thread_of

if TYPE_CHECKING:
    from unabridged.messages import Origin

_LOOK_BACK: Final = 4_096
"""Bytes before a place in the file by which it is known again: lines have ids and times."""
_LOOK_AT: Final = 50
"""Lines by which it is told whose file this is."""
_NOTHING: Final = b" \t\r\n\0"
"""What a line without a word in it is made of; a crash may leave NULs."""
_OURS: Final = "[unabridged"
"""How every text begins that we put into a conversation."""


Message = dict[str, Any]


class Said(NamedTuple):
    """One message of a session, whose words it is where the file says so, and where its line begins and ends."""

    message: Message
    origin: Origin | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Place:
    """How far a file was read: so many bytes, so many messages; `digest` is of the bytes just before."""

    offset: int = 0
    turn: int = 0
    digest: str = ""

    def facts(self) -> dict[str, Any]:
        """The place as plain data, for a record."""
        return asdict(self)

    @classmethod
    def of(cls, facts: Any) -> Place:
        """The place that `facts` gave; the beginning for anything else."""
        try:
            return cls(int(facts["offset"]), int(facts["turn"]), str(facts["digest"]))
        except (TypeError, KeyError, ValueError):
            return cls()


class Kind(NamedTuple):
    """How the lines of one client are known and read."""

    client: str
    format: str
    """Name of the wire format of its messages."""
    owns: Callable[[dict[str, Any]], bool]
    read: Callable[[dict[str, Any]], tuple[Message, Origin | None] | None]
    """The message of a line, and whose words it is where the line says so; None for a line without one."""
    lasting: bool = True
    """Whether its file stays when the hook is done."""

    def as_text(self, raw: bytes) -> Message:
        """A line that can't be read, or not be archived as what it says, as a message that has its text."""
        text = raw.decode("utf-8", "backslashreplace").strip()
        return {"role": "user", "content": text}


class Source(NamedTuple):
    """A session that a hook was called for."""

    kind: Kind
    id: str
    path: Path
    namespace: str = ""
    """Whose session it is, in the archive; empty for the default one."""
    project: str = ""
    """The folder that the event names: a client that tells none in its file has it from here."""

    @property
    def thread(self) -> str:
        """Its name in the archive."""
        return thread_of(self.kind.client, self.id)


def place_at(path: Path, offset: int, turn: int) -> Place:
    """The place at this offset of the file."""
    return Place(offset, turn, _digest_before(path, offset))


def is_at(path: Path, place: Place) -> bool:
    """Whether the file still is, as far as the place says, the one that was read: it may have grown since."""
    if place.offset == 0:
        return True
    try:
        return path.stat().st_size >= place.offset and _digest_before(path, place.offset) == place.digest
    except OSError:
        return False


def _digest_before(path: Path, offset: int) -> str:
    with path.open("rb") as stream:
        stream.seek(max(offset - _LOOK_BACK, 0))
        return sha256(stream.read(min(offset, _LOOK_BACK))).hexdigest()


def kind_of(path: Path) -> Kind | None:
    """Whose session file this is, by its first lines; None for one that we don't know."""
    for line in lines_of(path, _LOOK_AT):
        found = next((kind for kind in KINDS if kind.owns(line)), None)
        if found is not None:
            return found
    return None


def lines_of(path: Path, most: int | None = None) -> Iterator[dict[str, Any]]:
    """Every line that is a JSON object, among so many."""
    with path.open("rb") as stream:
        yield from filter(None, map(parse, islice(stream, most)))


def project_in(path: Path) -> str:
    """The folder that the first lines of the file say the client works in; empty when they say none."""
    for line in lines_of(path, _LOOK_AT):
        payload = line.get("payload")
        folder = line.get("cwd") or (payload.get("cwd") if isinstance(payload, dict) else None)
        if isinstance(folder, str) and folder:
            return folder
    return ""


def time_in(line: dict[str, Any]) -> float | None:
    """When a line was written (Unix time), where it says so."""
    with suppress(KeyError, TypeError, ValueError, OverflowError):
        written = datetime.fromisoformat(line["timestamp"])
        return (written if written.tzinfo else written.replace(tzinfo=UTC)).timestamp()
    return None


def read_from(path: Path, kind: Kind, offset: int) -> Iterator[Said]:
    """Every message whose line begins at `offset` or behind it.

    The last line is left for the next time if it does not end: the client may be about to write the rest of it.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(offset)
        for raw in stream:
            start, offset = offset, offset + len(raw)
            if offset > size or not raw.endswith(b"\n"):
                return
            found = _message_in(raw, kind)
            if found is not None:
                yield Said(*found, start, offset)


def line_of(path: Path, said: Said) -> bytes:
    """The line of a message, as it stands in the file."""
    with path.open("rb") as stream:
        stream.seek(said.start)
        return stream.read(said.end - said.start)


def _message_in(raw: bytes, kind: Kind) -> tuple[Message, Origin | None] | None:
    """The message of a line. One that is no JSON, or not as its client writes it, is nobody's word, and not lost."""
    line = parse(raw)
    if line is not None:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            return kind.read(line)
    return (kind.as_text(raw), "host") if raw.strip(_NOTHING) else None


def parse(raw: bytes) -> dict[str, Any] | None:
    """The JSON object on a line; None for anything else."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


# -- Claude Code -------------------------------------------------------------------------------------------------------


def _owns_claude_code(line: dict[str, Any]) -> bool:
    named = {"sessionId", "parentUuid", "leafUuid", "isSidechain"} & set(line)
    return isinstance(line.get("type"), str) and (bool(named) or line["type"] == "file-history-snapshot")


def _read_claude_code(line: dict[str, Any]) -> tuple[Message, Origin | None] | None:
    """A user or assistant line of the main thread, or what a person typed while the assistant was at work."""
    if line.get("isSidechain") or line.get("isApiErrorMessage"):
        return None
    if line.get("type") == "attachment":
        return _typed_meanwhile(line.get("attachment"))
    message = line.get("message")
    if line.get("type") not in {"user", "assistant"} or not isinstance(message, dict) or not message.get("content"):
        return None
    read = {"role": line["type"], "content": message["content"]}
    if line["type"] == "assistant":
        return read, None
    return read, "summary" if line.get("isCompactSummary") else "host" if line.get("isMeta") else _origin(read)


def _typed_meanwhile(attached: Any) -> tuple[Message, Origin | None] | None:
    if not isinstance(attached, dict) or attached.get("type") != "queued_command" or not attached.get("prompt"):
        return None
    read = {"role": "user", "content": attached["prompt"]}
    return read, _origin(read) if attached.get("commandMode") in {None, "prompt"} else "host"


# -- Codex -------------------------------------------------------------------------------------------------------------

_CONTEXT: Final = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md", _OURS)
_NOT_SENT: Final = frozenset({"ghost_snapshot", "other"})


def _owns_codex(line: dict[str, Any]) -> bool:
    return isinstance(line.get("payload"), dict) and isinstance(line.get("type"), str)


def _read_codex(line: dict[str, Any]) -> tuple[Message, Origin | None] | None:
    """An item of the conversation, or the summary of a compaction."""
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return None
    if line.get("type") == "compacted":
        text = payload.get("message")
        part = {"type": "input_text", "text": text}
        return ({"type": "message", "role": "user", "content": [part]}, "summary") if text else None
    if line.get("type") != "response_item" or payload.get("type") in _NOT_SENT:
        return None
    return payload, _origin(payload)


def _origin(message: Message) -> Origin | None:
    """The host's, where a user turn begins as its own texts do; None where nothing says whose words it is."""
    content = message.get("content")
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    hosts = message.get("role") == "user" and isinstance(text, str) and text.lstrip().startswith(_CONTEXT)
    return "host" if hosts else None


# -- pi ----------------------------------------------------------------------------------------------------------------


def _owns_pi(line: dict[str, Any]) -> bool:
    body = line.get("message") if line.get("type") == "message" else None
    return (line.get("type") == "session" and "cwd" in line) or (isinstance(body, dict) and "role" in body)


def _read_pi(line: dict[str, Any]) -> tuple[Message, Origin | None] | None:
    """An entry as pi sends it; one that it does not send is no message."""
    from unabridged.sessions.pi import to_anthropic  # noqa: PLC0415 - the others need nothing of it

    message, origin = next(iter(to_anthropic(line)), (None, None))
    return None if message is None or not message["content"] else (message, origin or _origin(message))


# -- opencode ----------------------------------------------------------------------------------------------------------


def _owns_opencode(line: dict[str, Any]) -> bool:
    return isinstance(line.get("opencode"), str) and "role" in line


def _read_opencode(line: dict[str, Any]) -> tuple[Message, Origin | None] | None:
    """A message as our plugin writes it: opencode has its own in a database."""
    read = {"role": "assistant" if line["role"] == "assistant" else "user", "content": line["content"]}
    whose = line.get("from")
    return read, "summary" if whose == "summary" else "host" if whose == "host" else _origin(read)


KINDS: Final = (
    Kind("codex", "openai-responses", _owns_codex, _read_codex),
    Kind("claude-code", "anthropic", _owns_claude_code, _read_claude_code),
    Kind("opencode", "anthropic", _owns_opencode, _read_opencode, lasting=False),
    Kind("pi", "anthropic", _owns_pi, _read_pi),
)
"""In the order in which a line is looked at."""
