"""Shards done in processes on this machine: the standard library's pool."""

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
from unabridged_corpus.manifest import Job, Record
from unabridged_corpus.shards import do_shard
from unabridged_corpus.spending import Limit, Pays, Purse

_AHEAD = 2
"""Shards that are given out for each process, so that none waits; and no more, so that memory stays flat."""
_BREAKS = 30
"""So often may the pool break with no session begun in between."""


class _Purses(BaseManager):
    """Keeps the purse in a process of its own."""


_Purses.register("Purse", Purse, exposed=("take", "settle", "spent"))


def in_processes(job: Job, shards: Iterable[Shard], jobs: int, limit: Limit) -> Iterator[Record]:
    """The record of every shard, as each is done. With one job, in this process."""
    if jobs == 1:
        purse = Purse(limit)
        yield from (do_shard(job, shard, purse) for shard in shards)
        return
    try:
        pickle.dumps(job)
    except Exception as error:
        raise SettingsError(
            f"this work can't be sent to other processes, say jobs=1 or name functions of a module: {error}"
        ) from error
    context = _context()
    here = set(multiprocessing.active_children())
    with ExitStack() as stack:
        stack.callback(_end_others, here)
        shared: Any = None
        if limit != Limit():
            manager = stack.enter_context(_Purses(ctx=context))
            shared = manager.Purse(limit)  # type: ignore[attr-defined] # registered above
        yield from _through(job, iter(shards), jobs, shared, context)


def _context() -> Any:
    """Processes that no thread of ours is forked into, and that load what they need once for all where that can be."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", do_shard.__module__])
    return context


def _through(job: Job, shards: Iterator[Shard], jobs: int, purse: Pays | None, context: Any) -> Iterator[Record]:
    """All shards through pools. Where a process ended, what was under way is tried again one by one."""
    suspects: deque[Shard] = deque()
    breaks, begun = 0, ""
    while True:
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(dict(os.environ),))
        running: dict[Future[Record], Shard] = {}
        lost: dict[Shard, None] = {}
        try:
            while True:
                alone = bool(suspects)
                room = (1 if alone else _AHEAD * jobs) - len(running)
                given = list(islice(suspects if alone else shards, max(0, room)))
                lost |= dict.fromkeys(given)  # until the pool has taken them
                for shard in given:
                    running[pool.submit(do_shard, job, shard, purse)] = shard
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
            before, begun = begun, "\n".join(_begun(job, shard) for shard in under_way)
            breaks = breaks + 1 if begun == before else 0
            if breaks > _BREAKS:
                told = f"the worker processes ended {breaks} times, and nothing was done: {error}"
                raise UnabridgedError(told) from error
            known = {*suspects}
            suspects.extend(shard for shard in under_way if shard not in known)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begun(job: Job, shard: Shard) -> str:
    """What stands of the sessions of a shard that were begun."""
    with suppress(OSError):
        return job.marker(shard.name).read_text()
    return ""


def _begin(environment: dict[str, str]) -> None:
    """In a worker: it has the environment of who began it, ends with that one, and leaves an interruption to it."""
    os.environ.clear()
    os.environ.update(environment)
    logging.getLogger("unabridged").setLevel(logging.ERROR)  # what a model failed at is in the receipts, and counted
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _end_others(here: set[Any]) -> None:
    """End the processes that were begun since; in the middle of a shard, where this one was interrupted."""
    for process in set(multiprocessing.active_children()) - here:
        process.terminate()
        process.join()
