"""`make bench`: every measurement, or the parts that are named. `BENCH_DATA` is a folder of real conversations."""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any

PARTS = {
    "overhead": "The check below the trigger, beside LangChain's middleware",
    "throughput": "A whole model-free compaction",
    "archive": "Append and search beside plain SQLite",
    "estimator": "Error of the estimator per corpus and family",
}


def main(names: list[str]) -> int:
    """Run the parts and print a table for each."""
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        print(f"unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in names or PARTS:
        start = time.perf_counter()
        rows = importlib.import_module(f"benchmarks.{name}").run(quick=bool(os.environ.get("QUICK")))
        print(f"\n## {PARTS[name]}   (python -m benchmarks {name}, {time.perf_counter() - start:.0f} s)\n")
        print(table(rows))
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as Markdown."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    lines = [heads, ["---"] * len(heads), *([str(row.get(head, "")) for head in heads] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
