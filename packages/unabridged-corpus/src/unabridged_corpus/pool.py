"""Do shards in processes on this machine, with the standard library's pool."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from itertools import islice
from multiprocessing.connection import wait as wait_for
from multiprocessing.managers import BaseManager
from typing import Any

from unabridged.errors import SettingsError, UnabridgedError
from unabridged_corpus.inputs import Shard
from unabridged_corpus.manifest import CorpusJob, ShardRecord
from unabridged_corpus.shards import process_shard
from unabridged_corpus.spending import Purse, PurseLike, SpendingLimit

_SHARDS_PER_PROCESS = 2
"""Shards that are given out for each process, so that none waits; and no more, so that memory stays flat."""
_MAX_BREAKS = 30
"""How often the pool may break with no session begun in between."""


class _PurseManager(BaseManager):
    """A manager that keeps the purse in a process of its own."""


_PurseManager.register("Purse", Purse, exposed=("take", "settle", "spent"))


def run_in_processes(job: CorpusJob, shards: Iterable[Shard], jobs: int, limit: SpendingLimit) -> Iterator[ShardRecord]:
    """Yield the record of every shard, as each is done. With one job, work in this process."""
    if jobs == 1:
        purse = Purse(limit)
        yield from (process_shard(job, shard, purse) for shard in shards)
        return
    try:
        pickle.dumps(job)
    except Exception as error:
        remedy = "say jobs=1 or name functions of a module"
        raise SettingsError(f"this work can't be sent to other processes, {remedy}: {error}") from error
    context = _make_process_context()
    here = set(multiprocessing.active_children())
    with ExitStack() as stack:
        stack.callback(_terminate_new_processes, here)
        shared: Any = None
        if limit != SpendingLimit():
            manager = stack.enter_context(_PurseManager(ctx=context))
            shared = manager.Purse(limit)  # type: ignore[attr-defined] # registered above
        yield from _run_pools(job, iter(shards), jobs, shared, context)


def _make_process_context() -> Any:
    """Return how processes are started: with no fork of our threads, and what they need loaded once where possible."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", process_shard.__module__])
    return context


def _run_pools(
    job: CorpusJob, shards: Iterator[Shard], jobs: int, purse: PurseLike | None, context: Any
) -> Iterator[ShardRecord]:
    """Yield the records of all shards. Where a process ended, what was under way is tried again one by one."""
    suspects: deque[Shard] = deque()
    breaks, marked = 0, ""
    while True:
        begin: dict[str, Any] = {"initializer": _initialise_worker, "initargs": (dict(os.environ),)}
        pool = ProcessPoolExecutor(jobs, mp_context=context, **begin)
        running: dict[Future[ShardRecord], Shard] = {}
        lost: dict[Shard, None] = {}
        try:
            while True:
                alone = bool(suspects)
                room = (1 if alone else _SHARDS_PER_PROCESS * jobs) - len(running)
                next_shards = list(islice(suspects if alone else shards, max(0, room)))
                lost |= dict.fromkeys(next_shards)  # until the pool has taken them
                for shard in next_shards:
                    running[pool.submit(process_shard, job, shard, purse)] = shard
                lost.clear()
                if not running:
                    pool.shutdown()
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    record = future.result()
                    del running[future]
                    breaks = 0
                    if alone:
                        suspects.popleft()
                    yield record
        except BrokenProcessPool as error:
            under_way = {**dict.fromkeys(running.values()), **lost}
            before, marked = marked, "\n".join(_read_marker(job, shard) for shard in under_way)
            breaks = breaks + 1 if marked == before else 0
            if breaks > _MAX_BREAKS:
                words = f"the worker processes ended {breaks} times, and nothing was done: {error}"
                raise UnabridgedError(words) from error
            known = {*suspects}
            suspects.extend(shard for shard in under_way if shard not in known)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _read_marker(job: CorpusJob, shard: Shard) -> str:
    """Return what is noted of the sessions of a shard that were begun."""
    with suppress(OSError):
        return job.marker_path(shard.name).read_text()
    return ""


def _initialise_worker(environment: dict[str, str]) -> None:
    """Set up a worker: the environment of its parent, its end with that one, and no handling of interrupts."""
    os.environ.clear()
    os.environ.update(environment)
    logging.getLogger("unabridged").setLevel(logging.ERROR)  # failures of a model are in the receipts, and counted
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _terminate_new_processes(here: set[Any]) -> None:
    """End the processes that were begun since, even in the middle of a shard."""
    for process in set(multiprocessing.active_children()) - here:
        process.terminate()
        process.join()
