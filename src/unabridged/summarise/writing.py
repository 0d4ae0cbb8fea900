"""What a summary turn says: the ledger by rule, people's own words, and a model's prose where there is a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from unabridged.history.rederive import Prose, Whole, spaced
from unabridged.languages import labels
from unabridged.ledger.entries import Ledger
from unabridged.ledger.gather import gather, language_of
from unabridged.ledger.merge import merge
from unabridged.ledger.rank import decisions
from unabridged.ledger.render import between, render
from unabridged.ledger.sayings import is_talk
from unabridged.messages import View
from unabridged.summarise.preserved import preserve_user_messages
from unabridged.texts import fenced, quote

if TYPE_CHECKING:
    from unabridged.asking.ask import Ask, Reply
    from unabridged.summarise.chunking import Block, Live

PROSE = 0.5
"""The share of a summary turn that a model's prose may take; the ledger gets what is left."""
DECIDED = (0.05, 0.12)
"""The share for what was decided, in the assistant's words, of a small and of a large turn: a model may forget it."""
EARLIER, EARLIER_ANEW = 16, 4
"""The share of the summariser's window, one in so many, for the prose of earlier rounds; and when it begins anew."""
PRESERVED = 0.25
"""The share that people's own words, which are not kept otherwise, may take."""

PRESERVED_OF_TALK = 0.06
"""The same where nothing is done: there the ledger carries what tells most of all that was said, not of the newest."""

PINNED = "## Pinned by the host (verbatim, always holds)"


@dataclass(frozen=True, slots=True)
class Told:
    """What a summary turn is to stand for, and within which limits."""

    views: Sequence[View]
    turns: Sequence[int]
    prior: Ledger | None
    prior_prose: str
    answered: bool
    """Whether a person speaks next, so that the assistant's last words closed its turn."""
    kept: Collection[int]
    """Turns whose own message stays beside the summary."""
    budget: int
    count: Callable[[str], int]
    preserve: int
    """The most tokens for people's own words."""
    prose: int
    """Of how many tokens a model's prose may take its share: where people only talk, the more is for their words."""
    at_work: bool = False
    """Whether tools work, behind them, on the last request among them."""
    state: str = ""
    """The host's state, ready to be shown."""
    beside: Sequence[View] = ()
    """What stays in the context."""
    also: str = ""
    """What else a summariser may know of: system prompt, tools, pins."""
    rounds: int = 0
    """How often the earlier ledger was carried on since it was derived from the originals."""
    whole: Whole | None = None
    """The original conversation that the summary stands for, when the ledger is to be derived anew."""
    earlier: Sequence[Prose] = ()
    """The prose of the earlier rounds, oldest first."""
    gone: Sequence[Any] = ()
    """What goes, as the caller's own objects."""
    without: Collection[str] = ()
    """The sections (`settings.SECTIONS`) that are not wanted."""


@dataclass(frozen=True, slots=True)
class Written:
    """The body of a summary turn, what is remembered of it, and what it cost."""

    text: str
    ledger: Ledger
    prose: str = ""
    summariser: str = "model-free"
    cost: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    """What of the model's prose did not hold."""
    rounds: int = 0
    """As in `Told`, for the next time."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How the model is asked: its window, its prompt, and the live prompt when it is asked as a suffix of that."""

    window: int
    name: str
    instruction: str | None = None
    max_input: int | None = None
    live: Live | None = None
    price: Callable[[int, int], float | None] = lambda _input, _output: None

    def priced(self, cost: dict[str, float]) -> dict[str, float]:
        """The same with dollars in it, where prices and tokens are known."""
        dollars = self.price(int(cost["input"]), int(cost["output"])) if "input" in cost else None
        return cost if dollars is None else {**cost, "dollars": dollars}


def by_rule(told: Told) -> Written:
    """The whole body without a model."""
    ledger = _ledger(told)
    said = _own_words(told, ledger)
    room = told.budget - told.count(said.text) - told.count(told.state)
    made = render(ledger, room, told.count, kept=told.kept, spoken=said.turns, without=told.without)
    text = _joined(made.text, said.text, told.state)
    return Written(text, ledger, notes=_left_out(made.left_out), rounds=_rounds(told))


def with_model(told: Told, asked: Asked) -> Generator[Ask, Reply, Written]:
    """The body with a model's prose in it; `SummaryFailed` when no reply was good enough."""
    from unabridged.asking.ask import cost_of  # noqa: PLC0415 - only callers with a model pay for it
    from unabridged.summarise.block import summarise  # noqa: PLC0415 - only callers with a model pay for it
    from unabridged.summarise.standing import found_rules, with_rules  # noqa: PLC0415 - likewise

    ledger = _ledger(told)
    said = _own_words(told, ledger)
    notes_room = 0 if "notes" in told.without else int(told.budget * between(DECIDED, told.budget))
    decided = _decided(ledger, notes_room, told.count)
    room = told.budget - sum(told.count(part) for part in (said.text, decided, told.state))
    most = int(min(room, told.prose) * PROSE)
    carried = render(
        ledger, room - most, told.count, kept=told.kept, story=False, spoken=said.turns, without=told.without
    )
    summary = yield from summarise(_block(told, asked, ledger, most, _joined(carried.text, decided)))
    read = told.whole or Whole(list(told.views), list(told.turns))
    ledger = with_rules(ledger, found_rules(summary.rules, read.views, read.turns))
    prose = f"## Summary by a model (its own words, not the user's)\n{summary.text.strip()}"
    left = render(
        ledger,
        room - told.count(prose),
        told.count,
        kept=told.kept,
        story=False,
        spoken=said.turns,
        without=told.without,
    )
    notes = (*summary.notes, *(f"not checked, the model can't tell: {what}" for what in summary.checks_impossible))
    return Written(
        _joined(left.text, decided, said.text, prose, told.state),
        ledger,
        summary.text,
        ", ".join(summary.models) or asked.name,
        asked.priced(cost_of(summary.calls, summary.usage)),
        (*notes, *_left_out(left.left_out)),
        summary.mended,
        _rounds(told),
    )


