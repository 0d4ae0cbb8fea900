"""What the one who writes a summary turn is told: what goes, what stays, what was carried, and the host's state."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unabridged.compaction import host_state as state
from unabridged.compaction.hooks import blame
from unabridged.compaction.state import Base, Earlier, Job, closing_answer, earlier_summary, followed, turns_in
from unabridged.events import Failed
from unabridged.history import lookup as history
from unabridged.history import rederive
from unabridged.history.standing import Records
from unabridged.summarise.brief import Brief

if TYPE_CHECKING:
    from unabridged.compaction.pipeline import Flow
    from unabridged.compaction.plan import Plan

log = logging.getLogger("unabridged")


def brief(flow: Flow, job: Job, plan: Plan, base: Base) -> Brief:
    """Everything a summary turn is made from, within the plan's tokens."""
    shown = [i for i in sorted({*plan.gone, *plan.kept_requests}) if job.views[i].origin != "summary"]
    shown += closing_answer(job.views, shown)
    handed_back, at_work = followed(job.views, shown)
    turns = turns_in(job, base)
    cleared = history.uncleared(
        flow.archive, job.records or Records(flow.archive, job.scope), job.views, job.format, shown
    )
    views = [cleared.get(i, job.views[i]) for i in shown]
    prepared = flow.hooks.prepare is not None
    if prepared:
        messages = flow.hooks.prepared([job.messages[i] for i in shown])
        with blame("prepare", flow.hooks.prepare):
            views = flow.read(messages, job.format, facts=job.learned)
    earlier = earlier_summary(job, plan.gone)
    whole = None if prepared else _originals(flow, job, base, earlier, [turns[i] for i in shown])
    gone = set(plan.gone)
    return Brief(
        views=views,
        turns=list(range(len(views))) if prepared else [turns[i] for i in shown],
        prior=earlier.prose,
        prior_ledger=earlier.ledger,
        answered=handed_back and not plan.kept_requests,
        at_work=at_work,
        kept=frozenset(turns[i] for i in plan.kept_requests),
        budget=plan.summary,
        count=flow.meter.text,
        preserve=_preserved(flow),
        without=flow.settings.without,
        prose=min(plan.summary, flow.limits.summary),
        state=_state(flow, job, max(turns), plan.summary),
        beside=[view for i, view in enumerate(job.views) if i not in gone],
        also="\n".join([*flow.settings.pins, _plain(job.system), _plain(job.tools)]) if flow.writers.asker else "",
        rounds=earlier.rounds,
        whole=whole,
        gone=[job.messages[i] for i in plan.gone],
        earlier=rederive.proses(flow.archive, earlier.record) if earlier.prose and flow.writers.asker else (),
    )


def _preserved(flow: Flow) -> int:
    """The most tokens for people's own words beside what else a summary turn says."""
    if "own_words" in flow.settings.without:
        return 0
    return flow.limits.third if flow.settings.preserve is None else flow.settings.preserve


def _originals(flow: Flow, job: Job, base: Base, earlier: Earlier, shown: Sequence[int]) -> rederive.Whole | None:
    """The original conversation that the summary will stand for, every few rounds; else None."""
    if earlier.ledger is None or not rederive.due(earlier.rounds, earlier.depth):
        return None
    return rederive.originals(
        flow.archive,
        job.scope,
        base.messages,
        job.format,
        read=lambda messages: flow.read(messages, job.format),
        stay=base.turns,
        shown=shown,
    )


def _state(flow: Flow, job: Job, turn: int, budget: int) -> str:
    """The host's state as a part of the summary turn. A provider that raises is told of, never obeyed."""
    if flow.state is None:
        return ""
    if job.state is None:  # asked once for each compaction, however often its summary has to be made smaller
        try:
            job.state = state.told(flow.state, job.scope.thread, flow.settings.deadline)
        except Exception as error:  # noqa: BLE001 - the host's own code: anything may come out of it
            job.state = ""
            log.warning("the state provider raised %s: the summary goes without it", type(error).__name__)
            flow.emit(Failed(job.scope.thread, "state", error, namespace=job.scope.namespace))
    part = state.shown(job.state, turn, int(budget * state.SHARE), flow.meter.text)
    if job.state.strip() and not part:
        note = f"no room for the host's state in a summary of {budget:,} tokens"
        job.notes += [note] * (note not in job.notes)
    return part


def _plain(value: object) -> str:
    """A system prompt or tool schemas as text, for looking names up in."""
    if isinstance(value, str) or not value:
        return value if isinstance(value, str) else ""
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError):  # keys that JSON has no form for, or a loop
        return str(value)
