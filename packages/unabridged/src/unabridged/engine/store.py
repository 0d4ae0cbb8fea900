"""Store: archive the originals, the record and its receipt, and only then let the caller see the shorter list."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from unabridged.archive import codec
from unabridged.archive.protocol import Part, Record, RecordData, Scope
from unabridged.engine.rewrite import Rewrite
from unabridged.engine.state import Setup, State
from unabridged.errors import ArchiveError
from unabridged.events import Compacted, Receipt, receipt_from_dict
from unabridged.formats import Message
from unabridged.history.difference import Difference, compute_prefix_digests, find_difference, pair_replacements
from unabridged.history.lookup import apply_record, get_depth
from unabridged.marks import find_view_record_ids, is_inserted_turn
from unabridged.messages import View
from unabridged.summary.ledger import to_json

log = logging.getLogger("unabridged")


def store(
    setup: Setup, state: State, rewrite: Rewrite, reason: str, *, early: bool = False, asked: bool = False
) -> None:
    """Archive the rewrite, and only then work on the new list.

    `early`: it was made before the trigger; `asked`: it holds below the trigger too.
    """
    prior = state.restored.applied.record if state.restored.applied else None
    data = _build_record_data(setup, rewrite, _build_receipt(setup, state, rewrite, reason), prior, early=early)
    if asked or state.request.is_asked or (prior and prior.data.get("asked")):
        data["asked"] = True
    _warn_of_dropped_people(setup, state, data, prior)
    record, parts = _build_record(setup, state, rewrite, data)
    setup.host.hooks.run_callback(state.request.original, rewrite.result.messages)
    stored = setup.archive.store(record, [*_read_inherited_parts(setup, record.scope, prior), *parts])
    state.working, state.restored.turn_counts = rewrite.result, rewrite.turn_counts
    state.scope, state.record = record.scope, stored
    if (stored.id, stored.after) != (record.id, record.after):  # another was first: its bytes are everybody's
        base = state.restored.base.messages
        state.replace_list(setup, apply_record(setup.archive, stored, base, state.format))
    state.receipt = receipt_from_dict(stored.data["receipt"])
    if setup.transcripts is not None:
        try:
            setup.transcripts.update(state.scope, stored.id)
        except ArchiveError as error:  # the next compaction brings it up to date
            log.warning("the transcript is not up to date: %s", error)
            setup.host.emit_failure(state.scope, "transcript", error)
    scope, original, result = state.scope, state.request.original, state.working.messages
    setup.host.emit(Compacted(scope.thread, state.receipt, original, result, namespace=scope.namespace))


def _warn_of_dropped_people(setup: Setup, state: State, data: RecordData, prior: Record | None) -> None:
    """Log, once in a conversation, that messages of people found no place in the summary."""
    is_first = data.get("people_dropped") and not (prior and prior.data.get("people_dropped"))
    if is_first and state.is_named and setup.limits.people:  # who set `preserve` to 0 wants none of them
        text = "thread %r: %d of the messages that people wrote are left out of the summary (they are in the archive): "
        text += "keep one with Compactor.pin(text, thread=...), or raise Settings(preserve=...)"
        log.warning(text, state.scope.thread, data["people_dropped"])


def _build_record(setup: Setup, state: State, rewrite: Rewrite, data: RecordData) -> tuple[Record, list[Part]]:
    """Return the record of the difference between the base and the new list, and the messages that went and came."""
    base, turns, identity, new = state.restored.base, state.restored.turns, rewrite.identity, rewrite.result.messages
    diff = find_difference(base.messages, new)
    stop_old, stop_new = diff.start + len(diff.before), diff.start + len(diff.after)
    if stop_old > identity.reach:
        raise ArchiveError(
            f"a compaction that changes {stop_old} messages has a key over {identity.reach}: nothing was changed. "
            "Report this, with the settings."
        )
    views = [state.format.read(message) for message in new[:stop_new]]
    # What an earlier compaction put in has no turn: its original has it.
    own = {i: -1 if base.views[i].meaning_digest in state.restored.inserted else turns[i] for i in diff.went}
    went = {i: to_part(setup, base.messages[i], base.views[i], turn) for i, turn in own.items()}
    came = {j: to_part(setup, new[j], views[j], -1) for j in diff.came}
    data["characters"] += sum(len(part.text) for part in went.values() if part.turn >= 0)
    _describe_difference(state, rewrite, data, diff, views)
    record = Record(
        id=identity.id,
        scope=identity.scope,
        key=identity.key,
        length=identity.reach,
        start=diff.start,
        before=tuple(went[i].hash if i in went else item for i, item in enumerate(diff.before, diff.start)),
        after=tuple(came[j].hash if j in came else None for j in range(diff.start, stop_new)),
        kind=rewrite.kind,
        prior=state.restored.applied.record.id if state.restored.applied else None,
        model=rewrite.summariser if rewrite.summariser != "model-free" else None,
        created=time.time(),
        data=data,
    )
    return record, [*went.values(), *came.values()]


def _describe_difference(
    state: State, rewrite: Rewrite, data: RecordData, diff: Difference, views: Sequence[View]
) -> None:
    """Add to a record's data what replay and the next compaction go by."""
    turns, stop_old = state.restored.turns, diff.start + len(diff.before)
    data["marks"] = [views[j].meaning_digest for j in diff.came]
    if rewrite.kind == "summary":
        stayed = set(range(diff.start, len(views))) - set(diff.came)
        data["stayed"] = {str(j - diff.start): views[j].meaning_digest for j in sorted(stayed)}
    data["ours"] = [j - diff.start for j in diff.came if is_inserted_turn(views[j])]
    data["turns"] = _compute_new_turns(diff, turns, data["ours"])
    edited = {id(message): state.turns()[i] for i, message in rewrite.edited.items()}
    for j in diff.came:  # beside a summary, nothing but the edit itself tells which message it stands for
        data["turns"][j] = edited.get(id(rewrite.result.messages[j]), data["turns"][j])
    data["result"] = compute_prefix_digests((view.meaning_digest for view in views), "")[-1]
    passed = max((turn for turn in turns[:stop_old] if turn >= 0), default=-1)
    data["next_turn"] = turns[stop_old] if stop_old < len(turns) else passed + 1
    data["named"] = any(rewrite.identity.id in find_view_record_ids(views[j]) for j in diff.came)
    data["format"] = state.format.name


