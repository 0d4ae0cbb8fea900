"""Measure the tokens of whole tasks, with what has to be fetched again because it was forgotten."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import RECALL, WINDOW, Bench, Row, carry_out_tasks, tokens_of_task
from benchmarks.figures import figure, percent, ratio, table, thousands
from benchmarks.parts import Section
from benchmarks.plot import bars
from unabridged_corpus.evaluate.line_needs import MIN_LINE_CHARACTERS
from unabridged_corpus.evaluate.task_cost import MIN_UNKNOWN_WORDS, MIN_WORD_CHARACTERS

WINDOWS = (8_000, 16_000, 32_000)
KINDS = ("tokens", "sent", "summaries", "fetches")

CONFIRMED, CONFIRMED_BEFORE = 25, 16
"""Of 30 fetches drawn at random, those that readers confirmed; and when each line was charged by itself."""


def measure(bench: Bench) -> dict[str, Any]:
    """Measure every arm in every window, and each conversation beside our default."""
    arms = [*bench.compared, *(name for name in bench.arms if name == RECALL)]
    windows = [WINDOW] if bench.quick else WINDOWS
    jobs = {
        (arm, window): bench.job(arm, window)
        for arm in arms
        for window in windows
        if window == WINDOW or not arm.endswith("in the background")
    }
    found = bench.each("tasks", carry_out_tasks, [(job.arm, job) for job in jobs.values()])
    done = dict(zip(jobs, found, strict=True))
    return {"rows": [_row(arm, window, runs, done.get(("ours", window))) for (arm, window), runs in done.items()]}


def _row(arm: str, window: int, runs: list[Row], ours: list[Row] | None) -> Row:
    own = {run["name"]: tokens_of_task(run) for run in ours or ()}
    return {
        "arm": arm,
        "window": window,
        "tokens": figure(tokens_of_task(run) for run in runs),
        **{kind: figure(run[kind] for run in runs) for kind in KINDS[1:]},
        "beside": figure(tokens_of_task(run) / own[run["name"]] for run in runs if run["name"] in own),
        "missed": figure(run["missed"] / run["needs"] for run in runs if run["needs"]),
        "fetched": figure(run["fetched"] + run["recalled"] for run in runs),
        "refused": figure(float(run["refused_at"] is not None) for run in runs),
        "needs": sum(run["needs"] for run in runs),
    }


def section(result: dict[str, Any]) -> Section:
    """Return the tables and the plot."""
    here = [row for row in result["rows"] if row["window"] == WINDOW]
    windows = sorted({row["window"] for row in result["rows"]})
    by = {(row["arm"], row["window"]): row for row in result["rows"]}
    sizes = [f"{window // 1000}k" for window in windows]

    def across(name: str, shown: Any) -> str:
        rows = ([row["arm"], *(shown(by.get((row["arm"], w), {}).get(name)) for w in windows)] for row in here)
        return table(["arm", *sizes], rows)

    heads = ["arm", "sent", "summaries", "fetched again", "results fetched", "lines missed", "runs refused"]
    parts = table(
        heads,
        (
            [
                row["arm"],
                *(thousands(row[kind]) for kind in KINDS[1:]),
                f"{row['fetched'][0]:.1f}",
                percent(row["missed"]),
                percent(row["refused"]),
            ]
            for row in here
        ),
    )
    most = max((row["needs"] for row in here), default=0)
    text = f"""What a whole recorded run takes, in thousands of tokens, each counted as many fresh input tokens as it
costs: all that is sent, at the prices of a prompt cache (read 0.1, written 1.25, output 5; the agent's own output, the
same for every arm, is left out), the summaries, and what is fetched again because it was forgotten. A *need* is a line
of a call's arguments, of at least {MIN_LINE_CHARACTERS} characters with white space folded, that stood in a tool result
before it stood anywhere else: its source. There are {most:,}. A source is fetched again for a call where at least half
of the lines that the call copies from it are nowhere in the request, and two of these are a passage: one follows the
other in the source, with less than {MIN_LINE_CHARACTERS} characters between them, and each has a word, of at least
{MIN_WORD_CHARACTERS} characters, that is nowhere in the request; the lines together have at least {MIN_UNKNOWN_WORDS}
such words. Those lines are missed: the tokens of the source are
charged, once for a call and at most 4,000, and the source is put into the history there, as a call with its result, so
that later calls find it until it is compacted away. A write to the same path ends a source, and a source whose call the
recording repeats later is charged to nobody. With recall tools a call searches once for each source it lacks, with the
three longest words of the first line: the answer is charged, and the source where a line is not in it; the schemas of
the tools count in every request.
After a refused request all passages are missed; what the run sends after it is charged all the same, or, where the arm
ended the run, at the mean of its calls before. (`unabridged_corpus.evaluate.task_cost`)

{across("tokens", thousands)}

Relative to our default, conversation by conversation:

{across("beside", ratio)}

What it is made of, in a window of {WINDOW:,}:

{parts}

A run that is refused was not done: its tokens are those of a run that a provider would have ended.

Of 30 fetches drawn at random (`lab/benchmarks/draw_misses.py`), readers who are language models confirmed {CONFIRMED}:
there the agent would have had to fetch the result again. When each line was charged by itself, they confirmed
{CONFIRMED_BEFORE}: most of the others were single lines that are written without looking, such as imports, or lines
whose words were all in the request. Hence the passage, and the words."""
    note = f"thousands of tokens at cache prices, {WINDOW // 1000}k window; shorter is better"
    values = {row["arm"]: [one / 1000 for one in row["tokens"][:3]] for row in here if row["tokens"]}
    plot = bars("Tokens per task", note, values, unit="k", best=-1)
    return Section("Tokens per task: the price of forgetting", text, {"tasks.svg": plot})
