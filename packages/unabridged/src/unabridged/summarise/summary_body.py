"""The body of a summary turn: the ledger by rule, people's own words, and a model's prose where there is a model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unabridged.errors import SummaryFailed
from unabridged.history.rederive import Whole, spaced
from unabridged.ledger.actions import changes_todo, find_todo, keeps_todo, steps
from unabridged.ledger.entries import Ledger
from unabridged.ledger.gather import gather
from unabridged.ledger.summary_turn import Rendered, people_size, render
from unabridged.measure.models import model_info
from unabridged.summarise.brief import SPARE, Brief, Live, Price, Summariser, Written, no_price, with_dollars
from unabridged.text_tools import fenced

if TYPE_CHECKING:
    from unabridged.asking.ask import Ask, Reply
    from unabridged.asking.asker import Asker
    from unabridged.settings import Limits, Settings

PROSE, LEAST_PROSE, BESIDE = 0.86, 0.75, 600
"""The share of a summary turn that a model's prose takes, at most and at least; between these, tokens for the rest."""
TOLD_IN_FULL = ("files", "names")
"""What prose is not complemented by that quotes people and uses half of its room or more."""
EARLIER, EARLIER_ANEW = 16, 4
"""The share of the summariser's window, one in so many, for the prose of earlier rounds; and when it begins anew."""

PINNED = "## Pinned (verbatim, always holds)"
BY_A_MODEL = "## Summary by a model (its own words, not the user's)"
WITH_CITATIONS = f"{BY_A_MODEL[:-1]}, but for the words it quotes as [n] “…”)"
OTHERWISE = "While the request fits, history stays as it is; else the summary is model-free"


# -- who writes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Writers:
    """The model that is asked, if any; `own` says that it is the agent's own, so that its cached prompt can be used."""

    asker: Asker | None = None
    own: bool = False

    @property
    def asks(self) -> bool:
        """Whether a model writes: there is one, and it is known now."""
        return self.asker is not None and not self.asker.missing

    def summariser(
        self, settings: Settings, limits: Limits, live: Live | None, format_name: str, factor: float = 1.0
    ) -> Summariser | None:
        """How to ask now; None without a model, or where none is known. `SummaryFailed` while one that failed rests.

        `factor` is what the agent's provider taught about the meter; it holds for the summariser if that is the agent.
        """
        if self.asker is None or self.asker.missing:
            return None
        if (seconds := self.asker.rest_left) > 0:
            from unabridged.asking.ask import AskFailed  # noqa: PLC0415 - only callers with a model pay for it

            raise AskFailed("cool-down", self.asker.resting(seconds))
        # A prompt of the caller's own may not keep a model from going on with its task behind the live conversation.
        suffix = self.own and settings.instruction is None if settings.suffix is None else settings.suffix
        window = self.asker.window or limits.window
        return Summariser(
            window=int(window / factor) if suffix else window,
            name=self.asker.name,
            instruction=settings.instruction,
            max_input=settings.max_input,
            reserve=settings.summary_reserve,
            live=live if suffix and self.asker.takes_live(format_name) else None,
            price=_price_of(self.asker.name),
            learn=self.asker.learn,
        )

    def write_by_rule(self, brief: Brief) -> Written:
        """The body without a model; the receipt and the log say why where a model was wanted and none is known."""
        written = write_by_rule(brief)
        if self.asker is None or not (why := self.asker.missing):
            return written
        self.asker.warn_missing()
        return replace(written, notes=(f"model-free: {why}", *written.notes))

    def write(self, brief: Brief, model: Summariser) -> Generator[Ask, Reply, Written]:
        """The body with a model's prose; a model whose replies were no good is left alone for a while.

        A failure says what it cost each model, and is logged, once in a row.
        """
        from unabridged.asking.ask import AskFailed, Rejected  # noqa: PLC0415 - only callers with a model pay for it

        try:
            written = yield from write_with_model(brief, model)
        except SummaryFailed as failed:
            self._add_dollars(failed, *failed.others)
            too_long = isinstance(failed, AskFailed) and failed.why == "too-long"
            if self.asker is not None and (isinstance(failed, Rejected) or too_long):
                self.asker.rest()
            if self.asker is not None and not (isinstance(failed, AskFailed) and failed.why == "cancelled"):
                self.asker.warn(None, failed, OTHERWISE)
            raise
        self._add_dollars(*written.failed)
        if self.asker is not None:
            self.asker.well()
        return written

    def _add_dollars(self, *errors: SummaryFailed) -> None:
        """Add dollars to what each error cost, by the prices of its model."""
        for error in errors:
            if self.asker is not None:
                price = _price_of(self.asker.speakers[error.place or 0].name)
                error.cost = with_dollars(error.cost, price)


