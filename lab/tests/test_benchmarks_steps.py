"""The steps of real agents that the benchmarks time: what is counted, what is not, and what the page says of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.adapter_steps import STEPS, Side, Watch, format_rows, frameworks, measure, rounds, rows_of
from benchmarks.parts import adapters


class Clock:
    """A clock that advances only through `work`."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    def work(self, milliseconds: float) -> None:
        self.time += milliseconds / 1e3


def agent(clock: Clock, first: float = 7.0) -> tuple[Any, Any]:
    """Return a compaction, and a run of steps in which it takes 2 ms of 5, and 7 of its own the first time."""
    store = SimpleNamespace(read=lambda: clock.work(1))
    sizes: list[int] = []

    async def check() -> None:
        clock.work(first if not sizes else 2)
        sizes.append(1)
        store.read()

    compaction = SimpleNamespace(check=check, store=store)

    def run(size: int, watch: Watch) -> None:
        del size
        for _ in range(2 * STEPS):
            asyncio.run(compaction.check())
            clock.work(2)
            watch.answer()

    return compaction, run


def test_a_step_is_the_time_of_the_compaction_without_what_is_paused_in_it() -> None:
    clock = Clock()
    compaction, run = agent(clock)
    found = measure(Side(run, [(compaction, "check")], [(compaction.store, "read")], clock), 10)
    assert found == pytest.approx({"step": 2.0, "anew": 2.0, "first": 7.0, "whole": 5.0})


def test_what_was_watched_is_as_it_was_before() -> None:
    compaction, run = agent(Clock())
    before = compaction.check
    measure(Side(run, [(compaction, "check")]), 10)
    assert compaction.check is before


def test_a_run_ends_after_its_steps() -> None:
    watch = Watch()
    numbers = [watch.answer() for _ in range(2 * STEPS)]
    assert [place + 1 for place, number in enumerate(numbers) if number is None] == [STEPS, 2 * STEPS]
    assert len(rounds(10)) == 5


def test_every_framework_with_an_adapter_has_its_steps() -> None:
    found = frameworks()
    assert {"langchain", "openai_agents", "google_adk", "strands", "pydantic_ai", "sdk"} <= set(found)
    assert found["pydantic_ai_harness"] == ["pydantic-ai-harness"]
    assert found["strands"] == []


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, needs in frameworks().items() if not needs])
def test_a_real_agent_of_each_framework_is_timed(name: str) -> None:
    rows = rows_of(name, [4])
    assert {row["side"] for row in rows} > {"ours"}
    assert all(row["step"] > 0 for row in rows if row["side"] == "ours")


def test_a_real_agent_of_strands_is_timed_on_every_side() -> None:
    rows = rows_of("strands", [4])
    assert [row["side"] for row in rows][:1] == ["ours"]
    assert len(rows) == 3
    assert all(row["step"] > 0 for row in rows)
    assert "| Strands | ours |" in format_rows(rows)


def row(side: str, step: float) -> dict[str, Any]:
    return {"framework": "Acme", "side": side, "size": 200, "step": step, "anew": 4.0, "first": 9.0, "whole": 10.0}


def test_the_page_has_each_adapter_beside_its_frameworks_own_and_says_who_is_cheaper() -> None:
    half = [0.5, 0.4, 0.6, 2]
    own = {"needs": half, "tools": half, "fine": half, "survived": half, "cells": {"empty": "ends the run"}}
    rows = [{"arm": "ours", **own, "survived": None, "cells": None}, {"arm": "Strands", **own}]
    steps = [row("TheirCompactor", 1.0), row("ours", 2.0), row("bare client", 0.0)]
    text = adapters.section({"steps": steps, "own": rows}).text
    assert (
        "| Acme | **ours** | 2.00 | 4.00 | 10.0 |\n| Acme | TheirCompactor | 1.00 (0.50 x) | 4.00 (1.0 x) | 10.0 |"
        in text
    )
    assert "cheaper than ours with TheirCompactor; ours is cheaper than none." in text
    assert (
        "| any | **ours** | 50.0 % (40.0 to 60.0) | 50.0 % (40.0 to 60.0) | 50.0 % (40.0 to 60.0) | no model |" in text
    )
    assert "| Strands | ends the run |" in text
