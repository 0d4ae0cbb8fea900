"""Find the files of a corpus, and divide them into shards: the same names give the same shards.

A shard is what one worker does at a time and what makes one part of the result. Where it ends depends on the names and
sizes of the files in it and on nothing else, so that a file that is added changes one shard, not all behind it.
"""

from __future__ import annotations

import glob
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from unabridged.errors import SettingsError
from unabridged.sessions import SessionFileError
from unabridged.sessions.base import FileStamp
from unabridged.sessions.files import detect_line_kind
from unabridged.sessions.text import read_lines
from unabridged_corpus.parquet import PARQUET_SUFFIX, read_row_groups

SUFFIXES = frozenset({".json", ".jsonl", PARQUET_SUFFIX})
SHARD_BYTES = 4_000_000
"""Bytes of input that make a shard."""
_NAMES_PER_SHARD = 64
"""One name of so many ends a shard, whatever its size."""
_MAX_LINES_READ = 200
"""Lines after which nothing is expected to become clearer."""


@dataclass(frozen=True, slots=True)
class InputSlice:
    """A file, or some sessions of a file with many: lines that follow each other, a group of rows."""

    file: str
    """Its name below the folder that the corpus is in, with slashes."""
    size: int
    """Bytes."""
    start: int = 0
    stop: int | None = None
    """The bytes of the lines; None where it is a whole file."""
    line: int = 0
    """The number of the first line, or row."""
    group: int | None = None
    """Of Parquet: which group of rows."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Slices that one worker does, one after the other, into one part."""

    slices: tuple[InputSlice, ...]

    @property
    def name(self) -> str:
        """Return a name that the same files, and the same lines in them, always have."""
        places = [(one.file, one.start, one.group) for one in self.slices]
        return hashlib.sha256(json.dumps(places).encode()).hexdigest()[:16]

    @property
    def size(self) -> int:
        """Return the bytes of input."""
        return sum(one.size for one in self.slices)

    def dump(self) -> str:
        """Return it as a text, for another machine."""
        return json.dumps([astuple(one) for one in self.slices])


def parse_shard(text: str) -> Shard:
    """Return the shard in such a text."""
    return Shard(tuple(InputSlice(*values) for values in json.loads(text)))


def find_corpus_files(source: str, out: Path) -> tuple[Path, list[str]]:
    """Return the folder of the corpus and the sorted names of its files below it; never those in `out`."""
    path, outside = Path(source), out.resolve()
    if path.resolve().is_relative_to(outside):
        raise SettingsError(f"{source} is in {out}: name another folder for the results")
    if path.is_file():
        return path.resolve().parent, [path.name]
    if path.is_dir():
        root = path.resolve()
        found = [one for one in root.rglob("*") if one.suffix in SUFFIXES]
    elif glob.has_magic(source):
        parts = Path(source).parts
        root = Path(*parts[: next(i for i, part in enumerate(parts) if glob.has_magic(part))]).resolve()
        found = [Path(one).absolute() for one in glob.iglob(source, recursive=True)]  # noqa: PTH207 - the prefix may be anywhere
    else:
        remedy = "name the sessions, also as a pattern such as 'a/*.jsonl'"
        raise SettingsError(f"there is no file or folder {source}: {remedy}")
    kept = (one for one in found if one.is_file() and not one.resolve().is_relative_to(outside))
    names = sorted(one.relative_to(root).as_posix() if one.is_relative_to(root) else one.as_posix() for one in kept)
    if not names:
        what = "matches no file" if glob.has_magic(source) else "holds no .json, .jsonl or .parquet file"
        raise SettingsError(f"{source} {what}: name a file, a folder or a pattern")
    return root, names


def split_into_shards(root: Path, names: Sequence[str], size: int, format_: str | None = None) -> Iterator[Shard]:
    """Yield the files as shards of about this many bytes, in the order of their names."""
    gathered: list[InputSlice] = []
    for name in names:
        for source in _split_file(root, name, size, format_):
            alone = source.stop is not None or source.group is not None
            if gathered and (alone or sum(one.size for one in gathered) + source.size > size):
                yield Shard(tuple(gathered))
                gathered = []
            gathered.append(source)
            if alone or zlib.crc32(source.file.encode("utf-8", "surrogateescape")) % _NAMES_PER_SHARD == 0:
                yield Shard(tuple(gathered))
                gathered = []
    if gathered:
        yield Shard(tuple(gathered))


def _split_file(root: Path, name: str, size: int, format_: str | None) -> Iterator[InputSlice]:
    """Yield the slices of a file: one, but for a large one that has many sessions."""
    path = root / name
    try:
        info = path.stat()
        stamp = FileStamp(info.st_size, info.st_mtime_ns)
        if path.suffix == PARQUET_SUFFIX:
            for group, (first, bytes_) in enumerate(read_row_groups(path)):
                yield InputSlice(name, bytes_, line=first, group=group)
        elif info.st_size > size and has_conversation_per_line(path, stamp, format_):
            yield from _split_lines(path, name, size)
        else:
            yield InputSlice(name, info.st_size)
    except (OSError, SessionFileError):
        yield InputSlice(name, 0)  # who reads it says why it can't be read


def has_conversation_per_line(path: Path, stamp: FileStamp, format_: str | None) -> bool:
    """Return whether every line of the file is a conversation of its own."""
    if format_ == "jsonl-conversations" or path.suffix != ".jsonl":
        return format_ == "jsonl-conversations"
    values = (line.value for line in read_lines(path, stamp) if line.value is not None)
    kinds = (detect_line_kind(value) for value, _ in zip(values, range(_MAX_LINES_READ), strict=False))
    return next((kind for kind in kinds if kind is not None), None) == "jsonl-conversations"


def _split_lines(path: Path, name: str, size: int) -> Iterator[InputSlice]:
    """Yield lines that follow each other, each time to the end of the line that the size falls in."""
    start, first, stop = 0, 0, 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            stop += len(line)
            if stop - start > size:
                yield InputSlice(name, stop - start, start, stop, first)
                start, first = stop, number
    if stop > start:
        yield InputSlice(name, stop - start, start, stop, first)
