"""Measure the check below the trigger: the cost of every model call while there is nothing to compact."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.bench import RECALL, Bench
from benchmarks.driver import Peer, PeerEndedError, Process
from benchmarks.figures import NONE, table, times
from benchmarks.parts import Section
from benchmarks.plot import lines

SIZES = (200, 2_000, 20_000)
MIDDLE = 2_000
SAMPLES = 15


def measure(bench: Bench) -> dict[str, Any]:
    """Measure seconds of one check when one message was added, and bytes held for each message."""
    sizes = SIZES[:2] if bench.quick else SIZES
    items = [(arm, bench.arms[arm]["peer"], sizes) for arm in bench.arms if arm not in {"raw", RECALL}]
    return {"rows": [row for rows in bench.each("overhead", checked, items) for row in rows]}


def checked(item: tuple[str, Peer, tuple[int, ...]]) -> list[dict[str, Any]]:
    """Measure one arm at each size, the smallest first; if the process ends, the rest is unmeasured."""
    arm, peer, sizes = item
    rows: list[dict[str, Any]] = [{"arm": arm, "size": size, "median": None, "held": None} for size in sizes]
    with Process(peer) as process:
        for row in rows:
            try:
                _measure(process, row)
            except PeerEndedError as error:
                row["error"] = str(error)
    return rows


def _measure(process: Process, row: dict[str, Any]) -> None:
    arm, size = row["arm"], row["size"]
    row["median"] = statistics.median(process.ask("overhead", arm=arm, size=size, samples=SAMPLES)["seconds"])
    if size == MIDDLE:
        memory = process.ask("overhead", arm=arm, size=size, samples=0, memory=True)
        row |= {"held": memory["held"] / size, "peak": memory["peak"] / size}


def relative(result: dict[str, Any], size: int = MIDDLE) -> dict[str, float]:
    """Return each arm's check relative to this project's."""
    medians = {row["arm"]: row["median"] for row in result["rows"] if row["size"] == size and row["median"] is not None}
    own = medians.get("ours")
    return {arm: value / own for arm, value in medians.items()} if own else {}


def section(result: dict[str, Any]) -> Section:
    """Return the table and the plot."""
    sizes = sorted({row["size"] for row in result["rows"]})
    by = {(row["arm"], row["size"]): row for row in result["rows"]}
    arms = list(dict.fromkeys(row["arm"] for row in result["rows"]))
    ratios = {size: relative(result, size) for size in sizes}

    def cell(arm: str, size: int) -> str:
        median = by[arm, size]["median"]
        if median is None:
            return NONE
        return (
            f"{median * 1e6:,.0f} µs ({times(ratios[size][arm])})" if arm in ratios[size] else f"{median * 1e6:,.0f} µs"
        )

    def memory(arm: str, name: str) -> str:
        value = by[arm, MIDDLE].get(name) if (arm, MIDDLE) in by else None
        return NONE if value is None else f"{max(value, 0):,.0f}"

    shown = table(
        ["arm", *(f"{size:,} messages" for size in sizes), "held, bytes a message", "peak, bytes a message"],
        ([arm, *(cell(arm, size) for size in sizes), memory(arm, "held"), memory(arm, "peak")] for arm in arms),
    )
    text = f"""One message is added to so many, far below any trigger, and the check is timed: the median processor
time of {SAMPLES}, and in brackets relative to this project's at the same size. Converting messages from and to
a peer's own classes is not counted. *Deserialised anew* is this project given fresh copies of every message at
each call, as a graph with a checkpointer does. *Held* is what the compactor keeps of {MIDDLE:,} messages
between two calls, *peak* what one call allocates on top.

{shown}"""
    series = {
        arm: [(size, by[arm, size]["median"] * 1e6) for size in sizes if by[arm, size]["median"] is not None]
        for arm in arms
    }
    title, note = (
        "The check below the trigger",
        "processor time of one check; lower is better, both axes are logarithmic",
    )
    shown_lines = {arm: line for arm, line in series.items() if line}
    plot = lines(title, note, "messages in the conversation", shown_lines)
    return Section("Overhead below the trigger", text, {"overhead.svg": plot}, recorded=False)