def _price_of(name: str) -> Price:
    """Return what input and output tokens of this model cost together, in dollars."""
    info = model_info(name)
    return (lambda i, o: (i * info.input + o * info.output) / 1e6) if info and info.input else no_price


def writers_for(asker: Asker | None, agent: str | None) -> Writers:
    """The writers with this model, which may be the agent's own."""
    if asker is None:
        return Writers()
    known, own = model_info(asker.name), model_info(agent)
    return Writers(asker, own=known is not None and own is not None and known.name == own.name)


# -- what is written --------------------------------------------------------------------------------------------------


def write_by_rule(brief: Brief) -> Written:
    """Return the whole body without a model."""
    ledger = _ledger(brief)
    stay, views = [turn for turn, _ in brief.stays], [view for _, view in brief.stays]
    later = [step.action for step in steps(views, stay) if not keeps_todo(step.action.tool)]
    rendered = _render(brief, _as_it_stands(ledger, brief), brief.budget, later=later, without=brief.without)
    return Written(
        rendered.text(host_state=brief.state),
        ledger,
        notes=_left_out(rendered),
        dropped=rendered.dropped,
        rounds=_rounds(brief),
    )


def _render(brief: Brief, ledger: Ledger, budget: int, *, prose: str = "", **options: Any) -> Rendered:
    """Return the ledger as text: people's words in their own room, the rest in what the prose leaves of the budget."""
    beside = brief.count(brief.state) + brief.count(prose)
    total = brief.total - beside
    return render(
        ledger,
        budget - beside,
        brief.count,
        people=min(_room_for_people(brief), total),
        total=total,
        kept=brief.kept,
        prose=prose,
        **options,
    )


