"""Load a conversation from a file, and save it with other messages. The file that was read is never changed."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unabridged.errors import SettingsError
from unabridged.formats import FORMATS, Message
from unabridged.sessions import base, claude_code, codex, document, pi, text
from unabridged.sessions.base import KINDS, Document, Entry, Kind, LineFile, LoadedFile, SessionFileError, SessionFormat
from unabridged.sessions.text import Progress, check_unchanged, describe_os_error, parse_json

SESSION_FORMATS: dict[Kind, SessionFormat] = {
    "codex": codex.SESSION_FORMAT,
    "claude-code": claude_code.SESSION_FORMAT,
    "pi": pi.SESSION_FORMAT,
}
"""In the order in which a line is tried."""
MAX_SIZE = 1_000_000_000
"""Bytes above which a file is refused unread."""
_DETECTION_LINES = 200
"""Lines that are read to detect the layout."""


def load(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word every part uses for it
    which: int | str | None = None,
    max_size: int = MAX_SIZE,
    progress: Progress | None = None,
    keep_lines: bool = False,
) -> LoadedFile:
    """Return the conversation in the file, as its client would send it now.

    `format` is the wire format of the messages, or the layout of the file, where detection would choose another one.
    `which` chooses among several conversations, by index from 0 or by id. `keep_lines` keeps the lines of a client's
    session, so that undoing a compaction does not read them again. Raises `SessionFileError`.
    """
    path = Path(path)
    if format is not None and format not in FORMATS and format not in KINDS:
        raise SettingsError(f"unknown format {format!r}: choose one of {', '.join((*FORMATS, *KINDS))}")
    wire = format if format in FORMATS else None
    stamp = text.check_file(path, max_size)
    try:
        kind, known_value = (format, None) if format in KINDS else detect_kind(path, stamp)
        if kind == "json":
            value = parse_json(path, path.read_bytes()) if known_value is None else known_value
            return document.load_value(path, "json", value, Document(stamp, 0, stamp.size, None), wire)
        if kind == "jsonl-conversations":
            return document.load_conversation_line(path, stamp, which, wire, progress)
        if kind == "jsonl":
            return document.load_jsonl(path, stamp, wire, progress)
        lines = LineFile(stamp, lines=[] if keep_lines else None)
        client = SESSION_FORMATS[kind]
        return client.load(path, kind, lines, _read_entries(client, path, progress, lines))
    except OSError as error:
        raise SessionFileError(f"can't read {path}: {describe_os_error(error)}") from error


def _read_entries(client: SessionFormat, path: Path, progress: Progress | None, lines: LineFile) -> Iterator[Entry]:
    """Yield each line's object; an empty one, with a warning, for a line that the client would not write."""
    for line in text.collect_entries(path, progress, lines):
        entry = client.read_entry(line.value)
        if line.value and not entry:
            lines.warnings.append(f"line {line.number + 1} is not as its client writes it and was left alone")
        yield entry


def save(loaded: LoadedFile, new: Sequence[Message], out: str | Path, *, tokens_before: int = 0) -> None:
    """Write the conversation with `new` in place of its messages, in the layout it was read from.

    It is written to a temporary file and renamed, so that there is never half a file; with the source's permissions.
    """
    path = Path(out)
    if loaded.source is not None:
        check_unchanged(loaded.path, loaded.source.stamp)
    if path.exists() and path.samefile(loaded.path):
        raise SessionFileError(f"{path} is the file that was read, which is never changed: name another one to write")
    pieces = render_file(loaded, new, tokens_before=tokens_before)
    write_file_atomically(path, pieces, mode=loaded.path.stat().st_mode & 0o777)


def yield_if_unchanged(loaded: LoadedFile, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces; raise in the end if the file that was read has changed, before anything is replaced."""
    yield from pieces
    if loaded.source is not None:
        check_unchanged(loaded.path, loaded.source.stamp)


def render_file(loaded: LoadedFile, new: Sequence[Message], *, tokens_before: int = 0) -> Iterator[bytes]:
    """Yield the file with `new` in place of its messages, piece by piece."""
    if (source := loaded.source) is None:
        raise SessionFileError(f"{loaded.path} was not read from a file: there is no layout to write in")
    matches = base.match_messages(loaded, new)
    stays = all(match.is_unchanged and match.index == i for i, match in enumerate(matches))
    if stays and len(new) == len(loaded.messages):
        yield from _read_first_bytes(loaded.path, source.stamp.size)
    elif isinstance(source, Document):
        yield from document.write_document(loaded, source, matches)
    elif loaded.kind in SESSION_FORMATS:
        piece = b"\n"
        for piece in _read_first_bytes(loaded.path, source.complete_size):
            yield piece
        added = map(text.dump_line, SESSION_FORMATS[loaded.kind].append(source.session, matches, tokens_before))
        if not piece.endswith(b"\n"):
            yield b"\n" + next(added, b"\n").removesuffix(b"\n") + text.ADDED_LINE_BREAK
        yield from added
    else:
        yield from document.write_jsonl(loaded, source, matches)


def _read_first_bytes(path: Path, size: int) -> Iterator[bytes]:
    """Yield the first bytes of the file, in pieces."""
    with path.open("rb") as stream:
        while chunk := stream.read(min(size, 1 << 20)):
            size -= len(chunk)
            yield chunk


def write_file_atomically(
    path: Path, pieces: Iterable[bytes], mode: int = 0o600, owner: tuple[int, int] | None = None
) -> None:
    """Write all of the file or nothing: to a temporary file in the same folder, which is synced and renamed.

    `owner` is the user and the group that it belongs to, where the system lets them be set.
    """
    path = path.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise SessionFileError(f"can't write {path}: {describe_os_error(error)}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())
        if owner is not None and sys.platform != "win32":
            with suppress(OSError):  # only for those who may
                os.chown(name, *owner)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SessionFileError(f"can't write {path}: {describe_os_error(error)}; nothing was written") from error
        raise


# -- how a file is laid out, by its first lines ------------------------------------------------------------------------


def detect_line_kind(value: Any) -> Kind | None:
    """Return the layout that this line belongs to; None where one line is not enough to know."""
    if isinstance(value, dict):
        for kind, client in SESSION_FORMATS.items():
            if client.is_own_line(value):
                return kind
    if document.find_messages(value) is not None:
        return "jsonl-conversations"
    return "jsonl" if document.is_message(value) else None


def detect_kind(path: Path, stamp: base.FileStamp) -> tuple[Kind, Any]:
    """Return how the file is laid out, and its JSON value where that had to be parsed to know."""
    seen = 0
    for line in text.read_lines(path, stamp):
        if line.problem and seen == 0:
            # The first line is no value of its own: one text over several lines, or no JSON at all.
            return "json", parse_json(path, path.read_bytes())
        if line.value is None:
            continue
        seen += 1
        kind = detect_line_kind(line.value)
        alone = seen == 1 and line.start + len(line.raw) >= stamp.size
        if alone and kind in {None, "jsonl-conversations"}:
            return "json", line.value
        if kind is not None:
            return kind, None
        if seen >= _DETECTION_LINES:
            break
    raise SessionFileError(
        f"{path} is JSON, but no conversation: expected messages, or a session of Claude Code, Codex CLI or pi. "
        f"A layout can be forced by its name: {', '.join(KINDS)}"
    )
