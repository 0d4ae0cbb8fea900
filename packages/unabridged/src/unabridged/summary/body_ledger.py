"""Build the ledger of a summary turn, and write it within the limits of a brief, with a model's prose or without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unabridged.summary.actions import find_todo, may_change_todo
from unabridged.summary.brief import Brief, SummaryBody
from unabridged.summary.gather import gather_ledger
from unabridged.summary.layout import RenderedLedger, render_within_budget
from unabridged.summary.ledger import Ledger


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
    options |= {"people": people, "total": total, "kept": brief.kept}
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
    stay, views = [turn for turn, _ in brief.following], [view for _, view in brief.following]
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
