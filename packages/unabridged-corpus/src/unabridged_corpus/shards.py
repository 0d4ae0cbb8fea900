"""Do one shard, from its input to its part: the work of every process here and every node of a cluster.

A part is written when all of its sessions were tried and its input is still what it was. What was done before is not
done again while its bytes are the same; a session that failed before is tried again. One that ends the process it is
worked on in (out of memory, a crash) is left out after the third time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from unabridged.errors import SettingsError, UnabridgedError
from unabridged.sessions import write_file_atomically
from unabridged.sessions.text import dump_line
from unabridged_corpus.inputs import InputSlice, Shard
from unabridged_corpus.manifest import RECORDS_FOLDER, CorpusJob, Failure, ShardRecord, read_valid_record
from unabridged_corpus.reading import CorpusSession, SessionPosition, hash_slice, read_sessions
from unabridged_corpus.spending import Purse, PurseLike, SpendingLimit
from unabridged_corpus.works import Counts, SessionFunction

_MAX_DEATHS = 3
"""How often a process may end over a session."""
_MAX_TRIES = 3
"""How often input is read that changes meanwhile."""


class _InputChanged(Exception):  # noqa: N818 - no error: it is tried again
    """Input that is no longer what it was in the beginning; its arguments are the slices."""


def process_shard(job: CorpusJob, shard: Shard, purse: PurseLike | None = None) -> ShardRecord:
    """Process every session of the shard, write its part, and return its record."""
    if not (Path(job.out) / RECORDS_FOLDER).is_dir():
        need = "every node needs IN and OUT at the same paths"
        raise SettingsError(f"there is no folder {job.out} on this machine: {need}")
    before = read_valid_record(job, shard)
    digests = {one: _hash_slice_or_empty(job, one) for one in shard.slices}
    if before is not None and before.inputs == _describe_inputs(digests) and not before.failures:
        return before
    left_out: set[InputSlice] = set()
    for attempt in range(_MAX_TRIES):
        writer = _PartWriter(job, shard, digests, _read_old_rows(job, shard) if before is not None else {}, left_out)
        try:
            with job.work.begin(purse or Purse(SpendingLimit())) as do_session:
                write_file_atomically(job.part_path(shard.name), writer.rows(do_session))
        except _InputChanged as changed:
            digests |= {one: _hash_slice_or_empty(job, one) for one in changed.args}
            left_out = set(changed.args) if attempt == _MAX_TRIES - 2 else left_out
            continue
        record = writer.record()
        write_file_atomically(job.record(shard.name), [replace(record, fresh=0).dump().encode()])
        job.marker_path(shard.name).unlink(missing_ok=True)
        return record
    raise AssertionError("what changes all the time is left out in the last attempt")


def _hash_slice_or_empty(job: CorpusJob, one: InputSlice) -> str:
    """Return the digest of a slice; empty where it can't be read, which its sessions report."""
    try:
        return hash_slice(Path(job.root), one)
    except UnabridgedError:
        return ""


def _describe_inputs(digests: dict[InputSlice, str]) -> tuple[dict[str, Any], ...]:
    return tuple(_describe_input(one, digest) for one, digest in digests.items())


def _describe_input(one: InputSlice, digest: str) -> dict[str, Any]:
    described = {"file": one.file, "bytes": one.size, "digest": digest}
    if one.group is not None:
        return described | {"group": one.group, "row": one.line + 1}
    return described | ({"start": one.start, "line": one.line + 1} if one.stop is not None else {})


def _read_old_rows(job: CorpusJob, shard: Shard) -> dict[tuple[SessionPosition, str], bytes]:
    """Return the rows of the part that is there, by the position and the digest of each session."""
    rows = {}
    for raw in job.part_path(shard.name).read_bytes().splitlines(keepends=True):
        row = json.loads(raw)
        rows[SessionPosition(row["file"], row["line"]), row["digest"]] = raw
    return rows


