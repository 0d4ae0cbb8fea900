"""Write: what the summary turn says, from what goes, what stays, what was carried, and the host's state."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from unabridged.archive.protocol import Record
from unabridged.compaction.hooks import STATE_SHARE, ask_state, blame, render_state
from unabridged.compaction.plan import Plan
from unabridged.compaction.state import Setup, State
from unabridged.errors import SummaryFailed
from unabridged.events import Failed
from unabridged.history import rederive
from unabridged.history.lookup import depth_of, read_cleared
from unabridged.history.replay import Records
from unabridged.intent import kind_of_turn
from unabridged.ledger.entries import Ledger, from_json
from unabridged.ledger.sayings import is_talk
from unabridged.marks import is_our_summary
from unabridged.messages import View
from unabridged.summarise.brief import Brief, Live, Written
from unabridged.summarise.summary_body import write_by_rule

log = logging.getLogger("unabridged")


def write(setup: Setup, state: State, plan: Plan) -> Generator[Any, Any, Written]:
    """What the summary turn says, within the plan's tokens: with a model where there is one, else by rule."""
    brief = _brief(setup, state, plan)
    kept = len(state.messages) - plan.tail
    tail = sum(state.sizes[len(state.sizes) - kept :])
    live = Live(state.messages, state.estimate, state.system, state.tools, kept, tail)
    factor = setup.calibration.factor
    model = setup.writers.summariser(setup.settings, setup.limits, live, state.format.name, factor)
    if model is None:
        return write_by_rule(brief)
    try:
        written = yield from setup.writers.write(brief, model)
    except SummaryFailed as error:
        state.spend(error.cost)
        raise
    state.spend(written.cost)
    return written


def _brief(setup: Setup, state: State, plan: Plan) -> Brief:
    """Everything a summary turn is made from."""
    shown = [i for i in sorted({*plan.gone, *plan.kept_requests}) if not is_our_summary(state.views[i])]
    shown += _closing_answer(state, shown)
    handed_back, at_work = _look_behind(state.views, shown)
    turns = state.turns()
    records = state.records or Records(setup.archive, state.scope)
    cleared = read_cleared(setup.archive, records, state.views, state.format, shown)
    views = [cleared.get(i, state.views[i]) for i in shown]
    prepared = setup.hooks.prepare is not None
    if prepared:
        messages = setup.hooks.run_prepare([state.messages[i] for i in shown])
        with blame("prepare", setup.hooks.prepare):
            views = setup.read(messages, state.format, facts=state.learned)
    earlier = earlier_summary(state, plan.gone)
    gone = set(plan.gone)
    with_model = setup.writers.asker is not None
    unused = max(0, min(plan.summary, setup.limits.summary) - setup.limits.with_model) if with_model else 0
    return Brief(
        views=views,
        turns=list(range(len(views))) if prepared else [turns[i] for i in shown],
        prior=earlier.prose,
        prior_ledger=earlier.ledger,
        answered=handed_back and not plan.kept_requests,
        at_work=at_work,
        closed=() if prepared else {turns[i] for i in shown if i not in state.open_requests()},
        kept=frozenset(turns[i] for i in plan.kept_requests),
        budget=plan.summary - unused,
        count=setup.meter.text,
        preserve=_room_for_words(setup),
        without=setup.settings.without,
        prose=min(plan.summary, setup.limits.summary - unused),
        state=_host_state(setup, state, max(turns), plan.summary),
        stays=[(turns[i], view) for i, view in enumerate(state.views) if i > plan.gone[-1]],
        beside=[view for i, view in enumerate(state.views) if i not in gone],
        also="\n".join([*setup.settings.pins, _plain(state.system), _plain(state.tools)]) if with_model else "",
        rounds=earlier.rounds,
        whole=None if prepared else _originals(setup, state, earlier, [turns[i] for i in shown]),
        gone=[state.messages[i] for i in plan.gone],
        earlier=rederive.read_proses(setup.archive, earlier.record) if earlier.prose and with_model else (),
    )


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


def is_mere_talk(state: State) -> bool:
    """Whether nothing is done in the whole conversation, what was summarised included, and much is said."""
    if any(view.calls or view.origin in {"tool", "unknown"} for view in state.views):
        return False
    earlier = earlier_summary(state, range(len(state.views))).ledger or Ledger()
    return is_talk(earlier.actions, len(earlier.requests) + sum(view.is_request for view in state.views))


def _closing_answer(state: State, shown: Sequence[int]) -> list[int]:
    """Where the tail holds what closed the last request among `shown`: an answer, or a "never mind" of the person's."""
    views = state.views
    asked = max((i for i in shown if views[i].is_request), default=None)
    if asked is None or asked in state.open_requests():
        return []
    speakers = [i for i in range(asked + 1, len(views)) if views[i].role != "system"]
    for i, following in zip(speakers, [*speakers[1:], None], strict=True):
        if views[i].is_request and kind_of_turn(views[i]) == "withdraw":
            return [] if i in shown else [i]
        ends = following is None or views[following].is_request
        if views[i].origin == "model" and not views[i].calls and views[i].text and ends:
            return [] if i in shown else [i]
    return []


def _look_behind(views: Sequence[View], shown: Sequence[int]) -> tuple[bool, bool]:
    """Whether a person speaks next behind the messages at `shown`, or nobody; and whether tools work there before.

    What the tail holds tells what the last request among them has come to.
    """
    for view in views[max(shown, default=-1) + 1 :]:
        if view.is_request:
            return True, False
        if view.calls or view.origin == "tool":
            return False, True
        if view.origin == "model":
            return False, False
    return True, False


def _room_for_words(setup: Setup) -> int:
    """The most tokens for people's own words beside what else a summary turn says."""
    return setup.limits.third if setup.settings.preserve is None else setup.settings.preserve


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
            setup.emit(Failed(state.scope.thread, "state", error, namespace=state.scope.namespace))
    part = render_state(state.host_state, turn, int(budget * STATE_SHARE), setup.meter.text)
    if state.host_state.strip() and not part:
        note = f"no room for the host's state in a summary of {budget:,} tokens"
        state.notes += [note] * (note not in state.notes)
    return part


def _plain(value: object) -> str:
    """A system prompt or tool schemas as text, for looking names up in."""
    if isinstance(value, str) or not value:
        return value if isinstance(value, str) else ""
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):  # keys that JSON has no form for, or a loop
        return str(value)
