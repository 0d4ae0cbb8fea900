"""What stands in OUT beside the parts: a record of each shard, and the manifest that is put together from them.

    OUT/part-NAME.jsonl     the rows of one shard, complete or not there
    OUT/.parts/NAME.json    its record: which input with which digest, counts, failures, the digest of the part
    OUT/.parts/job.json     what is done here, so that nothing else is put in between
    OUT/manifest.json       all of it, in the order of the input

Nothing in them tells when or by whom something was done: the same input and the same options give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from math import fsum
from pathlib import Path
from typing import Any

from unabridged.archive.stores.files import make_folder
from unabridged.errors import SettingsError
from unabridged.sessions import write_whole
from unabridged_corpus.inputs import Shard
from unabridged_corpus.reading import How
from unabridged_corpus.works import Counts, Work

RECORDS = ".parts"
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Failure:
    """A session that could not be done: where it is, and why."""

    file: str
    line: int
    """Its line or row, counted from 1; 0 where the file is the session, or can't be read at all."""
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Record:
    """A shard that was done."""

    shard: str
    digest: str
    """Of the part."""
    bytes: int
    inputs: tuple[dict[str, Any], ...]
    """File, bytes and digest of each piece; of lines and rows, where they begin."""
    sessions: int
    counts: Counts
    failures: tuple[Failure, ...]
    fresh: int = field(default=0, compare=False)
    """Sessions that were done now; the others were there. On the disk it is always 0."""

    def dump(self) -> str:
        """As a text."""
        return json.dumps(asdict(self))


def load_record(text: str | bytes) -> Record:
    """The record in such a text."""
    value = json.loads(text)
    failures = tuple(Failure(**failure) for failure in value.pop("failures"))
    return Record(**{**value, "inputs": tuple(value["inputs"]), "failures": failures})


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a worker has to know."""

    work: Work
    root: str
    """The folder that the names of files are below."""
    out: str
    how: How = field(default_factory=How)
    shard_size: int = 0

    def describe(self) -> dict[str, Any]:
        """What makes the result what it is, but for the input."""
        reading = {"format": self.how.format, "max_size": self.how.max_size, "shard": self.shard_size}
        return {"work": self.work.name, "version": version("unabridged"), "options": self.work.describe(), **reading}

    def part(self, name: str) -> Path:
        """Where the part of this shard is."""
        return Path(self.out) / f"part-{name}.jsonl"

    def record(self, name: str) -> Path:
        """Where the record of this shard is."""
        return Path(self.out) / RECORDS / f"{name}.json"

    def marker(self, name: str) -> Path:
        """Where it stands which session is being worked on, and over which ones processes ended."""
        return Path(self.out) / RECORDS / f"{name}.at"

    def prepare(self) -> None:
        """Make OUT; refuse one that holds something else."""
        out, told = Path(self.out), json.dumps(self.describe(), sort_keys=True)
        if out.exists() and not out.is_dir():
            raise SettingsError(f"{out} is a file: name a folder for the results")
        job = out / RECORDS / "job.json"
        if job.exists() and job.read_text(encoding="utf-8") != told:
            raise SettingsError(
                f"{out} holds results of another work, with other options or of another version: name another folder, "
                "or remove it"
            )
        if not job.exists() and out.is_dir() and any(out.iterdir()):
            raise SettingsError(f"{out} holds other files: name a new folder for the results")
        out.parent.mkdir(parents=True, exist_ok=True)
        make_folder(out / RECORDS, out.parent)
        if not job.exists():
            write_whole(job, [told.encode()])


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a corpus."""

    out: Path
    sessions: int
    """Those that were done, now or before."""
    fresh: int
    """Those that were done now."""
    counts: Counts
    """What the rows add up to."""
    failures: tuple[Failure, ...]
    parts: int


def write_manifest(job: Job, source: str, shards: Iterable[str], *, complete: bool, fresh: int = 0) -> Report:
    """Put the manifest together from the records of these shards; those that are not done are not in it."""
    names, counts, failures, sessions = [], dict[str, list[float]](), list[Failure](), 0
    for name in shards:
        record = _record(job, name)
        if record is not None:
            names.append(name)
            failures += record.failures
            sessions += record.sessions
            for counted, number in record.counts.items():
                counts.setdefault(counted, []).append(number)
    summed = {name: _sum(numbers) for name, numbers in sorted(counts.items())}
    head = {**job.describe(), "input": source, "complete": complete, "sessions": sessions, "failed": len(failures)}
    write_whole(Path(job.out) / MANIFEST, _pieces(job, head | {"counts": summed}, failures, names))
    return Report(Path(job.out), sessions, fresh, summed, tuple(failures), len(names))


def _sum(numbers: list[float]) -> float:
    return sum(numbers) if all(isinstance(number, int) for number in numbers) else fsum(numbers)


def _pieces(job: Job, head: dict[str, Any], failures: list[Failure], names: list[str]) -> Iterator[bytes]:
    """One JSON document, a line for each failure and each part, so that a large one can be looked through."""
    yield json.dumps(head, indent=1)[:-2].encode()
    yield b',\n "failures": [' + b",".join(b"\n  " + json.dumps(asdict(one)).encode() for one in failures) + b"\n ]"
    yield b',\n "parts": ['
    for i, name in enumerate(names):
        record = _record(job, name)
        if record is not None:
            told = {"part": job.part(name).name, "digest": record.digest, "bytes": record.bytes}
            told |= {"sessions": record.sessions, "failed": len(record.failures), "inputs": record.inputs}
            yield (b"," if i else b"") + b"\n  " + json.dumps(told).encode()
    yield b"\n ]\n}\n"


def read_record(job: Job, shard: Shard) -> Record | None:
    """The record of a shard that was done, if its part is what the record says."""
    record = _record(job, shard.name)
    try:
        found = digest_file(job.part(shard.name))
    except OSError:
        return None
    return record if record is not None and found == record.digest else None


def _record(job: Job, name: str) -> Record | None:
    try:
        return replace(load_record(job.record(name).read_bytes()), fresh=0)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def digest_file(path: Path) -> str:
    """The digest of a file's bytes."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
