"""Store: archive the originals, the record and its receipt, and only then let the caller see the shorter list."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from unabridged.archive.protocol import Part, Record, RecordData, Scope
from unabridged.compaction.rewrite import Rewrite
from unabridged.compaction.state import Setup, State, put_list
from unabridged.events import Compacted, Receipt, receipt_from
from unabridged.history.lookup import depth_of, write
from unabridged.ledger.entries import to_json

log = logging.getLogger("unabridged")


def store(setup: Setup, state: State, made: Rewrite, reason: str, *, early: bool = False) -> None:
    """Archive what was made, and only then have the state hold the new list."""
    prior = state.standing.record if state.standing else None
    if not state.learned.get("unclear"):  # said once for each thread; the receipts say it each time
        for note in _unclear(state, made):
            log.warning("thread %r: %s", state.scope.thread, note)
    receipt = _receipt(setup, state, made, reason)
    by_model = made.written is not None and made.written.summariser != "model-free"
    record = Record(
        id=made.record_id,
        scope=made.scope,
        key=made.key,
        length=made.reach,
        start=0,
        before=(),
        after=(),
        kind=made.kind,
        prior=prior.id if prior else None,
        model=receipt.summariser if by_model else None,
        created=time.time(),
        data=_data(made, receipt, prior, early=early),
    )
    setup.hooks.show(state.given, made.messages)
    stored, messages = write(
        setup.archive,
        record,
        (state.base, state.base_views, state.base_turns),
        made.messages,
        format_=state.format,
        ours=state.known,
        redact=setup.redact,
        common=_common(setup, made.scope, prior),
    )
    state.messages, state.views, state.sizes, state.learned = made.messages, made.views, made.sizes, made.learned
    state.scope, state.record = made.scope, stored
    if stored.id != made.record_id:  # another replica was first
        put_list(setup, state, messages)
    state.receipt = receipt_from(stored.data["receipt"])
    setup.emit(
        Compacted(state.scope.thread, state.receipt, state.given, state.messages, namespace=state.scope.namespace)
    )


def _data(made: Rewrite, receipt: Receipt, prior: Record | None, *, early: bool) -> RecordData:
    """What the record remembers besides the messages."""
    data: RecordData = {"receipt": _as_json(asdict(receipt)), "depth": depth_of(prior) + 1, "early": early}
    data["characters"] = prior.data.get("characters", 0) if prior else 0
    if made.learned:
        data["habits"] = dict(made.learned)
    if made.settles is not None:
        data["settles"] = made.settles
    if (written := made.written) is not None:
        data |= {"ledger": to_json(written.ledger), "prose": written.prose, "rounds": written.rounds}
    return data


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
    notes = (*state.without, *state.notes, *_unclear(state, made), *(written.notes if written else ()))
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


def _unclear(state: State, made: Rewrite) -> tuple[str, ...]:
    """What is to be said of turns that went and may be a tool's as well as a person's."""
    number = made.learned.get("unclear", 0) - state.learned.get("unclear", 0)
    told = f"{number} user turns may be a tool's or a person's, so nothing in them is a rule, a request or an approval"
    return (f"{told}: say whose they are with Compactor(origin=...)",) if number > 0 else ()
