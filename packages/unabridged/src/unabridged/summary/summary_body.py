"""The body of a summary turn: its ledger, people's own words, and a model's prose where there is a model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unabridged.asking.ask import Ask, AskFailed, Rejected, Reply, build_call_cost
from unabridged.asking.asker import Asker
from unabridged.errors import SummaryFailed
from unabridged.settings import Limits, Settings
from unabridged.summary.actions import find_todo, find_tool_uses, is_todo_tool, may_change_todo
from unabridged.summary.ask_loop import ModelSummary, summarise
from unabridged.summary.brief import SPARE_DIVISOR, Brief, LivePrompt, Summariser, SummaryBody
from unabridged.summary.chunks import plan_asks
from unabridged.summary.citations import is_citation
from unabridged.summary.gather import gather_ledger
from unabridged.summary.layout import RenderedLedger, measure_people, render_within_budget
from unabridged.summary.ledger import Ledger, Rule
from unabridged.summary.originals import select_evenly
from unabridged.summary.rules import find_rules
from unabridged.summary.verify import trim_sections
from unabridged.text_tools import wrap_in_fence
from unabridged.tokens.calibrate import Usage
from unabridged.tokens.models import find_model_info

PINS_HEADING = "## Pinned (verbatim, always holds)"
PROSE_SHARE, LEAST_PROSE_SHARE, REST_TOKENS = 0.86, 0.75, 600
"""The share of a summary turn that a model's prose takes, at most and at least; between these, tokens for the rest."""
LISTS_IN_PROSE = ("files", "names")
"""Sections that are left out beside prose that quotes people and uses half of its room or more."""
EARLIER_DIVISOR, EARLIER_DIVISOR_ANEW = 16, 4
"""The share of the summariser's window, one in so many, for the prose of earlier rounds; and when it begins anew."""

MODEL_HEADING = "## Summary by a model (its own words, not the user's)"
CITED_MODEL_HEADING = f"{MODEL_HEADING[:-1]}, but for the words it quotes as [n] “…”)"
CONSEQUENCE = "While the request fits, history stays as it is; else the summary is model-free"


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """The model that is asked, if any; `own` says that it is the agent's own, so that its cached prompt can be used."""

    asker: Asker | None = None
    own: bool = False

    @property
    def has_model(self) -> bool:
        """Return whether a model writes: there is one, and it is known now."""
        return self.asker is not None and not self.asker.missing_model_reason

    @property
    def native_provider(self) -> str:
        """Return the provider that compacts by itself, and whose blocks may stand in a list; "" where none does."""
        return self.asker.native_provider if self.asker is not None else ""

    def build_summariser(
        self, settings: Settings, limits: Limits, live: LivePrompt | None, format_name: str, factor: float = 1.0
    ) -> Summariser | None:
        """Return how to ask now; None without a model, or where none is known.

        `factor` is what the agent's provider taught about the meter; it holds for the summariser if that is the agent.
        Raise `SummaryFailed` while a model that failed is left alone.
        """
        if self.asker is None or self.asker.missing_model_reason:
            return None
        if (seconds := self.asker.seconds_until_ready) > 0:
            raise AskFailed("cool-down", self.asker.describe_cool_down(seconds))
        # A prompt of the caller's own may not keep a model from going on with its task behind the live conversation.
        suffix = self.own and settings.instruction is None if settings.suffix is None else settings.suffix
        window = self.asker.window or limits.window
        return Summariser(
            window=int(window / factor) if suffix else window,
            name=self.asker.name,
            instruction=settings.instruction,
            max_input=settings.max_input,
            reserve=settings.summary_reserve,
            live=live if suffix and self.asker.can_continue_live(format_name) else None,
            learn_window=self.asker.learn_window,
        )

    def write_by_rule(self, brief: Brief) -> SummaryBody:
        """Return the body without a model; the receipt and the log say why where one was named and none is known."""
        written = write_by_rule(brief)
        if self.asker is None or not (why := self.asker.missing_model_reason):
            return written
        self.asker.warn_of_missing_model()
        return replace(written, notes=(f"model-free: {why}", *written.notes))


def build_summary_writer(asker: Asker | None, agent: str | None) -> SummaryWriter:
    """Return the writer with this model, which may be the agent's own."""
    if asker is None:
        return SummaryWriter()
    summariser, own = find_model_info(asker.name), find_model_info(agent)
    return SummaryWriter(asker, own=summariser is not None and own is not None and summariser.name == own.name)


