"""Measure how often a turn waits for a model, and how long the compactor itself takes."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import WINDOW, Bench
from benchmarks.figures import NONE, figure, percent, table
from benchmarks.parts import Section
from benchmarks.parts.needs import jobs
from benchmarks.plot import bars

LATENCY, GAP = 0.3, 0.1
"""A summary takes three times as long as the agent's own turn: a minute and 20 seconds, 200 times faster."""
SLEEPERS = 8
"""Replays at a time: they mostly sleep."""


def measure(bench: Bench) -> dict[str, Any]:
    """Measure the turns that waited for a summary, and the seconds of the compactor's own work."""
    most = min(bench.most, 40 if bench.quick else 300)
    timed = {arm: bench.job(arm, limit=1, most=most, seconds=LATENCY, gap=GAP) for arm in bench.asking}
    done = bench.replays("waiting", list(timed.values()), workers=SLEEPERS)
    wanted = jobs(bench)
    own = bench.replays("replays", [wanted[arm, WINDOW] for arm in bench.compared])
    rows = []
    for arm in bench.compared:
        waits = done.get(timed[arm]) if arm in timed else None
        runs = own[wanted[arm, WINDOW]]
        rows.append(
            {
                "arm": arm,
                "waits": figure(run["stood"] / (run["turns"] or 1) for run in waits) if waits else None,
                "mean": figure(1e3 * run["seconds"] / (run["turns"] or 1) for run in runs),
                "slowest": figure(1e3 * run["slowest"] for run in runs),
                "compaction": figure(1e3 * run["compacting"] / run["rewrites"] for run in runs if run["rewrites"]),
            }
        )
    return {"rows": rows}


def section(result: dict[str, Any]) -> Section:
    """Return the table and the plot."""
    shown = table(
        ["arm", "turns that wait for a model", "own work a turn, ms", "slowest turn of a run, ms", "a compaction, ms"],
        (
            [
                row["arm"],
                percent(row["waits"]) if row["waits"] else "no model",
                f"{row['mean'][0]:.1f}",
                f"{row['slowest'][0]:.0f}",
                f"{row['compaction'][0]:.0f}" if row.get("compaction") else NONE,
            ]
            for row in result["rows"]
        ),
    )
    text = f"""A turn waits when it stands still while the summariser works. For this the fake takes
{LATENCY * 1000:.0f} ms and {GAP * 1000:.0f} ms pass between two model calls: a minute and twenty seconds, two hundred
times faster; one conversation of each file. In the background a turn still waits where one tool result fills the window
before the summary is there. The compactor's own work is
measured with a fake that answers at once; it depends on the machine, so compare arms, not numbers. *A compaction*:
processor time of a call that changed what was sent before. Window: {WINDOW:,} tokens.

{shown}"""
    values = {row["arm"]: row["waits"] for row in result["rows"]}
    title, note = (
        "Turns that wait for a model",
        f"{WINDOW // 1000}k window; shorter is better, whiskers are 95 % intervals",
    )
    return Section("Who waits", text, {"wait.svg": bars(title, note, values, unit="%", best=-1)})
