"""`load` a conversation from a file, `save` it with other messages. The file that was read is never touched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from unabridged.errors import SettingsError
from unabridged.formats import FORMATS, Message
from unabridged.sessions.claude_code import load_claude_code
from unabridged.sessions.claude_code_write import ClaudeCodeWriter
from unabridged.sessions.codex import CodexWriter, load_codex
from unabridged.sessions.detect import kind_of_file
from unabridged.sessions.document import load_conversation_line, load_document, write_document
from unabridged.sessions.jsonl import JsonlWriter, load_jsonl
from unabridged.sessions.loaded import KINDS, Document, Lines, Loaded, SessionFileError
from unabridged.sessions.match import match
from unabridged.sessions.pi import load_pi
from unabridged.sessions.pi_write import PiWriter
from unabridged.sessions.rewrite import Writer, rewrite_lines
from unabridged.sessions.text import Progress, check, parse, reason, unchanged

MAX_SIZE = 1_000_000_000
"""Bytes above which a file is refused unread."""


def load(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word every part uses for it
    which: int | str | None = None,
    max_size: int = MAX_SIZE,
    progress: Progress | None = None,
) -> Loaded:
    """The conversation in the file, as its client would send it now.

    `format` is the wire format of the messages, or the layout of the file, where the file itself would be read
    otherwise. `which` chooses among several conversations, by index from 0 or by id.
    """
    path = Path(path)
    if format is not None and format not in FORMATS and format not in KINDS:
        raise SettingsError(f"unknown format {format!r}: choose one of {', '.join((*FORMATS, *KINDS))}")
    wire = format if format in FORMATS else None
    stamp = check(path, max_size)
    try:
        kind, document = (format, None) if format in KINDS else kind_of_file(path, stamp)
        if kind == "json":
            value = parse(path, path.read_bytes()) if document is None else document
            return load_document(path, stamp, value, wire)
        if kind == "jsonl-conversations":
            return load_conversation_line(path, stamp, which, wire, progress)
        if kind == "jsonl":
            return load_jsonl(path, stamp, wire, progress)
        if kind == "claude-code":
            return load_claude_code(path, stamp, progress)
        return load_codex(path, stamp, progress) if kind == "codex" else load_pi(path, stamp, progress)
    except OSError as error:
        raise SessionFileError(f"can't read {path}: {reason(error)}") from error


def save(loaded: Loaded, new: Sequence[Message], out: str | Path, *, tokens_before: int = 0) -> None:
    """Write the conversation with `new` in place of its messages, in the layout it was read from.

    Written beside its place and then renamed, so that there is never half a file; with the source's permissions.
    """
    path = Path(out)
    source = loaded.source
    if source is None:
        raise SessionFileError(f"{loaded.path} was not read from a file: there is no layout to write in")
    unchanged(loaded.path, source.stamp)
    if path.exists() and path.samefile(loaded.path):
        raise SessionFileError(f"{path} is the file that was read, which is never changed: name another one to write")
    write_whole(path, _pieces(loaded, source, new, tokens_before), mode=loaded.path.stat().st_mode & 0o777)


def _pieces(loaded: Loaded, source: Lines | Document, new: Sequence[Message], tokens_before: int) -> Iterator[bytes]:
    matches = match(loaded, new)
    if len(new) == len(loaded.messages) and all(found.same and found.index == i for i, found in enumerate(matches)):
        with loaded.path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                yield chunk
    elif isinstance(source, Document):
        yield from write_document(loaded, source, new)
    else:
        yield from rewrite_lines(loaded, source, matches, _writer(loaded, source, tokens_before))


def _writer(loaded: Loaded, lines: Lines, tokens_before: int) -> Writer:
    if loaded.kind == "claude-code":
        return ClaudeCodeWriter(loaded, lines, tokens_before)
    if loaded.kind == "codex":
        return CodexWriter(lines)
    return PiWriter(loaded, lines, tokens_before) if loaded.kind == "pi" else JsonlWriter()


def write_whole(path: Path, pieces: Iterable[bytes], mode: int = 0o600) -> None:
    """All of it or nothing: a temporary file in the same folder, synced, then renamed over `path`."""
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
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SessionFileError(f"can't write {path}: {reason(error)}; nothing was written") from error
        raise
