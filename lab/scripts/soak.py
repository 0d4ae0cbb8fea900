"""Run the promises on ever new conversations for a while: `python lab/scripts/soak.py --minutes 20 --processes 2`.

Each process goes round: generated conversations of every format through all the promises, then lives with forks,
edits, undo, rewinds and resent lists on one SQLite archive that the processes share, LangChain's messages among them.
Lists are counted by a real tokenizer. At the end texts made to be slow are read at n and 2n (`growth.py`). Prints how
many ran and how they ended; at a failure the seed that reproduces it, and exits with 1. `--seed` starts from a
given seed instead of a random one.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "helpers"))

from hypothesis import given, seed, settings
from hypothesis import strategies as st

import growth
from archive_support import Store
from lives import EVERY, Life
from properties_case import WINDOWS, keeps_every_promise, profile
from unabridged import WontFit
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.formats import FORMATS
from unabridged_testing import Shape, shapes

BATCH, LIVES, STEPS = 25, 4, 9


class Shared(Store):
    """The archive that all processes share; each process opens it, none makes a new one."""

    def __init__(self, path: str) -> None:
        self.kind, self.place = "sqlite", path
        self.archive = open_sqlite(path)


def run_promises(format_: str, number: int) -> Counter[str]:
    """Return how a batch of new conversations in this format ended; raise at a broken promise."""
    ends: Counter[str] = Counter()

    @seed(number)
    @settings(profile, max_examples=BATCH, derandomize=False)
    @given(shapes(format_), st.sampled_from(WINDOWS))
    def holds(shape: Shape, window: int) -> None:
        ends[keeps_every_promise(shape, window, grow="both")] += 1

    holds()
    return ends


def run_lives(store: Store, format_: str, number: int) -> Counter[str]:
    """Return how a few lives on the shared archive ended; raise at a broken promise."""
    ends: Counter[str] = Counter()
    for one in range(number * LIVES, (number + 1) * LIVES):
        life = Life(store, format_, one, None if one % 4 == 3 else f"{format_} {one}")
        steps: list[str] = []
        try:
            for step in range(1, STEPS + 1):
                steps.append(life.step())
                if step % 3 == 0 or step == STEPS:
                    life.holds()
        except WontFit:
            ends["lives that would not fit"] += 1
        except Exception as error:
            error.add_note(f"{format_}, life {one}: {', '.join(steps)}, then it broke")
            raise
        else:
            ends["lives"] += 1
        ends["lists"] += len(life.branches)
    return ends


def soak(minutes: float, number: int, place: str) -> int:
    """Run rounds until the time is over, print what ran, and return 1 when something broke."""
    until = time.monotonic() + 60 * minutes
    totals: dict[str, Counter[str]] = {format_: Counter() for format_ in EVERY}
    store, broken = Shared(place), False
    while time.monotonic() < until and not broken:
        for format_ in EVERY:
            try:
                totals[format_] += run_lives(store, format_, number)
                if format_ in FORMATS:
                    totals[format_] += run_promises(format_, number)
            except Exception:  # noqa: BLE001 - whatever broke is printed with its seed, and the run ends with 1
                broken = True
                traceback.print_exc()
                print(f"\n{format_}: broken. Again with: python lab/scripts/soak.py --minutes 1 --seed {number}")
        number += 1
    for format_, ends in totals.items():
        told = ", ".join(f"{count:,} {end}" for end, count in sorted(ends.items()))
        print(f"{format_:18} {sum(ends.values()) - ends['lists']:>9,} conversations: {told}")
    return int(broken)


def main() -> int:
    """Parse the arguments, run until the time is over, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to run (default: 20)")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: a random one)")
    parser.add_argument("--processes", type=int, default=1, help="how many share the archive (default: 1)")
    parser.add_argument("--archive", default=None, help="the SQLite file (default: a new one, removed at the end)")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    number: int = secrets.randbelow(2**31) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        place = options.archive or f"{folder}/soak.db"
        print(f"soaking for {options.minutes:g} minutes from seed {number}", flush=True)
        command = [sys.executable, __file__, "--minutes", str(options.minutes), "--archive", place]
        others = [
            subprocess.Popen(
                [*command, "--seed", str(number + 10**6 * i)],
            )
            for i in range(1, options.processes)
        ]
        ended = soak(options.minutes, number, place)
        if options.archive is None:  # once, in the first process
            ended |= growth.main()
        return int(any([ended, *(other.wait() for other in others)]))


if __name__ == "__main__":
    sys.exit(main())
