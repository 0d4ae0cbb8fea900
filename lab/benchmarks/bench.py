"""One run of the benchmarks: its options, the peers, the replays that several parts share, and what is kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import data
from benchmarks.driver import ROOT, Peer, Process, every_arm, peers
from benchmarks.fakes import budget_for
from benchmarks.replay import replay
from benchmarks.tasks import replay_one
from unabridged.settings import Prices

RESULTS = ROOT / ".bench" / "results"
STORED = Path(__file__).parent / "results"
"""The results of the last whole run, which the page is made from: in the repository."""
WINDOW = 16_000
"""The window of the table at the top."""
WINDOWS = (4_000, 8_000, 16_000, 32_000)
SEED = 0
EDITION = 9
"""Of the measurements: another one with every change to the harness that changes a number."""
WORKERS = 2
RECALL = "ours, with recall tools"
APART = ("ours, deserialised anew", "OpenAI Agents, a run a step", RECALL)
"""Arms that only one part looks at: `overhead`, `adapters` and `tasks`."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """An arm with its settings on half of the conversations, in one window, with one fake."""

    arm: str
    peer: Peer
    window: int
    fake: str = "extractive"
    settings: str = "{}"
    even: bool = False
    limit: int | None = None
    most: int | None = None
    seconds: float = 0.0
    gap: float = 0.0
    folder: str | None = None


@dataclass
class Bench:
    """A run's arms, conversations and kept results. Without a folder it uses generated conversations."""

    folder: str | None = None
    quick: bool = False
    limit: int = 6
    """Conversations of each file."""
    most: int = 400
    """Messages of each conversation."""
    generated: int = 10_000
    """Small conversations that legality is tried on."""
    fresh: bool = False
    """Whether to measure again what is on disk."""
    stale: bool = False
    """Whether results of earlier code of this project will do."""
    only: tuple[str, ...] = ()
    """Parts of the names of arms; all when there are none."""
    said: Callable[[str], object] = print
    reused: int = 0
    """Results that were measured in an earlier run."""
    _began: float = field(default_factory=time.time)
    _chosen: dict[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def arms(self) -> dict[str, dict[str, Any]]:
        """Return every arm that could be started, this project's first."""
        found = every_arm(peers(), self.said)
        order = sorted(found, key=lambda name: (not name.startswith("ours"), not found[name]["peer"].packages))
        return {name: found[name] for name in order if not self.only or any(part in name for part in self.only)}

    @cached_property
    def code(self) -> str:
        """Return a name for the code of this project that is measured."""
        return _digest(ROOT / "packages" / "unabridged" / "src")

    @property
    def compared(self) -> list[str]:
        """Return the arms of every table."""
        return [name for name in self.arms if name not in APART]

    @property
    def asking(self) -> list[str]:
        """Return the arms that ask a model."""
        return [name for name in self.compared if self.arms[name]["model"]]

    @property
    def windows(self) -> tuple[int, ...]:
        """Return the windows to measure."""
        return (WINDOW,) if self.quick else WINDOWS

    @property
    def source(self) -> str:
        """Return what the conversations are, in words."""
        if self.folder is None:
            return "generated conversations (set BENCH_DATA for recorded ones)"
        counts: dict[str, int] = {}
        for one in data.chosen(self.folder, even=False, limit=self.limit):
            counts[one.data] = counts.get(one.data, 0) + 1
        listed = ", ".join(f"{count} of `{name}`" for name, count in counts.items())
        return f"held-out conversations ({listed}; of each at most its first {self.most} messages)"

    def about(self) -> Row:
        """Return what a reader needs to repeat the run."""
        versions = {name: version for arm in self.arms.values() for name, version in arm["versions"].items()}
        return {
            "source": self.source,
            "seed": SEED,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "versions": dict(sorted(versions.items())),
            "quick": self.quick,
            "reused": self.reused,
        }

    def job(self, arm: str, window: int = WINDOW, **options: Any) -> Job:
        """Return the job of an arm with the settings chosen for it."""
        settings = options.pop("settings", None)
        chosen = self.settings(arm) if settings is None else settings
        options = {"limit": self.limit, "most": self.most, **options}
        return Job(arm, self.arms[arm]["peer"], window, settings=json.dumps(chosen), folder=self.folder, **options)

    def replays(self, title: str, jobs: Sequence[Job], workers: int = WORKERS) -> dict[Job, list[Row]]:
        """Return the replays of every job."""
        done = self.each(title, carry_out, [(job.arm, job) for job in jobs], workers)
        for job, rows in zip(jobs, done, strict=True):
            for row in rows:
                if row["error"] and not job.peer.packages:  # a peer's is a result; one of this project's is a bug
                    self.said(f"{job.arm} ended in {row['name']}, {job.window:,} tokens: {row['error']}")
        return dict(zip(jobs, done, strict=True))

    def each(
        self, title: str, work: Callable[[Any], Any], items: Sequence[tuple[Any, ...]], workers: int = WORKERS
    ) -> list[Any]:
        """Return the result of `work` for each item, whose first value is an arm's name; read kept ones from disk.

        Kept results are those of the same versions; of this project, those of the same code unless `stale` is set.
        """
        paths = [self._path(work, item) for item in items]
        known = [self._known(path) for path in paths]
        self.reused += sum(path is not None and path.stat().st_mtime < self._began for path in known)
        todo = [place for place, path in enumerate(known) if path is None]
        for at, value in spread(title, work, [items[place] for place in todo], workers):
            write(paths[todo[at]], value)
        return [json.loads((path or paths[place]).read_text(encoding="utf-8")) for place, path in enumerate(known)]

    def _path(self, work: Callable[[Any], Any], item: tuple[Any, ...]) -> Path:
        """Return the path of a result, named by what was measured and by the code of this project."""
        arm = self.arms[item[0]]
        stated = [
            f"{work.__module__}.{work.__name__}",
            repr(item),
            EDITION,
            arm["versions"],
            data.fingerprint(self.folder),
        ]
        key = hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:20]
        return RESULTS / "kept" / (f"{key}.json" if arm["peer"].packages else f"{key}-{self.code}.json")

    def _known(self, path: Path) -> Path | None:
        """Return the result on disk; with `fresh`, only one of this run."""
        if self.fresh:
            return path if path.exists() and path.stat().st_mtime >= self._began else None
        if path.exists():
            return path
        older = path.parent.glob(f"{path.stem.partition('-')[0]}-*.json") if self.stale else ()
        return max(older, key=lambda one: one.stat().st_mtime, default=None)

    def settings(self, arm: str) -> dict[str, Any]:
        """Return the settings that suit the arm best on the even conversations; its defaults in a quick run."""
        if not self._chosen:
            self._tune()
        return self._chosen.get(arm, {})

    def _tune(self) -> None:
        """Try each grid once; choose the fewest refused runs, then the fewest tokens per task beside the defaults."""
        self._chosen = {name: dict(self.arms[name]["grid"][0]) for name in self.compared}
        if self.quick:
            return
        grids = {name: self.arms[name]["grid"] for name in self.compared if len(self.arms[name]["grid"]) > 1}
        options: dict[str, Any] = {"even": True, "limit": max(1, self.limit // 3)}
        jobs = {
            (name, i): self.job(name, settings=s, **options) for name, grid in grids.items() for i, s in enumerate(grid)
        }
        found = self.each("choosing settings", carry_out_tasks, [(job.arm, job) for job in jobs.values()])
        done = dict(zip(jobs, found, strict=True))
        for name, grid in grids.items():
            ranks = [rank(done[name, i], done[name, 0]) for i in range(len(grid))]
            self._chosen[name] = dict(grid[ranks.index(min(ranks))])


def rank(runs: Sequence[Row], defaults: Sequence[Row]) -> tuple[int, float]:
    """Return how many runs were refused, and their tokens per task relative to those with the default settings."""
    refused = sum(run["refused_at"] is not None for run in runs)
    pairs = zip(runs, defaults, strict=True)
    return refused, mean(tokens_of_task(run) / max(tokens_of_task(one), 1.0) for run, one in pairs)


def tokens_of_task(run: Row) -> float:
    """Return the tokens of one replayed task."""
    return float(run["sent"] + run["summaries"] + run["fetches"])


def needed(run: Row, kind: str | int = "cut", parts: Sequence[int] = (0, 2)) -> float | None:
    """Return the share of files and names needed next that accepted requests contained; None where none were needed."""
    shares = []
    for point in run["points"]:
        total = sum(point["held"][part + 1] for part in parts)
        if point["kind"] == kind and total:
            shares.append(sum(point["held"][part] for part in parts) / total if point["sent"] else 0.0)
    return mean(shares) if shares else None


def cost(run: Row, prices: Prices | None = None) -> float:
    """Return the cost of the run, its summaries included, relative to sending everything."""
    at = prices or Prices()
    weights = (at.read, at.write, at.fresh, at.output) if at.has_cheap_reads else (*(at.fresh,) * 3, at.output)
    bill, raw = (sum(n * w for n, w in zip(run[name], weights, strict=True)) for name in ("bill", "raw"))
    return bill / raw if raw else 1.0


def mean(values: Iterable[float]) -> float:
    """Return the mean, or 0 for no values."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def carry_out(item: tuple[str, Job]) -> list[Row]:
    """Run the job's replays in a process of its own, and return their rows."""
    return over_conversations(item[1], partial(replay, gap=item[1].gap))


def carry_out_tasks(item: tuple[str, Job]) -> list[Row]:
    """Replay the job's conversations as tasks, and return what each took."""
    return over_conversations(item[1], replay_one)


def start_of(job: Job) -> Row:
    """Return the command that starts a conversation of this job."""
    start = {"arm": job.arm, "window": job.window, "fake": job.fake, "seconds": job.seconds}
    return {**start, "budget": budget_for(job.window), "settings": json.loads(job.settings)}


def over_conversations(job: Job, work: Callable[..., Row]) -> list[Row]:
    """Return what `work` gives for each conversation of the job, in a process of the job's own while that lives."""
    rows: list[Row] = []
    process = Process(job.peer)
    try:
        for one in data.chosen(job.folder, even=job.even, limit=job.limit, most=job.most):
            rows.append(work(process, one, **start_of(job)))
            if rows[-1]["ended"]:
                process.close()
                process = Process(job.peer)
    finally:
        process.close()
    return rows


def spread(
    title: str, work: Callable[[Any], Any], items: Sequence[Any], workers: int = WORKERS
) -> Iterator[tuple[int, Any]]:
    """Do the work on each item in several processes, with a progress bar; yield each index and result as it is done."""
    if not items:
        return
    columns = (TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress, ProcessPoolExecutor(workers) as pool:
        task = progress.add_task(title, total=len(items))
        futures: dict[Future[Any], int] = {pool.submit(work, item): place for place, item in enumerate(items)}
        for future in as_completed(futures):
            progress.advance(task)
            yield futures[future], future.result()


def write(path: Path, value: Any) -> None:
    """Keep a value as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".py", ".md", ".json"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
