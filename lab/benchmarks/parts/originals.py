"""Measure how many messages that left the context can be had back."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.figures import figure, percent, table
from benchmarks.parts import Section
from benchmarks.parts.needs import jobs


def measure(bench: Bench) -> dict[str, Any]:
    """Measure, at the end of every replay in every window, the share of such messages."""
    wanted = jobs(bench)
    done = bench.replays("replays", list(wanted.values()))
    rows = []
    for arm in bench.compared:
        runs = [run for (name, _), job in wanted.items() if name == arm for run in done[job] if run.get("back")]
        gone = [run for run in runs if run["back"][1]]
        shares: dict[str, list[float]] = {}
        for run in gone:
            back, of = run["back"]
            shares.setdefault(run["name"], []).append(back / of)  # a conversation counts once, whatever the windows
        means = [sum(same) / len(same) for same in shares.values()]
        rows.append({"arm": arm, "back": figure(means), "gone": sum(run["back"][1] for run in gone)})
    return {"rows": rows}


def section(result: dict[str, Any]) -> Section:
    """Return the table."""
    rows = ([row["arm"], percent(row["back"]), f"{row['gone']:,}"] for row in result["rows"])
    text = f"""At the end of each run, of the messages that no longer stand in the request as they were, the share that
what the arm keeps gives back exactly: our archive by `replay`, a session or a state that keeps all messages, or the
caller's own list where the arm only chooses from it. Counted is what each keeps in its default set-up, as it is driven
here. A checkpointer of LangGraph, a session manager of Strands or a store of the caller's may keep more.

{table(["arm", "originals that can be had back", "messages that left"], rows)}"""
    return Section("Originals that can be had back", text)
