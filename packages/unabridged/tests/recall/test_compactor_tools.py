"""`Compactor.tools` and `Compactor.compactions`: bound to one conversation of one namespace."""

from __future__ import annotations

import asyncio
from typing import Any

from conversations import assistant, user
from unabridged import Compactor
from unabridged.formats import FORMATS

PLANTED = "INV-2291"


def orders(count: int) -> list[dict[str, Any]]:
    first = [user(f"The invoice is {PLANTED}.")]
    return first + [m for i in range(count) for m in (assistant(f"Order {i} sent. " * 12), user(f"And order {i}?"))]


def test_the_tools_reach_their_own_conversation_and_no_other() -> None:
    with Compactor(window=3_000, archive="memory:", namespace="one") as engine:
        engine.fit(orders(60), thread="t")
        engine.fit(orders(60), thread="t", namespace="two")
        mine, empty = engine.tools(thread="t"), engine.tools(thread="other")
        assert PLANTED in mine.call("search_history", {"query": PLANTED})
        assert PLANTED in mine.call("read_history", {"ref": "0"})
        assert "0-" not in empty.call("search_history", {"query": PLANTED})
        assert mine.scope == ("one", "t")
        assert engine.tools(thread="t", namespace="two").scope == ("two", "t")
        assert {len(mine.schemas(dialect)) for dialect in (*FORMATS, "mcp")} == {2}


def test_the_tools_search_what_is_still_in_the_list_where_they_get_it() -> None:
    with Compactor(window=3_000, archive="memory:") as engine:
        messages = [*engine.fit(orders(60), thread="t").messages, user("The pump is PX-77.")]
        assert "PX-77" not in engine.tools(thread="t").search("PX-77", 5).text().replace("“PX-77”", "")
        assert [one.live for one in engine.tools(thread="t", messages=lambda: messages).search("PX-77", 5).results]


def test_compactions_are_listed_oldest_first_with_their_cost_and_without_what_was_undone() -> None:
    def model(_: str) -> str:
        return "The orders were sent one by one, and each was confirmed to the user at once." * 3

    with Compactor(model, window=3_000, archive="memory:") as engine:
        messages = orders(60)
        assert engine.compactions(thread="t") == []
        first = engine.fit(messages, thread="t")
        second = engine.fit([*first.messages, *orders(60)], thread="t")
        receipts = engine.compactions(thread="t")
        assert receipts == [first.receipt, second.receipt]
        assert receipts == asyncio.run(engine.acompactions(thread="t"))
        assert all(receipt.cost["calls"] >= 1 for receipt in receipts)
        engine.undo(second.messages, thread="t")
        assert engine.compactions(thread="t") == [first.receipt]
        assert engine.compactions(thread="t", namespace="two") == []
