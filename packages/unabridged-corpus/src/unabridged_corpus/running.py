"""Run a work over a whole corpus, from the files that are named to a folder of parts and a manifest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from unabridged.archive.stores.files import TEMPORARY_PREFIX, hold_file_lock
from unabridged.errors import ArchiveError, SettingsError
from unabridged.formats import FORMATS
from unabridged.sessions import KINDS, MAX_SIZE
from unabridged_corpus.inputs import SHARD_BYTES, Shard, find_corpus_files, split_into_shards
from unabridged_corpus.manifest import RECORDS_FOLDER, CorpusJob, Report, ShardRecord, write_manifest
from unabridged_corpus.reading import ReadOptions
from unabridged_corpus.spending import SpendingLimit
from unabridged_corpus.works import Work


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; `done` and `total` are bytes of input."""

    done: int
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
    shard: int = SHARD_BYTES,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """Process every session of the corpus and return the report; called again, process the rest.

    `source` is a file, a folder or a pattern; `out` a folder that is made. `jobs` processes do it on this machine, or,
    with `ray`, the cluster at that address. Processes load the main module of a program anew: where `jobs` is above 1,
    call this below `if __name__ == "__main__":`.
    """
    if jobs < 1 or shard < 1:
        raise SettingsError(f"jobs and shard must be at least 1; got {jobs} and {shard}")
    if format is not None and format not in FORMATS and format not in KINDS:
        raise SettingsError(f"unknown format {format!r}: choose one of {', '.join((*FORMATS, *KINDS))}")
    place = Path(out).absolute()
    root, names = find_corpus_files(str(source), place)
    job = CorpusJob(work, str(root), str(place), ReadOptions(format, max_size), shard)
    job.prepare()
    try:
        with hold_file_lock(place / RECORDS_FOLDER / "lock", 0):
            return _run_job(job, str(source), names, jobs, ray, progress=progress)
    except ArchiveError as error:
        if str(place / RECORDS_FOLDER / "lock") not in str(error):
            raise
        raise SettingsError(f"another run is writing to {out}: wait for it to end") from error


def _run_job(
    job: CorpusJob, source: str, names: list[str], jobs: int, ray: str | None, *, progress: Callable[[Progress], None]
) -> Report:
    for leftover in (*Path(job.out).glob(".*.part"), *Path(job.out, RECORDS_FOLDER).glob(f"{TEMPORARY_PREFIX}*")):
        leftover.unlink(missing_ok=True)  # of a run that was killed
    sizes: dict[str, int] = {}
    now = Progress(0, sum(_read_file_size(Path(job.root, name)) for name in names), 0, 0)
    fresh, complete = 0, False
    progress(now)
    try:
        with closing(_run_shards(job, _plan_shards(job, names, sizes), jobs, ray)) as records:
            for record in records:
                fresh += record.fresh
                done, failed = now.done + sizes.get(record.shard, 0), now.failed + len(record.failures)
                now = Progress(done, now.total, now.sessions + record.sessions, failed)
                progress(now)
        complete = True
    finally:
        report = write_manifest(job, source, sizes, complete=complete, fresh=fresh)
    _remove_stale_parts(job, sizes)
    return report


def _run_shards(
    job: CorpusJob, shards: Iterator[Shard], jobs: int, ray: str | None
) -> Generator[ShardRecord, None, None]:
    limit: SpendingLimit = getattr(job.work, "limit", SpendingLimit())
    if ray is not None:
        from unabridged_corpus.cluster import run_on_ray  # noqa: PLC0415 - only who has a cluster needs it

        yield from run_on_ray(job, shards, ray, limit)
    else:
        from unabridged_corpus.pool import run_in_processes  # noqa: PLC0415 - starting the command line stays cheap

        yield from run_in_processes(job, shards, jobs, limit)


def _plan_shards(job: CorpusJob, names: list[str], sizes: dict[str, int]) -> Iterator[Shard]:
    """Yield every shard when it is its turn, and note its size by its name."""
    for shard in split_into_shards(Path(job.root), names, job.shard_size, job.options.format):
        sizes[shard.name] = shard.size
        yield shard


def _read_file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _remove_stale_parts(job: CorpusJob, planned: Collection[str]) -> None:
    """Remove the parts of files that are no longer in the corpus."""
    for record in Path(job.out, RECORDS_FOLDER).glob("*.json"):
        if record.stem not in planned and record.stem != "job":
            job.part_path(record.stem).unlink(missing_ok=True)
            record.unlink(missing_ok=True)
