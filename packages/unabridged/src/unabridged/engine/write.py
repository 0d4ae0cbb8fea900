"""Write: what the summary turn says, from what goes, what stays, the earlier summary, and the host's state.

A summary quotes people with the numbers of their messages. So a message that a `prepare` hook left as it is, or
changed, keeps its number and its author, and one that the hook made is nobody's in the conversation: never a person's.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from unabridged.archive.protocol import Record
from unabridged.authorship import find_rejection
from unabridged.engine.hooks import MAX_STATE_SHARE, ask_state_provider, raise_as_hook_raised, render_state
from unabridged.engine.native import write_natively
from unabridged.engine.state import Setup, State
from unabridged.errors import SummaryFailed
from unabridged.history.lookup import get_depth, read_cleared_originals
from unabridged.history.replay import RecordCache
from unabridged.marks import is_trusted_summary
from unabridged.messages import Origin, View
from unabridged.results import Plan
from unabridged.summary import originals
from unabridged.summary.brief import (
    Brief,
    CarriedSummary,
    LivePrompt,
    SourceBeforeHook,
    SummaryBody,
    SummaryLimits,
    Surroundings,
)
from unabridged.summary.ledger import Ledger, from_json
from unabridged.summary.summary_body import write_with_model

log = logging.getLogger("unabridged")

QUOTATION_TOKENS = 16
"""Tokens of the number, the speaker and the marks around a quotation."""


def write_summary(setup: Setup, state: State, plan: Plan) -> Generator[Any, Any, SummaryBody]:
    """Return what the summary turn says, within the plan's tokens: with a model where there is one, else by rule."""
    brief = build_brief(setup, state, plan)
    working, request, writers = state.working, state.request, setup.summary_writer
    kept = len(working.messages) - plan.tail
    tail_tokens = sum(working.sizes[len(working.sizes) - kept :])
    prompt = LivePrompt(working.messages, state.estimate, request.system, request.tools, kept, tail_tokens)
    live = prompt if brief.hook_input is None else None  # else the host says what the summariser sees
    model = writers.build_summariser(setup.settings, setup.limits, live, state.format.name, setup.calibration.factor)
    if model is None:
        return writers.write_by_rule(brief)
    if brief.has_nothing_to_show() and not brief.earlier.prose:
        written = writers.write_by_rule(brief)
        return replace(written, notes=("prepare left nothing to show, so no model was asked", *written.notes))
    if live is not None and writers.native_provider:
        native_body = yield from write_natively(setup, state, plan, brief)
        if native_body is not None:
            return native_body
    try:
        written = yield from write_with_model(brief, model, writers.asker)
    except SummaryFailed as error:
        for one in (*error.others, error):
            state.report.add_cost(one.cost)
        raise
    state.report.add_cost(written.cost)
    report_failed_models(setup, state, written.failed, goes_on=True)
    return written


def report_failed_models(setup: Setup, state: State, failed: Sequence[SummaryFailed], *, goes_on: bool) -> None:
    """Emit for each model that failed what it raised or took for nothing: once in a compaction."""
    for error in failed:
        if error.place not in state.report.failed_models:
            state.report.failed_models.add(error.place)
            setup.host.emit_failure(state.scope, "summary", error, goes_on=goes_on)


def build_brief(setup: Setup, state: State, plan: Plan) -> Brief:
    """Return everything a summary turn is made from."""
    turns, views = state.turns(), state.working.views
    earlier, record = find_earlier_summary(state, plan.gone)
    gone = set(plan.gone)
    with_model = setup.summary_writer.has_model
    stays = [(turns[i], view) for i, view in enumerate(views) if i > plan.gone[-1]]
    proses = originals.read_earlier_prose(setup.archive, record) if earlier.prose and with_model else ()
    brief = _build_brief_of_input(setup, state, plan, turns)
    if brief.hook_input is None:
        brief = replace(brief, originals=_read_originals(setup, state, earlier.rounds, record, brief.turns))
    beside = Surroundings(
        following=stays if setup.settings.max_input is None else [],
        views=[view for i, view in enumerate(views) if i not in gone],
        kept=frozenset(turns[i] for i in plan.kept),
        other_text=_read_pins_and_prompt(setup, state) if with_model else "",
    )
    return replace(
        brief,
        earlier=earlier._replace(proses=proses),
        beside=beside,
        state=_render_host_state(setup, state, max(turns), plan.summary),
        without=setup.settings.without,
    )


