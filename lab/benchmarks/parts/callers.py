"""Measure what a call costs two kinds of caller, as the history and the number of compactions behind it grow.

One keeps the list that was returned; the other sends the whole history each time, parsed anew from JSON.
Beside them LangChain's own middleware, which is called below its trigger here: it only counts.
"""

from __future__ import annotations

import gc
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.bench import Bench, spread
from benchmarks.figures import table
from benchmarks.parts import Section
from benchmarks.plot import lines
from unabridged import Compactor

SIZES = (200, 2_000, 20_000)
BEHIND = (10, 100, 1_000)
SAMPLES = 9
TEXT = "The quick brown fox read the file and found nothing of interest in line number %d. "


def measure(bench: Bench) -> dict[str, Any]:
    """Measure processor time in milliseconds: a call at each size, and a step after each number of compactions."""
    sizes, behind = (SIZES[:2], BEHIND[:1]) if bench.quick else (SIZES, BEHIND)
    items: list[Any] = [("size", size) for size in reversed(sizes)] + [("behind", max(behind))]
    found = {items[place]: row for place, row in spread("callers", measured, items)}
    steps = found["behind", max(behind)]
    return {"sizes": [found["size", size] for size in sizes], "behind": [steps[str(count)] for count in behind]}


def measured(item: tuple[str, int]) -> dict[str, Any]:
    """Measure one size, or a run with so many compactions."""
    return calls(item[1]) if item[0] == "size" else steps(item[1])


