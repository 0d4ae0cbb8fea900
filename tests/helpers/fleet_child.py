"""A worker of the fleet, to be killed: it fits conversations of many threads, and writes down what it was given.

python fleet_child.py  forks a worker for every line of JSON on stdin, and says its process id.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from typing import Any

from unabridged import Compactor
from unabridged.archive import Archive, Scope, open_archive
from unabridged.errors import ArchiveError

NAMESPACE = "fleet"
WINDOW = 1_200
LONGEST = 16
"""Messages of a conversation."""
LEASE = 0.5


def conversation(thread: int) -> list[dict[str, str]]:
    """The messages of a thread: any program can tell them by its number."""
    words = random.Random(thread)  # noqa: S311 - words, not secrets
    messages = [{"role": "user", "content": f"Work through the numbers of order {thread}, one after the other."}]
    for number in range(1, LONGEST):
        said = " ".join(f"word{words.randrange(500)}" for _ in range(25))
        role = "assistant" if number % 2 else "user"
        messages.append({"role": role, "content": f"Number {number} of order {thread}: {said}."})
    return messages


class Late:
    """An archive that returns from `store` before the record is there: the fault that a check must find."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)

    def store(self, record: Any, parts: Any) -> Any:
        """The record, stored a moment later."""
        threading.Timer(0.05, self._archive.store, (record, parts)).start()
        return record


def work(task: dict[str, Any]) -> None:
    """Fit one conversation after the other, for ever. A line is in the file before anybody could know of it."""
    out = os.open(task["acks"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def tell(*words: object) -> None:
        os.write(
            out, f"{os.getpid()} {json.dumps(words)}\n".encode()
        )  # whole: a kill takes nothing that the kernel has

    chance = random.Random(task["seed"])  # noqa: S311 - order, not secrets
    archive = open_archive(task["url"], probe=False)
    if task.get("late"):
        archive = Late(archive)
    with Compactor(archive=archive, namespace=NAMESPACE, window=WINDOW) as compactor:
        while True:
            order = list(range(task["threads"]))
            chance.shuffle(order)
            for thread in order:
                messages = conversation(thread)[: chance.randrange(LONGEST - 6, LONGEST, 2)]
                try:
                    tell("begin", thread)
                    fitted = compactor.fit(messages, thread=f"order {thread}")
                    if fitted.changed:
                        tell("fitted", thread, len(messages), fitted.messages)
                    if thread % 5 == 0:
                        lease(archive, tell, chance)
                except ArchiveError as error:
                    tell("error", str(error))
                    time.sleep(0.05)


def lease(archive: Archive, tell: Any, chance: random.Random) -> None:
    """Take one of a few leases and hold it for a moment."""
    scope, key = Scope(NAMESPACE, "leases"), f"work {chance.randrange(3)}"
    asked = time.time()
    if archive.lease(scope, key, LEASE):
        tell("leased", key, asked, time.time())
        time.sleep(chance.uniform(0, 0.02))
        tell("released", key, asked, time.time())
        archive.release(scope, key)


def main() -> None:
    """Fork workers until stdin ends, and end with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                work(json.loads(line))
            except BaseException:  # noqa: BLE001 - the file tells of it, and no check takes it for work
                os.write(2, traceback.format_exc().encode())
            os._exit(1)
        os.write(1, f"{pid}\n".encode())


if __name__ == "__main__":
    main()