def _is_sealed(record: Record) -> bool:
    """Return whether only the provider can read what was summarised: all of it is read again for the next summary."""
    return "native" in record.data and not record.data.get("prose")


class _HookInput(NamedTuple):
    """A message that a `prepare` hook gets, and its number in the original conversation."""

    message: Any
    view: View
    turn: int


def _build_brief_of_input(setup: Setup, state: State, plan: Plan, turns: Sequence[int]) -> Brief:
    """Return a brief with what is summarised: what goes, and the people's messages that stay beside it.

    It is as the conversation has it, or as a `prepare` hook made it.
    """
    budget = setup.limits.model_summary if setup.summary_writer.has_model else setup.limits.summary
    limits = SummaryLimits(budget, setup.limits.people, plan.summary, plan.replaced)
    messages, views, hook = state.working.messages, state.working.views, setup.host.hooks.prepare
    shown = [i for i in sorted({*plan.gone, *plan.kept}) if not is_trusted_summary(views[i])]
    records = state.restored.records or RecordCache(setup.archive, state.scope)
    cleared = read_cleared_originals(setup.archive, records, views, state.format, shown)
    source = [cleared.get(i, views[i]) for i in shown]
    if hook is None:
        gone = [messages[i] for i in plan.gone]
        return Brief(source, limits, setup.meter.text, [turns[i] for i in shown], objects=gone)
    inputs = [_HookInput(messages[i], view, turns[i]) for i, view in zip(shown, source, strict=True)]
    prepared = setup.host.hooks.run_prepare([one.message for one in inputs])
    went = [turns[i] for i in plan.gone if turns[i] >= 0]
    with raise_as_hook_raised("prepare", hook):
        prepared_views = setup.read(prepared, state.format, counts=state.restored.turn_counts)
        matches = _match_inputs(prepared, prepared_views, inputs)
        origin = setup.host.origin
        origins = [origin(message) for message in prepared] if origin else [None] * len(prepared)
        prepared_views = _set_authors(prepared_views, matches, origins)
        numbers = _number_prepared(matches, went)
    earlier = [messages[i] for i in plan.gone if is_trusted_summary(views[i])]
    hook_input = SourceBeforeHook(source, (went[0], went[-1] + 1) if went else None)
    objects = [*earlier, *prepared]
    return Brief(prepared_views, limits, setup.meter.text, numbers, objects=objects, hook_input=hook_input)


def _match_inputs(
    messages: Sequence[Any], views: Sequence[View], inputs: Sequence[_HookInput]
) -> list[_HookInput | None]:
    """Return for each message that the hook returned the one it was: None for one that the hook made.

    It is the same object; or, where there are as many as before, the one in its place; or the next that says the same.
    """
    by_id = {id(one.message): one for one in inputs}
    kept = {id(message) for message in messages}
    by_text: dict[tuple[str, str], deque[_HookInput]] = defaultdict(deque)
    for one in inputs:
        if id(one.message) not in kept:
            by_text[one.view.role, one.view.text].append(one)
    matches: list[_HookInput | None] = []
    for i, (message, view) in enumerate(zip(messages, views, strict=True)):
        match = by_id.get(id(message))
        if match is None and len(messages) == len(inputs) and inputs[i].view.role == view.role:
            match = inputs[i]
        elif match is None and (same := by_text[view.role, view.text]):
            match = same.popleft()
        matches.append(match)
    return matches


def _set_authors(
    views: Sequence[View], matches: Sequence[_HookInput | None], origins: Sequence[Origin | None]
) -> list[View]:
    """Return the views with their origin: as the host says, as in the conversation, else no person's."""
    authors = []
    for view, match, origin in zip(views, matches, origins, strict=True):
        if origin is None and match is not None and match.view.role == view.role:
            authors.append(view.with_origin(match.view.origin))
        elif origin is None and match is None and view.origin == "person":
            authors.append(view.with_origin("host"))
        else:
            authors.append(view)
    return authors


