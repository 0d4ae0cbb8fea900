"""Scenarios of long runs: one request of a person's, and more tool calls than a window holds."""

# Tests that ship: they assert.
# ruff: noqa: S101

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from unabridged.settings import Settings
from unabridged_testing.adapter_contract.case import THREAD, ScenarioCase, catch_error
from unabridged_testing.adapter_contract.interface import Door, ModelReply, Seen
from unabridged_testing.adapter_contract.strict_model import (
    DONE,
    find_newest_answers,
    find_newest_reports,
    make_working_script,
    work,
)

TASK = "Work through all reports and tell me which of them mentions the broken pump."
OTHER_THREAD = "the-other"


def check_long_chain(door: Door, folder: Path) -> None:
    """Check that a model that counts a third more tokens than we do, and reports them, never has to refuse."""
    with ScenarioCase(door, folder, make_working_script(20), heavier=1.33, system="You read reports.") as case:
        assert case.say(TASK) == DONE
        case.assert_requests(21)
        systems = {seen.system for seen in case.model.seen}
        assert systems == {"You read reports."}, f"the system prompt is {systems}"
        case.assert_compacted_and_always_shown(TASK)
        case.assert_summary_shown()
        case.assert_prefix_kept()


def check_parallel_calls(door: Door, folder: Path) -> None:
    """Check that rounds of three calls at once stay whole, and that a long system prompt and many tools are counted."""
    rule = "Be exact, be brief, and name your sources. "
    system = "You read reports. " + rule * 40
    tools = {"work": work, **{f"read_page_{i}": _make_tool(f"read_page_{i}", rule * 20) for i in range(5)}}
    script = make_working_script(18, at_once=3)
    with ScenarioCase(door, folder, script, system=system, tools=tools, reports=False) as case:
        assert case.say(TASK) == DONE
        case.assert_requests(7)
        for i, seen in enumerate(case.model.seen[1:]):
            assert sorted(find_newest_reports(seen)) == [3 * i, 3 * i + 1, 3 * i + 2], f"request {i + 1} lacks a result"
        case.assert_compacted_and_always_shown(TASK)
        assert case.list_replayed_calls() == [f"work {i}" for i in range(18)]


def _make_tool(name: str, description: str) -> Callable[..., str]:
    def read_page(number: int) -> str:
        return f"page {number}"

    read_page.__name__ = read_page.__qualname__ = name
    read_page.__doc__ = description
    return read_page


def check_pending_approval(door: Door, folder: Path) -> None:
    """Check that a call that waits for a person runs once, after the approval, with its result behind it."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay this amount, in cents."""
        paid.append(amount)
        return f"paid {amount}"

    def script(seen: Seen) -> ModelReply:
        if find_newest_reports(seen) == [7]:
            return ModelReply(calls=(("pay", {"amount": 4711}),))
        second = find_newest_answers(seen) == ["paid 4711"] or max(find_newest_reports(seen), default=0) > 7
        return make_working_script(8, first=8 if second else 0)(seen)

    with ScenarioCase(door, folder, script, tools={"work": work, "pay": pay}, approve=("pay",)) as case:
        assert case.say(TASK) == "", "the turn came to its end without the approval"
        waits = case.session.waiting
        assert waits == ("pay",), f"{waits} wait for approval"
        assert not paid, "a tool ran before it was approved"
        case.assert_requests(9)
        assert case.session.approve() == DONE
        assert paid == [4711], f"the tool ran {len(paid)} times"
        assert not case.session.waiting, "something still waits for approval"
        case.assert_requests(9 + 9)
        assert find_newest_answers(case.model.seen[9]) == ["paid 4711"], "the model was not shown the result"
        case.assert_compacted_and_always_shown(TASK)
        works = [f"work {i}" for i in range(16)]
        assert case.list_replayed_calls() == [*works[:8], "pay 4711", *works[8:]]


def check_overflow(door: Door, folder: Path) -> None:
    """Check that a refusal by a model with a smaller window than was said is mended once, and learned from.

    Other errors are the caller's, and so is a second refusal.
    """
    with ScenarioCase(door, folder, make_working_script(15), window=4_000, adapter_window=8_000) as case:
        assert case.say(TASK) == DONE
        case.assert_requests(16 + 1, refused=1)
        case.assert_compacted_and_always_shown(TASK)
        case.model.script = _raise_server_error
        assert catch_error(lambda: case.say("And now?")) is not None, "another error did not reach the caller"
        case.assert_requests(17 + 1, refused=1)
        case.model.window, other = 100, case.session.beside(OTHER_THREAD)
        assert catch_error(lambda: other.say(TASK)) is not None, "a refusal for good did not reach the caller"
        assert len(case.model.seen) <= 18 + 2, "what was refused is sent once more, not for ever"
        other.close()


def _raise_server_error(_: Seen) -> ModelReply:
    raise RuntimeError("the model's server is on fire")


def check_summariser_down(door: Door, folder: Path) -> None:
    """Check that a summariser that raises, says nothing or says far too much ends no run and spoils no summary."""
    asked: list[str] = []

    def summarise(ask: str) -> str:
        asked.append(ask)
        if len(asked) % 3 == 1:
            raise ConnectionError("no route to the summariser")
        return "" if len(asked) % 3 == 2 else "far too much of it " * 3_000

    settings = Settings(retries=0, cool_down=0.0, clear=None)  # nothing but summaries makes room
    with ScenarioCase(door, folder, make_working_script(20), model=summarise, settings=settings) as case:
        assert case.say(TASK) == DONE
        assert len(asked) > 2, f"the summariser was asked {len(asked)} times"
        case.assert_requests(21)
        case.assert_compacted_and_always_shown(TASK)


def check_streaming(door: Door, folder: Path) -> None:
    """Check that a streamed answer comes piece by piece, also behind a refusal, and that nothing of it comes twice."""
    with ScenarioCase(
        door, folder, make_working_script(15), window=4_000, adapter_window=8_000, streaming=True
    ) as case:
        assert case.say(TASK) == DONE
        assert "".join(case.session.pieces) == DONE, f"the pieces are {case.session.pieces}"
        assert len(case.session.pieces) > 1, "the answer came in one piece"
        case.assert_requests(16 + 1, refused=1)
        case.assert_compacted_and_always_shown(TASK)


def check_two_at_once(door: Door, folder: Path) -> None:
    """Check that of two conversations of one agent at the same time neither is shown a word of the other's."""

    def script(seen: Seen) -> ModelReply:
        return make_working_script(12, first=1_000 if "Boris" in seen.text else 0)(seen)

    with ScenarioCase(door, folder, script) as case:
        other = case.session.beside(OTHER_THREAD)
        asked = {"Anna": case.session, "Boris": other}
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = [pool.submit(session.say, f"I am {name}. {TASK}") for name, session in asked.items()]
            assert [answer.result() for answer in answers] == [DONE, DONE]
        case.assert_requests(13 + 13)
        for seen in case.model.seen:
            assert ("Anna" in seen.text) != ("Boris" in seen.text), "a request holds words of both, or of neither"
        assert case.threads() == {THREAD, OTHER_THREAD}, f"the archive has the threads {case.threads()}"
        for name, alien in ((THREAD, "fact1000x"), (OTHER_THREAD, "fact0x")):
            case.assert_compacted(name)
            assert alien not in case.read_archived_text(name), f"{name!r} holds messages of the other conversation"
        other.close()
