"""Measure how many messages that left the context can be had back."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import WINDOW, Bench
from benchmarks.figures import figure, percent, table
from benchmarks.parts import Section


def measure(bench: Bench) -> dict[str, Any]:
    """Measure, at the end of every replay, the share of such messages."""
    jobs = {arm: bench.job(arm) for arm in bench.compared}
    done = bench.replays("replays", list(jobs.values()))
    rows = []
    for arm, job in jobs.items():
        counts = [run["back"] for run in done[job] if run.get("back") and run["back"][1]]
        gone = sum(count[1] for count in counts)
        rows.append({"arm": arm, "back": figure(back / of for back, of in counts), "gone": gone})
    return {"rows": rows}


def section(result: dict[str, Any]) -> Section:
    """Return the table."""
    rows = ([row["arm"], percent(row["back"]), f"{row['gone']:,}"] for row in result["rows"])
    text = f"""At the end of each run, of the messages that no longer stand in the request as they were, the share that
what the arm keeps gives back exactly: our archive by `replay`, a session or a state that keeps all messages, or the
caller's own list where the arm only chooses from it. Counted is what each keeps in its default set-up, as it is driven
here. A checkpointer of LangGraph, a session manager of Strands or a store of the caller's may keep more. Window:
{WINDOW:,} tokens.

{table(["arm", "originals that can be had back", "messages that left"], rows)}"""
    return Section("Originals that can be had back", text)
