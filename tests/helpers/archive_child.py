"""What the archive's tests run in processes of their own, to be killed there or to compete.

python archive_child.py crash STORE PLACE STEP    one more compaction, killed at this step
python archive_child.py write STORE PLACE THREAD  compactions without end; a letter on stdout for every step
python archive_child.py compete STORE PLACE NAME THREADS ROUNDS
python archive_child.py starve STORE PLACE BYTES  compactions until the disk, here a limit on file sizes, is full
python archive_child.py each MODE ARGUMENTS...    one of these in a process for each JSON list, all at once
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable

from archive_support import open_store
from unabridged.archive.protocol import Archive, Part, Record, Scope
from unabridged.errors import ArchiveError
from unabridged_testing.archive_contract.values import make_part, make_summary

NAMESPACE = "crashes"
SIZE = 12
"""Messages of one compaction."""


def messages(number: int, size: int = SIZE) -> list[Part]:
    """The messages of the compaction with this number, one of them said in every one."""
    own = [make_part(f"message {number}.{at} " + f"words {at} " * 30, number * size + at) for at in range(size - 1)]
    return [*own, make_part("the same in all", number * size + size - 1)]


def compaction(scope: Scope, number: int, name: str = "r") -> tuple[Record, list[Part]]:
    """The record with this number and all its parts."""
    parts, put_in = messages(number), make_summary(f"summary {number}")
    before = tuple(part.hash for part in parts)
    record = Record(f"{name}{number}", scope, f"k{number}", len(parts), 0, before, (put_in.hash,), "summary")
    return record, [*parts, put_in]


def state(archive: Archive, scope: Scope) -> int:
    """How many compactions the thread has, every one of them whole; anything mixed fails."""
    count = len(archive.records(scope))
    whole = [compaction(scope, number) for number in range(count)]
    assert list(archive.records(scope)) == [record for record, _ in whole]
    assert list(archive.parts(scope)) == [part for _, parts in whole for part in parts if part.turn >= 0]
    for _, parts in whole:
        assert len(archive.bodies(scope, [part.hash for part in parts])) == len({part.hash for part in parts})
    assert [hit.turn for hit in archive.search(scope, f'"message {count - 1}.0"')] == (
        [count * SIZE - SIZE] if count else []
    )
    assert not archive.verify(scope)
    return count


def crash(store: str, place: str, step: str) -> None:
    def die(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    archive = open_store(store, place, die)
    scope = Scope(NAMESPACE, "crash")
    archive.store(*compaction(scope, len(archive.records(scope))))
    archive.close()


def write(store: str, place: str, thread: str) -> None:
    archive = open_store(store, place, lambda step: void(os.write(1, step[:1].encode())))
    scope = Scope(NAMESPACE, thread)
    number = len(archive.records(scope))
    while True:
        archive.store(*compaction(scope, number))
        os.write(1, b"!")
        number += 1


def compete(store: str, place: str, name: str, threads: str, rounds: str) -> None:
    archive = open_store(store, place)

    def work(worker: int) -> None:
        own = Scope(NAMESPACE, f"own {name} {worker}")
        shared = Scope(NAMESPACE, "shared")
        for number in range(int(rounds)):
            won = archive.store(*compaction(shared, number, f"{name}.{worker}."))
            assert won.key == f"k{number}"
            archive.store(*compaction(own, number))
            assert archive.search(shared, "message")
            if archive.lease(shared, f"k{number}", 60):
                os.write(1, f"lease {number}\n".encode())

    failures: list[BaseException] = []

    def guarded(worker: int) -> None:
        try:
            work(worker)
        except BaseException as error:  # noqa: BLE001 - reported by the exit code below
            failures.append(error)

    workers = [threading.Thread(target=guarded, args=[worker]) for worker in range(int(threads))]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    archive.close()
    if failures:
        raise failures[0]


def starve(store: str, place: str, limit: str) -> None:
    archive = open_store(store, place)
    scope = Scope(NAMESPACE, "crash")
    archive.store(*compaction(scope, 0))
    if int(limit):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sys.dont_write_bytecode = True  # it would be half a file, and stay
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    try:
        for number in range(1, 10_000):
            record, parts = compaction(scope, number)
            big = make_part(os.urandom(200_000).hex(), number * SIZE + SIZE - 1)
            archive.store(record, [*parts, big])
    except ArchiveError as error:
        os.write(1, f"{number}: {error}\n".encode())
    os.write(1, f"{len(archive.records(scope))}\n".encode())


def each(mode: str, *lists: str) -> None:
    """Run the mode in a forked process for each list of arguments; write how each of them ended, as JSON."""
    started = []
    for arguments in lists:
        pid = os.fork()  # nothing is open yet, and the imports are made once
        if pid == 0:
            try:
                MODES[mode](*json.loads(arguments))
            except BaseException:  # noqa: BLE001 - reported, and this process ends here
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        started.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in started]
    os.write(1, f"{json.dumps(codes)}\n".encode())


def void(_: object) -> None:
    """Forget a result."""


MODES: dict[str, Callable[..., None]] = {
    "crash": crash, "write": write, "compete": compete, "starve": starve, "each": each,
}  # fmt: skip

if __name__ == "__main__":
    MODES[sys.argv[1]](*sys.argv[2:])
