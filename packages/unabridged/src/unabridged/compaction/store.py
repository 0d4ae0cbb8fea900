"""Store: archive the originals, the record and its receipt, and only then let the caller see the shorter list."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from unabridged.archive import codec
from unabridged.archive.protocol import Part, Record, RecordData, Scope
from unabridged.compaction.rewrite import Rewrite
from unabridged.compaction.state import Setup, State, put_list
from unabridged.errors import ArchiveError
from unabridged.events import Compacted, Failed, Receipt, receipt_from
from unabridged.formats import Message
from unabridged.history.difference import Difference, chain, difference, paired
from unabridged.history.lookup import apply, depth_of
from unabridged.ledger.entries import to_json
from unabridged.marks import is_ours, marked_ids
from unabridged.messages import View

log = logging.getLogger("unabridged")


def store(setup: Setup, state: State, made: Rewrite, reason: str, *, early: bool = False) -> None:
    """Archive what was made, and only then have the state hold the new list."""
    prior = state.standing.record if state.standing else None
    data = _data(made, _receipt(setup, state, made, reason), prior, early=early)
    data["limits"] = _limits(setup)
    if state.asked or (prior and prior.data.get("asked")):
        data["asked"] = True
    first = data.get("people_dropped") and not (prior and prior.data.get("people_dropped"))
    if first and state.named and setup.limits.people:  # who set `preserve` to 0 wants none of them
        log.warning(
            "thread %r: %d messages of people found no place in the summary (they are in the archive): "
            "keep one with Compactor.pin(text, thread=...), or raise Settings(preserve=...)",
            state.scope.thread,
            data["people_dropped"],
        )
    record, parts = _record(setup, state, made, data)
    setup.hooks.show(state.given, made.messages)
    stored = setup.archive.store(record, [*_common(setup, made.scope, prior), *parts])
    state.messages, state.views, state.sizes = made.messages, made.views, made.sizes
    state.turn_counts = made.turn_counts
    state.scope, state.record = made.scope, stored
    if (stored.id, stored.after) != (record.id, record.after):  # another was first: its bytes are everybody's
        put_list(setup, state, apply(setup.archive, stored, state.base, state.format))
    state.receipt = receipt_from(stored.data["receipt"])
    _update_transcript(setup, state.scope, stored.id)
    setup.emit(
        Compacted(state.scope.thread, state.receipt, state.given, state.messages, namespace=state.scope.namespace)
    )


def _update_transcript(setup: Setup, scope: Scope, record_id: str) -> None:
    """Bring the thread's transcript up to date; what fails is told, and the next compaction makes it good."""
    if setup.transcripts is None:
        return
    try:
        setup.transcripts.update(scope, record_id)
    except ArchiveError as error:
        log.warning("the transcript is not up to date: %s", error)
        setup.emit(Failed(scope.thread, "transcript", error, namespace=scope.namespace))


def _record(setup: Setup, state: State, made: Rewrite, data: RecordData) -> tuple[Record, list[Part]]:
    """The record of the difference between the base and the new list, and the messages that went and came."""
    diff, turns = difference(state.base, made.messages), state.base_turns
    stop_old, stop_new = diff.start + len(diff.before), diff.start + len(diff.after)
    if stop_old > made.reach:
        raise ArchiveError(
            f"a compaction that changes {stop_old} messages has a key over {made.reach}: nothing was changed. "
            "Report this, with the settings."
        )
    views = [state.format.read(message) for message in made.messages[:stop_new]]
    # What an earlier compaction put in has no turn: its original has it.
    own = {i: -1 if state.base_views[i].meaning in state.known else turns[i] for i in diff.went}
    went = {i: part_of(setup, state.base[i], state.base_views[i], turn) for i, turn in own.items()}
    came = {j: part_of(setup, made.messages[j], views[j], -1) for j in diff.came}
    our_turns = [j - diff.start for j in diff.came if is_ours(views[j])]
    passed = max((turn for turn in turns[:stop_old] if turn >= 0), default=-1)
    data["characters"] += sum(len(item.text) for item in went.values() if item.turn >= 0)
    data["marks"] = [views[j].meaning for j in diff.came]
    if made.kind == "summary":
        stayed = set(range(diff.start, stop_new)) - set(diff.came)
        data["stayed"] = {str(j - diff.start): views[j].meaning for j in sorted(stayed)}
    data["turns"] = _turns_after(diff, turns, our_turns)
    edited = {id(message): state.turns()[i] for i, message in made.edited.items()}
    for j in diff.came:  # beside a summary, nothing but the edit itself tells which message it stands for
        data["turns"][j] = edited.get(id(made.messages[j]), data["turns"][j])
    data["result"] = chain((view.meaning for view in views), "")[-1]
    data["next_turn"] = turns[stop_old] if stop_old < len(turns) else passed + 1
    data["ours"] = our_turns
    data["named"] = any(made.record_id in marked_ids(views[j]) for j in diff.came)
    data["format"] = state.format.name
    writer = made.written.summariser if made.written else "model-free"
    record = Record(
        id=made.record_id,
        scope=made.scope,
        key=made.key,
        length=made.reach,
        start=diff.start,
        before=tuple(went[i].hash if i in went else item for i, item in enumerate(diff.before, diff.start)),
        after=tuple(came[j].hash if j in came else None for j in range(diff.start, stop_new)),
        kind=made.kind,
        prior=state.standing.record.id if state.standing else None,
        model=writer if writer != "model-free" else None,
        created=time.time(),
        data=data,
    )
    return record, [*went.values(), *came.values()]


