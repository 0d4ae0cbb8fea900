"""What a policy costs with a provider's cache, and what the agent can still see: recorded runs, replayed call by call.

    python -m benchmarks.cost --data DIR [--quick] [--tune | --windows]

Each assistant message of a recorded run is one model call whose input is all that stands before it, as the policy sends
it. The provider's cache holds the last prompt for its lifetime: what the next prompt shares with it from the beginning
is read, the rest is written. Prices are relative to a fresh input token. Policies are tuned on the even conversations
and reported on the odd ones.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.policies import Conversation, Mask, Ours, Payback, Policy, Raw, Summary, load
from benchmarks.replay import tail
from unabridged.settings import Prices
from unabridged_corpus.evaluate.score import Needs, bootstrap_interval, count_held_needs, find_needs_in_views
from unabridged_corpus.evaluate.task_cost import (
    CALL_GAP,
    Bill,
    MeasuredMessage,
    PromptCache,
    SideAsk,
    find_model_calls,
)

LONG_RUNS = ("coding_tools", "coding_text", "coding_sessions_anthropic")
CUT = 24_000
"""Recall is asked for each time so many tokens of the conversation (characters of its JSON / 4) have gone by."""
Make = Callable[[Conversation, Prices], Policy]


@dataclass
class Run:
    """One conversation under one policy."""

    bill: Bill = field(default_factory=Bill)
    calls: int = 0
    rewrites: int = 0
    """How often the beginning of the prompt changed."""
    extra: int = 0
    """Model calls beside the agent's own."""
    contexts: dict[int, str] = field(default_factory=dict)
    """What the agent was sent, at each of the cuts asked for."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Its tokens."""


def replay(
    conversation: Conversation,
    policy: Policy,
    prices: Prices,
    *,
    gap: Callable[[int], float] = lambda _: CALL_GAP,
    cuts: Sequence[int] = (),
) -> Run:
    """Replay the conversation call by call; `gap` returns how many seconds pass before each call."""
    run = Run()
    cache = PromptCache(prices.lifetime)
    now = 0.0
    current: list[MeasuredMessage] = []
    taken = 0
    for start, stop in find_model_calls([line.view for line in conversation.lines]):
        idle = gap(run.calls)
        now += idle
        before = [*current, *conversation.lines[taken:start]]
        current, extras = policy.fit(before, idle)
        for extra in extras:
            _charge(extra, cache, now, run)
        run.rewrites += any(old is not new for old, new in zip(before, current, strict=False)) or (
            len(current) < len(before)
        )
        cache.send(current, now, run.bill)
        run.bill.output += sum(line.tokens for line in conversation.lines[start:stop])
        run.calls += 1
        if start in cuts:
            run.contexts[start] = "\n".join(line.view.whole_text() for line in current)
            run.sizes[start] = sum(line.tokens for line in current)
        taken = start
    if not prices.has_cheap_reads:
        run.bill = Bill(fresh=run.bill.read + run.bill.write + run.bill.fresh, output=run.bill.output)
    return run


