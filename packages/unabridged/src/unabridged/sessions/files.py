"""`load` a conversation from a file, `save` it with other messages. The file that was read is never touched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unabridged.errors import SettingsError
from unabridged.formats import FORMATS, Message
from unabridged.sessions import claude_code, codex, document, pi
from unabridged.sessions.loaded import (
    KINDS,
    Client,
    Document,
    Entry,
    Kind,
    Line,
    Lines,
    Loaded,
    SessionFileError,
    Stamp,
    match,
)
from unabridged.sessions.text import UNENDED, Progress, check, check_unchanged, collect, dump, parse, read_lines, reason

CLIENTS: dict[Kind, Client] = {"codex": codex.CLIENT, "claude-code": claude_code.CLIENT, "pi": pi.CLIENT}
"""In the order in which a line is looked at."""
MAX_SIZE = 1_000_000_000
"""Bytes above which a file is refused unread."""
_LOOK_AT = 200
"""Lines after which nothing is expected to become clearer."""


def load(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word every part uses for it
    which: int | str | None = None,
    max_size: int = MAX_SIZE,
    progress: Progress | None = None,
    keep_lines: bool = False,
) -> Loaded:
    """The conversation in the file, as its client would send it now.

    `format` is the wire format of the messages, or the layout of the file, where the file itself would be read
    otherwise. `which` chooses among several conversations, by index from 0 or by id. `keep_lines` holds on to the lines
    of a client's session, so that taking a compaction back does not read them again.
    """
    path = Path(path)
    if format is not None and format not in FORMATS and format not in KINDS:
        raise SettingsError(f"unknown format {format!r}: choose one of {', '.join((*FORMATS, *KINDS))}")
    wire = format if format in FORMATS else None
    stamp = check(path, max_size)
    try:
        kind, known = (format, None) if format in KINDS else kind_of_file(path, stamp)
        if kind == "json":
            value = parse(path, path.read_bytes()) if known is None else known
            return document.load_document(path, stamp, value, wire)
        if kind == "jsonl-conversations":
            return document.load_conversation_line(path, stamp, which, wire, progress)
        if kind == "jsonl":
            return document.load_jsonl(path, stamp, wire, progress)
        lines = Lines(stamp, kept=[] if keep_lines else None)
        return CLIENTS[kind].load(path, kind, lines, _entries(CLIENTS[kind], collect(path, progress, lines), lines))
    except OSError as error:
        raise SessionFileError(f"can't read {path}: {reason(error)}") from error


def _entries(client: Client, found: Iterable[Line], lines: Lines) -> Iterator[Entry]:
    """What each line says; one that the client would not write says nothing, with a warning."""
    for line in found:
        entry = client.entry_of(line.value)
        if line.value and not entry:
            lines.warnings.append(f"line {line.number + 1} is not as its client writes it and was left alone")
        yield entry


def save(loaded: Loaded, new: Sequence[Message], out: str | Path, *, tokens_before: int = 0) -> None:
    """Write the conversation with `new` in place of its messages, in the layout it was read from.

    Written beside its place and then renamed, so that there is never half a file; with the source's permissions.
    """
    path = Path(out)
    if loaded.source is not None:
        check_unchanged(loaded.path, loaded.source.stamp)
    if path.exists() and path.samefile(loaded.path):
        raise SessionFileError(f"{path} is the file that was read, which is never changed: name another one to write")
    write_whole(path, pieces_with(loaded, new, tokens_before=tokens_before), mode=loaded.path.stat().st_mode & 0o777)


def while_unchanged(loaded: Loaded, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, and in the end an error if the file that was read is no longer what it was: nothing is lost then."""
    yield from pieces
    if loaded.source is not None:
        check_unchanged(loaded.path, loaded.source.stamp)


def pieces_with(loaded: Loaded, new: Sequence[Message], *, tokens_before: int = 0) -> Iterator[bytes]:
    """The file with `new` in place of its messages, piece by piece."""
    source = loaded.source
    if source is None:
        raise SessionFileError(f"{loaded.path} was not read from a file: there is no layout to write in")
    matches = match(loaded, new)
    if len(new) == len(loaded.messages) and all(found.same and found.index == i for i, found in enumerate(matches)):
        yield from _copy(loaded.path, source.stamp.size)
    elif isinstance(source, Document):
        yield from document.write_document(loaded, source, matches)
    elif loaded.kind in CLIENTS:
        piece = b"\n"
        for piece in _copy(loaded.path, source.whole):
            yield piece
        added = map(dump, CLIENTS[loaded.kind].append(source.session, matches, tokens_before))
        if not piece.endswith(b"\n"):
            yield b"\n" + next(added, b"\n").removesuffix(b"\n") + UNENDED
        yield from added
    else:
        yield from document.write_jsonl(loaded, source, matches)


def _copy(path: Path, size: int) -> Iterator[bytes]:
    """The first bytes of the file, in pieces."""
    with path.open("rb") as stream:
        while chunk := stream.read(min(size, 1 << 20)):
            size -= len(chunk)
            yield chunk


def write_whole(path: Path, pieces: Iterable[bytes], mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """All of it or nothing: a temporary file in the same folder, synced, then renamed over `path`.

    `owner` is the user and the group that it is for, where that may be said.
    """
    path = path.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise SessionFileError(f"can't write {path}: {reason(error)}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())
        if owner is not None:
            with suppress(OSError, AttributeError):  # not on every system, and only for those who may
                os.chown(name, *owner)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SessionFileError(f"can't write {path}: {reason(error)}; nothing was written") from error
        raise


# -- how a file is laid out, told by its first lines ------------------------------------------------------------------


def kind_of_line(value: Any) -> Kind | None:
    """Whose line this is, when one line is enough to tell."""
    if isinstance(value, dict):
        for kind, client in CLIENTS.items():
            if client.owns_line(value):
                return kind
    if document.conversation(value) is not None:
        return "jsonl-conversations"
    return "jsonl" if document.is_message(value) else None


def kind_of_file(path: Path, stamp: Stamp) -> tuple[Kind, Any]:
    """How the file is laid out; a document that had to be parsed to know it comes along."""
    seen = 0
    for line in read_lines(path, stamp):
        if line.problem and seen == 0:
            # The first line is no value of its own: one text over several lines, or no JSON at all.
            return "json", parse(path, path.read_bytes())
        if line.value is None:
            continue
        seen += 1
        found = kind_of_line(line.value)
        alone = seen == 1 and line.start + len(line.raw) >= stamp.size
        if alone and found in {None, "jsonl-conversations"}:
            return "json", line.value
        if found is not None:
            return found, None
        if seen >= _LOOK_AT:
            break
    raise SessionFileError(
        f"{path} is JSON, but no conversation: expected messages, or a session of Claude Code, Codex CLI or pi. "
        f"A layout can be forced by its name: {', '.join(KINDS)}"
    )