def to_part(setup: Setup, message: Message, view: View, turn: int) -> Part:
    """Return the message as it is archived: exact, with redacted text for search."""
    body = codec.encode(message)
    return Part(codec.digest(body), body, turn, view.role, view.origin, setup.host.redact(view.whole_text()))


def _compute_new_turns(diff: Difference, old_turns: Sequence[int], ours: Sequence[int]) -> list[int]:
    """Return the turn of every message of the new list up to the end of what changed.

    Inserted messages have none, except where they replace others one by one: a stub has the turn of its original.
    """
    turns = [*old_turns[: diff.start], *([-1] * len(diff.after))]
    stayed = {j: i for i, j in enumerate(diff.before) if isinstance(j, int)}
    for j, i in (stayed | pair_replacements(diff.before, len(diff.after), ours)).items():
        turns[diff.start + j] = old_turns[diff.start + i]
    return turns


def _build_record_data(
    setup: Setup, rewrite: Rewrite, receipt: Receipt, prior: Record | None, *, early: bool
) -> RecordData:
    """Return what the record remembers besides the messages."""
    before: Mapping[str, Any] = prior.data if prior else {}
    plain = json.loads(json.dumps(asdict(receipt)))  # with lists for tuples: stores write and read those much faster
    data: RecordData = {"receipt": plain, "depth": get_depth(prior) + 1, "early": early}
    data["characters"] = before.get("characters", 0)
    if rewrite.turn_counts:
        data["turn_counts"] = dict(rewrite.turn_counts)
    if rewrite.settles is not None:
        data["settles"] = rewrite.settles
    if (written := rewrite.written) is not None:
        data |= {"ledger": to_json(written.ledger), "prose": written.prose, "rounds": written.rounds}
        data |= {"native": setup.summary_writer.native_provider} if written.native is not None else {}
    # The ledger holds all messages, so a summary counts those again that an earlier one left out.
    if dropped := max(written.dropped if written else 0, before.get("people_dropped", 0)):
        data["people_dropped"] = dropped
    limits = setup.limits
    bounds = [condition["tokens"] for condition in limits.trigger if set(condition) == {"tokens"}]
    data["limits"] = {"window": limits.window, "budget": limits.budget, **({"trigger": min(bounds)} if bounds else {})}
    return data


def _read_inherited_parts(setup: Setup, scope: Scope, prior: Record | None) -> Sequence[Part]:
    """Return what a thread that branches off another takes along: all that was archived up to where it does."""
    if prior is None or prior.scope == scope:
        return ()
    return setup.archive.parts(prior.scope, 0, prior.data["next_turn"])


def _build_receipt(setup: Setup, state: State, rewrite: Rewrite, reason: str) -> Receipt:
    gone, edited = _find_turn_ranges(state, rewrite.gone), _find_turn_ranges(state, rewrite.edited)
    report, written, result = state.report, rewrite.written, rewrite.result
    notes = (*report.done_without, *report.notes, *(written.notes if written else ()))
    return Receipt(
        id=rewrite.identity.id,
        thread=rewrite.identity.scope.thread,
        namespace=rewrite.identity.scope.namespace,
        kind=rewrite.kind,
        reason=reason,
        created=time.time(),
        turns=gone or edited,
        edited=edited if gone else (),
        messages_before=len(state.request.original),
        messages_after=len(result.messages),
        tokens_before=setup.tokens(state.estimate),
        tokens_after=setup.tokens(state.request.overhead + result.tokens),
        archive=setup.archive_name,
        summariser=rewrite.summariser,
        cost=dict(report.cost),
        notes=tuple(map(setup.host.redact, notes)),
        mended=tuple(map(setup.host.redact, written.mended)) if written else (),
    )


def _find_turn_ranges(state: State, indices: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the original turns at these indices, as half-open ranges; what was put in has none."""
    turns = state.restored.turns
    present = sorted(turns[i] for i in indices if i < len(turns) and turns[i] >= 0)
    runs = groupby(enumerate(present), key=lambda pair: pair[1] - pair[0])
    spans = [[turn for _, turn in run] for _, run in runs]
    return tuple((span[0], span[-1] + 1) for span in spans)