def part_of(setup: Setup, message: Message, view: View, turn: int) -> Part:
    """The message as it is archived: exact, and redacted what search sees of it."""
    body = codec.encode(message)
    return Part(codec.digest(body), body, turn, view.role, view.origin, setup.redact(view.whole_text()))


def _turns_after(diff: Difference, old_turns: Sequence[int], ours: Sequence[int]) -> list[int]:
    """The turn of every message of the new list up to the end of what changed.

    What was put in has none, except where message for message was exchanged: a stub has the turn of what it stands for.
    """
    turns = [*old_turns[: diff.start], *([-1] * len(diff.after))]
    slots = [
        item if isinstance(item, int) and i not in diff.went else None for i, item in enumerate(diff.before, diff.start)
    ]
    places = {j: i for i, j in enumerate(slots) if j is not None} | paired(slots, len(diff.after), ours)
    for j, i in places.items():
        turns[diff.start + j] = old_turns[diff.start + i]
    return turns


def _data(made: Rewrite, receipt: Receipt, prior: Record | None, *, early: bool) -> RecordData:
    """What the record remembers besides the messages."""
    data: RecordData = {"receipt": _as_json(asdict(receipt)), "depth": depth_of(prior) + 1, "early": early}
    data["characters"] = prior.data.get("characters", 0) if prior else 0
    if made.turn_counts:
        data["turn_counts"] = dict(made.turn_counts)
    if made.settles is not None:
        data["settles"] = made.settles
    if (written := made.written) is not None:
        data |= {"ledger": to_json(written.ledger), "prose": written.prose, "rounds": written.rounds}
    # The ledger holds all messages, so a summary counts those again that an earlier one left out.
    before = prior.data.get("people_dropped", 0) if prior else 0
    if dropped := max(written.dropped if written else 0, before):
        data["people_dropped"] = dropped
    return data


def _limits(setup: Setup) -> dict[str, int]:
    """What the request was held against, in tokens: for people who look at the record later."""
    bounds = [condition["tokens"] for condition in setup.limits.trigger if set(condition) == {"tokens"}]
    return {
        "window": setup.limits.window,
        "budget": setup.limits.budget,
        **({"trigger": min(bounds)} if bounds else {}),
    }


def _as_json(value: Any) -> Any:
    """The same with lists for tuples: what is plain JSON is written and read several times as fast."""
    kind = type(value)
    if kind is dict:
        return {key: _as_json(item) for key, item in value.items()}
    return [_as_json(item) for item in value] if kind is tuple or kind is list else value


def _common(setup: Setup, scope: Scope, prior: Record | None) -> Sequence[Part]:
    """What a thread that branches off another takes along: all that was archived up to where it does."""
    if prior is None or prior.scope == scope:
        return ()
    return setup.archive.parts(prior.scope, 0, prior.data["next_turn"])


def _receipt(setup: Setup, state: State, made: Rewrite, reason: str) -> Receipt:
    gone, edited = _turns(state, made.gone), _turns(state, made.edited)
    written = made.written
    notes = (*state.without, *state.notes, *(written.notes if written else ()))
    return Receipt(
        id=made.record_id,
        thread=made.scope.thread,
        namespace=made.scope.namespace,
        kind=made.kind,
        reason=reason,
        created=time.time(),
        turns=gone or edited,
        edited=edited if gone else (),
        messages_before=len(state.given),
        messages_after=len(made.messages),
        tokens_before=setup.tokens(state.estimate),
        tokens_after=setup.tokens(state.overhead + sum(made.sizes)),
        archive=setup.archive_name,
        summariser=written.summariser if written else "model-free",
        cost=dict(state.cost),
        notes=tuple(map(setup.redact, notes)),
        mended=tuple(map(setup.redact, written.mended)) if written else (),
    )


def _turns(state: State, indices: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """The turns of the original conversation at these indices, as half-open ranges; what was put in has none."""
    found = sorted(turn for i in indices if i < len(state.base_turns) and (turn := state.base_turns[i]) >= 0)
    runs = groupby(enumerate(found), key=lambda pair: pair[1] - pair[0])
    spans = [[turn for _, turn in run] for _, run in runs]
    return tuple((span[0], span[-1] + 1) for span in spans)
