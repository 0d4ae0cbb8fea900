"""Restore: apply again what was recorded of the list's beginning, and find the newest record that stands in it."""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.archive.protocol import Record
from unabridged.authorship import NO_TURNS, counts_in
from unabridged.compaction.cut import counted
from unabridged.compaction.rewrite import Rewrite
from unabridged.compaction.state import Setup, State, measure
from unabridged.compaction.store import store
from unabridged.events import receipt_from
from unabridged.history import lookup
from unabridged.history.lookup import Place
from unabridged.history.replay import UNNAMED, Records, Standing, find_standing, meanings_put_in
from unabridged.legal.reasoning import strip_from
from unabridged.marks import is_ours
from unabridged.messages import View


def restore(setup: Setup, state: State, *, settles: bool = True, early: bool = True) -> None:
    """Apply every recorded compaction of the list's beginning; whose words each turn is, is found out anew.

    `settles` is for a list that will be sent: only then is it known what was said before a record made early was used.
    Without `early`, such a record is applied only where it is known to have been used.
    """
    applied: set[str] = set()
    where = Place(state.lookup_scope, setup.seed(state.lookup_scope, state.format))
    while (record := lookup.find_longest_record(setup.archive, where, state.views)) is not None:
        if record.id in applied or not (early or _is_used(setup, state, record)):
            break
        applied.add(record.id)
        state.scope, state.turn_counts = record.scope, counts_in(record.data)
        _splice(setup, state, record, lookup.apply(setup.archive, record, state.messages, state.format))
        state.receipt = receipt_from(record.data["receipt"])
        if settles:
            _settle(setup, state, record)
    state.broken = bool(applied) and _is_broken(setup, state)
    state.records = Records(setup.archive, state.scope)
    state.standing = find_standing(setup.archive, state.scope, state.views, state.records)
    if state.standing is not None:
        state.scope = state.standing.record.scope
        state.named = state.named or not state.scope.thread.startswith(UNNAMED)
    state.known = frozenset(meanings_put_in(state.records, state.standing))
    state.turn_counts = counts_in(state.standing.record.data) if state.standing else NO_TURNS
    state.views = setup.read(state.messages, state.format, state.views, state.turn_counts)
    for i, view in enumerate(state.views):
        if is_ours(view) and view.meaning in state.known:
            state.views[i] = view.said_by("summary")
    state.set_base()


def _splice(setup: Setup, state: State, record: Record, done: list[object]) -> None:
    """Put a record's result into the state; what stands before and behind it is not read or measured again."""
    first, stop = record.start, record.start + len(record.before)
    known = {id(m): (state.views[i], state.sizes[i]) for i, m in enumerate(state.messages[first:stop], first)}
    region = done[first : first + len(record.after)]
    read = [known.get(id(m)) or measure(setup, state.format, m) for m in region]
    state.views[first:stop] = [view for view, _ in read]
    state.sizes[first:stop] = [size for _, size in read]
    state.sizes = counted(state.views, state.sizes)
    state.messages, state.record = done, record


def _is_broken(setup: Setup, state: State) -> bool:
    """Whether a list that records made would be refused: a host may pair calls and results otherwise today."""
    if not (now := setup.check(state.views, state.format, pending=state.pending)):
        return False
    given = setup.check(setup.read(state.given, state.format), state.format, pending=state.pending)
    return bool({finding.rule for finding in now} - {finding.rule for finding in given})


def _settle(setup: Setup, state: State, record: Record) -> None:
    """Where thinking is bound to what stood before it, a record made early leaves some behind that is now refused.

    What was said between its making and the swap is rid of its thinking, once: a record of its own remembers from
    where on, so that the same conversation is always rewritten the same way.
    """
    rule = setup.thinking(state.format)
    if not record.data.get("early") or rule != "bound":
        return
    seed = setup.seed(state.lookup_scope, state.format)
    settled = lookup.find_longest_record(setup.archive, Place(state.lookup_scope, seed), state.views)
    if settled is not None and settled.data.get("settles") == record.id:
        return
    if (settled := _settled_before(setup, state.views, record, seed)) is not None:  # a longer record goes on from it
        _splice(setup, state, settled, lookup.apply(setup.archive, settled, state.messages, state.format))
        return
    state.standing = Standing(record, record.start)
    state.set_base()
    stop = record.start + len(record.after)
    new = strip_from(state.messages, state.views, state.format, stop, rule)
    views = setup.read(new, state.format, counts=state.turn_counts)
    key = lookup.keys_of(state.views, seed)[-1]
    made = Rewrite(
        kind="repair",
        scope=state.scope,
        key=key,
        record_id=lookup.free_id(setup.archive, state.scope, key),
        reach=len(state.base),
        messages=new,
        views=views,
        sizes=counted(views, [setup.meter.message(view, message) for view, message in zip(views, new, strict=True)]),
        turn_counts=state.turn_counts,
        settles=record.id,
    )
    store(setup, state, made, "thinking that the early summary left unbound")


def _is_used(setup: Setup, state: State, record: Record) -> bool:
    """Whether the record is known to have been sent: one made early is, where another settles its swap."""
    if not record.data.get("early"):
        return True
    done = lookup.apply(setup.archive, record, state.messages, state.format)
    seed = setup.seed(state.lookup_scope, state.format)
    return _settled_before(setup, [state.format.read(message) for message in done], record, seed) is not None


def _settled_before(setup: Setup, views: Sequence[View], record: Record, seed: str) -> Record | None:
    """The record that settled this one, where it stands in the list; None without one."""
    known = setup.archive.keyed(record.scope, lookup.keys_of(views, seed))
    fits = (one for one in known if one.start + len(one.before) <= len(views))
    return next((one for one in fits if one.data.get("settles") == record.id), None)