def pinned(pins: Sequence[str]) -> str:
    """The host's pinned strings as a part of the summary turn, each byte for byte; "" without any."""
    return "\n".join([PINNED, *(fenced(pin) for pin in pins)]) if pins else ""


def _decided(ledger: Ledger, room: int, count: Callable[[str], int]) -> str:
    """What the assistant said was decided, oldest first, as much as there is room for."""
    lines: list[tuple[int, str]] = []
    heading = f"## {labels(ledger.language)['notes']}"
    for note in decisions(ledger):
        line = f"- [{note.turn}] {quote(note.text)}"
        if count("\n".join([heading, *(text for _, text in lines), line])) <= room:
            lines.append((note.turn, line))
    return "\n".join([heading, *(text for _, text in sorted(lines))]) if lines else ""


def _ledger(told: Told) -> Ledger:
    """What is carried: derived anew where the originals are given, else the earlier ledger with the new folded in."""
    read = told.whole or Whole(list(told.views), list(told.turns))
    ledger = gather(read.views, turns=read.turns, answered=told.answered, at_work=told.at_work)
    if told.whole is not None:
        return ledger
    return merge(told.prior, ledger) if told.prior is not None else ledger


def _rounds(told: Told) -> int:
    return 0 if told.whole is not None or told.prior is None else told.rounds + 1


def _block(told: Told, asked: Asked, ledger: Ledger, budget: int, carried: str) -> Block:
    """What the model is asked to summarise: the originals again when it is time and one ask can show them all."""
    from unabridged.asking.ask import AskFailed  # noqa: PLC0415 - only callers with a model pay for it
    from unabridged.summarise.chunking import Block, make_chunks  # noqa: PLC0415 - likewise

    block = Block(
        views=told.views,
        turns=told.turns,
        budget=budget,
        window=asked.window,
        count=told.count,
        prior=told.prior_prose,
        ledger_text=carried,
        mode="suffix" if asked.live is not None else "standalone",
        live=asked.live,
        instruction=asked.instruction,
        max_input=asked.max_input,
        beside=told.beside,
        ledger=ledger,
        also=f"{told.also}\n{told.state}",
        gone=told.gone,
    )
    if told.whole is None:
        prior = spaced(told.earlier, asked.window // EARLIER, told.count)
        return replace(block, prior=prior or told.prior_prose)
    again = replace(block, views=told.whole.views, turns=told.whole.turns, prior="", mode="standalone", live=None)
    if sum(len(view.whole_text()) for view in again.views) < 8 * asked.window and asked.max_input is None:
        try:
            if make_chunks(again).single:
                return again
        except AskFailed:
            return block
    prior = spaced(told.earlier, asked.window // EARLIER_ANEW, told.count)
    return replace(block, prior=prior or told.prior_prose, mode="standalone", live=None)


class _Spoken(NamedTuple):
    """People's own words as a part of the summary turn, and the turns that it holds."""

    text: str = ""
    turns: frozenset[int] = frozenset()


def _own_words(told: Told, ledger: Ledger) -> _Spoken:
    """People's messages among what goes, word for word, newest first as they fit; open ones stand in the ledger."""
    budget = min(told.preserve, int(told.budget * (PRESERVED_OF_TALK if _mere_talk(told) else PRESERVED)))
    elsewhere = {*told.kept, *(request.turn for request in ledger.open)}
    others = [i for i, turn in enumerate(told.turns) if turn not in elsewhere]
    if budget <= 0 or not others:
        return _Spoken()
    language = language_of(told.whole.views) if told.whole else language_of(told.views, told.prior)
    heading = f"## {labels(language)['own_words']}"
    words = preserve_user_messages(
        [told.views[i] for i in others],
        budget - told.count(heading),
        told.count,
        turns=[told.turns[i] for i in others],
        language=language,
    )
    if not words.text:
        return _Spoken()
    return _Spoken(f"{heading}\n{words.text}", frozenset(told.turns[others[i]] for i in words.whole))


def _mere_talk(told: Told) -> bool:
    earlier = told.prior or Ledger()
    done = [*earlier.actions, *(view for view in told.views if view.calls or view.origin in {"tool", "unknown"})]
    return is_talk(done, len(earlier.requests) + sum(view.is_request for view in told.views))


def _joined(*parts: str) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _left_out(what: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"left out of the summary, kept in the archive: {item}" for item in what)
