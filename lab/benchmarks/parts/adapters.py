"""Compare each adapter with its framework's own compaction: the check at every step, needs-next, faults survived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks import adapter_steps
from benchmarks.adapter_steps import SIZES, STEPS
from benchmarks.bench import WINDOW, Bench, Row, needed
from benchmarks.figures import figure, percent, table, times
from benchmarks.parts import Section, survival

OWN = {
    "LangChain": "LangChain",
    "OpenAI Agents": "OpenAI Agents",
    "OpenAI Agents, a run a step": "OpenAI Agents",
    "Google ADK": "Google ADK",
    "Strands": "Strands",
    "pydantic-ai-harness, summarizing": "Pydantic AI",
}
"""Arms of the other parts that are a framework's own compaction, and whose."""
BESIDE = ("ours", "ours, with a model")
TINY = (20,)


def measure(bench: Bench) -> dict[str, Any]:
    """Measure the steps of every framework in milliseconds; where its compaction is an arm, needs-next and faults."""
    sizes = TINY if bench.quick else SIZES
    steps = [row for name in adapter_steps.frameworks() for row in adapter_steps.rows_of(name, sizes)]
    arms = [arm for arm in bench.arms if arm in OWN or arm in BESIDE]
    jobs = {arm: bench.job(arm) for arm in arms}
    done = bench.replays("frameworks' own", list(jobs.values()))
    asking = [arm for arm in arms if bench.arms[arm]["model"]]
    faults = {row["arm"]: row for row in survival.outcomes(bench, asking)}
    rows = []
    for arm in arms:
        runs = done[jobs[arm]]
        rows.append(
            {
                "arm": arm,
                "needs": figure(map(needed, runs)),
                "tools": figure(needed(run) for run in runs if run["tools"]),
                "fine": figure(run["fine"] / (run["turns"] or 1) for run in runs),
                "survived": faults.get(arm, {}).get("survived"),
                "cells": faults.get(arm, {}).get("cells"),
            }
        )
    return {"steps": steps, "own": rows}


def section(result: dict[str, Any]) -> Section:
    """Return both tables."""
    rows: list[Row] = result["steps"]
    sizes = sorted({row["size"] for row in rows})
    text = f"""One agent for each side, run by its framework's own runner with a scripted model, the same tool and the
same conversation of so many messages; nothing is ever compacted. Milliseconds of processor time that the compaction
takes of a step, the median of {2 * STEPS - 2} (of 14 for the SDKs); *anew* is the first step of a second run, for which
most frameworks make new objects; *whole* is a step with all that the framework does, without the model. A session's
store and the model are not counted. In brackets, relative to ours. (`python -m benchmarks.adapter_steps`)

{_steps(rows, sizes)}

{_words(rows, max(sizes))}

What the frameworks' own compaction keeps, in a window of {WINDOW // 1000}k, measured as in the sections above and
below: *names still in context*, the same of the conversations *with tool calls*, the share of *requests* that a
provider takes, and the *faults* of a summariser survived. The session of OpenAI Agents compacts when a run is over and
never within it: one that outgrows the window by itself is refused, which is what these recordings are. *A run a step*
is what its compaction would hold if the caller ended a run after every step, triggered at 85 % of the window. It keeps
all that stands in user messages, so that conversations whose observations do, as in `coding_text`, never fit.

{_own(result["own"])}

What becomes of a run under each fault:

{_faults(result["own"])}{_versions(result)}"""
    return Section("Frameworks", text)


def _steps(rows: Sequence[Row], sizes: Sequence[int]) -> str:
    by = {(row["framework"], row["side"], row["size"]): row for row in rows}
    sides: dict[str, list[str]] = {}
    for row in rows:
        if row["side"] not in sides.setdefault(row["framework"], []):
            sides[row["framework"]].append(row["side"])

    def cell(framework: str, side: str, size: int, name: str) -> str:
        value, ours = by[framework, side, size][name], by[framework, "ours", size][name]
        if side.startswith("bare"):
            return "-"
        return f"{value:.2f}" if side == "ours" else f"{value:.2f} ({times(value / ours)})"

    heads = ["framework", "", *(f"{size:,}: {name}" for size in sizes for name in ("a step", "anew", "whole"))]
    lines = []
    for framework, listed in sides.items():
        for side in sorted(listed, key=lambda side: side != "ours"):
            cells = [framework, f"**{side}**" if side == "ours" else side]
            for size in sizes:
                cells += [cell(framework, side, size, name) for name in ("step", "anew")]
                cells.append(f"{by[framework, side, size]['whole']:.1f}")
            lines.append(cells)
    return table(heads, lines)


def _words(rows: Sequence[Row], size: int) -> str:
    """Say in words where a framework's own check is cheaper than ours."""
    here = [row for row in rows if row["size"] == size and not row["side"].startswith("bare")]
    ours = {row["framework"]: row["step"] for row in here if row["side"] == "ours"}
    rest = [row for row in here if row["side"] != "ours"]
    cheaper = [row["side"] for row in rest if row["step"] < ours[row["framework"]]]
    dearer = [row["side"] for row in rest if row["step"] >= ours[row["framework"]]]
    return (
        f"With {size:,} messages a step is cheaper than ours with {', '.join(cheaper) or 'none'}; "
        f"ours is cheaper than {', '.join(dearer) or 'none'}."
    )


def _own(rows: Sequence[Row]) -> str:
    heads = ["framework", "arm", "names still in context", "with tool calls", "requests", "faults"]
    cells = (
        [
            OWN.get(row["arm"], "any"),
            f"**{row['arm']}**" if row["arm"] in BESIDE else row["arm"],
            percent(row["needs"]),
            percent(row["tools"]),
            percent(row["fine"]),
            percent(row["survived"]) if row["survived"] else "no model",
        ]
        for row in rows
    )
    return table(heads, cells)


def _faults(rows: Sequence[Row]) -> str:
    asked = [row for row in rows if row["cells"]]
    if not asked:
        return "Nobody was asked."
    return table(["arm", *asked[0]["cells"]], ([row["arm"], *row["cells"].values()] for row in asked))


def _versions(result: dict[str, Any]) -> str:
    versions = result.get("about", {}).get("versions", {})
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"\n\nMeasured with {listed}." if listed else ""