def write_by_rule(brief: Brief, prose: str = "") -> SummaryBody:
    """Return the whole body without a model; `prose` says what was done, or where that stands."""
    stay, views = [turn for turn, _ in brief.beside.following], [view for _, view in brief.beside.following]
    later = [use.action for use in find_tool_uses(views, stay) if not is_todo_tool(use.action.tool)]
    return write_body(brief, build_ledger(brief), brief.limits.budget, prose=prose, later=later, without=brief.without)


def render_pins(pins: Sequence[str]) -> str:
    """Return the host's pinned strings as a part of the summary turn, each byte for byte; "" without any."""
    return "\n".join([PINS_HEADING, *(wrap_in_fence(pin) for pin in pins)]) if pins else ""


# -- the ledger -------------------------------------------------------------------------------------------------------


def write_body(brief: Brief, ledger: Ledger, budget: int, *, prose: str, **options: Any) -> SummaryBody:
    """Return the body with this ledger and this prose, and what is remembered of it."""
    rendered = _render_ledger(brief, _update_todo(ledger, brief), budget, prose=prose, **options)
    return SummaryBody(
        rendered.text(prose=prose, host_state=brief.state),
        ledger,
        notes=tuple(f"left out of the summary, kept in the archive: {item}" for item in rendered.left_out),
        dropped=rendered.quoted.dropped,
        rounds=0 if brief.originals is not None or brief.earlier.ledger is None else brief.earlier.rounds + 1,
    )


def _render_ledger(brief: Brief, ledger: Ledger, budget: int, *, prose: str, **options: Any) -> RenderedLedger:
    """Return the ledger as text: people's words in their own room, the rest in what the prose leaves of the budget."""
    beside = brief.count(brief.state) + brief.count(prose)
    total = brief.limits.total - beside
    people = min(compute_people_room(brief), total)
    options |= {"people": people, "total": total, "kept": brief.beside.kept}
    return render_within_budget(ledger, budget - beside, brief.count, prose=prose, **options)


