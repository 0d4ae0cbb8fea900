"""Write: what the summary turn says, from what goes, what stays, what was carried, and the host's state."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from unabridged.archive.protocol import Record
from unabridged.authorship import rejection_in
from unabridged.compaction.hooks import STATE_SHARE, ask_state, blame, render_state
from unabridged.compaction.plan import Plan
from unabridged.compaction.prepared import Given, authors_of, find_given, numbers_of
from unabridged.compaction.state import Setup, State, pins_for
from unabridged.errors import SummaryFailed
from unabridged.events import Failed
from unabridged.history import rederive
from unabridged.history.lookup import depth_of, read_cleared
from unabridged.history.replay import Records
from unabridged.ledger.entries import Ledger, from_json
from unabridged.marks import is_our_summary
from unabridged.messages import View
from unabridged.summarise.brief import Brief, Live, Written

log = logging.getLogger("unabridged")

_LINE = 16
"""Tokens of the number, the speaker and the marks around a quotation."""


def write(setup: Setup, state: State, plan: Plan) -> Generator[Any, Any, Written]:
    """What the summary turn says, within the plan's tokens: with a model where there is one, else by rule."""
    brief = _brief(setup, state, plan)
    kept = len(state.messages) - plan.tail
    tail = sum(state.sizes[len(state.sizes) - kept :])
    live: Live | None = Live(state.messages, state.estimate, state.system, state.tools, kept, tail)
    factor = setup.calibration.factor
    if brief.source is not None:  # the host says what the summariser sees
        live = None
    model = setup.writers.summariser(setup.settings, setup.limits, live, state.format.name, factor)
    if model is None:
        return setup.writers.write_by_rule(brief)
    if brief.is_blank() and not brief.prior:
        written = setup.writers.write_by_rule(brief)
        return replace(written, notes=("prepare left nothing to show, so no model was asked", *written.notes))
    try:
        written = yield from setup.writers.write(brief, model)
    except SummaryFailed as error:
        for one in (*error.others, error):
            state.spend(one.cost)
        raise
    state.spend(written.cost)
    tell_models(setup, state, written.failed, goes_on=True)
    return written


def tell_models(setup: Setup, state: State, failed: Sequence[SummaryFailed], *, goes_on: bool) -> None:
    """Say of each model that failed what it raised or took for nothing: once in a compaction."""
    thread, namespace = state.scope.thread, state.scope.namespace
    for error in failed:
        if error.place not in state.failed_models:
            state.failed_models.add(error.place)
            setup.emit(Failed(thread, "summary", error, error.cost, goes_on, namespace=namespace))


def _brief(setup: Setup, state: State, plan: Plan) -> Brief:
    """Return everything a summary turn is made from."""
    turns = state.turns()
    shown = _shown(setup, state, plan, turns)
    earlier = earlier_summary(state, plan.gone)
    gone = set(plan.gone)
    with_model = setup.writers.asks
    return Brief(
        views=shown.views,
        turns=shown.numbers,
        source=shown.source,
        span=shown.span,
        prior=earlier.prose,
        prior_ledger=earlier.ledger,
        kept=frozenset(turns[i] for i in plan.kept),
        budget=setup.limits.with_model if with_model else setup.limits.summary,
        people=setup.limits.people,
        total=plan.summary,
        replaced=plan.replaced,
        count=setup.meter.text,
        without=setup.settings.without,
        state=_host_state(setup, state, max(turns), plan.summary),
        stays=_stays(setup, state, plan, turns),
        beside=[view for i, view in enumerate(state.views) if i not in gone],
        also=_beside_the_list(setup, state) if with_model else "",
        rounds=earlier.rounds,
        whole=None if shown.source is not None else _originals(setup, state, earlier, shown.numbers),
        gone=shown.gone,
        earlier=rederive.read_proses(setup.archive, earlier.record) if earlier.prose and with_model else (),
    )


def _stays(setup: Setup, state: State, plan: Plan, turns: Sequence[int]) -> list[tuple[int, View]]:
    """Return the messages behind what goes, which lead the summariser on; none where its input is capped."""
    if setup.settings.max_input is not None:
        return []
    return [(turns[i], view) for i, view in enumerate(state.views) if i > plan.gone[-1]]


class _Shown(NamedTuple):
    """What is summarised: as the conversation has it, or as a hook made it."""

    views: list[View]
    numbers: list[int]
    gone: list[Any]
    source: list[View] | None = None
    span: tuple[int, int] | None = None


