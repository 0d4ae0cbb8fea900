"""Run the promises on ever new conversations for a while: `python scripts/soak.py --minutes 20`.

Prints how many conversations of each format ran and how they ended; at the first failure it prints the seed and the
shape that reproduce it, and exits with 1. `--seed` starts from a given seed instead of a random one.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from test_properties import WINDOWS, keeps_every_promise, profile
from unabridged.formats import FORMATS
from unabridged.testing import Shape, shapes

BATCH = 100


def run_batch(format_: str, number: int) -> Counter[str]:
    """One batch of new conversations in this format; how they ended. Raises at a broken promise."""
    ends: Counter[str] = Counter()

    @seed(number)
    @settings(profile, max_examples=BATCH, derandomize=False)
    @given(shapes(format_), st.sampled_from(WINDOWS))
    def holds(shape: Shape, window: int) -> None:
        ends[keeps_every_promise(shape, window, grow="both")] += 1

    holds()
    return ends


def main() -> int:
    """Parse, run until the time is over, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to run (default: 20)")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: a random one)")
    options = parser.parse_args()
    number: int = secrets.randbelow(2**31) if options.seed is None else options.seed
    print(f"soaking for {options.minutes:g} minutes from seed {number}", flush=True)
    until = time.monotonic() + 60 * options.minutes
    totals: dict[str, Counter[str]] = {format_: Counter() for format_ in FORMATS}
    broken = False
    while time.monotonic() < until and not broken:
        for format_ in FORMATS:
            try:
                totals[format_] += run_batch(format_, number)
            except Exception:  # noqa: BLE001 - whatever broke is printed with its seed, and the run ends with 1
                broken = True
                traceback.print_exc()
                print(f"\n{format_}: broken. Again with: python scripts/soak.py --minutes 1 --seed {number}")
        number += 1
    for format_, ends in totals.items():
        told = ", ".join(f"{count:,} {end}" for end, count in sorted(ends.items()))
        print(f"{format_:18} {sum(ends.values()):>9,} conversations: {told}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
