"""The check below the trigger, one message after another, beside LangChain's middleware in an environment of its own.

Both sides get the same texts. A sample is one call after one message was added; the ratio of the medians counts.
"""

from __future__ import annotations

import copy
import gc
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.environments import python_of
from unabridged import Compactor

SIZES = (200, 2_000, 20_000)
SAMPLES = 40
PEER = Path(__file__).parent / "peers" / "langchain_overhead.py"


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """A row per size: microseconds of each side and the ratios."""
    sizes = SIZES[:2] if quick else SIZES
    theirs = _langchain(sizes)
    rows = []
    for size in sizes:
        carried, anew = _carried(size), _anew(size)
        rows.append(
            {
                "messages": size,
                "ours, carried (us)": round(carried),
                "ours, deserialised anew (us)": round(anew),
                "LangChain (us)": round(theirs[size]),
                "carried / LangChain": f"1/{theirs[size] / carried:,.0f}",
                "anew / LangChain": f"1/{theirs[size] / anew:,.1f}",
            }
        )
    return rows


def conversation(count: int) -> list[dict[str, Any]]:
    """An agent at work, as plain dicts: a call and its result, over and over. The peer builds the same."""
    messages: list[dict[str, Any]] = []
    for i in range(count):
        text = f"Turn {i}: " + " ".join(f"word{(i * 31 + j) % 997}" for j in range(40))
        call = {"id": f"c{i}", "type": "function", "function": {"name": "read", "arguments": '{"path": "src/a.py"}'}}
        if i % 2 == 0:
            messages.append({"role": "assistant", "content": text, "tool_calls": [call]})
        else:
            messages.append({"role": "tool", "tool_call_id": f"c{i - 1}", "content": text})
    return messages


def median_microseconds(prepare: Callable[[int], Any], call: Callable[[Any], object], samples: int = SAMPLES) -> float:
    """The median of so many calls; what `prepare` does is not counted."""
    times = []
    gc.collect()
    gc.disable()
    try:
        for i in range(samples):
            argument = prepare(i)
            start = time.perf_counter()
            call(argument)
            times.append(time.perf_counter() - start)
    finally:
        gc.enable()
    return statistics.median(times) * 1e6


def _engine() -> Compactor:
    return Compactor(window=10**9, archive="memory:", namespace="bench")


def _carried(size: int) -> float:
    engine, messages = _engine(), conversation(size)
    engine.fit(messages, thread="t")

    def grow(i: int) -> list[dict[str, Any]]:
        messages.append({"role": "user", "content": f"one more {i}"})
        return messages

    return median_microseconds(grow, lambda given: engine.fit(given, thread="t"))


def _anew(size: int) -> float:
    engine, messages = _engine(), conversation(size)
    engine.fit(messages, thread="t")

    def again(i: int) -> list[dict[str, Any]]:
        messages.append({"role": "user", "content": f"one more {i}"})
        return copy.deepcopy(messages)

    return median_microseconds(again, lambda given: engine.fit(given, thread="t"), samples=15)


def _langchain(sizes: tuple[int, ...]) -> dict[int, float]:
    python = python_of("langchain", ["langchain"])
    given = json.dumps({"sizes": sizes, "samples": 15})
    done = subprocess.run([python, str(PEER)], input=given, capture_output=True, text=True, check=True)
    return {int(size): value for size, value in json.loads(done.stdout).items()}
