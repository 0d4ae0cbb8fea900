"""Read the sessions of a slice of the corpus, one after the other, each with the digest of its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from unabridged.formats import FORMATS
from unabridged.sessions import LoadedFile, SessionFileError, load
from unabridged.sessions.base import Document, FileStamp
from unabridged.sessions.document import load_value
from unabridged.sessions.text import check_file, dump_line, read_lines
from unabridged_corpus.inputs import InputSlice, has_conversation_per_line
from unabridged_corpus.parquet import PARQUET_SUFFIX, read_rows

_BLOCK_BYTES = 1 << 20


class SessionPosition(NamedTuple):
    """Where a session is: its file, and there its line or row, counted from 1; 0 where the file is the session."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class CorpusSession:
    """A session of the corpus, which `load` reads."""

    place: SessionPosition
    digest: str
    """Of its bytes: of the file, or of the line; of a row of Parquet, of the line of JSON that would say it."""
    load: Callable[[], LoadedFile]
    id: str = ""
    """Its own."""
    value: Any = None
    """The object it was read from, where it has a line or a row of its own."""

    @property
    def name(self) -> str:
        """Return its own id, else its place."""
        return self.id or (f"{self.place.file}#{self.place.line}" if self.place.line else self.place.file)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read."""

    format: str | None = None
    max_size: int = 1_000_000_000


def hash_slice(root: Path, source: InputSlice) -> str:
    """Return the digest of the slice's bytes; of Parquet, of its rows'."""
    hashed = hashlib.sha256()
    if source.group is not None:
        for row in read_rows(root / source.file, source.group):
            hashed.update(dump_line(row))
        return f"sha256:{hashed.hexdigest()}"
    left = source.size if source.stop is not None else None
    try:
        with (root / source.file).open("rb") as stream:
            stream.seek(source.start)
            while block := stream.read(_BLOCK_BYTES if left is None else min(_BLOCK_BYTES, left)):
                hashed.update(block)
                left = None if left is None else left - len(block)
    except OSError as error:
        raise SessionFileError(f"can't read {root / source.file}: {(error.strerror or str(error)).lower()}") from error
    return f"sha256:{hashed.hexdigest()}"


def read_sessions(root: Path, source: InputSlice, digest: str, options: ReadOptions) -> Iterator[CorpusSession]:
    """Yield every session of the slice, whose digest is known; one that can't be read raises when it is loaded."""
    path = root / source.file
    if path.suffix == PARQUET_SUFFIX:
        yield from _read_row_sessions(path, source, options)
        return
    stamp = check_file(path, options.max_size if source.stop is None else path.stat().st_size)
    if source.stop is None and not has_conversation_per_line(path, stamp, options.format):
        read = partial(load, path, format=options.format, max_size=options.max_size)
        yield CorpusSession(SessionPosition(source.file, 0), digest, read)
        return
    yield from read_line_sessions(path, source, stamp, options)


def read_line_sessions(
    path: Path, source: InputSlice, stamp: FileStamp, options: ReadOptions
) -> Iterator[CorpusSession]:
    """Yield the session in every line of the slice."""
    for line in read_lines(path, stamp, start=source.start, number=source.line):
        if source.stop is not None and line.start >= source.stop:
            return
        if line.value is None and not line.problem:
            continue
        raw, problem = line.raw.rstrip(b"\r\n"), ""
        if line.problem:
            problem = f"is not JSON: {line.problem}"
        elif len(raw) > options.max_size:
            problem = f"has {len(raw):,} bytes, more than the {options.max_size:,} allowed"
        place = SessionPosition(source.file, line.number + 1)
        yield _build_session(path, place, raw, line.value, options, problem=problem)


def _read_row_sessions(path: Path, source: InputSlice, options: ReadOptions) -> Iterator[CorpusSession]:
    for number, row in enumerate(read_rows(path, source.group or 0), source.line + 1):
        yield _build_session(path, SessionPosition(source.file, number), dump_line(row), row, options)


def _build_session(
    path: Path, place: SessionPosition, raw: bytes, value: Any, options: ReadOptions, *, problem: str = ""
) -> CorpusSession:
    """Return a session that has a line or a row of its own; its `format` is that of its messages."""
    holder: dict[str, Any] = value if isinstance(value, dict) else {}
    named = (options.format, holder.get("format"))
    wire = next((name for name in named if isinstance(name, str) and name in FORMATS), None)
    document = Document(FileStamp(0, 0), 0, 0, None)

    def load_line() -> LoadedFile:
        if problem:
            raise SessionFileError(f"line {place.line} of {path} {problem}")
        return load_value(path, "jsonl-conversations", value, document, wire, line=place.line)

    own, digest = holder.get("id"), f"sha256:{hashlib.sha256(raw).hexdigest()}"
    return CorpusSession(place, digest, load_line, str(own) if isinstance(own, str | int) else "", value)
