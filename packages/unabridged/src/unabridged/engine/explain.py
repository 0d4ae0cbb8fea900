"""Explain: what a compaction would do with each message of the caller's list, and why. Nothing is written or stored."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from unabridged.asking.drivers import run_generator
from unabridged.engine.cut import count_dropped_by_provider
from unabridged.engine.hooks import Hooks
from unabridged.engine.pipeline import NOT_SMALLER_REASON, build_situation, is_worth_storing, write_within_budget
from unabridged.engine.rewrite import Rewrite
from unabridged.engine.state import Setup, State
from unabridged.engine.write import build_brief
from unabridged.errors import IllegalConversation, WontFit
from unabridged.marks import is_trusted_summary
from unabridged.messages import View
from unabridged.results import Fate, Plan, PlannedMessage
from unabridged.summary.summary_body import SummaryWriter, list_quoted_turns

_PROSE_PLACEHOLDER = "."
"""Stands for a model's prose, which is not written: it decides which of people's words are quoted beside it."""


class _Reason(NamedTuple):
    fate: Fate
    why: str


def explain_messages(setup: Setup, state: State, chosen: Rewrite | Plan | str) -> tuple[PlannedMessage, ...]:
    """Return the fate of each message of the caller's list; `chosen` as text: why all that is there stays."""
    working = state.working
    if isinstance(chosen, Plan):
        chosen, reasons = _explain_plan(setup, state, chosen)
    elif isinstance(chosen, Rewrite):
        reasons = _explain_clearing(setup, state, chosen)
    if isinstance(chosen, str):
        reasons = [_Reason("stays", chosen)] * len(working.messages)
    places = defaultdict[int, list[int]](list)
    for j, message in enumerate(working.messages):
        places[id(message)].append(j)
    planned, earlier = deque[PlannedMessage](), _explain_earlier_changes(state)
    for i in range(len(state.request.original) - 1, -1, -1):  # of an object that stands twice, the first goes first
        if known := places[id(state.request.original[i])]:
            j = known.pop()
            planned.appendleft(PlannedMessage(i, *reasons[j], setup.tokens(working.sizes[j])))
        else:
            planned.appendleft(PlannedMessage(i, *earlier[i], None))
    return tuple(planned)


def _explain_earlier_changes(state: State) -> Mapping[int, _Reason]:
    """Return what became of the caller's messages that a recorded compaction or mending replaced."""
    base = {id(message) for message in state.restored.base.messages}
    stand_ins = set(state.restored.turns)
    repairs = "; ".join(note for note in state.report.notes if note.startswith("repaired: "))
    newest = f" ({state.restored.applied.record.id}, or one before it)" if state.restored.applied else ""
    found = {}
    for i, message in enumerate(state.request.original):
        if id(message) in base:
            found[i] = _Reason("mended", f"a provider would refuse the list as it is: {repairs}")
        elif i in stand_ins:
            found[i] = _Reason("cleared", "an earlier compaction cleared or shortened it")
        else:
            found[i] = _Reason("goes", f"it went in an earlier compaction{newest}")
    return found


def _explain_clearing(setup: Setup, state: State, rewrite: Rewrite) -> list[_Reason]:
    sizes, after = state.working.sizes, rewrite.result.sizes
    reasons = [_Reason("stays", "clearing old tool results and arguments is enough")] * len(sizes)
    for j in rewrite.edited:
        tokens = f"{setup.tokens(sizes[j]):,} tokens become {setup.tokens(after[j]):,}"
        reasons[j] = _Reason("cleared", f"old tool results or arguments: {tokens}")
    return reasons


def _explain_plan(setup: Setup, state: State, plan: Plan) -> tuple[Plan | str, list[_Reason]]:
    """Return the plan that is carried out, and the reasons; in words, why nothing is."""
    model_free = replace(
        setup, host=replace(setup.host, hooks=Hooks(), state=None), summary_writer=SummaryWriter(), transcripts=None
    )
    try:
        rewrite, plan = run_generator(write_within_budget(model_free, state, plan), list)
    except (WontFit, IllegalConversation) as error:
        return str(error), []
    if not is_worth_storing(setup, state, rewrite):
        return NOT_SMALLER_REASON, []
    reasons = _explain_staying_messages(setup, state, plan)
    after = {id(message) for message in rewrite.result.messages}
    for j, message in enumerate(state.working.messages):
        if id(message) in after:  # also what is to be shortened, where nothing of it can be cut
            continue
        if cap := plan.caps.get(j):
            tokens = f"{setup.tokens(state.working.sizes[j]):,} tokens become at most {setup.tokens(cap):,}"
            reasons[j] = _Reason("shortened", f"the request does not fit otherwise: {tokens}")
        else:
            reasons[j] = _Reason("mended", "its thinking is removed: the provider binds it to messages that go")
    quoted = _find_quoted_messages(model_free, state, plan, beside_prose=setup.summary_writer.has_model)
    for j in plan.gone:
        reasons[j] = _explain_leaving_message(state.working.views, j, plan, is_quoted=j in quoted)
    return plan, reasons


def _explain_leaving_message(views: Sequence[View], index: int, plan: Plan, *, is_quoted: bool) -> _Reason:
    view, place = views[index], f"before the newest {len(views) - plan.tail:,} messages"
    if is_trusted_summary(view):
        return _Reason("goes", "an earlier summary turn: the new one takes its place")
    if is_quoted:
        return _Reason("quoted", f"{place}; the summary turn quotes its words")
    if view.origin == "person":
        return _Reason("goes", f"{place}; the summary turn has no room for its words")
    return _Reason("goes", place)


def _find_quoted_messages(setup: Setup, state: State, plan: Plan, *, beside_prose: bool) -> set[int]:
    """Return which of the messages that go are quoted."""
    if not plan.gone:
        return set()
    spans = list_quoted_turns(build_brief(setup, state, plan), prose=_PROSE_PLACEHOLDER if beside_prose else "")
    first = {span.start for span in spans}
    repeated = {turn for span in spans for turn in span}
    turns, views = state.turns(), state.working.views
    return {j for j in plan.gone if turns[j] in first or (turns[j] in repeated and views[j].origin == "person")}


def _explain_staying_messages(setup: Setup, state: State, plan: Plan) -> list[_Reason]:
    """Return for every message why it would stay, in the order in which a cut decides it."""
    views, situation = state.working.views, build_situation(setup, state)
    staying = situation.find_fixed_indices()
    tail, dropped = len(views) - plan.tail, count_dropped_by_provider(views)
    tokens = setup.tokens(sum(state.working.sizes[plan.tail :]))

    def explain(j: int, view: View) -> str:
        reasons = {
            "before a compaction of the provider's own, so it takes nothing": j < dropped,
            "a system message": view.role == "system",
            "an item of the provider's that nothing can stand for": view.opaque,
            "pinned by the host": j in situation.pinned,
            "in one round with a message that can't go": j in staying,
            "the newest message of a person": j in plan.kept,
            "nothing needs to go": not plan.gone,
            f"one of the newest {tail:,} messages ({tokens:,} tokens)": True,
        }
        return next(why for why, holds in reasons.items() if holds)

    return [_Reason("stays", explain(j, view)) for j, view in enumerate(views)]