def needs_of(conversation: Conversation) -> dict[int, Needs]:
    """Return what the agent needs next, at the first model call after each `CUT` tokens of the conversation."""
    views = [line.view for line in conversation.lines]
    starts = {start for start, _ in find_model_calls([line.view for line in conversation.lines])}
    found: dict[int, Needs] = {}
    size, due = 0.0, float(CUT)
    for i, line in enumerate(conversation.lines):
        if size >= due and i in starts:
            wanted = find_needs_in_views(views[:i], views[i:])
            if wanted:
                found[i] = wanted
            due = (size // CUT + 1) * CUT
        size += len(json.dumps(line.message)) / 4
    return found


def _charge(extra: SideAsk, cache: PromptCache, now: float, run: Run) -> None:
    if extra.prompt:
        cache.send(extra.prompt, now, run.bill)
    run.bill.fresh += extra.fresh
    run.bill.output += extra.output
    run.extra += 1


@dataclass(frozen=True)
class Row:
    """One policy over several conversations: means, with 95 % intervals by conversation."""

    policy: str
    cost: float
    """Relative to sending everything at the same prices."""
    cost_interval: tuple[float, float]
    rewrites: float
    extra: float
    recall: float
    """The share of what the agent needs next that it was still sent."""
    tail: float
    """The same for the end of the raw conversation, cut to the same number of tokens."""
    gap_interval: tuple[float, float]
    size: float
    """What was sent, as a share of the raw conversation, where recall was asked for."""


def rows(
    conversations: Sequence[Conversation],
    policies: dict[str, Make],
    prices: Prices,
    gap: Callable[[int], float] = lambda _: CALL_GAP,
) -> Iterator[Row]:
    """Yield a row for each policy, all on the same conversations."""
    wanted = [needs_of(conversation) for conversation in conversations]
    raw = [replay(conversation, Raw(), prices, gap=gap) for conversation in conversations]
    for name, make in policies.items():
        runs = [
            replay(c, make(c, prices), prices, gap=gap, cuts=tuple(n))
            for c, n in zip(conversations, wanted, strict=True)
        ]
        costs = [run.bill.at(prices) / whole.bill.at(prices) for run, whole in zip(runs, raw, strict=True)]
        yield _row(name, conversations, runs, costs, wanted)


def _row(
    name: str,
    conversations: Sequence[Conversation],
    runs: Sequence[Run],
    costs: Sequence[float],
    wanted: Sequence[dict[int, Needs]],
) -> Row:
    recalls, tails, sizes = [], [], []
    for conversation, run, needed in zip(conversations, runs, wanted, strict=True):
        if not needed:
            continue
        lines = conversation.lines
        whole = {cut: sum(line.tokens for line in lines[:cut]) for cut in needed}
        recalls.append(statistics.mean(count_held_needs(run.contexts[cut], need).share for cut, need in needed.items()))
        tails.append(
            statistics.mean(count_held_needs(tail(lines[:cut], run.sizes[cut]), n).share for cut, n in needed.items())
        )
        sizes.append(statistics.mean(run.sizes[cut] / whole[cut] for cut in needed))
    return Row(
        policy=name,
        cost=statistics.mean(costs),
        cost_interval=bootstrap_interval(costs),
        rewrites=statistics.mean(run.rewrites for run in runs),
        extra=statistics.mean(run.extra for run in runs),
        recall=statistics.mean(recalls),
        tail=statistics.mean(tails),
        gap_interval=bootstrap_interval([ours - theirs for ours, theirs in zip(recalls, tails, strict=True)]),
        size=statistics.mean(sizes),
    )


def _grid(keep: int, least: int, patience: float, conversation: Conversation, prices: Prices) -> Policy:
    return Payback(conversation.format, prices, keep_rounds=keep, minimum=least, patience=patience)


def _ours(window: int, conversation: Conversation, prices: Prices) -> Policy:
    return Ours(conversation.format, prices, window)


WINDOW = 32_768
"""What is assumed of a model that is not known; most of the coding runs outgrow it."""
AT = int(0.85 * WINDOW)
POLICIES: dict[str, Make] = {
    "everything, every time": lambda _c, _p: Raw(),
    "rolling mask of all but 10 results": lambda c, _p: Mask(c.format, keep=10),
    "mask in steps of 30, keep 10": lambda c, _p: Mask(c.format, keep=10, step=30),
    "LangChain: summary at 28k, keep 20": lambda c, _p: Summary(c.format, AT, 20),
    "the same, asked as a suffix": lambda c, _p: Summary(c.format, AT, 20, suffix=True),
    "ours, in a window of 32k": lambda c, p: Ours(c.format, p, WINDOW),
    "ours, in a window never reached": lambda c, p: Ours(c.format, p),
}
RULES: dict[str, Make] = {
    "summary at 28k, keep 6, apart": lambda c, _p: Summary(c.format, AT, 6),
    "summary at 28k, keep 6, as a suffix": lambda c, _p: Summary(c.format, AT, 6, suffix=True),
    "clearing at break-even, keep 3": lambda c, p: Payback(c.format, p, patience=0.0),
    "the clearing rule alone, keep 5": lambda c, p: Payback(c.format, p, keep_rounds=5),
    "the clearing rule alone, keep 3": lambda c, p: Payback(c.format, p),
    "the clearing rule alone, keep 2": lambda c, p: Payback(c.format, p, keep_rounds=2),
}
WINDOWS = (1_000_000, 65_536, 32_768, 16_384)
GRID: dict[str, Make] = {
    f"keep {keep}, minimum {least}, patience {patience}": partial(_grid, keep, least, patience)
    for keep, least, patience in [
        *((keep, least, 0.5) for keep in (2, 3, 4, 5) for least in (30, 50, 100, 200)),
        *((3, 50, patience) for patience in (0.0, 0.25, 0.75, 1.0, 1.5)),
    ]
}


def pauses(call: int) -> float:
    """Return the seconds before a call when a person answers: eleven minutes before every twentieth call."""
    return 660.0 if call and call % 20 == 0 else CALL_GAP


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA"), help="folder of NAME.jsonl files")
    parser.add_argument("--quick", action="store_true", help="every sixth conversation only")
    parser.add_argument("--tune", action="store_true", help="the grid the default was chosen from, on the even half")
    parser.add_argument("--windows", action="store_true", help="ours in several windows, each set of runs by itself")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name a folder with --data, or in BENCH_DATA")
    sets = {name: load(Path(options.data), (name,)) for name in LONG_RUNS}
    step = 3 if options.quick else 1
    if options.tune:
        even = [conversation for found in sets.values() for conversation in found][::2][::step]
        show("even conversations, 5-minute cache", rows(even, GRID, Prices()))
        return
    odd = [conversation for found in sets.values() for conversation in found][1::2][::step]
    if options.windows:
        ours: dict[str, Make] = {f"ours, in a window of {window:,}": partial(_ours, window) for window in WINDOWS}
        for name in LONG_RUNS:
            of_set = [conversation for conversation in odd if conversation.id.startswith(f"{name}/")]
            show(f"odd conversations of {name} ({len(of_set)}), 5-minute cache", rows(of_set, ours, Prices()))
        show(f"all of them ({len(odd)})", rows(odd, ours, Prices()))
        return
    show(f"odd conversations ({len(odd)}), 5-minute cache", rows(odd, POLICIES | RULES, Prices()))
    show("the same, a pause of 11 minutes before every 20th call", rows(odd, POLICIES, Prices(), pauses))
    show("the same pauses, 1-hour cache at write 2", rows(odd, POLICIES, Prices(write=2.0, lifetime=3_600.0), pauses))
    show("no cache", rows(odd, POLICIES, Prices(read=1.0, write=1.0)))


def show(title: str, found: Iterator[Row]) -> None:
    """Print the rows as they come."""
    print(f"\n{title}\n{'policy':38}{'cost':>6} {'95 %':>13}{'rewrites':>10}{'extra':>7}{'recall':>8}{'tail':>7}"
          f"{'points above it':>25}{'size':>6}")  # fmt: skip
    for row in found:
        low, high = (100 * bound for bound in row.gap_interval)
        least, most = row.cost_interval
        print(
            f"{row.policy:38}{row.cost:6.2f}  {least:5.2f}-{most:5.2f}{row.rewrites:10.1f}"
            f"{row.extra:7.1f}{100 * row.recall:8.1f}{100 * row.tail:7.1f}"
            f"{100 * (row.recall - row.tail):+8.1f} ({low:+5.1f} to {high:+5.1f})"
            f"{row.size:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
