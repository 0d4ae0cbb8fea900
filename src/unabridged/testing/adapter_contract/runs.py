"""Scenarios of long runs: one request of a person's, and more tool calls than a window holds."""

# Tests that ship: they assert.
# ruff: noqa: S101

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from unabridged.settings import Settings
from unabridged.testing.adapter_contract.case import THREAD, Case, error_of
from unabridged.testing.adapter_contract.interface import Door, Said, Seen
from unabridged.testing.adapter_contract.model import DONE, newest_answers, newest_reports, work, working

TASK = "Work through all reports and tell me which of them mentions the broken pump."


def long_chain(door: Door, folder: Path) -> None:
    """A model that counts a third more tokens than we do, and says so, never has to refuse."""
    with Case(door, folder, working(40), heavier=1.33, system="You read reports.") as case:
        assert case.say(TASK) == DONE
        assert len(case.model.seen) == 41, "each result is shown to the model once as the newest"
        assert not case.model.refusals, f"{case.model.refusals[0]}: the usage that the model reports was not heeded"
        assert {seen.system for seen in case.model.seen} == {"You read reports."}
        case.assert_always_shown(TASK)
        assert case.records(), f"no compaction is in the archive as of thread {THREAD!r}"
        case.assert_prefix_kept()


def parallel_calls(door: Door, folder: Path) -> None:
    """Rounds of three calls at once stay whole: each call with its result."""
    with Case(door, folder, working(36, at_once=3)) as case:
        assert case.say(TASK) == DONE
        for i, seen in enumerate(case.model.seen[1:]):
            assert sorted(newest_reports(seen)) == [3 * i, 3 * i + 1, 3 * i + 2], f"request {i + 1} lacks a result"
        assert len(case.model.seen) == 13
        assert case.records()
        case.assert_always_shown(TASK)


def pending_approval(door: Door, folder: Path) -> None:
    """A call that waits for a person runs once, after the approval, and its result stands behind it."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay this amount, in cents."""
        paid.append(amount)
        return f"paid {amount}"

    def script(seen: Seen) -> Said:
        if newest_answers(seen) == ["paid 4711"]:
            return Said(calls=(("work", {"number": 100}),))
        if newest_reports(seen) == [15]:
            return Said(calls=(("pay", {"amount": 4711}),))
        return working(16, first=100 if max(newest_reports(seen), default=0) >= 100 else 0)(seen)

    with Case(door, folder, script, tools={"work": work, "pay": pay}, approve=("pay",)) as case:
        assert case.say(TASK) == ""
        waited, before = case.session.waiting, len(case.model.seen)
        assert waited == ("pay",)
        assert not paid, "a tool ran before it was approved"
        assert before == 17
        assert case.session.approve() == DONE
        assert paid == [4711]
        assert not case.session.waiting
        assert len(case.model.seen) == before + 17
        assert newest_answers(case.model.seen[before]) == ["paid 4711"]
        assert case.records()
        case.assert_always_shown(TASK)


def overflow(door: Door, folder: Path) -> None:
    """A model with a smaller window than it was said to have refuses once: that is mended, and learned from."""
    with Case(door, folder, working(30), window=4_000, told=8_000) as case:
        assert case.say(TASK) == DONE
        refused = case.model.refusals
        assert len(refused) == 1, f"refused {len(refused)} times: the limit is learned from the first"
        assert len(case.model.seen) == 31 + 1
        case.assert_always_shown(TASK)
        assert case.records()
        case.model.window = 100
        assert error_of(lambda: case.say("And now?")) is not None, "the second refusal is the caller's"
        assert len(case.model.seen) <= 32 + 2, "what was refused is sent once more, not for ever"


def summariser_down(door: Door, folder: Path) -> None:
    """A summariser that raises, says nothing or says far too much ends no run and spoils no summary."""
    asked: list[Any] = []

    def summarise(ask: str) -> str:
        asked.append(ask)
        if len(asked) % 3 == 1:
            raise ConnectionError("no route to the summariser")
        return "" if len(asked) % 3 == 2 else "far too much of it " * 3_000

    settings = Settings(retries=0, cool_down=0.0)
    with Case(door, folder, working(40), model=summarise, settings=settings) as case:
        assert case.say(TASK) == DONE
        assert len(asked) > 2, "the summariser was hardly ever asked"
        assert len(case.model.seen) == 41
        assert not case.model.refusals
        case.assert_always_shown(TASK)
        assert case.records()


def streaming(door: Door, folder: Path) -> None:
    """A streamed answer comes to the caller piece by piece, also behind a refusal, and nothing of it comes twice."""
    with Case(door, folder, working(30), window=4_000, told=8_000, streaming=True) as case:
        assert case.say(TASK) == DONE
        assert "".join(case.session.pieces) == DONE
        assert len(case.session.pieces) > 1, "the answer came in one piece"
        assert len(case.model.refusals) == 1
        assert len(case.model.seen) == 31 + 1
        case.assert_always_shown(TASK)
        assert case.records()


def two_at_once(door: Door, folder: Path) -> None:
    """Two conversations of one agent at the same time: neither is shown a word of the other's."""

    def script(seen: Seen) -> Said:
        return working(24, first=1_000 if "Boris" in seen.text else 0)(seen)

    with Case(door, folder, script) as case:
        other = case.session.beside("the-other")
        asked = {"Anna": case.session, "Boris": other}
        with ThreadPoolExecutor(len(asked)) as pool:
            runs = [pool.submit(session.say, f"I am {name}. {TASK}") for name, session in asked.items()]
            assert [run.result() for run in runs] == [DONE, DONE]
        assert len(case.model.seen) == 50
        assert all(("Anna" in seen.text) != ("Boris" in seen.text) for seen in case.model.seen)
        assert case.threads() == {THREAD, "the-other"}
        for name, alien in ((THREAD, "fact1000x"), ("the-other", "fact0x")):
            assert case.records(name, kind=None)
            held = " ".join(part.text for part in case.archived(name))
            assert alien not in held, f"{name!r} holds messages of the other conversation"
        other.close()