def _shown(setup: Setup, state: State, plan: Plan, turns: Sequence[int]) -> _Shown:
    """Return what goes and the people's messages that stay beside it, as a `prepare` hook wants it if there is one."""
    shown = [i for i in sorted({*plan.gone, *plan.kept}) if not is_our_summary(state.views[i])]
    records = state.records or Records(setup.archive, state.scope)
    cleared = read_cleared(setup.archive, records, state.views, state.format, shown)
    source = [cleared.get(i, state.views[i]) for i in shown]
    if setup.hooks.prepare is None:
        return _Shown(source, [turns[i] for i in shown], [state.messages[i] for i in plan.gone])
    given = [Given(state.messages[i], view, turns[i]) for i, view in zip(shown, source, strict=True)]
    messages = setup.hooks.run_prepare([one.message for one in given])
    went = [turns[i] for i in plan.gone if turns[i] >= 0]
    with blame("prepare", setup.hooks.prepare):
        views = setup.read(messages, state.format, counts=state.turn_counts)
        found = find_given(messages, views, given)
        said = [setup.origin(message) for message in messages] if setup.origin else [None] * len(messages)
        views, numbers = authors_of(views, found, said), numbers_of(found, went)
    earlier = [state.messages[i] for i in plan.gone if is_our_summary(state.views[i])]
    return _Shown(views, numbers, [*earlier, *messages], source, (went[0], went[-1] + 1) if went else None)


class Earlier(NamedTuple):
    """The earlier summary that goes: its ledger, its prose, and how often that ledger was carried on."""

    ledger: Ledger | None = None
    prose: str = ""
    rounds: int = 0
    record: Record | None = None


def earlier_summary(state: State, gone: Sequence[int]) -> Earlier:
    """What is remembered of the summary turn that goes, if one does."""
    if not any(is_our_summary(state.views[i]) for i in gone):
        return Earlier()
    record = state.standing.record if state.standing else None
    while record is not None and "ledger" not in record.data:
        record = state.records.named(record.prior) if record.prior and state.records is not None else None
    if record is None:
        return Earlier()
    data = record.data
    return Earlier(from_json(data["ledger"]), data.get("prose", ""), data.get("rounds", 0), record)


def people_tokens(setup: Setup, state: State) -> int:
    """Return what people's words take at most in a summary of the list, with those of an earlier summary."""
    earlier = earlier_summary(state, range(len(state.views))).ledger or Ledger()
    texts = [*(message.text for message in earlier.people), *(v.text for v in state.views if v.origin == "person")]
    answers = (answer.text for view in state.views for answer in view.answers if answer.error)
    texts += filter(None, (rejection_in(text, "")[1] for text in answers))
    return sum(setup.meter.text(text) + _LINE for text in texts)


def _originals(setup: Setup, state: State, earlier: Earlier, shown: Sequence[int]) -> rederive.Whole | None:
    """The original conversation that the summary will stand for, every few rounds; else None."""
    if earlier.record is None or not rederive.due(earlier.rounds, depth_of(earlier.record)):
        return None
    last, characters = max(shown, default=-1), earlier.record.data.get("characters", 0)
    base = (setup.archive, state.scope, state.base, state.format)
    whole = rederive.originals(*base, last=last, characters=characters)
    if whole is None:
        return None
    views = setup.read(whole, state.format)
    left = set(state.base_turns) - set(shown)
    turns = [i for i, view in enumerate(views[: last + 1]) if i not in left and _speaks(view)]
    return rederive.Whole([views[i] for i in turns], turns)


def _speaks(view: View) -> bool:
    return view.role != "system" and not view.opaque


def _host_state(setup: Setup, state: State, turn: int, budget: int) -> str:
    """The host's state as a part of the summary turn. A provider that raises is told of, never obeyed."""
    if setup.host_state is None:
        return ""
    if state.host_state is None:  # asked once for each compaction, however often its summary has to be made smaller
        try:
            state.host_state = ask_state(setup.host_state, state.scope.thread, setup.settings.deadline)
        except Exception as error:  # noqa: BLE001 - the host's own code: anything may come out of it
            state.host_state = ""
            log.warning("the state provider raised %s: the summary goes without it", type(error).__name__)
            setup.emit(Failed(state.scope.thread, "state", error, goes_on=True, namespace=state.scope.namespace))
    part = render_state(state.host_state, turn, int(budget * STATE_SHARE), setup.meter.text)
    if state.host_state.strip() and not part:
        note = f"no room for the host's state in a summary of {budget:,} tokens"
        state.notes += [note] * (note not in state.notes)
    return part


def _beside_the_list(setup: Setup, state: State) -> str:
    """Return what else a summariser may know of: pins, system prompt and tools."""
    return "\n".join([*setup.settings.pins, *pins_for(setup, state), _plain(state.system), _plain(state.tools)])


def _plain(value: object) -> str:
    """A system prompt or tool schemas as text, for looking names up in."""
    if isinstance(value, str) or not value:
        return value if isinstance(value, str) else ""
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):  # keys that JSON has no form for, or a loop
        return str(value)
