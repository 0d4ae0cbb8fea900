"""However ill the numbers fit together, 100 turns are summarised a bounded number of times, in bounded calls.

The bounds are those of `docs/summaries.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from conversations import chat_round, user
from rows import rows
from unabridged import Compaction, Compactor, Settings, check
from unabridged.tokens.calibrate import Usage
from unabridged_testing import ScriptedModel

PROSE = "They went through many files, one after another, and settled each of them as it came up in turn."
TURNS = 100
FRAME = 300
"""Tokens of the request itself and of the header, end line and acknowledgment of a summary turn."""
NEAR = Settings(trigger=("tokens", 8_000), keep=("tokens", 7_500), clear=None)


@dataclass
class Run:
    """What 100 turns came to."""

    summaries: int = 0
    added: int = 0
    """Tokens of the rounds, as the provider counts them."""
    overhead: int = 0
    calls: int = 0
    since: list[int] = field(default_factory=list)
    """Between each summary and the one before, how many turns."""


def run(
    settings: Settings, *, window: int = 16_000, overhead: int = 0, lie: float = 1.0, counter: Any = None
) -> tuple[Run, Compactor]:
    """An agent that calls a tool 100 times; the provider reports `lie` times what we count."""
    model = ScriptedModel([PROSE], forever=True)
    compactor = Compactor(model, window=window, archive="memory:", settings=settings, counter=counter)
    system = "rule " * overhead
    found, messages, last = Run(), [user("Go through all files.")], 0
    alone = compactor.plan(messages).tokens
    for turn in range(TURNS):
        came = chat_round(f"t{turn}", f"line {turn} of it\n" * 60)
        found.added += int((compactor.plan([*messages[:1], *came]).tokens - alone) * lie)
        fitted = compactor.fit([*messages, *came], thread="t", system=system)
        if fitted.changed:
            assert fitted.tokens_after < fitted.tokens_before
            assert check(fitted.messages) == []
            found.summaries += 1
            found.since.append(turn - last)
            last = turn
        messages = fitted.messages
        compactor.observe(fitted, Usage(int(fitted.estimate * lie)))
    found.calls = model.calls
    found.overhead = int(compactor.plan(messages, system=system).tokens - compactor.plan(messages).tokens)
    return found, compactor


def most_summaries(found: Run, compactor: Compactor) -> int:
    """As docs/summaries.md has it: between two of them comes at least a third of the room that a summary leaves."""
    limits = compactor.limits
    fixed = found.overhead + limits.summary + FRAME
    rooms = [bound - fixed for bound in (limits.tokens_below_trigger, int(limits.budget * 0.95)) if bound > fixed]
    return 1 + int(found.added / (rooms[0] / 3))


CASES: dict[str, Callable[[], tuple[Run, Compactor]]] = {
    "as it comes": lambda: run(Settings(clear=None)),
    "keep near the trigger": lambda: run(NEAR),
    "keep of many messages near the trigger": lambda: run(
        Settings(trigger=("tokens", 8_000), keep=("messages", 30), clear=None), window=100_000
    ),
    "fixed overhead above the trigger": lambda: run(Settings(trigger=("tokens", 8_000), clear=None), overhead=9_000),
    "all of it": lambda: run(NEAR, overhead=7_000, lie=1.3),
    "the provider counts 30 % more": lambda: run(NEAR, lie=1.3),
    "the provider counts 30 % less": lambda: run(NEAR, lie=0.7),
    "a counter 30 % too high": lambda: run(NEAR, counter=counting(1.3)),
    "a counter 30 % too low": lambda: run(NEAR, counter=counting(0.7)),
}


def counting(lie: float) -> Callable[[list[Any], Any], int]:
    return lambda messages, tools: int(lie * (len(str(messages)) + len(str(tools or ""))) / 4)


@rows("case", CASES)
def test_over_many_turns_summaries_and_calls_are_bounded(case: str) -> None:
    found, compactor = CASES[case]()
    compactor.close()
    most = most_summaries(found, compactor)
    print(f"{case}: {found.summaries} summaries of at most {most}, {found.calls} calls")  # noqa: T201 - to be read
    assert 1 <= found.summaries <= most
    assert found.calls <= 6 * found.summaries  # one ask, or two chunks and a fold; each once more at most
    assert min(found.since[1:], default=TURNS) > 2  # never every second round


@pytest.mark.parametrize(("trigger", "keep"), [(24, 20), (24, 23), (60, 50)])
def test_a_keep_by_messages_near_a_trigger_by_messages_waits_for_a_third_of_it(trigger: int, keep: int) -> None:
    settings = Settings(trigger=("messages", trigger), keep=("messages", keep), clear=None)
    found, compactor = run(settings, window=500_000)
    compactor.close()
    added = 2 * TURNS
    print(f"{trigger}/{keep}: {found.summaries} summaries")  # noqa: T201 - to be read
    assert 1 <= found.summaries <= 1 + added / (trigger // 3 - 2)
    assert min(found.since[1:]) > 2


def test_where_nothing_can_be_gained_no_model_is_asked_again_and_again() -> None:
    model = ScriptedModel([PROSE], forever=True)
    settings = Settings(trigger=("tokens", 2_000), pin=lambda message: "PIN" in str(message), clear=None)
    with Compactor(model, window=16_000, archive="memory:", settings=settings) as compactor:
        messages: list[Any] = [user("PIN " + "fixed " * 3_000)]
        kept: list[Compaction] = []
        for turn in range(TURNS):
            kept.append(compactor.fit([*messages, *chat_round(f"t{turn}", "ok")], thread="t"))
            messages = kept[-1].messages
    print(f"pinned above the trigger: {model.calls} calls")  # noqa: T201 - to be read
    assert model.calls <= 12


# -- a conversation far larger than the summariser's window ------------------------------------------------------------

SUMMARISER = 8_000
MARK = re.compile(r"\bquux[a-z]{4}\b")


def mark(number: int) -> str:
    """A plain word that occurs nowhere else, and that no ledger takes for a name."""
    return "quux" + "".join(chr(97 + number // 26**place % 26) for place in range(4))


def marked(tokens: int) -> list[Any]:
    """Rounds of tools of at least so many tokens, each with marks of its own."""
    messages: list[Any] = [user("Look at every part and repair it.")]
    while sum(len(str(message)) for message in messages) < 2.1 * tokens:
        n = len(messages)
        words = " ".join(f"word{n}x{i}" for i in range(60))
        messages += chat_round(
            f"t{n}", f"It says {mark(2 * n)}. {words}", text=f"Part {n}: {mark(2 * n + 1)}.", path=f"part_{n}.py"
        )
    return messages


@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.long)])
def test_a_conversation_of_many_times_the_summarisers_window_is_shown_once_and_fits(times: int) -> None:
    # R23
    model = ScriptedModel([PROSE], forever=True)
    messages = marked(times * SUMMARISER)
    with Compactor(model, window=SUMMARISER, archive="memory:", settings=Settings(clear=None)) as compactor:
        before = compactor.plan(messages).tokens
        assert before >= times * SUMMARISER
        fitted = compactor.fit(messages, thread="t")
        assert fitted.receipt is not None
        assert fitted.tokens_after <= compactor.limits.budget
        assert fitted.receipt.summariser != "model-free"
        asks = [ask.instruction for ask in model.asks]
        kept = {id(message) for message in fitted.messages}
        went = set(MARK.findall(str([message for message in messages if id(message) not in kept])))
        shown = [word for ask in asks for word in MARK.findall(ask)]
        assert went <= set(shown)
        assert all(compactor.plan([user(ask)]).tokens < SUMMARISER * 3 // 4 for ask in asks)  # a quarter is the reply's
        assert len(shown) == len(set(shown))
        # A chunk holds at least half of what an ask has room for; four notes at least go into one fold.
        chunks = -(-before // (SUMMARISER // 4))
        most = 2 * (chunks + chunks // 3 + 8)
        print(f"{times} windows, {before:,} tokens: {model.calls} calls of at most {most}")  # noqa: T201 - to be read
        assert model.calls <= most
        assert fitted.receipt.cost["calls"] == model.calls
        assert compactor.replay(fitted.messages, thread="t") == messages
