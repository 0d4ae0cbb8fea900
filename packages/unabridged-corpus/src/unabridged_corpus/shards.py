"""One shard, from its input to its part: what every worker does, in a process here or on a node of a cluster.

A part is written when all of its sessions were tried and its input is still what it was. What was done before is not
done again while its bytes are the same; a session that failed before is tried again. One that ends the process it is
worked on in (out of memory, a crash) is left out after the third time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from unabridged.errors import SettingsError, UnabridgedError
from unabridged.sessions import write_whole
from unabridged.sessions.text import dump
from unabridged_corpus.inputs import Piece, Shard
from unabridged_corpus.manifest import RECORDS, Failure, Job, Record, read_record
from unabridged_corpus.reading import Place, Session, digest_of, sessions_in
from unabridged_corpus.spending import Limit, Pays, Purse
from unabridged_corpus.works import Counts, Do

_DEATHS = 3
"""So often may a process end over a session."""
_TRIES = 3
"""So often is input read that changes meanwhile."""


class _Changed(Exception):  # noqa: N818 - no error: it is tried again
    """Input is no longer what it was when it was begun with."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces
        super().__init__()


def do_shard(job: Job, shard: Shard, purse: Pays | None = None) -> Record:
    """The record of the shard, whose part is there when this returns."""
    if not (Path(job.out) / RECORDS).is_dir():
        raise SettingsError(
            f"there is no folder {job.out} on this machine: every node needs IN and OUT at the same paths"
        )
    before = read_record(job, shard)
    digests = {piece: _digest(job, piece) for piece in shard.pieces}
    inputs = tuple(_input(piece, digests[piece]) for piece in shard.pieces)
    if before is not None and before.inputs == inputs and not before.failures:
        return before
    left_out: set[Piece] = set()
    for attempt in range(_TRIES):
        making = _Making(job, shard, digests, _rows_of(job, shard) if before is not None else {}, left_out)
        try:
            with job.work.begin(purse or Purse(Limit())) as do:
                write_whole(job.part(shard.name), making.rows(do))
        except _Changed as changed:
            digests |= {piece: _digest(job, piece) for piece in changed.pieces}
            left_out = set(changed.pieces) if attempt == _TRIES - 2 else left_out
            continue
        record = making.record()
        write_whole(job.record(shard.name), [replace(record, fresh=0).dump().encode()])
        job.marker(shard.name).unlink(missing_ok=True)
        return record
    raise AssertionError("what changes all the time is left out in the last attempt")


def _digest(job: Job, piece: Piece) -> str:
    """The digest of a piece; empty where it can't be read, which its sessions say."""
    try:
        return digest_of(Path(job.root), piece)
    except UnabridgedError:
        return ""


def _input(piece: Piece, digest: str) -> dict[str, Any]:
    told = {"file": piece.file, "bytes": piece.size, "digest": digest}
    if piece.group is not None:
        return told | {"group": piece.group, "row": piece.line + 1}
    return told | ({"start": piece.start, "line": piece.line + 1} if piece.stop is not None else {})


def _rows_of(job: Job, shard: Shard) -> dict[tuple[Place, str], bytes]:
    """What is in the part already, by the place and the digest of each session."""
    rows = {}
    for raw in job.part(shard.name).read_bytes().splitlines(keepends=True):
        row = json.loads(raw)
        rows[Place(row["file"], row["line"]), row["digest"]] = raw
    return rows


@dataclass(slots=True)
class _Making:
    """A part while it is made."""

    job: Job
    shard: Shard
    digests: dict[Piece, str]
    old: dict[tuple[Place, str], bytes]
    left_out: set[Piece]
    failures: list[Failure] = field(default_factory=list)
    deaths: dict[Place, int] = field(default_factory=dict)
    given_up: list[list[Any]] = field(default_factory=list)
    counts: Counts = field(default_factory=dict)
    sessions: int = 0
    fresh: int = 0
    size: int = 0
    hashed: Any = field(default_factory=hashlib.sha256)

    def rows(self, do: Do) -> Iterator[bytes]:
        """Every row; `_Changed` in the end, and nothing is written, where the input is no longer the same."""
        self.deaths = self._earlier_deaths()
        for piece in self.shard.pieces:
            for session in self._sessions(piece):
                raw = self.old.get((session.place, session.digest)) or self._row(session, do)
                if raw is not None:
                    self._add(raw)
                    yield raw
        changed = [
            piece
            for piece in self.shard.pieces
            if piece not in self.left_out and _digest(self.job, piece) != self.digests[piece]
        ]
        if changed:
            raise _Changed(changed)

    def _sessions(self, piece: Piece) -> Iterator[Session]:
        """The sessions of a piece; where it can't be read as a whole, a failure instead."""
        if piece in self.left_out:
            self._fail(Place(piece.file, 0), "", "it changes all the time: close what writes it, and run this again")
            return
        try:
            yield from sessions_in(Path(self.job.root), piece, self.digests[piece], self.job.how)
        except GeneratorExit:
            raise
        except Exception as error:  # noqa: BLE001 - one bad file is reported, whatever is wrong with it
            self._fail(Place(piece.file, 0), "", self._reason(error))

    def _row(self, session: Session, do: Do) -> bytes | None:
        """The row of a session; None where it failed."""
        died = self.deaths.pop(session.place, 0)
        if died >= _DEATHS:
            self.given_up.append([*session.place, died])
            why = f"the process that worked on it ended {died} times: it may need more memory than there is"
            self._fail(session.place, session.id, why)
            return None
        self.job.marker(self.shard.name).write_text(json.dumps([*self.given_up, [*session.place, died + 1]]))
        where = {"id": session.name, "file": session.place.file, "line": session.place.line, "digest": session.digest}
        try:
            raw = dump(where | do(session))
        except Exception as error:  # noqa: BLE001 - one bad session is reported, whatever is wrong with it
            self._fail(session.place, session.id, self._reason(error))
            return None
        self.fresh += 1
        return raw

    def _add(self, raw: bytes) -> None:
        self.hashed.update(raw)
        self.size += len(raw)
        self.sessions += 1
        for name, number in self.job.work.count(json.loads(raw)).items():
            self.counts[name] = self.counts.get(name, 0) + number

    def _fail(self, place: Place, name: str, reason: str) -> None:
        self.failures.append(Failure(place.file, place.line, name, reason))

    def _reason(self, error: Exception) -> str:
        """Why, in one line, without the folder that the corpus is in."""
        said = " ".join(str(error).replace(f"{self.job.root}/", "").split())
        return said if isinstance(error, UnabridgedError) and said else f"{type(error).__name__}: {said[:300]}"

    def _earlier_deaths(self) -> dict[Place, int]:
        """The sessions over which processes before this one ended, and how often."""
        with suppress(OSError, ValueError, TypeError):
            told = json.loads(self.job.marker(self.shard.name).read_text())
            return {Place(file, line): times for file, line, times in told}
        return {}

    def record(self) -> Record:
        """What was made."""
        inputs = tuple(_input(piece, self.digests[piece]) for piece in self.shard.pieces)
        digest = f"sha256:{self.hashed.hexdigest()}"
        counts, failures = dict(sorted(self.counts.items())), tuple(self.failures)
        return Record(self.shard.name, digest, self.size, inputs, self.sessions, counts, failures, self.fresh)