def _room_for_people(brief: Brief) -> int:
    """Return the most tokens for people's words: half of a body that has not room for all that it may say."""
    return min(brief.people, max(brief.total - brief.budget, brief.total // 2))


def write_with_model(brief: Brief, model: Summariser) -> Generator[Ask, Reply, Written]:
    """Return the body with a model's prose in it; `SummaryFailed` when no reply was good enough."""
    from unabridged.asking.ask import cost_of  # noqa: PLC0415 - only callers with a model pay for it
    from unabridged.summarise.ask_loop import Summary, summarise  # noqa: PLC0415 - likewise
    from unabridged.summarise.checks import is_citation  # noqa: PLC0415 - likewise
    from unabridged.summarise.rules import find_rules  # noqa: PLC0415 - likewise
    from unabridged.summarise.verify import trim  # noqa: PLC0415 - likewise

    ledger = _ledger(brief)
    quoted = people_size(ledger, _room_for_people(brief), brief.count, kept=brief.kept, prose=BY_A_MODEL)
    room = min(brief.budget, brief.total - quoted) - brief.count(brief.state)
    most = min(int(room * PROSE), max(int(room * LEAST_PROSE), room - BESIDE))
    asked = replace(brief, budget=most, spare=max(0, min(most // SPARE, room - most)), ledger=ledger)
    if brief.is_blank():  # nothing is new: the earlier prose stays
        summary = Summary(trim(brief.prior, most, brief.count))
    else:
        summary = yield from summarise(*_to_ask(asked, model))
    rules, notes = (
        find_rules(summary.rules, _read(brief), ledger.rules, ledger.people) if model.instruction is None else ((), ())
    )
    ledger = replace(ledger, rules=rules)
    cites = any(map(is_citation, summary.text.split("\n")))
    prose = f"{WITH_CITATIONS if cites else BY_A_MODEL}\n{summary.text.strip()}"
    scant = brief.count(prose) * 2 < most
    without = {*brief.without, *(TOLD_IN_FULL if cites and not scant else ())}
    rendered = _render(brief, _as_it_stands(ledger, brief), max(room, brief.count(prose)), prose=prose, without=without)
    unchecked = (f"not checked, the model can't tell: {what}" for what in summary.checks_impossible)
    return Written(
        rendered.text(prose=prose, host_state=brief.state),
        ledger,
        summary.text,
        ", ".join(summary.models) or model.name,
        with_dollars(cost_of(summary.calls, summary.usage), model.price),
        (*summary.notes, *unchecked, *_left_out(rendered)),
        (*summary.mended, *notes),
        rendered.dropped,
        _rounds(brief),
        summary.failures(),
    )


def render_pins(pins: Sequence[str]) -> str:
    """The host's pinned strings as a part of the summary turn, each byte for byte; "" without any."""
    return "\n".join([PINNED, *(fenced(pin) for pin in pins)]) if pins else ""


def _to_ask(brief: Brief, model: Summariser) -> tuple[Brief, Summariser]:
    """What the model is asked to summarise: the originals again when it is time and one ask can show them all."""
    from unabridged.asking.ask import AskFailed  # noqa: PLC0415 - only callers with a model pay for it
    from unabridged.summarise.chunks import make_chunks  # noqa: PLC0415 - likewise

    if brief.whole is None:
        prior = spaced(brief.earlier, model.window // EARLIER, brief.count)
        return replace(brief, prior=prior or brief.prior), model
    apart = replace(model, live=None)
    again = replace(brief, views=brief.whole.views, turns=brief.whole.turns, prior="")
    if sum(len(view.whole_text()) for view in again.views) < 8 * model.window and model.max_input is None:
        try:
            if make_chunks(again, apart).single:
                return again, apart
        except AskFailed:
            return brief, model
    prior = spaced(brief.earlier, model.window // EARLIER_ANEW, brief.count)
    return replace(brief, prior=prior or brief.prior), apart


def _read(brief: Brief) -> Whole:
    """What the ledger is gathered from: all of the originals where they are given, else what goes."""
    return brief.whole or Whole(list(brief.views), list(brief.turns))


def _ledger(brief: Brief) -> Ledger:
    """Return what is carried: derived anew where the originals are given, else the earlier ledger with what is new.

    Rules were picked out by a model: they are carried in either case.
    """
    read = _read(brief)
    ledger = gather(read.views, prior=brief.prior_ledger if brief.whole is None else None, turns=read.turns)
    if brief.span is not None:  # a hook may have left out the first or the last of what goes
        first = brief.span[0] if brief.prior_ledger is None else brief.prior_ledger.first
        ledger = replace(ledger, first=first, end=max(ledger.end, brief.span[1]))
    return replace(ledger, rules=brief.prior_ledger.rules) if brief.prior_ledger is not None else ledger


def _as_it_stands(ledger: Ledger, brief: Brief) -> Ledger:
    """The ledger as it is shown: the assistant's list as of the end of what stays, which may have changed it.

    A list that is written anew there, or was made in what is no longer here and changed there, is left out.
    """
    stay, views = [turn for turn, _ in brief.stays], [view for _, view in brief.stays]
    if not any(changes_todo(call.name) for view in views for call in view.calls):
        return ledger
    read = _read(brief)
    todo, turn = find_todo([*read.views, *views], [*read.turns, *stay])
    return replace(ledger, todo="" if todo == find_todo(views, stay)[0] else todo, todo_turn=turn)


def _rounds(brief: Brief) -> int:
    return 0 if brief.whole is not None or brief.prior_ledger is None else brief.rounds + 1


def _left_out(rendered: Rendered) -> tuple[str, ...]:
    return tuple(f"left out of the summary, kept in the archive: {item}" for item in rendered.left_out)
