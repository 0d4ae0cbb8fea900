"""Do shards on a Ray cluster, through Ray Data: streamed, with its back-pressure. Needs the extra `ray`.

A node does what a process here does, with the same function. When a node goes away, Ray gives its shards to others;
one that was done already is only looked at.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Iterator
from typing import Any

from unabridged.errors import NotInstalled, SettingsError
from unabridged_corpus.inputs import Shard, parse_shard
from unabridged_corpus.manifest import CorpusJob, ShardRecord, parse_record
from unabridged_corpus.shards import process_shard
from unabridged_corpus.spending import Purse, SpendingLimit

_MAX_TASKS = 2_000
"""The most tasks that a corpus is made into; of more shards, a task does several."""
_TASKS_PER_WORKER = 2
"""Tasks that a worker has at a time: with the next at hand it need not wait for the driver between two shards."""


class _RemotePurse:
    """A purse on another node."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def take(self, tokens: int, dollars: float) -> float:
        """Return the seconds to wait before the call; below 0 where there is no money for it."""
        return float(_import_ray().get(self._actor.take.remote(tokens, dollars)))

    def settle(self, tokens: int, dollars: float) -> None:
        """Add what a call took beyond what was held back for it."""
        _import_ray().get(self._actor.settle.remote(tokens, dollars))


def run_on_ray(job: CorpusJob, shards: Iterable[Shard], address: str, limit: SpendingLimit) -> Iterator[ShardRecord]:
    """Yield the record of every shard, as each is done."""
    ray = _import_ray()
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address)
    try:
        yield from _run_on_cluster(ray, job, shards, limit)
    finally:
        if is_ours:
            ray.shutdown()  # its last messages on lost workers come before the caller's


def _connect(ray: Any, address: str) -> None:
    """Join the cluster there; raise `SettingsError` where there is none."""
    _require_listener(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SettingsError(f"there is no Ray cluster at {address}: {' '.join(str(error).split())[:300]}") from error


def _run_on_cluster(ray: Any, job: CorpusJob, shards: Iterable[Shard], limit: SpendingLimit) -> Iterator[ShardRecord]:
    """Yield the records as the cluster's workers return them, in no order."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    purse: Any = None
    if limit != SpendingLimit():
        purse = _RemotePurse(ray.remote(Purse).options(num_cpus=0, max_restarts=0).remote(limit))
    items = [{"shard": shard.dump()} for shard in shards]
    if not items:
        return
    rows = ray.data.from_items(items, override_num_blocks=min(len(items), _MAX_TASKS))
    pool = ray.data.ActorPoolStrategy(min_size=1, max_tasks_in_flight_per_actor=_TASKS_PER_WORKER)
    for row in rows.map(_ShardWorker, fn_constructor_args=(job, purse), num_cpus=1, compute=pool).iter_rows():
        yield parse_record(row["record"])


def _require_listener(address: str) -> None:
    """Raise `SettingsError` for an address where nobody listens: Ray itself would look for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in host or not port.isdecimal():
        return
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return
    except OSError as error:
        raise SettingsError(f"there is no Ray cluster at {address}: {error.strerror or error}") from error


class _ShardWorker:
    """A process on a node that does one shard after another; Ray starts as many as there are cores."""

    def __init__(self, job: CorpusJob, purse: Any) -> None:
        logging.getLogger("unabridged").setLevel(logging.ERROR)  # what a model failed at is in the receipts
        self._job, self._purse = job, purse

    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Return the record of a shard, both as texts."""
        return {"record": process_shard(self._job, parse_shard(row["shard"]), self._purse).dump()}


def _import_ray() -> Any:
    try:
        import ray  # noqa: PLC0415 - large, and an extra
        import ray.data  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise NotInstalled("--ray", "unabridged[ray]", error) from error
    return ray