def history(count: int) -> list[Any]:
    """Generate a request and tool rounds, with messages of about 400 characters."""
    said: list[Any] = [{"role": "user", "content": "Work through all of it."}]
    for i in range(count // 2):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/part{i}.py"})}
        call = {"id": f"c{i}", "type": "function", "function": function}
        said += [
            {"role": "assistant", "content": (TEXT % i) * 5, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "content": (TEXT % i) * 5},
        ]
    return said[:count]


def calls(size: int) -> dict[str, Any]:
    """Measure a call with a history of `size` messages, once below the trigger and once above it."""
    said = history(size)
    text = json.dumps(said)
    tokens = Compactor(window=10**9, archive="memory:").plan(said).tokens
    roomy = _just_below(said, tokens)
    below = Compactor(window=roomy, archive="memory:")
    first = timed(lambda: Compactor(window=roomy, archive="memory:").fit(said, thread="t"), 3)
    above = Compactor(window=max(4_000, tokens // 4), archive="memory:")
    above.fit(json.loads(text), thread="t")
    kept = above.fit(json.loads(text), thread="t").messages
    carried = Compactor(window=max(4_000, tokens // 4), archive="memory:")
    carried.fit(kept, thread="t")
    return {
        "messages": size,
        "first": first,
        "below": timed_with(lambda: json.loads(text), lambda given: below.fit(given, thread="t")),
        "resent": timed_with(lambda: json.loads(text), lambda given: above.fit(given, thread="t")),
        "carried": timed(lambda: carried.fit(kept, thread="t")),
        **langchain(said),
    }


def _just_below(said: list[Any], tokens: int) -> int:
    """Return the smallest window, in steps of two per cent, that does not reach the trigger."""
    window = tokens
    while Compactor(window=window, archive="memory:").plan(said).trigger is not None:
        window += max(1, tokens // 50)
    return window


def langchain(said: list[Any]) -> dict[str, float]:
    """Measure LangChain's own check of the same conversation, which counts every message at every call."""
    from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415 - a peer
    from langchain_core.language_models import FakeListChatModel  # noqa: PLC0415 - likewise
    from langchain_core.messages import convert_to_messages  # noqa: PLC0415 - likewise

    theirs = SummarizationMiddleware(FakeListChatModel(responses=["x"]), trigger=("tokens", 10**9))
    state: Any = {"messages": convert_to_messages(said)}
    nothing: Any = None
    theirs.before_model(state, nothing)  # gives every message its id
    return {"langchain": timed(lambda: theirs.before_model(state, nothing))}


def steps(most: int) -> dict[str, Any]:
    """Measure the steps of one long run on SQLite for both callers: medians around each number of compactions."""
    found: dict[str, Any] = {str(count): {"compactions": count} for count in BEHIND if count <= most}
    for kind in ("carried", "resent"):
        with tempfile.TemporaryDirectory() as folder:
            run = _Run(f"sqlite:///{folder}/a.db", resent=kind == "resent")
            for count in map(int, found):
                run.until(count - count // 10)
                run.times.clear()
                run.until(count, anew=True)
                found[str(count)] |= {kind: statistics.mean(run.times), f"{kind} quiet": statistics.median(run.times)}
    return found


class _Run:
    """One conversation, step by step; `times` has the milliseconds of each step."""

    def __init__(self, url: str, *, resent: bool) -> None:
        self.compactor = Compactor(window=6_000, archive=url)
        self.resent, self.times, self.made = resent, list[float](), set[str]()
        self.said: list[Any] = [{"role": "user", "content": "Work through all of it."}]
        self.kept = list(self.said)
        self.numbers = itertools.count()

    def until(self, compactions: int, *, anew: bool = False) -> None:
        """Run until there were this many compactions; the history is parsed anew only where that is measured."""
        while len(self.made) < compactions:
            number = next(self.numbers)
            new = history(3)[1:]
            new[0]["tool_calls"][0]["id"] = new[1]["tool_call_id"] = f"c{number}"
            new[1]["content"] += f" It made item_{number:06}."  # a name, from the first step on
            self.said += new
            given = self._sent_again(anew=anew) if self.resent else [*self.kept, *new]
            begin = time.process_time()
            fitted = self.compactor.fit(given, thread="t")
            self.times.append((time.process_time() - begin) * 1_000)
            self.kept = fitted.messages
            if fitted.changed and fitted.receipt is not None:
                self.made.add(fitted.receipt.id)

    def _sent_again(self, *, anew: bool) -> list[Any]:
        """Return the whole history, as the same objects or as equal copies."""
        return json.loads(json.dumps(self.said)) if anew else list(self.said)


def timed(work: Callable[[], Any], samples: int = SAMPLES) -> float:
    """Return the median processor time in milliseconds."""
    return timed_with(lambda: None, lambda _: work(), samples)


def timed_with(prepare: Callable[[], Any], work: Callable[[Any], Any], samples: int = SAMPLES) -> float:
    """Return the median processor time of `work` in milliseconds; `prepare` makes its argument and is not timed."""
    spent = []
    for _ in range(samples):
        given = prepare()
        gc.collect()
        begin = time.process_time()
        work(given)
        spent.append((time.process_time() - begin) * 1_000)
    return statistics.median(spent)


def section(result: dict[str, Any]) -> Section:
    """Return both tables and the plot."""
    sizes, behind = result["sizes"], result["behind"]
    heads = ["messages", "first sight", "below the trigger", "resent", "carried", "LangChain's check"]
    names = ("first", "below", "resent", "carried", "langchain")
    rows = ([f"{row['messages']:,}", *(f"{row[name]:.2f}" for name in names)] for row in sizes)
    last, least = behind[-1], behind[0]
    ratios = {kind: last[kind] / least[kind] for kind in ("carried", "resent")}
    measured = ("carried", "carried quiet", "resent", "resent quiet")
    runs = ([f"{row['compactions']:,}", *(f"{row[name]:.1f}" for name in measured)] for row in behind)
    shown = table(["compactions behind it", "carried, mean", "median", "resent, mean", "median"], runs)
    text = f"""Messages of about 400 characters, milliseconds of processor time, medians of {SAMPLES}. *Below the
trigger* and *resent* are given the whole history parsed anew from JSON; *resent* was compacted before and gets the
shorter list.

{table(heads, rows)}

One long run on SQLite, a step being one tool round: the mean of all steps, compactions included, and the median step.

{shown}

A step with {last["compactions"]:,} compactions behind it takes {ratios["carried"]:.2f} times one with
{least["compactions"]:,} where the list is carried, {ratios["resent"]:.2f} times where it is sent again: that list is
as long as all that was ever said, and reading it grows with it, as any check of it does."""
    series = {name: [(row["messages"], row[name] * 1_000) for row in sizes] for name in names}
    plot = lines("What a call costs", "processor time of one call; both axes are logarithmic", "messages", series)
    return Section("Carried and resent callers", text, {"callers.svg": plot}, recorded=False)
