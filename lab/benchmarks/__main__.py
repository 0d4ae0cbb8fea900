"""`make bench`: every part beside the peers, or the parts that are named; then the page is written.

python -m benchmarks [PART …] [--data FOLDER] [--quick] [--page-only]    # needs, cost, …: see README.md
python -m benchmarks throughput estimator gateway    # of this project alone; printed, not on the page
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import RESULTS, STORED, Bench, write
from benchmarks.figures import table
from benchmarks.page import PAGE, PARTS, README, write_page

ALONE = {
    "throughput": "A whole model-free compaction",
    "estimator": "Error of the estimator per corpus and family",
    "gateway": "The gateway beside a bare pass-through with the same libraries",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, keep the results, and write the page."""
    options = _options(arguments)
    if options.data:
        os.environ["BENCH_DATA"] = options.data
    names = options.parts or list(PARTS)
    folder = str(Path(options.data).resolve()) if options.data else None
    sizes = {"limit": options.limit, "most": options.most, "generated": options.generated}
    if options.quick:
        sizes = {"limit": 1, "most": 120, "generated": 50}
    bench = Bench(folder, quick=options.quick, fresh=options.fresh, stale=options.stale, **sizes)
    bench.only = tuple(options.arm or ())
    results = RESULTS / "quick" if options.quick or options.arm else STORED  # a quick look never replaces the page
    for name in [] if options.page_only else names:
        start = time.perf_counter()
        print(f"\n{name}", file=sys.stderr)
        if name in ALONE:
            _print(ALONE[name], importlib.import_module(f"benchmarks.{name}").run(quick=options.quick))
            continue
        result = importlib.import_module(f"benchmarks.parts.{name}").measure(bench)
        seconds = time.perf_counter() - start
        write(results / f"{name}.json", {**result, "about": bench.about(), "took": seconds})
        kept = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        print(f"\n{importlib.import_module(f'benchmarks.parts.{name}').section(kept).text}\n\n({seconds:.0f} s)")
    if not options.no_page:
        whole = results == STORED
        print(f"wrote {write_page(results, PAGE if whole else results / PAGE.name, README if whole else None)}")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"{', '.join([*PARTS, *ALONE])}; all but the last three by default"
    )
    parser.add_argument("--data", default=os.environ.get("BENCH_DATA") or None, help="folder of JSON Lines files")
    parser.add_argument(
        "--quick", action="store_true", default=bool(os.environ.get("QUICK")), help="few, and no tuning"
    )
    parser.add_argument("--limit", type=int, default=6, help="conversations of each file (default 6)")
    parser.add_argument("--most", type=int, default=400, help="messages of each conversation (default 400)")
    parser.add_argument("--generated", type=int, default=10_000, help="small generated conversations (default 10,000)")
    parser.add_argument("--arm", action="append", help="only arms whose name holds this; may be repeated")
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept under .bench/results")
    parser.add_argument("--stale", action="store_true", help="take kept results of earlier code of this project too")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results that are kept")
    parser.add_argument("--no-page", action="store_true", help="measure only")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.parts) - {*PARTS, *ALONE})
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}: choose from {', '.join([*PARTS, *ALONE])}")
    if options.data and not any(Path(options.data).glob("*.jsonl")):
        parser.error(f"no .jsonl files in {options.data!r}: name a folder of conversations, or none for generated ones")
    return options


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    heads = list(dict.fromkeys(key for row in rows for key in row))
    print(f"\n## {title}\n\n{table(heads, ([row.get(head, '') for head in heads] for row in rows))}")


if __name__ == "__main__":
    sys.exit(main())