def compute_people_room(brief: Brief) -> int:
    """Return the most tokens for people's words: half of a body that has not room for all that it may say."""
    return min(brief.limits.people, max(brief.limits.total - brief.limits.budget, brief.limits.total // 2))


def build_ledger(brief: Brief) -> Ledger:
    """Return what is carried: derived anew where the originals were read, else the earlier ledger with what is new.

    Rules were picked out by a model: they are carried in either case.
    """
    source, prior = brief.choose_ledger_source(), brief.earlier.ledger
    ledger = gather_ledger(source.views, prior=prior if brief.originals is None else None, turns=source.turns)
    if brief.hook_input and (span := brief.hook_input.span):  # it may have left out the first or the last of what goes
        ledger = replace(ledger, first=span[0] if prior is None else prior.first, end=max(ledger.end, span[1]))
    return replace(ledger, rules=prior.rules) if prior is not None else ledger


def _update_todo(ledger: Ledger, brief: Brief) -> Ledger:
    """Return the ledger with the assistant's list as of the newest message, which may have changed it.

    A list that is written anew in what stays, or was made in what is no longer here and changed there, is left out.
    """
    stay, views = [turn for turn, _ in brief.beside.following], [view for _, view in brief.beside.following]
    if not any(may_change_todo(call.name) for view in views for call in view.calls):
        return ledger
    source = brief.choose_ledger_source()
    todo, turn = find_todo([*source.views, *views], [*source.turns, *stay])
    return replace(ledger, todo="" if todo == find_todo(views, stay)[0] else todo, todo_turn=turn)


def list_quoted_turns(brief: Brief, *, prose: str) -> list[range]:
    """Return the numbers of the messages whose words are quoted: a range for equal messages in a row."""
    ledger = build_ledger(brief)
    lines = _render_ledger(brief, ledger, brief.limits.budget, prose=prose, without=brief.without).quoted.lines
    return [range(m.turn, max(m.turn, m.last) + 1) for m in ledger.people if m.turn in lines]


# -- a model's prose --------------------------------------------------------------------------------------------------


def write_with_model(brief: Brief, model: Summariser, asker: Asker | None) -> Generator[Ask, Reply, SummaryBody]:
    """Return the body with a model's prose; a model whose replies were no good is left alone for a while.

    Raise `SummaryFailed` when no reply was good enough: it says what it cost each model, and is logged once in a row.
    """
    try:
        written = yield from _write_summary_body(brief, model)
    except SummaryFailed as failed:
        why = failed.why if isinstance(failed, AskFailed) else ""
        if asker is not None:
            _add_dollars(asker, failed, *failed.others)
            if isinstance(failed, Rejected) or why == "too-long":
                asker.open_circuits()
            if why != "cancelled":
                asker.warn_of_failure(None, failed, CONSEQUENCE)
        raise
    if asker is not None:
        _add_dollars(asker, *written.failed)
        asker.log_next_failure_again()
        if asker.window is None and (calls := written.cost["calls"]) > 1:
            reason = f"its window is unknown and was taken to be the agent's, {model.window:,} tokens"
            note = f"{asker.name} was asked {calls:,} times: {reason}; model_window= sets it"
            written = replace(written, notes=(note, *written.notes))
    return written


def _add_dollars(asker: Asker, *errors: SummaryFailed) -> None:
    for error in errors:
        error.cost = _add_price(error.cost, asker.models[error.place or 0].name)


def _add_price(cost: dict[str, float], model: str) -> dict[str, float]:
    """Return the cost with dollars in it, where the prices of the model and its tokens are known."""
    info = find_model_info(model)
    if not (info and info.input and "input" in cost):
        return cost
    return {**cost, "dollars": (int(cost["input"]) * info.input + int(cost["output"]) * info.output) / 1e6}


def build_priced_cost(calls: int, usage: Usage | None, model: str) -> dict[str, float]:
    """Return what these calls of the model took, with dollars where its prices are known."""
    return _add_price(build_call_cost(calls, usage), model)


def _write_summary_body(brief: Brief, model: Summariser) -> Generator[Ask, Reply, SummaryBody]:
    limits, count, ledger = brief.limits, brief.count, build_ledger(brief)
    quoted = measure_people(ledger, compute_people_room(brief), count, kept=brief.beside.kept, prose=MODEL_HEADING)
    room = min(limits.budget, limits.total - quoted) - count(brief.state)
    most = min(int(room * PROSE_SHARE), max(int(room * LEAST_PROSE_SHARE), room - REST_TOKENS))
    spare = max(0, min(most // SPARE_DIVISOR, room - most))
    if brief.has_nothing_to_show():  # nothing is new: the earlier prose stays
        summary = ModelSummary(trim_sections(brief.earlier.prose, most, count))
    else:
        asked = replace(brief, limits=limits._replace(budget=most, spare=spare), ledger=ledger)
        summary = yield from summarise(*_choose_source(asked, model))
    rules, notes = tuple[Rule, ...](), tuple[str, ...]()
    if model.instruction is None:  # a prompt of the caller's own does not ask for rules
        rules, notes = find_rules(summary.rules, brief.choose_ledger_source(), ledger.rules, ledger.people)
    ledger = replace(ledger, rules=rules)
    cites = any(map(is_citation, summary.text.split("\n")))
    prose = f"{CITED_MODEL_HEADING if cites else MODEL_HEADING}\n{summary.text.strip()}"
    is_full = count(prose) * 2 >= most
    without = {*brief.without, *(LISTS_IN_PROSE if cites and is_full else ())}
    body = write_body(brief, ledger, max(room, count(prose)), prose=prose, without=without)
    unchecked = (f"not checked, the model can't tell: {check}" for check in summary.checks_impossible)
    return replace(
        body,
        prose=summary.text,
        summariser=", ".join(summary.models) or model.name,
        cost=build_priced_cost(summary.calls, summary.usage, *summary.models[:1] or [model.name]),
        notes=(*summary.notes, *unchecked, *body.notes),
        mended=(*summary.mended, *notes),
        failed=summary.list_failures(),
    )


def _choose_source(brief: Brief, model: Summariser) -> tuple[Brief, Summariser]:
    """Return what the model is asked to summarise: the originals when they were read and one ask can show them all."""
    apart, divisor = model, EARLIER_DIVISOR
    if (whole := brief.originals) is not None:
        apart, divisor = replace(model, live=None), EARLIER_DIVISOR_ANEW
        anew = replace(brief, views=whole.views, turns=whole.turns, earlier=brief.earlier._replace(prose=""))
        if sum(len(view.whole_text()) for view in whole.views) < 8 * model.window and model.max_input is None:
            try:
                if plan_asks(anew, apart).single:
                    return anew, apart
            except AskFailed:
                return brief, model
    prose = select_evenly(brief.earlier.proses, model.window // divisor, brief.count) or brief.earlier.prose
    return replace(brief, earlier=brief.earlier._replace(prose=prose)), apart
