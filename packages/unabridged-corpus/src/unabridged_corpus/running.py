"""A whole corpus: from what is named to a folder of parts and a manifest."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from unabridged.archive.stores.files import TEMPORARY, locked
from unabridged.errors import ArchiveError, SettingsError
from unabridged.formats import FORMATS
from unabridged.sessions import KINDS, MAX_SIZE
from unabridged_corpus.inputs import SHARD, Shard, files_of, shards_of
from unabridged_corpus.manifest import RECORDS, Job, Record, Report, write_manifest
from unabridged_corpus.reading import How
from unabridged_corpus.spending import Limit
from unabridged_corpus.works import Work


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is."""

    done: int
    """Bytes of input."""
    total: int
    sessions: int
    failed: int


def run(
    work: Work,
    source: str | Path,
    out: str | Path,
    *,
    jobs: int = 1,
    ray: str | None = None,
    format: str | None = None,  # noqa: A002 - the word every part uses for it
    max_size: int = MAX_SIZE,
    shard: int = SHARD,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """Do the work with every session of the corpus; what became of it. Called again, it does what is left.

    `source` is a file, a folder or a pattern; `out` a folder that is made. `jobs` processes do it on this machine, or,
    with `ray`, the cluster at that address. Processes load the main module of a program anew: where `jobs` is above 1,
    call this below `if __name__ == "__main__":`.
    """
    if jobs < 1 or shard < 1:
        raise SettingsError(f"jobs and shard must be at least 1; got {jobs} and {shard}")
    if format is not None and format not in FORMATS and format not in KINDS:
        raise SettingsError(f"unknown format {format!r}: choose one of {', '.join((*FORMATS, *KINDS))}")
    place = Path(out).absolute()
    root, names = files_of(str(source), place)
    job = Job(work, str(root), str(place), How(format, max_size), shard)
    job.prepare()
    try:
        with locked(place / RECORDS / "lock", 0):
            return _run(job, str(source), names, progress, lambda shards: _records(job, shards, jobs, ray))
    except ArchiveError as error:
        if str(place / RECORDS / "lock") not in str(error):
            raise
        raise SettingsError(f"another run is writing to {out}: wait for it to end") from error


def _run(
    job: Job,
    source: str,
    names: list[str],
    progress: Callable[[Progress], None],
    records_of: Callable[[Iterator[Shard]], Generator[Record, None, None]],
) -> Report:
    for left in (*Path(job.out).glob(".*.part"), *Path(job.out, RECORDS).glob(f"{TEMPORARY}*")):
        left.unlink(missing_ok=True)  # of a run that was killed
    planned: list[str] = []
    sizes: dict[str, int] = {}
    at = Progress(0, sum(_size(Path(job.root, name)) for name in names), 0, 0)
    fresh, complete = 0, False
    progress(at)
    try:
        with closing(records_of(_noted(job, names, planned, sizes))) as records:
            for record in records:
                fresh += record.fresh
                done = at.done + sizes.pop(record.shard, 0)
                at = replace(at, done=done, sessions=at.sessions + record.sessions)
                at = replace(at, failed=at.failed + len(record.failures))
                progress(at)
        complete = True
    finally:
        report = write_manifest(job, source, planned, complete=complete, fresh=fresh)
    _forget_others(job, set(planned))
    return report


def _records(job: Job, shards: Iterator[Shard], jobs: int, ray: str | None) -> Generator[Record, None, None]:
    limit: Limit = getattr(job.work, "limit", Limit())
    if ray is not None:
        from unabridged_corpus.cluster import on_ray  # noqa: PLC0415 - only who has a cluster needs it

        yield from on_ray(job, shards, ray, limit)
        return
    from unabridged_corpus.pool import in_processes  # noqa: PLC0415 - starting the command line stays cheap

    yield from in_processes(job, shards, jobs, limit)


def _noted(job: Job, names: list[str], planned: list[str], sizes: dict[str, int]) -> Iterator[Shard]:
    """Every shard, when it is its turn; its name and its size are noted."""
    for shard in shards_of(Path(job.root), names, job.shard_size, job.how.format):
        planned.append(shard.name)
        sizes[shard.name] = shard.size
        yield shard


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _forget_others(job: Job, planned: set[str]) -> None:
    """Remove the parts of files that are no longer in the corpus."""
    for record in Path(job.out, RECORDS).glob("*.json"):
        if record.stem not in planned and record.stem != "job":
            job.part(record.stem).unlink(missing_ok=True)
            record.unlink(missing_ok=True)
