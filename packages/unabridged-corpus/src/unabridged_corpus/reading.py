"""The sessions in a piece of the corpus, one after the other, each with the digest of its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from unabridged.formats import FORMATS
from unabridged.sessions import Loaded, SessionFileError, load
from unabridged.sessions.document import load_value
from unabridged.sessions.loaded import Document, Stamp
from unabridged.sessions.text import check, dump, read_lines
from unabridged_corpus.inputs import Piece, holds_lines
from unabridged_corpus.parquet import PARQUET, rows_in

_STEP = 1 << 20


class Place(NamedTuple):
    """Where a session is: its file, and there its line or row, counted from 1; 0 where the file is the session."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Session:
    """A session of the corpus; what it says is read when it is asked for."""

    place: Place
    digest: str
    """Of its bytes: of the file, or of the line; of a row of Parquet, of the line of JSON that would say it."""
    load: Callable[[], Loaded]
    id: str = ""
    """What it calls itself."""
    value: Any = None
    """The object it was read from, where it has a line or a row of its own."""

    @property
    def name(self) -> str:
        """What it calls itself, else where it is."""
        return self.id or (f"{self.place.file}#{self.place.line}" if self.place.line else self.place.file)


@dataclass(frozen=True, slots=True)
class How:
    """How files are read."""

    format: str | None = None
    max_size: int = 1_000_000_000

    @property
    def wire(self) -> str | None:
        """The wire format that was asked for, if one was."""
        return self.format if self.format in FORMATS else None


def digest_of(root: Path, piece: Piece) -> str:
    """The digest of the piece's bytes; of Parquet, of its rows'."""
    hashed = hashlib.sha256()
    if piece.group is not None:
        for row in rows_in(root / piece.file, piece.group):
            hashed.update(dump(row))
        return f"sha256:{hashed.hexdigest()}"
    left = piece.size if piece.stop is not None else None
    try:
        with (root / piece.file).open("rb") as stream:
            stream.seek(piece.start)
            while block := stream.read(_STEP if left is None else min(_STEP, left)):
                hashed.update(block)
                left = None if left is None else left - len(block)
    except OSError as error:
        raise SessionFileError(f"can't read {root / piece.file}: {(error.strerror or str(error)).lower()}") from error
    return f"sha256:{hashed.hexdigest()}"


def sessions_in(root: Path, piece: Piece, digest: str, how: How) -> Iterator[Session]:
    """Every session in the piece, whose digest is known. What can't be read is an error when it is loaded."""
    path = root / piece.file
    if path.suffix == PARQUET:
        yield from _rows(path, piece, how)
        return
    stamp = check(path, how.max_size if piece.stop is None else path.stat().st_size)
    if piece.stop is None and not holds_lines(path, stamp, how.format):
        yield Session(Place(piece.file, 0), digest, lambda: load(path, format=how.format, max_size=how.max_size))
        return
    yield from _lines(path, piece, stamp, how)


def _lines(path: Path, piece: Piece, stamp: Stamp, how: How) -> Iterator[Session]:
    for line in read_lines(path, stamp, start=piece.start, number=piece.line):
        if piece.stop is not None and line.start >= piece.stop:
            return
        if line.value is None and not line.problem:
            continue
        raw = line.raw.rstrip(b"\r\n")
        if line.problem:
            said = f"line {line.number + 1} of {path} is not JSON: {line.problem}"
        elif len(raw) > how.max_size:
            said = f"line {line.number + 1} of {path} has {len(raw):,} bytes, more than the {how.max_size:,} allowed"
        else:
            said = ""
        yield _session(path, Place(piece.file, line.number + 1), f"sha256:{_hash(raw)}", line.value, how, problem=said)


def _rows(path: Path, piece: Piece, how: How) -> Iterator[Session]:
    for number, row in enumerate(rows_in(path, piece.group or 0), piece.line + 1):
        yield _session(path, Place(piece.file, number), f"sha256:{_hash(dump(row))}", row, how)


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _session(path: Path, place: Place, digest: str, value: Any, how: How, *, problem: str = "") -> Session:
    """A session that has a line or a row of its own; `format` in it is what its messages are."""
    holder: dict[str, Any] = value if isinstance(value, dict) else {}
    named = holder.get("format")
    wire = how.wire or (named if isinstance(named, str) and named in FORMATS else None)
    source = Document(Stamp(0, 0), 0, 0, None)

    def loaded() -> Loaded:
        if problem:
            raise SessionFileError(problem)
        return load_value(path, "jsonl-conversations", value, source, wire, line=place.line)

    own = holder.get("id")
    return Session(place, digest, loaded, str(own) if isinstance(own, str | int) else "", value)
