"""Measure how many of the names that the next calls use are still in the context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.bench import WINDOW, Bench, Job, Row, needed
from benchmarks.fakes import budget_for
from benchmarks.figures import NONE, figure, percent, points, table
from benchmarks.parts import Section
from benchmarks.plot import bars
from benchmarks.replay import ROUNDS


def jobs(bench: Bench) -> dict[tuple[str, int], Job]:
    """Return every arm in every window; several parts read the same replays.

    In the background the same summaries are made, only earlier: one window is enough to see that.
    """
    return {
        (arm, window): bench.job(arm, window)
        for arm in bench.compared
        for window in bench.windows
        if window == WINDOW or not arm.endswith("in the background")
    }


def measure(bench: Bench) -> dict[str, Any]:
    """Measure needs-next in every window, after several rounds, and with a summariser that forgets nothing."""
    wanted = jobs(bench)
    ceiling = {arm: bench.job(arm, fake="echo") for arm in bench.asking}
    done = bench.replays("replays", list(wanted.values()))
    best = bench.replays("replays, perfect memory", list(ceiling.values()))
    return {
        "windows": [{"arm": arm, "window": window, **_row(done[job])} for (arm, window), job in wanted.items()],
        "rounds": [
            {
                "arm": arm,
                **{str(count): figure(needed(run, count) for run in done[wanted[arm, WINDOW]]) for count in ROUNDS},
            }
            for arm in bench.compared
        ],
        "ceiling": [{"arm": arm, "needs": figure(map(needed, best[job]))} for arm, job in ceiling.items()],
        "settings": {arm: bench.settings(arm) for arm in bench.compared},
    }


def _row(runs: list[Row]) -> Row:
    return {
        "needs": figure(needed(run) for run in runs),
        "files": figure(needed(run, parts=(0,)) for run in runs),
        "names": figure(needed(run, parts=(2,)) for run in runs),
        "above tail": figure(_above(run) for run in runs),
        "people": figure(_people(run) for run in runs),
        "evidence": figure(run["evidence"][0] / run["evidence"][1] for run in runs if "evidence" in run),
        "tokens": figure(_tokens(run) for run in runs),
    }


def _cuts(run: Row) -> Iterable[Row]:
    return (point for point in run["points"] if point["kind"] == "cut")


def _above(run: Row) -> float | None:
    """Return by how much the requests hold more than a plain tail of exactly as many tokens."""
    gains = []
    for point in _cuts(run):
        (files, all_files, names, all_names), tail = point["held"], point["tail"]
        if point["sent"] and all_files + all_names:
            gains.append((files + names - tail[0] - tail[2]) / (all_files + all_names))
    return sum(gains) / len(gains) if gains else None


def _people(run: Row) -> float | None:
    shares = [
        point["people"][0] / point["people"][1] for point in run["points"] if point["people"][1] and point["sent"]
    ]
    return sum(shares) / len(shares) if shares else None


def _tokens(run: Row) -> float | None:
    sizes = [point["tokens"] for point in _cuts(run) if point["sent"]]
    return sum(sizes) / len(sizes) if sizes else None


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in settings.items())


def section(result: dict[str, Any]) -> Section:
    """Return the tables and the plot."""
    here = [row for row in result["windows"] if row["window"] == WINDOW]
    heads = [
        "arm",
        "names still in context",
        "files",
        "identifiers",
        "above a plain tail (points)",
        "people verbatim",
        "evidence",
        "tokens",
    ]
    first = table(
        heads,
        (
            [
                row["arm"],
                *(percent(row[name]) for name in ("needs", "files", "names")),
                points(row["above tail"]),
                percent(row["people"]),
                percent(row["evidence"]),
                f"{row['tokens'][0]:,.0f}" if row["tokens"] else NONE,
            ]
            for row in here
        ),
    )
    windows = sorted({row["window"] for row in result["windows"]})
    by = {(row["arm"], row["window"]): row["needs"] for row in result["windows"]}
    arms = [row["arm"] for row in here]
    sizes = table(
        ["arm", *(f"{w // 1000}k" for w in windows)], ([a, *(percent(by.get((a, w))) for w in windows)] for a in arms)
    )
    rounds = table(
        ["arm", *(f"{count} rounds" if count > 1 else "1 round" for count in ROUNDS)],
        ([row["arm"], *(percent(row[str(count)]) for count in ROUNDS)] for row in result["rounds"]),
    )
    ceiling = table(
        ["arm", "names still in context"], ([row["arm"], percent(row["needs"])] for row in result["ceiling"])
    )
    chosen = (
        "; ".join(f"{arm} {_listed(value)}" for arm, value in result["settings"].items() if value)
        or "every arm's defaults"
    )
    text = f"""Whether a name is there does not say that the text makes sense.

The conversation is stopped at the first model call after every 24,000 tokens. Needed are the file
names and identifiers of the next 60 tool calls (or turns) that stood before and are not shown again before they
are used (`unabridged_corpus.evaluate.score`). A request that the provider would refuse, or that is over the window,
holds nothing. *Above a plain tail* compares at equal tokens: what the request holds less what the end of the
raw conversation with exactly as many o200k tokens would. *People verbatim* is the share of people's messages
that stand in the request word for word; *evidence* the share of questions about months of chat whose evidence
does, at its end. The window has {WINDOW:,} tokens and the summariser is the extractive one, which writes
{budget_for(WINDOW)} tokens for every arm, however much it is asked for: ours asks for up to 3,500 here, and lists a
few names beside so short a summary. Settings chosen on the even conversations: {chosen}.

{first}

In every window:

{sizes}

After so many compactions, in a window of {WINDOW:,}:

{rounds}

The ceiling: the same with a summariser that forgets nothing of what it is shown. What is missing here was never
shown.

{ceiling}"""
    title = "Names still in context"
    note = f"files and identifiers of the next 60 calls, {WINDOW // 1000}k window; longer is better"
    plot = bars(title, note, {r["arm"]: r["needs"] for r in here}, most=1.0, unit="%", best=1)
    return Section("Names still in context", text, {"needs.svg": plot})
