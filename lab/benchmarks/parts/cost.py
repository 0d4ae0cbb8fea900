"""Measure what a whole run costs, turn by turn, with a provider's cache and without."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import WINDOW, Bench, cost
from benchmarks.figures import NONE, figure, ratio, table
from benchmarks.parts import Section
from benchmarks.parts.needs import jobs
from benchmarks.plot import bars
from unabridged.settings import Prices

UNCACHED = Prices(read=1.0, write=1.0)


def measure(bench: Bench) -> dict[str, Any]:
    """Measure the cost relative to sending everything, the summaries' own calls included."""
    wanted = jobs(bench)
    done = bench.replays("replays", list(wanted.values()))
    rows = []
    for (arm, window), job in wanted.items():
        runs = done[job]
        turns = [run["turns"] or 1 for run in runs]
        rows.append(
            {
                "arm": arm,
                "window": window,
                "cached": figure(cost(run) for run in runs),
                "uncached": figure(cost(run, UNCACHED) for run in runs),
                "rewrites": figure(100 * run["rewrites"] / turn for run, turn in zip(runs, turns, strict=True)),
                "asks": figure(100 * run["extra"] / turn for run, turn in zip(runs, turns, strict=True)),
                "long": sum(run["long"] for run in runs) / (sum(run["extra"] for run in runs) or 1),
            }
        )
    return {"rows": rows}


def section(result: dict[str, Any]) -> Section:
    """Return the tables and the plot."""
    here = [row for row in result["rows"] if row["window"] == WINDOW]
    windows = sorted({row["window"] for row in result["rows"]})
    by = {(row["arm"], row["window"]): row["cached"] for row in result["rows"]}
    first = table(
        ["arm", "with a cache", "without", "rewrites in 100 turns", "model calls for summaries in 100 turns"],
        (
            [
                row["arm"],
                ratio(row["cached"]),
                ratio(row["uncached"]),
                f"{row['rewrites'][0]:.1f}",
                f"{row['asks'][0]:.1f}",
            ]
            for row in here
        ),
    )
    sizes = table(
        ["arm", *(f"{window // 1000}k" for window in windows)],
        ([row["arm"], *(ratio(by.get((row["arm"], window))) for window in windows)] for row in here),
    )
    asks = {(row["arm"], row["window"]): row for row in result["rows"] if row["asks"] and row["asks"][0]}
    asking = [row["arm"] for row in here if any((row["arm"], window) in asks for window in windows)]
    calls = table(
        ["arm", *(f"{window // 1000}k" for window in windows)],
        ([arm, *(_asks(asks.get((arm, window))) for window in windows)] for arm in asking),
    )
    text = f"""Every model call of a recorded run is charged as a provider with a prompt cache would: what a prompt
shares with the last one from its beginning is read (0.1 of a fresh token), the rest is written (1.25), output
is 5, a cached prefix lives five minutes and 20 seconds pass between calls. Summaries are charged as well: as
output, and what the summariser is shown as input, read from the cache where it is asked in the continuation of
the agent's own prompt. Relative to sending everything, which is 1. Window: {WINDOW:,} tokens.

{first}

With a cache, in every window:

{sizes}

"Ours, clearing early" is `Clear(payback=True)`: old tool results become stubs below the trigger, where the prices of
the cache make that pay. By default nothing happens below the trigger, so the difference to "ours" is what that costs.

What the summariser costs: its calls in 100 turns, and how many of them were too long for a summariser with the same
window as the agent (prompt and reply together, in tokens). The fake answers those all the same and their price is
charged; a provider would refuse them, and the arm would be without its summary. Ours keeps its calls within it: behind
the live prompt where there is room, else in chunks. In a small window that takes several calls for one summary, since
the instruction and room for a reply take a good part of it; a summariser with a larger window needs one. In the
background a summary is made before the trigger and so stands for less: there are more of them, and each is a rewrite.

{calls}"""
    note = f"{WINDOW // 1000}k window, with a prompt cache; sending everything is 1, shorter is better"
    plot = bars("What a run costs", note, {r["arm"]: r["cached"] for r in here}, mark=1.0, best=-1)
    return Section("What a run costs", text, {"cost.svg": plot})


def _asks(row: dict[str, Any] | None) -> str:
    if row is None:
        return NONE
    long = row.get("long", 0.0)
    return f"{row['asks'][0]:.1f} ({100 * long:.0f} % too long)" if long else f"{row['asks'][0]:.1f}"
