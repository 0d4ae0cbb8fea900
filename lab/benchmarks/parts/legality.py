"""Measure whether the provider accepts the requests: legal, and within the window."""

from __future__ import annotations

from typing import Any

from benchmarks import data
from benchmarks.bench import Bench, mean
from benchmarks.driver import Peer, PeerEndedError, Process
from benchmarks.fakes import budget_for
from benchmarks.figures import Figure, figure, percent, table
from benchmarks.harness import MADE
from benchmarks.parts import Section
from benchmarks.parts.needs import jobs
from benchmarks.plot import bars
from benchmarks.policies import tokens_of
from unabridged.formats import get_format
from unabridged_testing import refusals

BATCH, STEPS = 500, 4
LEAST = 2_000
"""No model has a smaller window."""
OTHERS = 5
"""Every arm but our default gets the first fifth of the generated conversations: all of them would take an hour."""
_WORDS = {"passed": "illegal as recorded"}
KINDS = ("refused", "over", "ended")
RECORDED = ("refused", "over", "ended", "passed")


def measure(bench: Bench) -> dict[str, Any]:
    """Measure shares of requests, on recorded and on generated conversations."""
    wanted = jobs(bench)
    done = bench.replays("replays", list(wanted.values()))
    count = bench.generated
    few = count if bench.quick else max(1, count // OTHERS)
    batches = [
        (arm, bench.arms[arm]["peer"], bench.settings(arm), start, min(BATCH, most - start))
        for arm, most in ((arm, count if arm == "ours" else few) for arm in bench.compared)
        for start in range(0, most, BATCH)
    ]
    made: dict[str, list[list[float]]] = {arm: [] for arm in bench.compared}
    seen: dict[str, str] = {}
    found = bench.each("generated conversations", tried, batches)
    for item, (shares, example) in zip(batches, found, strict=True):
        made[item[0]] += shares
        seen[item[0]] = seen.get(item[0]) or example
    rows = []
    for arm in bench.compared:
        runs = [run for (name, _), job in wanted.items() if name == arm for run in done[job]]
        shares = [{kind: _share_of(run, kind) for kind in (*RECORDED, "any")} for run in runs]
        alike: dict[str, list[dict[str, float]]] = {}
        for run, share in zip(runs, shares, strict=True):
            alike.setdefault(run["name"], []).append(share)  # a conversation counts once, whatever the windows
        recorded = {
            kind: figure(mean(share[kind] for share in same) for same in alike.values()) for kind in (*RECORDED, "any")
        }
        own = {kind: figure(one[i] for one in made[arm]) for i, kind in enumerate(KINDS)}
        example = next((run.get("refusal") or run["error"] for run in runs if run.get("refusal") or run["error"]), "")
        rows.append({"arm": arm, "recorded": recorded, "generated": own, "example": example or seen.get(arm, "")})
    return {"rows": rows, "generated": count, "others": few}


def _share_of(run: dict[str, Any], kind: str) -> float:
    """Return the share of the run's requests of this kind; for `ended`, 1 if the run ended with an error, else 0."""
    if kind == "ended":
        return float(run["error"] is not None)
    turns = run["turns"] or 1
    return float(1 - run["fine"] / turns if kind == "any" else run[kind] / turns)


def tried(item: tuple[str, Peer, dict[str, Any], int, int]) -> tuple[list[list[float]], str]:
    """Return, for each conversation, the shares of its requests refused and over the window, and whether it ended."""
    arm, peer, settings, first, count = item
    shares: list[list[float]] = []
    example = ""
    process = Process(peer, patience=60.0)
    try:
        for one in data.generated(count, first):
            try:
                found, reason = _fitted(process, one, arm, settings)
            except PeerEndedError as error:
                found, reason = [0.0, 0.0, 1.0], str(error)
                process.close()
                process = Process(peer, patience=60.0)
            shares.append(found)
            example = example or reason
    finally:
        process.close()
    return shares, example


def _fitted(process: Process, one: data.Recorded, arm: str, settings: dict[str, Any]) -> tuple[list[float], str]:
    """Fit the conversation into a window half its size, at up to four of its model calls."""
    one.prepare()
    read = get_format("openai-chat").read
    window = max(LEAST, sum(line.tokens for line in one.lines) // 2)
    stops = [*one.starts(), *([len(one.messages)] if one.messages[-1]["role"] != "assistant" else [])]
    stops = sorted({stops[(i + 1) * len(stops) // STEPS - 1] for i in range(STEPS) if (i + 1) * len(stops) // STEPS})
    process.ask("start", arm=arm, window=window, budget=budget_for(window), settings=settings)
    sizes: dict[int, int] = {}
    messages: dict[int, Any] = dict(enumerate(one.messages))
    taken, refused, over = 0, list[float](), list[float]()
    reason = ""
    for stop in stops:
        answer = process.ask("turn", new=one.messages[taken:stop])
        taken = stop
        if answer["error"]:
            return [mean(refused), mean(over), 1.0], answer["error"]
        messages |= {int(number): message for number, message in answer["made"].items()}
        request = answer["request"]
        for number in request:
            if number not in sizes:
                sizes[number] = one.lines[number].tokens if number < MADE else tokens_of(read(messages[number]))
        reasons = refusals("openai-chat", [messages[number] for number in request])
        reason = reason or "".join(reasons[:1])
        refused.append(float(bool(reasons)))
        tokens = sum(sizes[number] for number in request)
        over.append(float(tokens > window))
    return [mean(refused), mean(over), 0.0], reason


def section(result: dict[str, Any]) -> Section:
    """Return the table and the plot."""
    columns = [*(("recorded", kind) for kind in RECORDED), *(("generated", kind) for kind in KINDS)]
    heads = ["arm", *(f"{part}: {_WORDS.get(kind, kind)}" for part, kind in columns)]
    shown = table(
        heads,
        ([row["arm"], *(_share(row[part][kind]) for part, kind in columns)] for row in result["rows"]),
    )
    examples = "\n".join(f"- {row['arm']}: `{row['example']}`" for row in result["rows"] if row["example"])
    text = f"""*Refused*: the provider would answer 400, by the rules of Chat Completions in
`unabridged_testing.refusals`, which share no line with the engine. *Over*: more o200k tokens than the window.
*Ended*: the arm raised, which ends the run; the share is of conversations, the others are of requests. *Illegal as
recorded*: what would be refused stands so in the recording, from before any policy touched it (a turn was aborted and
its calls never got their results), and the arm sends it on; such requests are counted apart for every arm and are in no
other column. Ours sends them on below the trigger, where a list is given back as it came; `unabridged.repair` mends one
at any time, and a compaction does so by itself. Recorded: every request of every replay, in all windows. Generated:
{result["generated"]:,} small conversations ({result.get("others", result["generated"]):,} of them for every arm but our
default) with parallel calls, media, interruptions and giants, in a window of half their size (at least {LEAST:,}
tokens), compacted up to four times; no usage is reported.

{shown}

The first thing that went wrong, for each arm:

{examples}"""
    values = {row["arm"]: row["recorded"]["any"] for row in result["rows"]}
    title, note = "Requests a provider would not take", "recorded runs, windows of 4k to 32k; shorter is better"
    return Section("Legality and fit", text, {"legality.svg": bars(title, note, values, unit="%", best=-1)})


def _share(one: Figure | None) -> str:
    return "0 %" if one is not None and one[2] == 0 else percent(one)