class _PartWriter:
    """Produces the rows of a part, and collects the counts and failures for its record."""

    def __init__(
        self, job: CorpusJob, shard: Shard, digests: dict[InputSlice, str],
        old_rows: dict[tuple[SessionPosition, str], bytes], left_out: set[InputSlice],
    ) -> None:  # fmt: skip
        self._job, self._digests, self._old_rows, self._left_out = job, digests, old_rows, left_out
        self._shard, self._marker = shard, job.marker_path(shard.name)
        self._deaths = self._read_deaths()
        """The sessions over which processes before this one ended, and how often."""
        self._given_up: list[list[Any]] = []
        self._failures: list[Failure] = []
        self._counts: Counts = {}
        self._sessions = self._fresh = self._size = 0
        self._hash = hashlib.sha256()

    def rows(self, do_session: SessionFunction) -> Iterator[bytes]:
        """Yield every row; raise `_InputChanged` in the end where the input is no longer the same."""
        for one in self._shard.slices:
            for session in self._read_sessions(one):
                raw = self._old_rows.get((session.place, session.digest)) or self._make_row(session, do_session)
                if raw is not None:
                    self._add_row(raw)
                    yield raw
        before = {one: digest for one, digest in self._digests.items() if one not in self._left_out}
        changed = [one for one, digest in before.items() if _hash_slice_or_empty(self._job, one) != digest]
        if changed:
            raise _InputChanged(*changed)

    def record(self) -> ShardRecord:
        """Return the record of the part."""
        counts, failures = dict(sorted(self._counts.items())), tuple(self._failures)
        digest, inputs = f"sha256:{self._hash.hexdigest()}", _describe_inputs(self._digests)
        return ShardRecord(self._shard.name, digest, self._size, inputs, self._sessions, counts, failures, self._fresh)

    def _read_sessions(self, one: InputSlice) -> Iterator[CorpusSession]:
        """Yield the sessions of a slice; note a failure where it can't be read as a whole."""
        place = SessionPosition(one.file, 0)
        if one in self._left_out:
            self._add_failure(place, "", "it changes all the time: close what writes it, and run this again")
            return
        try:
            yield from read_sessions(Path(self._job.root), one, self._digests[one], self._job.options)
        except GeneratorExit:
            raise
        except Exception as error:  # noqa: BLE001 - one bad file is reported, whatever is wrong with it
            self._add_failure(place, "", self._describe_error(error))

    def _make_row(self, session: CorpusSession, do_session: SessionFunction) -> bytes | None:
        """Return the row of a session; None where it failed."""
        place, deaths = session.place, self._deaths.pop(session.place, 0)
        if deaths >= _MAX_DEATHS:
            self._given_up.append([*place, deaths])
            reason = f"the process that worked on it ended {deaths} times: it may need more memory than there is"
            self._add_failure(place, session.id, reason)
            return None
        self._marker.write_text(json.dumps([*self._given_up, [*place, deaths + 1]]))
        labels = {"id": session.name, "file": place.file, "line": place.line, "digest": session.digest}
        try:
            raw = dump_line(labels | do_session(session))
        except Exception as error:  # noqa: BLE001 - one bad session is reported, whatever is wrong with it
            self._add_failure(place, session.id, self._describe_error(error))
            return None
        self._fresh += 1
        return raw

    def _add_row(self, raw: bytes) -> None:
        self._hash.update(raw)
        self._size += len(raw)
        self._sessions += 1
        for name, number in self._job.work.count(json.loads(raw)).items():
            self._counts[name] = self._counts.get(name, 0) + number

    def _add_failure(self, place: SessionPosition, name: str, reason: str) -> None:
        self._failures.append(Failure(place.file, place.line, name, reason))

    def _describe_error(self, error: Exception) -> str:
        """Return an error in one line, without the folder that the corpus is in."""
        text = " ".join(str(error).replace(f"{self._job.root}/", "").split())
        return text if isinstance(error, UnabridgedError) and text else f"{type(error).__name__}: {text[:300]}"

    def _read_deaths(self) -> dict[SessionPosition, int]:
        with suppress(OSError, ValueError, TypeError):
            return {SessionPosition(file, line): times for file, line, times in json.loads(self._marker.read_text())}
        return {}
