"""The archive as it grows, beside what one would write by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import archive
from benchmarks.bench import Bench
from benchmarks.figures import table
from benchmarks.parts import Section
from benchmarks.plot import bars


def measure(bench: Bench) -> dict[str, Any]:
    """Appending, searching and bytes on disk at growing sizes, and on recorded conversations."""
    rows = []
    for threads in (50,) if bench.quick else (100, 400):
        rows += archive.appending_and_searching(threads, queries=20 if bench.quick else 100)
    return {"rows": rows, "disk": [] if bench.quick or not bench.folder else archive.bytes_on_disk(Path(bench.folder))}


def section(result: dict[str, Any]) -> Section:
    """The tables and the plot."""
    rows, disk = result["rows"], result["disk"]
    text = "Messages with the statistics of real ones, in threads of 100, each appended in one durable transaction.\n\n"
    text += table(list(rows[0]), ([row[head] for head in rows[0]] for row in rows))
    if disk:
        text += "\n\nRecorded conversations:\n\n" + table(
            list(disk[0]), ([row[head] for head in disk[0]] for row in disk)
        )
    last = rows[-2:]
    values = {}
    for row in last:
        name = "ours" if row["store"] == "unabridged" else row["store"]
        for kind in ("one word", "six words", "a name", "CJK"):
            value = float(row[f"{kind}, median ms"])
            values[f"{name}: {kind}"] = (value, value, value)
    plot = bars(f"Search in {last[0]['messages']} messages, median ms", values, unit=" ms")
    return Section("Scale of the archive", text, {"scale.svg": plot})
