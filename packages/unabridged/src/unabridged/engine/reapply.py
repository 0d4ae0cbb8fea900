"""Apply again what was recorded of the list's beginning, and find the newest record whose result is in it."""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.archive.protocol import Record
from unabridged.engine.rewrite import RecordIdentity, Rewrite
from unabridged.engine.state import RestoredHistory, Setup, State, WorkingList
from unabridged.engine.store import store
from unabridged.events import receipt_from_dict
from unabridged.history import replay
from unabridged.history.lookup import apply_record, compute_keys, find_free_id, find_longest_record
from unabridged.legality.reasoning import strip_thinking_from
from unabridged.marks import is_inserted_turn
from unabridged.messages import View


def reapply_records(setup: Setup, state: State, *, settles: bool = True, early: bool = True) -> None:
    """Apply every recorded compaction of the list's beginning, and find the origin of each turn anew.

    `settles` is for a list that will be sent: only then is it known what was said before a record made early was used.
    Without `early`, such a record is applied only where it is known to have been used.
    """
    done: set[str] = set()
    scope, seed = state.lookup_scope, setup.key_seed(state.lookup_scope, state.format)
    while (record := find_longest_record(setup.archive, scope, seed, state.working.views)) is not None:
        if record.id in done or not (early or _was_sent(setup, state, record, seed)):
            break
        done.add(record.id)
        state.scope, state.restored.turn_counts = record.scope, record.data.get("turn_counts", {})
        _apply_to_state(setup, state, record)
        state.receipt = receipt_from_dict(record.data["receipt"])
        if settles:
            _strip_unbound_thinking(setup, state, record, seed)
    is_broken = bool(done) and _is_result_illegal(setup, state)
    records = replay.RecordCache(setup.archive, state.scope)
    applied = replay.find_applied_record(setup.archive, state.scope, state.working.views, records)
    if applied is not None:
        state.scope = applied.record.scope
        state.is_named = state.is_named or not state.scope.thread.startswith(replay.UNNAMED_THREAD_PREFIX)
    state.restored = RestoredHistory(
        records=records,
        inserted=frozenset(replay.find_inserted_meanings(records, applied)),
        turn_counts=applied.record.data.get("turn_counts", {}) if applied else {},
        is_broken=is_broken,
    )
    working, known = state.working, state.restored.inserted
    views = setup.read(working.messages, state.format, working.views, state.restored.turn_counts)
    is_ours = [is_inserted_turn(view) and view.meaning_digest in known for view in views]
    views = [view.with_origin("summary") if ours else view for view, ours in zip(views, is_ours, strict=True)]
    state.working = WorkingList(working.messages, views, working.sizes)
    state.restored.set_base(state.working, applied)


def _apply_to_state(setup: Setup, state: State, record: Record) -> None:
    """Replace the working list by the result of a record."""
    result = apply_record(setup.archive, record, state.working.messages, state.format)
    state.working, state.record = state.measure_list(setup, result), record


def _is_result_illegal(setup: Setup, state: State) -> bool:
    """Return whether a list that records made would be refused: a host may pair calls and results otherwise today."""
    if not (findings := setup.check(state.working.views, state)):
        return False
    before = setup.check(setup.read(state.request.original, state.format), state)
    return bool({finding.rule for finding in findings} - {finding.rule for finding in before})


def _strip_unbound_thinking(setup: Setup, state: State, record: Record, seed: str) -> None:
    """Strip thinking that a summary made early left behind, where the provider binds thinking to what precedes it.

    What was said between its making and the swap loses its thinking, once: a record of its own remembers from where
    on, so that the same conversation is always rewritten the same way.
    """
    rule = setup.find_thinking_rule(state.format)
    if not record.data.get("early") or rule != "bound":
        return
    views = state.working.views
    longest = find_longest_record(setup.archive, state.lookup_scope, seed, views)
    if longest is not None and longest.data.get("settles") == record.id:
        return
    if (settled := _find_settling_record(setup, views, record, seed)) is not None:  # a longer record goes on from it
        _apply_to_state(setup, state, settled)
        return
    state.restored.set_base(state.working, replay.AppliedRecord(record, record.start))
    new = strip_thinking_from(state.working.messages, views, state.format, record.start + len(record.after), rule)
    counts = state.restored.turn_counts
    key = compute_keys(views, seed)[-1]
    identity = RecordIdentity(state.scope, key, find_free_id(setup.archive, state.scope, key), len(views))
    result = state.measure_list(setup, new, setup.read(new, state.format, counts=counts))
    rewrite = Rewrite("repair", identity=identity, result=result, turn_counts=counts, settles=record.id)
    store(setup, state, rewrite, "thinking that the early summary left unbound")


def _was_sent(setup: Setup, state: State, record: Record, seed: str) -> bool:
    """Return whether the record's result is known to have been sent."""
    if not record.data.get("early"):
        return True
    result = apply_record(setup.archive, record, state.working.messages, state.format)
    return _find_settling_record(setup, [state.format.read(message) for message in result], record, seed) is not None


def _find_settling_record(setup: Setup, views: Sequence[View], record: Record, seed: str) -> Record | None:
    """Return the record that stripped the thinking left behind by this early record; None without one."""
    known = setup.archive.keyed(record.scope, compute_keys(views, seed))
    in_list = (one for one in known if one.start + len(one.before) <= len(views))
    return next((one for one in in_list if one.data.get("settles") == record.id), None)
