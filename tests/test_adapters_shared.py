"""What every framework's adapter stands on: one text for sync and async, events as data, what recall answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from unabridged import Compactor, Settings, events
from unabridged.adapters.shared import (
    CompactorPool,
    Steps,
    arun,
    blocking,
    change_between,
    collect_event,
    collected_events,
    event_data,
    follow_change,
    hosts,
    in_both_forms,
    look_up,
    method,
    run,
    sub_thread,
    why_not,
)
from unabridged.archive.protocol import Scope
from unabridged.events import Compacted, Compacting, Event, Failed, Receipt, Unchanged, Undone

SECRET = "the pump is in cellar 4"  # noqa: S105 - what a conversation says
RECEIPT = Receipt("r1", "t", "summary", "full", 1.0, ((0, 4),), 5, 2, 900, 90, "memory:", "model-free", notes=("a",))
WHERE: dict[str, Any] = {"thread": "t", "namespace": "shop"}
EVENTS: list[Event] = [
    Compacting(**WHERE, reason="full", tokens=900, messages=[SECRET]),
    Compacted(**WHERE, receipt=RECEIPT, before=[SECRET], after=[SECRET]),
    Unchanged(**WHERE, reason="no safe cut", tokens=900),
    Failed(**WHERE, stage="summary", error=ValueError("no key"), cost={"calls": 2}),
    Undone(**WHERE, record="r1"),
]
MESSAGES = {"messages", "before", "after"}
"""The fields that hold what people said."""


def test_every_kind_of_event_is_tried_here() -> None:
    known = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    assert {type(event) for event in EVENTS} == {*known} - {Event}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_field_of_an_event_is_told_but_no_message(event: Event) -> None:
    data = event_data(event)
    assert set(data) == {"type", "event", *(field.name for field in fields(event))} - MESSAGES
    assert (data["type"], data["event"], data["namespace"]) == ("unabridged", type(event).__name__.lower(), "shop")
    assert SECRET not in json.dumps(data)


def test_a_receipt_is_told_whole_and_an_error_in_words() -> None:
    assert event_data(EVENTS[1])["receipt"]["notes"] == ("a",)
    told = event_data(EVENTS[3])
    assert (told["error"], told["cost"]) == ("ValueError: no key", {"calls": 2})


def test_why_nothing_was_compacted_is_said_by_the_event_that_knows() -> None:
    with collected_events() as told:
        for event in (Unchanged("t", "no safe cut", 9), Failed("t", "summary", ValueError("no key"))):
            collect_event(event)
    collect_event(EVENTS[0])  # nobody collects any more
    assert why_not(told) == "Not compacted: the summariser failed (ValueError: no key). Nothing was changed."
    assert why_not(told[:1]) == "Not compacted: no safe cut."


class Store:
    """Has a sync and an async form of what it does."""

    def get(self, key: str) -> str:
        return f"sync {key}"

    async def aget(self, key: str) -> str:
        await asyncio.sleep(0)
        return f"async {key}"


def test_one_generator_serves_sync_and_async_callers() -> None:
    def work(given: Any) -> Steps[list[str]]:
        found: list[str] = [(yield method(Store(), "get", "a")), (yield blocking(str.upper, "b"))]
        try:
            yield hosts(given, "c")
        except ValueError as error:
            found.append(str(error))
        return found

    def fails(text: str) -> None:
        raise ValueError(text)

    async def fails_later(text: str) -> None:
        raise ValueError(text)

    assert run(work(fails)) == ["sync a", "B", "c"]
    assert asyncio.run(arun(work(fails_later))) == ["async a", "B", "c"]
    plainly, waiting = in_both_forms(work)
    assert (plainly(fails), asyncio.run(waiting(fails_later))) == (["sync a", "B", "c"], ["async a", "B", "c"])
    assert (plainly.__name__, waiting.__name__) == ("work", "awork")


class Pool(CompactorPool[int]):
    """A compactor for each window."""

    def make(self, key: int) -> Compactor:
        settings = Settings(trigger=("tokens", 500), keep=("messages", 2), recall=True)
        return Compactor(window=key, archive=self.archive, namespace=self.namespace, settings=settings)


def test_a_pool_has_one_archive_and_one_compactor_a_kind_and_recall_finds_what_left() -> None:
    pool = Pool("memory:", "shop")
    talk = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i} {SECRET} " * 20} for i in range(12)]
    assert pool.compactor_for(8_000) is pool.compactor_for(8_000) is not pool.compactor_for(9_000)
    assert pool.compactor_for(8_000).fit(talk, thread="t").changed
    scope = Scope(pool.namespace, "t")
    assert "cellar" in look_up(pool.archive, scope, "search_history", {"query": "pump"})
    assert "cellar" in look_up(pool.archive, scope, "read_history", {"ref": "0"})
    assert "no thread" in look_up(pool.archive, None, "search_history", {"query": "pump"})
    pool.close()


def test_a_sub_agent_is_named_inside_its_parents_thread() -> None:
    assert sub_thread("t", "m1") == "t/m1"
    assert sub_thread("t", "m9", "t/m1") == "t/m1"
    assert sub_thread("t", "m9", "other/m1") == "t/m9"
    assert sub_thread("t", None) == "t"


def test_a_hosts_list_follows_a_compaction_and_keeps_what_it_never_saw() -> None:
    a, b, c, new, late = (SimpleNamespace(id=name) for name in ("a", "b", "c", "s", "x"))
    change = change_between([a, b, c], [new, c])
    assert change is not None
    assert follow_change([a, late, b, c], change) == [new, late, c]
    assert change_between([a, b], [a, b]) is None


def test_no_framework_is_imported() -> None:
    code = (
        "import sys, unabridged.adapters.shared; print(*(m for m in sys.modules if m.startswith(('lang', 'pydantic'))))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""
