"""Crashes, full and read-only disks, and many writers: the old state or the new one, never mixed, nothing lost."""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archive_child import NAMESPACE, compaction, state
from archive_support import new_place, open_store
from patience import PATIENCE
from places import HELPERS
from rows import rows
from unabridged.archive.protocol import Scope
from unabridged.archive.stores import base_sql, directory

pytestmark = pytest.mark.posix

CHILD = HELPERS / "archive_child.py"
SCOPE = Scope(NAMESPACE, "crash")
STEPS = {"sqlite": base_sql.WRITE_STEPS, "postgres": base_sql.WRITE_STEPS, "directory": directory.WRITE_STEPS}
INSIDE = {"sqlite": b"bpir", "postgres": b"bpir", "directory": b"lws"}
"""The first letters of the steps between the beginning of a write and what makes it last."""
KILLS = int(os.environ.get("UNABRIDGED_KILLS", "6"))
"""Random kills for each store; `UNABRIDGED_KILLS=200` for the long run."""


def child(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, CHILD, *arguments], capture_output=True, timeout=timeout, check=False)


def children(mode: str, *lists: list[str]) -> tuple[list[int], list[str]]:
    """Run the mode in a process for each list of arguments; return how each ended, and the lines that they wrote."""
    ran = child("each", mode, *map(json.dumps, lists), timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr.decode()
    *lines, codes = ran.stdout.decode().splitlines()
    assert not any(code > 0 for code in json.loads(codes)), ran.stderr.decode()
    return json.loads(codes), lines


@rows("store", STEPS)
def test_a_crash_at_any_step_leaves_the_old_or_the_new_state(store: str, tmp_path: Path) -> None:
    # R37 R38
    places: dict[str, str] = {}
    for step in STEPS[store]:
        (tmp_path / step).mkdir()
        places[step] = new_place(store, tmp_path / step)
        archive = open_store(store, places[step])
        archive.store(*compaction(SCOPE, 0))
        archive.close()
    codes, _ = children("crash", *([store, place, step] for step, place in places.items()))
    assert codes == [-signal.SIGKILL] * len(places)
    for step, place in places.items():
        again = open_store(store, place)
        done = step in {"committed", "renamed", "transcribed"}
        assert state(again, SCOPE) == (2 if done else 1), step
        again.store(*compaction(SCOPE, 1))
        assert state(again, SCOPE) == 2, step
        assert not again.verify(), step
        again.close()


@pytest.mark.parametrize("store", STEPS)
def test_a_crash_at_any_moment_loses_nothing_that_was_said_to_be_stored(store: str, tmp_path: Path) -> None:
    # R37
    place = new_place(store, tmp_path)
    seconds = random.Random(store)  # noqa: S311 - moments, not secrets
    moments: collections.Counter[str] = collections.Counter()
    for kill in range(KILLS):
        scope = Scope(NAMESPACE, f"thread {kill}")
        with subprocess.Popen(
            [sys.executable, CHILD, "write", store, place, scope.thread], stdout=subprocess.PIPE
        ) as run:
            assert run.stdout is not None
            heard = run.stdout.read(1)  # it is under way
            time.sleep(seconds.uniform(0.0, 0.15))
            run.kill()
            heard += run.stdout.read()
        again = open_store(store, place)
        finished = heard.count(b"!")
        assert state(again, scope) in {finished, finished + 1}
        again.close()
        moments["inside" if heard[-1:] in INSIDE[store] else "outside"] += 1
    again = open_store(store, place)
    assert not again.verify()
    again.close()
    assert KILLS < 200 or moments["inside"] >= 50, moments


@pytest.mark.parametrize("store", ["sqlite", "postgres", "directory"])
def test_many_processes_of_many_threads_share_one_archive(store: str, tmp_path: Path) -> None:
    place = new_place(store, tmp_path)
    processes, threads, rounds = (8, 8, 2) if store != "directory" else (4, 4, 2)
    numbers = range(processes)
    codes, leases = children("compete", *([store, place, f"p{n}", str(threads), str(rounds)] for n in numbers))
    assert codes == [0] * processes
    assert sorted(leases) == [f"lease {number}" for number in range(rounds)]
    archive = open_store(store, place)
    shared = archive.records(Scope(NAMESPACE, "shared"))
    assert [record.key for record in shared] == [f"k{number}" for number in range(rounds)]
    expected = [part for number in range(rounds) for part in compaction(SCOPE, number)[1] if part.turn >= 0]
    assert list(archive.parts(Scope(NAMESPACE, "shared"))) == expected
    assert len(archive.threads(NAMESPACE)) == 1 + processes * threads
    for thread in archive.threads(NAMESPACE):
        if thread != "shared":
            assert state(archive, Scope(NAMESPACE, thread)) == rounds
    assert not archive.verify(Scope(NAMESPACE, "shared"))
    archive.close()


@pytest.mark.parametrize("store", ["sqlite", "directory"])
def test_a_limit_on_file_sizes_is_a_clear_error_and_loses_nothing(store: str, tmp_path: Path) -> None:
    place = new_place(store, tmp_path)
    limit = {"sqlite": 3_000_000, "directory": 300_000}[store]
    failed, count = child("starve", store, place, str(limit)).stdout.decode().splitlines()
    check_starved(store, place, failed, int(count))


@pytest.mark.parametrize("store", ["sqlite", "directory"])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(store: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small disk needs root")
    try:
        place = new_place(store, disk)
        failed, count = child("starve", store, place, "0").stdout.decode().splitlines()
        assert "space" in failed
        check_starved(store, place, failed, int(count))
    finally:
        subprocess.run(["umount", str(disk)], check=True)  # noqa: S607 - the system's own


def check_starved(store: str, place: str, failed: str, count: int) -> None:
    number, _, message = failed.partition(": ")
    assert int(number) == count  # everything before the one that failed
    assert "archive" in message
    again = open_store(store, place)
    assert [record.id for record in again.records(SCOPE)] == [f"r{number}" for number in range(count)]
    assert not again.verify()
    again.close()


FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of every fork beside threads, which is what is tried here
from archive_support import open_store
from unabridged_testing.archive_contract.values import make_part, make_record
from unabridged.archive.protocol import Scope

archive = open_store(*sys.argv[1:])
stop = threading.Event()

def store(name, number):
    part = make_part(f"{name} {number}", number)
    archive.store(make_record([part], scope=Scope("n", name), key=f"k{number}"), [part])

def busy():
    number = 0
    while not stop.is_set():
        store("thread", number)
        number += 1

store("parent", 0)
writer = threading.Thread(target=busy)
writer.start()
children = []
for child in range(3):
    pid = os.fork()
    if pid == 0:
        for number in range(2):
            store(f"child {child}", number)
        assert len(archive.parts(Scope("n", f"child {child}"))) == 2
        os._exit(0)
    children.append(pid)
    store("parent", child + 1)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
writer.join()
assert len(archive.parts(Scope("n", "parent"))) == 4
assert not archive.verify(), archive.verify()
archive.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("store", STEPS)
def test_a_fork_amid_writing_harms_neither_parent_nor_child(store: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORK, store, new_place(store, tmp_path)]
    run = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False, cwd=CHILD.parent)
    assert run.returncode == 0, run.stderr.decode()