def _number_prepared(matches: Sequence[_HookInput | None], went: Sequence[int]) -> list[int]:
    """Return the number of each message; one that the hook made has the next number of what goes that nobody has.

    Where there is none left, it has that of the message before it.
    """
    taken = {match.turn for match in matches if match is not None}
    free = deque(turn for turn in went if turn not in taken)
    numbers: list[int] = []
    for match in matches:
        last = numbers[-1] if numbers else -1
        while free and free[0] <= last:
            free.popleft()
        if match is not None:
            numbers.append(match.turn)
        elif free:
            numbers.append(free.popleft())
        else:
            numbers.append(max((turn for turn in went if turn <= last), default=went[0] if went else 0))
    return numbers


def find_earlier_summary(state: State, gone: Sequence[int]) -> tuple[CarriedSummary, Record | None]:
    """Return what is remembered of the summary turn that goes, if one does, and the record that holds it."""
    if not any(is_trusted_summary(state.working.views[i]) for i in gone):
        return CarriedSummary(), None
    applied, records = state.restored.applied, state.restored.records
    record = applied.record if applied else None
    while record is not None and "ledger" not in record.data:
        record = records.find(record.prior) if record.prior and records is not None else None
    if record is None:
        return CarriedSummary(), None
    data = record.data
    return CarriedSummary(data.get("prose", ""), from_json(data["ledger"]), data.get("rounds", 0)), record


def count_people_tokens(setup: Setup, state: State) -> int:
    """Return what people's words take at most in a summary of the list, with those of an earlier summary."""
    views = state.working.views
    earlier = find_earlier_summary(state, range(len(views)))[0].ledger or Ledger()
    texts = [*(message.text for message in earlier.people), *(v.text for v in views if v.origin == "person")]
    answers = (answer.text for view in views for answer in view.answers if answer.error)
    texts += filter(None, (find_rejection(text, "")[1] for text in answers))
    return sum(setup.meter.text(text) + QUOTATION_TOKENS for text in texts)


def _read_originals(
    setup: Setup, state: State, rounds: int, record: Record | None, shown: Sequence[int]
) -> originals.OriginalMessages | None:
    """Return the original conversation that the summary will stand for, every few rounds; else None."""
    if record is None or not (originals.should_begin_again(rounds, get_depth(record)) or _is_sealed(record)):
        return None
    last, characters = max(shown, default=-1), record.data.get("characters", 0)
    base = (setup.archive, state.scope, state.restored.base.messages, state.format)
    whole = originals.read_originals(*base, last=last, characters=characters)
    if whole is None:
        return None
    views = setup.read(whole, state.format)
    left = set(state.restored.turns) - set(shown)
    candidates = ((i, view) for i, view in enumerate(views[: last + 1]) if i not in left)
    turns = [i for i, view in candidates if view.role != "system" and not view.opaque]
    return originals.OriginalMessages([views[i] for i in turns], turns)


def _render_host_state(setup: Setup, state: State, turn: int, budget: int) -> str:
    """Return the host's state as a part of the summary turn; a provider that raises is reported and left out."""
    if setup.host.state is None:
        return ""
    if state.host_state is None:  # asked once for each compaction, however often its summary has to be made smaller
        try:
            state.host_state = ask_state_provider(setup.host.state, state.scope.thread, setup.settings.deadline)
        except Exception as error:  # noqa: BLE001 - the host's own code: anything may come out of it
            state.host_state = ""
            log.warning("the state provider raised %s: the summary goes without it", type(error).__name__)
            setup.host.emit_failure(state.scope, "state", error, goes_on=True)
    part = render_state(state.host_state, turn, int(budget * MAX_STATE_SHARE), setup.meter.text)
    if state.host_state.strip() and not part:
        note = f"no room for the host's state in a summary of {budget:,} tokens"
        state.report.notes += [note] * (note not in state.report.notes)
    return part


def _read_pins_and_prompt(setup: Setup, state: State) -> str:
    """Return the texts beside the list that a summariser may know of: pins, system prompt and tools."""
    request = state.request
    return "\n".join([*state.read_pins(setup), str(request.system or ""), str(request.tools or "")])
