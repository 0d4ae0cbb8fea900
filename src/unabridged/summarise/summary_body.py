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
from unabridged.ledger.summary_turn import Rendered, render
from unabridged.measure.models import model_info
from unabridged.summarise.brief import Brief, Live, Summariser, Written
from unabridged.text_tools import fenced

if TYPE_CHECKING:
    from unabridged.asking.ask import Ask, Reply
    from unabridged.asking.asker import Asker
    from unabridged.settings import Limits, Settings

PROSE, LEAST_PROSE, BESIDE = 0.86, 0.75, 600
"""The share of a summary turn that a model's prose takes, at most and at least; between these, tokens for the rest."""
SPARE = 8
"""Prose may be longer by one part in so many before it is shortened, where nothing else needs the room."""
TOLD_IN_FULL = ("own_words", "files", "names")
"""What prose is not complemented by that quotes people and uses half of its room or more."""
EARLIER, EARLIER_ANEW = 16, 4
"""The share of the summariser's window, one in so many, for the prose of earlier rounds; and when it begins anew."""

PINNED = "## Pinned by the host (verbatim, always holds)"
BY_A_MODEL = "## Summary by a model (its own words, not the user's)"
WITH_CITATIONS = f"{BY_A_MODEL[:-1]}, but for the words it quotes as [n] “…”)"
OTHERWISE = "While the request fits, history stays as it is; else the summary is model-free"


# -- who writes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Writers:
    """The model that is asked, if any; `own` says that it is the agent's own, so that its cached prompt can be used."""

    asker: Asker | None = None
    own: bool = False

    def summariser(
        self, settings: Settings, limits: Limits, live: Live, format_name: str, factor: float = 1.0
    ) -> Summariser | None:
        """How to ask now; None without a model. `SummaryFailed` while a model that failed is left alone.

        `factor` is what the agent's provider taught about the meter; it holds for the summariser if that is the agent.
        """
        if self.asker is None:
            return None
        if (seconds := self.asker.rest_left) > 0:
            raise SummaryFailed(self.asker.resting(seconds))
        info = model_info(self.asker.name)
        suffix = self.own if settings.suffix is None else settings.suffix
        window = self.asker.window or limits.window
        return Summariser(
            window=int(window / factor) if suffix else window,
            name=self.asker.name,
            instruction=settings.instruction,
            max_input=settings.max_input,
            live=live if suffix and self.asker.takes_live(format_name) else None,
            price=(lambda i, o: (i * info.input + o * info.output) / 1e6)
            if info and info.input
            else lambda _i, _o: None,
        )

    def write(self, brief: Brief, model: Summariser) -> Generator[Ask, Reply, Written]:
        """The body with a model's prose; a model whose replies were no good is left alone for a while.

        A failure says what it cost, and is logged, once in a row.
        """
        from unabridged.asking.ask import AskFailed, Rejected  # noqa: PLC0415 - only callers with a model pay for it

        try:
            written = yield from write_with_model(brief, model)
        except SummaryFailed as failed:
            failed.cost = model.with_dollars(failed.cost)
            if self.asker is not None and isinstance(failed, Rejected):
                self.asker.rest()
            if self.asker is not None and not (isinstance(failed, AskFailed) and failed.why == "cancelled"):
                self.asker.warn(None, failed, OTHERWISE)
            raise
        if self.asker is not None:
            self.asker.well()
        return written


def writers_for(asker: Asker | None, agent: str | None) -> Writers:
    """The writers with this model, which may be the agent's own."""
    if asker is None:
        return Writers()
    known, own = model_info(asker.name), model_info(agent)
    return Writers(asker, own=known is not None and own is not None and known.name == own.name)


# -- what is written --------------------------------------------------------------------------------------------------


def write_by_rule(brief: Brief) -> Written:
    """The whole body without a model."""
    ledger = _ledger(brief)
    room = brief.budget - brief.count(brief.state)
    stay, views = [turn for turn, _ in brief.stays], [view for _, view in brief.stays]
    later = [step.action for step in steps(views, stay) if not keeps_todo(step.action.tool)]
    shown = _as_it_stands(ledger, brief)
    rendered = render(
        shown, room, brief.count, kept=brief.kept, people=brief.preserve, without=brief.without, later=later
    )
    text = rendered.text(host_state=brief.state)
    return Written(text, ledger, notes=_left_out(rendered), rounds=_rounds(brief))


def write_with_model(brief: Brief, model: Summariser) -> Generator[Ask, Reply, Written]:
    """The body with a model's prose in it; `SummaryFailed` when no reply was good enough."""
    from unabridged.asking.ask import cost_of  # noqa: PLC0415 - only callers with a model pay for it
    from unabridged.summarise.ask_loop import summarise  # noqa: PLC0415 - likewise
    from unabridged.summarise.checks import find_said_rules, is_citation, ledger_with  # noqa: PLC0415 - likewise

    ledger = _ledger(brief)
    room = brief.budget - brief.count(brief.state)

    def rest(ledger: Ledger, room: int, prose: str, **options: Any) -> Rendered:
        shown = _as_it_stands(ledger, brief)
        return render(shown, room, brief.count, kept=brief.kept, prose=prose, people=brief.preserve, **options)

    exact = rest(ledger, room, BY_A_MODEL, without=brief.without).sections
    carried = "\n\n".join(exact[name] for name in ("open", "rules") if name in exact)
    share, beside = min(room, brief.prose), brief.count(carried)
    most = _room_for_prose(share, beside)
    spare = max(0, min(most // SPARE, share - beside - most))
    asked = replace(brief, budget=most, spare=spare, ledger=ledger, carried=carried)
    summary = yield from summarise(*_to_ask(asked, model))
    read = _read(brief)
    ledger = ledger_with(ledger, find_said_rules(summary.rules, read.views, read.turns))
    cites = any(map(is_citation, summary.text.split("\n")))
    prose = f"{WITH_CITATIONS if cites else BY_A_MODEL}\n{summary.text.strip()}"
    scant = brief.count(prose) * 2 < most
    told = TOLD_IN_FULL if cites and not scant else ()
    left = room - brief.count(prose)
    rendered = rest(ledger, left, prose, without={*brief.without, *told}, scant=scant)
    unchecked = (f"not checked, the model can't tell: {what}" for what in summary.checks_impossible)
    return Written(
        rendered.text(prose=prose, host_state=brief.state),
        ledger,
        summary.text,
        ", ".join(summary.models) or model.name,
        model.with_dollars(cost_of(summary.calls, summary.usage)),
        (*summary.notes, *unchecked, *_left_out(rendered)),
        summary.mended,
        _rounds(brief),
    )


def _room_for_prose(room: int, carried: int) -> int:
    """The tokens of a model's prose: what is carried word for word goes before, up to half of the room."""
    most = min(int(room * PROSE), max(int(room * LEAST_PROSE), room - BESIDE))
    return max(min(most, room - carried), room // 2)


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
    """What is carried: derived anew where the originals are given, else the earlier ledger with the new folded in."""
    read = _read(brief)
    prior = brief.prior_ledger if brief.whole is None else None
    ledger = gather(read.views, prior=prior, turns=read.turns, answered=brief.answered, at_work=brief.at_work)
    closed = {r.turn for r in ledger.requests if r.turn in brief.closed and r.state == "waiting"}
    requests = (replace(r, state="finished") if r.turn in closed else r for r in ledger.requests)
    return replace(ledger, requests=tuple(requests)) if closed else ledger


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
