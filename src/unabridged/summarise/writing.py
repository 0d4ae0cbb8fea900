"""What a summary turn says: the ledger by rule, people's own words, and a model's prose where there is a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unabridged.ledger.entries import Ledger
from unabridged.ledger.extract import extract
from unabridged.ledger.gather import gather
from unabridged.ledger.merge import merge
from unabridged.ledger.render import render
from unabridged.ledger.requests import open_indices
from unabridged.messages import View
from unabridged.summarise.preserved import preserve_user_messages

if TYPE_CHECKING:
    from unabridged.asking.ask import Ask, Reply
    from unabridged.summarise.chunking import Live

PROSE = 0.5
"""The share of a summary turn that a model's prose may take; the ledger gets what is left."""
PRESERVED = 0.25
"""The share that people's own words, which are not kept otherwise, may take."""

OWN_WORDS = "## The user's newest messages among these (verbatim)"


@dataclass(frozen=True, slots=True)
class Told:
    """What a summary turn is to stand for, and within which limits."""

    views: Sequence[View]
    turns: Sequence[int]
    prior: Ledger | None
    prior_prose: str
    answered: bool
    """Whether the last request among them is finished."""
    kept: Collection[int]
    """Turns whose own message stays beside the summary."""
    budget: int
    count: Callable[[str], int]
    preserve: int
    """The most tokens for people's own words."""


@dataclass(frozen=True, slots=True)
class Written:
    """The body of a summary turn, what is remembered of it, and what it cost."""

    text: str
    ledger: Ledger
    prose: str = ""
    summariser: str = "model-free"
    cost: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """How the model is asked: its window, its prompt, and the live prompt when it is asked as a suffix of that."""

    window: int
    name: str
    instruction: str | None = None
    max_input: int | None = None
    live: Live | None = None
    price: Callable[[int, int], float | None] = lambda _input, _output: None


def by_rule(told: Told) -> Written:
    """The whole body without a model."""
    said = _own_words(told)
    made = extract(
        told.views,
        prior=told.prior,
        turns=told.turns,
        answered=told.answered,
        kept=told.kept,
        budget=told.budget - told.count(said),
        count=told.count,
    )
    return Written(_joined(made.text, said), made.ledger, notes=_left_out(made.left_out))


def with_model(told: Told, asked: Asked) -> Generator[Ask, Reply, Written]:
    """The body with a model's prose in it; `SummaryFailed` when no reply was good enough."""
    from unabridged.summarise.block import summarise  # noqa: PLC0415 - likewise
    from unabridged.summarise.chunking import Block  # noqa: PLC0415 - only callers with a model pay for it

    ledger = gather(told.views, turns=told.turns, answered=told.answered)
    if told.prior is not None:
        ledger = merge(told.prior, ledger)
    said = _own_words(told)
    room = told.budget - told.count(said)
    carried = render(ledger, room - int(room * PROSE), told.count, kept=told.kept, story=False)
    summary = yield from summarise(
        Block(
            views=told.views,
            turns=told.turns,
            budget=int(room * PROSE),
            window=asked.window,
            count=told.count,
            prior=told.prior_prose,
            ledger_text=carried.text,
            mode="suffix" if asked.live is not None else "standalone",
            live=asked.live,
            instruction=asked.instruction,
            max_input=asked.max_input,
        )
    )
    prose = f"## Summary by a model (its own words, not the user's)\n{summary.text.strip()}"
    left = render(ledger, room - told.count(prose), told.count, kept=told.kept, story=False)
    notes = (*summary.notes, *(f"not checked, the model can't tell: {what}" for what in summary.checks_impossible))
    return Written(
        _joined(left.text, said, prose),
        ledger,
        summary.text,
        ", ".join(summary.models) or asked.name,
        _cost(asked, summary.calls, summary.usage),
        (*notes, *_left_out(left.left_out)),
    )


def _own_words(told: Told) -> str:
    """People's messages among what goes, word for word, newest first as far as they fit, labelled open or finished."""
    budget = min(told.preserve, int(told.budget * PRESERVED))
    others = [i for i, turn in enumerate(told.turns) if turn not in told.kept]
    if budget <= 0 or not others:
        return ""
    still_open = set(open_indices(told.views))
    words = preserve_user_messages(
        [told.views[i] for i in others],
        budget - told.count(OWN_WORDS),
        told.count,
        still_open=[place for place, i in enumerate(others) if i in still_open and not told.answered],
        turns=[told.turns[i] for i in others],
    ).text
    return f"{OWN_WORDS}\n{words}" if words else ""


def _joined(*parts: str) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _left_out(what: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"left out of the summary, kept in the archive: {item}" for item in what)


def _cost(asked: Asked, calls: int, usage: object) -> dict[str, float]:
    cost: dict[str, float] = {"calls": calls}
    if usage is not None:
        for name in ("input", "cache_read", "cache_write", "output"):
            if (value := getattr(usage, name, None)) is not None:
                cost[name] = value
        dollars = asked.price(int(cost.get("input", 0)), int(cost.get("output", 0)))
        if dollars is not None:
            cost["dollars"] = dollars
    return cost
