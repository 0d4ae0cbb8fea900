"""Measure the archive as it grows, beside plain SQLite written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import archive
from benchmarks.bench import Bench, spread
from benchmarks.figures import table
from benchmarks.parts import Section
from benchmarks.plot import bars

THREADS = (100, 1_000)
"""Of a hundred messages each."""
KINDS = ("one word", "six words", "a name", "CJK")


def measure(bench: Bench) -> dict[str, Any]:
    """Measure appending, searching and bytes on disk at growing sizes and on recorded conversations."""
    sizes = (50,) if bench.quick else THREADS
    files = sorted(Path(bench.folder).glob("*.jsonl")) if bench.folder and not bench.quick else []
    items: list[Any] = [(threads, 20 if bench.quick else 100) for threads in reversed(sizes)]
    items += sorted(files, key=lambda path: -path.stat().st_size)
    found = {items[place]: rows for place, rows in spread("archive", grown, items)}
    rows = [row for item in reversed(items[: len(sizes)]) for row in found[item]]
    return {"rows": rows, "disk": [row for file in files for row in found[file]]}


def grown(item: tuple[int, int] | Path) -> list[dict[str, Any]]:
    """Measure one size, or one file of recorded conversations."""
    return archive.bytes_on_disk([item]) if isinstance(item, Path) else archive.appending_and_searching(*item)


def ahead(ours: dict[str, Any], plain: dict[str, Any]) -> str:
    """Say, with numbers, where plain SQLite is ahead at the largest size."""
    better = [f"{name}: {plain[name]} to {ours[name]}" for name in ours if _less(name, plain, ours)]
    if not better:
        return f"With {ours['messages']} messages, plain SQLite is ahead in nothing."
    return f"With {ours['messages']} messages, plain SQLite is ahead in " + "; ".join(better) + "."


def _less(name: str, plain: dict[str, Any], ours: dict[str, Any]) -> bool:
    if name in {"store", "messages"}:
        return False
    return bool(plain[name] > ours[name]) if name.endswith("MB/s") else bool(plain[name] < ours[name])


def section(result: dict[str, Any]) -> Section:
    """Return the tables and the plot."""
    rows, disk = result["rows"], result["disk"]
    text = "Messages with the statistics of real ones, in threads of 100, each appended in one durable transaction.\n"
    text += "The index of this project also finds parts of names and CJK words, which plain FTS5 does not.\n\n"
    text += table(list(rows[0]), ([row[head] for head in rows[0]] for row in rows))
    if disk:
        text += "\n\nRecorded conversations:\n\n" + table(
            list(disk[0]), ([row[head] for head in disk[0]] for row in disk)
        )
    last = rows[-2:]
    text += f"\n\n{ahead(*last)}"
    values: dict[str, tuple[float, ...]] = {}
    for kind in KINDS:
        values[f"{kind}:"] = ()
        for row in last:
            name = "ours" if row["store"] == "unabridged" else row["store"]
            values[f"{kind}|{name}"] = (float(row[f"{kind}, median ms"]),) * 3
    note = f"median time in an archive of {last[0]['messages']} messages, within one thread; shorter is better"
    return Section("Scale of the archive", text, {"scale.svg": bars("Searching", note, values, unit=" ms", best=0)})
