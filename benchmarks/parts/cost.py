"""What a whole run costs, turn by turn, with a provider's cache and without."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import WINDOW, Bench, cost
from benchmarks.figures import figure, ratio, table
from benchmarks.parts import Section
from benchmarks.parts.needs import jobs
from benchmarks.plot import bars, scatter
from unabridged.clear import Prices

UNCACHED = Prices(read=1.0, write=1.0)


def measure(bench: Bench) -> dict[str, Any]:
    """Cost relative to sending everything, the summaries' own calls included."""
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
            }
        )
    return {"rows": rows}


def section(result: dict[str, Any], needs: dict[str, Any] | None = None) -> Section:
    """The tables and the plots; with needs-next beside it where that was measured."""
    here = [row for row in result["rows"] if row["window"] == WINDOW]
    windows = sorted({row["window"] for row in result["rows"]})
    by = {(row["arm"], row["window"]): row["cached"] for row in result["rows"]}
    first = table(
        ["arm", "with a cache", "without", "rewrites in 100 turns", "summaries asked for in 100 turns"],
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
    text = f"""Every model call of a recorded run is charged as a provider with a prompt cache would: what a prompt
shares with the last one from its beginning is read (0.1 of a fresh token), the rest is written (1.25), output
is 5, a cached prefix lives five minutes and 20 seconds pass between calls. Summaries are charged as well: as
output, and what the summariser is shown as input, read from the cache where it is asked in the continuation of
the agent's own prompt. Relative to sending everything, which is 1. Window: {WINDOW:,} tokens.

{first}

With a cache, in every window:

{sizes}"""
    plots = {
        "cost.svg": bars(
            f"Cost with a cache, {WINDOW // 1000}k window (raw = 1)", {r["arm"]: r["cached"] for r in here}
        )
    }
    if needs is not None:
        held = {row["arm"]: row["needs"] for row in needs["windows"] if row["window"] == WINDOW}
        marks = {r["arm"]: (r["cached"][0], held[r["arm"]][0]) for r in here if r["cached"] and held.get(r["arm"])}
        plots["together.svg"] = scatter("Cheap and faithful", "cost with a cache (raw = 1)", "needs next", marks)
    return Section("What a run costs", text, plots)
