"""Faults around a hook: the client must continue each time as if the hook were not there."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from real_clients.clients import Driver, Place, program, write_program
from real_clients.grown import RULE, Check, grow

LARGE = 200_000_000
"""Bytes of a long transcript."""
_NEVERTHELESS = {
    "the rule stands word for word": "the rule is there",
    "the archive has every message from before": "archived",
    "the search gives the fact back, and no other session's": "the search finds",
}
OURS = f'"{sys.executable}" -m unabridged'
_CHANGED = """import json, os, subprocess, sys
given = json.loads(sys.stdin.read())
text = open(given["transcript_path"], "rb").read()
given["transcript_path"] = {path!r}
{change}
with open({path!r} + ".new", "wb") as changed:
    changed.write(text)
os.replace({path!r} + ".new", {path!r})
command = [sys.executable, "-m", "unabridged", "hook"]
done = subprocess.run(command, input=json.dumps(given).encode(), capture_output=True)
sys.stdout.buffer.write(done.stdout)
sys.exit(done.returncode)
"""
_LONGER = f"""lines = text.splitlines(keepends=True)
asked = next((number for number, line in enumerate(lines, 1) if {RULE[:20].encode()!r} in line), 0)
work = b"".join([line for line in lines if b"level 900 cm" in line][:4])
text = b"".join([*lines[:asked], work * ({LARGE} // len(work) if work else 0), *lines[asked:]])"""


def _removed(place: Place) -> None:
    """Remove our program, as if its environment had been deleted."""
    program(place).unlink()


def _killed(place: Place) -> None:
    """Kill the hook at once."""
    write_program(place, "kill -9 $$")


def _killed_at_work(place: Place) -> None:
    """Kill the hook while it archives."""
    at_work = f"{OURS} hook <&0 & sleep 0.3; kill -9 $!; wait $!"
    write_program(place, f'if [ "$1" = hook ]; then {at_work}; exit; fi\nexec {OURS} "$@"')


def _full(place: Place) -> None:
    """Limit the hook to files of a few kilobytes, as on a full disk, and turn byte code off, which would fail first."""
    write_program(place, f'ulimit -f 16\nexport PYTHONDONTWRITEBYTECODE=1\nexec {OURS} "$@"')


def _broken(place: Place) -> None:
    """Write an archive that is not a database."""
    place.archive.write_text("this is no database\n" * 100, encoding="utf-8")


def _cut(place: Place) -> None:
    """Cut the transcript off in the middle of a line."""
    _with_transcript(place, "text = text[:-150]")


def _large(place: Place) -> None:
    """Grow the transcript to 200 MB, with much work between the request and the last step."""
    _with_transcript(place, _LONGER)


def _with_transcript(place: Place, change: str) -> None:
    script = place.write("change.py", _CHANGED.format(path=str(place.home / "changed.jsonl"), change=change))
    shell = f'if [ "$1" = hook ]; then exec "{sys.executable}" "{script}"; fi\nexec {OURS} "$@"'
    write_program(place, shell)


FAULTS: dict[str, Callable[[Place], None]] = {
    "environment removed": _removed,
    "hook killed": _killed,
    "hook killed at work": _killed_at_work,
    "disk full": _full,
    "archive broken": _broken,
    "transcript cut off": _cut,
    "transcript of 200 MB": _large,
}


def go_wrong(driver: Driver, new_place: Callable[[], Place]) -> Iterator[Check]:
    """Try every fault, each with a client of its own."""
    for name, spoil in FAULTS.items():
        yield _goes_on(name, driver, new_place(), spoil)
    place = new_place()
    with _locked(place):
        yield _goes_on("archive locked", driver, place, lambda _place: None)
    yield from _two_at_once(driver, new_place())


def _goes_on(name: str, driver: Driver, place: Place, spoil: Callable[[Place], None]) -> Check:
    """Check that the client compacts and ends well, and list what of ours still worked."""
    began = time.monotonic()
    checks = grow(driver, place, spoil)
    took = time.monotonic() - began
    wrong = [check for check in checks[1:3] if not check.holds]
    left = [what for check, what in _NEVERTHELESS.items() if any(one.what == check and one.holds for one in checks)]
    detail = "; ".join(f"{check.what}: {check.detail}" for check in wrong)
    summary = f"{took:.0f} s; {', '.join(left) or 'nothing of ours'}"
    return Check(f"{name}: the client compacts and ends well ({summary})", not wrong, detail)


@contextmanager
def _locked(place: Place) -> Iterator[None]:
    """Hold a lock on the archive until the block ends."""
    place.home.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(place.archive, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.close()


def _two_at_once(driver: Driver, one: Place) -> Iterator[Check]:
    """Check that two sessions in one folder with the same archive each find their own texts."""
    other = replace(one, environment={"DEPOT": "KESTREL-2604", "LOOPBACK_PROVIDER": "another"})
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda place: grow(driver, place), (one, other)))
    for number, checks in enumerate(results, 1):
        wrong = [f"{check.what}: {check.detail}" for check in checks if not check.holds]
        yield Check(f"two sessions at once: session {number}", not wrong, "; ".join(wrong))
