"""Eight workers on one Postgres, killed at any instant, a server that crashes: nothing is lost."""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import workspace
from fleet_child import LEASE, LONGEST, NAMESPACE, WINDOW, conversation
from pg_servers import Bouncer, Server, pgbouncer, wheel
from places import HELPERS
from unabridged import Compactor
from unabridged.archive import Archive, Scope, codec, open_archive
from unabridged.errors import UnabridgedError

pytestmark = pytest.mark.posix

KILLS = int(os.environ.get("UNABRIDGED_FLEET_KILLS", "0"))
"""Workers that are killed in the long run: `make fleet`."""
THREADS = int(os.environ.get("UNABRIDGED_FLEET_THREADS", "2000"))
BINARIES = os.environ.get("UNABRIDGED_FLEET_POSTGRES", "")
"""Another Postgres than the wheel's: `/usr/lib/postgresql/15/bin` is Debian's."""


class Workers:
    """Processes that are forked from one that has everything loaded, and killed one by one."""

    def __init__(self, folder: Path) -> None:
        paths = os.pathsep.join([workspace.python_path(), str(HELPERS)])
        self._log = (folder / "workers.log").open("ab")
        self._zygote = subprocess.Popen(
            [sys.executable, HELPERS / "fleet_child.py"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip

    def start(self, task: dict[str, Any]) -> int:
        """A worker's process id."""
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(task) + "\n")
        self._zygote.stdin.flush()
        return int(self._zygote.stdout.readline())

    def close(self) -> None:
        """No more of them."""
        self._zygote.kill()
        self._zygote.communicate()
        self._log.close()


class Fleet:
    """The workers, and what they were given."""

    def __init__(self, folder: Path, url: str, workers: int, threads: int, *, late: bool = False) -> None:
        self.acks, self.url, self.threads, self._late = folder / "acks.jsonl", url, threads, late
        self.acks.touch()
        self._workers = Workers(folder)
        self._chance = random.Random(threads)  # noqa: S311 - moments, not secrets
        self._running: list[int] = []
        self._started = 0
        for _ in range(workers):
            self._start()

    def _start(self) -> None:
        self._started += 1
        task = {"url": self.url, "threads": self.threads, "acks": str(self.acks), "seed": self._started}
        self._running.append(self._workers.start({**task, "late": self._late}))

    def kill(self, *, replace: bool = True) -> None:
        """Kill one of them, whatever it is at, and have another in its place."""
        os.kill(self._running.pop(self._chance.randrange(len(self._running))), signal.SIGKILL)
        if replace:
            self._start()

    def pause(self) -> None:
        """Let them work until some more is written down, and a moment longer."""
        written = self.acks.stat().st_size + self._chance.randrange(12_000)
        until = time.monotonic() + 300
        while self.acks.stat().st_size < written:
            assert time.monotonic() < until, "nobody does anything"
            time.sleep(0.01)
        time.sleep(self._chance.uniform(0, 0.05))

    def heard(self) -> list[list[Any]]:
        """All that they wrote down."""
        return [json.loads(line.partition(" ")[2]) for line in self.acks.read_text().splitlines()]

    def killed_inside(self) -> int:
        """How many of them were killed in the middle of a `fit`."""
        last = dict(line.split(" ", 1) for line in self.acks.read_text().splitlines())
        return sum(line.startswith('["begin"') for line in last.values())

    def wait_for_all(self) -> None:
        """Let them work until each conversation was fitted by one of them."""
        until = time.monotonic() + 900
        while (done := len({line[1] for line in self.heard() if line[0] == "fitted"})) < self.threads:
            assert time.monotonic() < until, f"{done} of {self.threads}"
            time.sleep(0.002 * self.threads)

    def close(self) -> None:
        """Kill all of them."""
        while self._running:
            self.kill(replace=False)
        self._workers.close()


def check(fleet: Fleet, url: str) -> collections.Counter[str]:
    """Assert that everything a worker was given is there, each thing once; what was found, in numbers."""
    found: collections.Counter[str] = collections.Counter()
    heard = fleet.heard()
    found.update(str(line[0]) for line in heard)
    found["killed inside a fit"] = fleet.killed_inside()
    with (
        closing(open_archive(url)) as archive,
        Compactor(archive=archive, namespace=NAMESPACE, window=WINDOW) as compactor,
    ):
        assert not archive.verify()
        for _, thread, length, fitted in (line for line in heard if line[0] == "fitted"):
            whole = compactor.replay(fitted, thread=f"order {thread}")
            assert whole == conversation(thread)[:length], f"order {thread}, {length} messages, is not what it was"
        names: collections.Counter[str] = collections.Counter()
        for thread in archive.threads(NAMESPACE):
            names.update(check_thread(archive, thread))
        assert not [name for name, times in names.items() if times > 1], "a record is there twice"
        found["records"] = len(names)
        for thread in range(fleet.threads):
            fitted = compactor.fit(conversation(thread), thread=f"order {thread}").messages
            assert len(fitted) < LONGEST
            assert compactor.replay(fitted, thread=f"order {thread}") == conversation(thread)
    check_leases(heard)
    return found


def check_thread(archive: Archive, name: str) -> list[str]:
    """Assert that the thread has nothing twice and nothing that was not said; the ids of its records."""
    scope, said = Scope(NAMESPACE, name), conversation(int(name.rpartition(" ")[2]))
    parts = archive.parts(scope)
    assert len({part.turn for part in parts}) == len(parts), f"{name} has a message twice"
    assert all(codec.decode(part.body) == said[part.turn] for part in parts), f"{name} has what nobody said"
    records = archive.records(scope)
    assert len({record.key for record in records}) == len(records), f"{name} has a key twice"
    return [record.id for record in records]


def check_leases(heard: list[list[Any]]) -> None:
    """Assert that nobody had a lease while another had it: it was given back, or had run out."""
    held = sorted((line for line in heard if line[0] == "leased"), key=lambda line: float(line[3]))
    given_back = {(key, asked): at for kind, key, asked, at in (h for h in heard if h[0] == "released")}
    free: dict[str, float] = {}
    for _, key, asked, granted in held:
        assert granted >= free.get(key, 0), f"two have {key!r}"
        free[key] = min(given_back.get((key, asked), asked + LEASE), asked + LEASE)


def run(fleet: Fleet, server: Server, kills: int) -> collections.Counter[str]:
    """Have everything happen to the workers; what was found afterwards."""
    for number in range(kills):
        fleet.pause()
        fleet.kill()
        if number == kills // 2:
            server.stop()
            time.sleep(0.5)
            server.start()
    fleet.wait_for_all()
    fleet.close()
    return check(fleet, server.url)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(Path(BINARIES) if BINARIES else wheel())
    yield made
    made.close()


@pytest.mark.parametrize("place", ["postgres", "pgbouncer"] if KILLS else ["postgres"])
def test_workers_that_are_killed_under_a_crash_lose_nothing(place: str, server: Server, tmp_path: Path) -> None:
    if place == "pgbouncer" and pgbouncer() is None:
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    bouncer = Bouncer(server) if place == "pgbouncer" else None
    workers, threads = (8, THREADS) if KILLS else (3, 9)
    fleet = Fleet(tmp_path, server.url if bouncer is None else bouncer.url, workers, threads)
    try:
        found = run(fleet, server, KILLS or 6)
    finally:
        fleet.close()
        if bouncer is not None:
            bouncer.close()
    print(dict(found))  # noqa: T201 - the numbers of the long run
    assert "Traceback" not in (tmp_path / "workers.log").read_text()
    assert found["fitted"] >= fleet.threads
    assert found["leased"]


def test_what_a_store_only_promised_is_found_missing(server: Server, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, server.url, workers=3, threads=9, late=True)
    fleet.wait_for_all()
    fleet.close()
    with pytest.raises((AssertionError, UnabridgedError)):
        check(fleet, server.url)
