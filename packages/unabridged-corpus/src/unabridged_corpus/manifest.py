"""Write what is in OUT beside the parts: a record of each shard, and the manifest that is made from them.

    OUT/part-NAME.jsonl     the rows of one shard, complete or not there
    OUT/.parts/NAME.json    its record: which input with which digest, counts, failures, the digest of the part
    OUT/.parts/job.json     what is done here, so that nothing else is put in between
    OUT/manifest.json       all of it, in the order of the input

Nothing in them says when or by whom something was done: the same input and the same options give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from math import fsum
from pathlib import Path
from typing import Any

from unabridged.archive.stores.files import make_folder
from unabridged.errors import SettingsError
from unabridged.sessions import write_file_atomically
from unabridged_corpus.inputs import Shard
from unabridged_corpus.reading import ReadOptions
from unabridged_corpus.works import Counts, Work

RECORDS_FOLDER = ".parts"
MANIFEST_FILE = "manifest.json"


@dataclass(frozen=True, slots=True)
class Failure:
    """A session that could not be done: where it is, and why."""

    file: str
    line: int
    """Its line or row, counted from 1; 0 where the file is the session, or can't be read at all."""
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """The record of a shard that was done."""

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
        """Return it as a text."""
        return json.dumps(asdict(self))


def parse_record(text: str | bytes) -> ShardRecord:
    """Return the record in such a text."""
    value = json.loads(text)
    failures = tuple(Failure(**failure) for failure in value.pop("failures"))
    return ShardRecord(**{**value, "inputs": tuple(value["inputs"]), "failures": failures})


@dataclass(frozen=True, slots=True)
class CorpusJob:
    """Everything a worker has to know."""

    work: Work
    root: str
    """The folder that the names of files are below."""
    out: str
    options: ReadOptions = field(default_factory=ReadOptions)
    shard_size: int = 0

    def describe(self) -> dict[str, Any]:
        """Return everything that shapes the result, but for the input."""
        reading = {"format": self.options.format, "max_size": self.options.max_size, "shard": self.shard_size}
        return {"work": self.work.name, "version": version("unabridged"), "options": self.work.describe(), **reading}

    def part_path(self, name: str) -> Path:
        """Return where the part of this shard is."""
        return Path(self.out) / f"part-{name}.jsonl"

    def record(self, name: str) -> Path:
        """Return where the record of this shard is."""
        return Path(self.out) / RECORDS_FOLDER / f"{name}.json"

    def marker_path(self, name: str) -> Path:
        """Return the path of the file that notes the session in progress, and sessions that ended a process before."""
        return Path(self.out) / RECORDS_FOLDER / f"{name}.at"

    def prepare(self) -> None:
        """Make OUT; raise `SettingsError` for one that holds something else."""
        out, described = Path(self.out), json.dumps(self.describe(), sort_keys=True)
        if out.exists() and not out.is_dir():
            raise SettingsError(f"{out} is a file: name a folder for the results")
        job = out / RECORDS_FOLDER / "job.json"
        if job.exists() and job.read_text(encoding="utf-8") != described:
            raise SettingsError(
                f"{out} holds results of another work, with other options or of another version: name another folder, "
                "or remove it"
            )
        if not job.exists() and out.is_dir() and any(out.iterdir()):
            raise SettingsError(f"{out} holds other files: name a new folder for the results")
        out.parent.mkdir(parents=True, exist_ok=True)
        make_folder(out / RECORDS_FOLDER)
        if not job.exists():
            write_file_atomically(job, [described.encode()])


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run over a corpus."""

    out: Path
    sessions: int
    """Those that were done, now or before."""
    fresh: int
    """Those that were done now."""
    counts: Counts
    """The sums over all rows."""
    failures: tuple[Failure, ...]
    parts: int


def write_manifest(job: CorpusJob, source: str, shards: Iterable[str], *, complete: bool, fresh: int = 0) -> Report:
    """Write the manifest of these shards and return the report; those that are not done are not in it."""
    numbers, failures, sessions, parts = dict[str, list[float]](), list[Failure](), 0, list[str]()
    for name in shards:
        record = _read_record_file(job, name)
        if record is not None:
            part = {"part": job.part_path(name).name, "digest": record.digest, "bytes": record.bytes}
            part |= {"sessions": record.sessions, "failed": len(record.failures), "inputs": record.inputs}
            parts.append(json.dumps(part))
            failures += record.failures
            sessions += record.sessions
            for counted, number in record.counts.items():
                numbers.setdefault(counted, []).append(number)
    counts = {name: _sum_exactly(listed) for name, listed in sorted(numbers.items())}
    head = {**job.describe(), "input": source, "complete": complete, "sessions": sessions, "failed": len(failures)}
    lists = {"failures": [json.dumps(asdict(one)) for one in failures], "parts": parts}
    text = json.dumps(head | {"counts": counts}, indent=1)[:-2]
    for name, lines in lists.items():  # a line for each of them, so that people can read a large one
        text += f',\n "{name}": [' + ",".join(f"\n  {line}" for line in lines) + "\n ]"
    write_file_atomically(Path(job.out) / MANIFEST_FILE, [f"{text}\n}}\n".encode()])
    return Report(Path(job.out), sessions, fresh, counts, tuple(failures), len(parts))


def _sum_exactly(numbers: list[float]) -> float:
    return sum(numbers) if all(isinstance(number, int) for number in numbers) else fsum(numbers)


def read_valid_record(job: CorpusJob, shard: Shard) -> ShardRecord | None:
    """Return the record of a shard that was done; None unless its part has the digest of the record."""
    record = _read_record_file(job, shard.name)
    try:
        with job.part_path(shard.name).open("rb") as stream:
            digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    except OSError:
        return None
    return record if record is not None and digest == record.digest else None


def _read_record_file(job: CorpusJob, name: str) -> ShardRecord | None:
    try:
        return parse_record(job.record(name).read_bytes())
    except (OSError, ValueError, TypeError, KeyError):
        return None
