"""One compaction, before and after: what became of every message, the summary turn, the receipt, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from math import ceil
from typing import Any, Final, Literal

from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.events import Receipt, receipt_from_dict
from unabridged.history.difference import find_replacements
from unabridged.history.lookup import find_original_turns
from unabridged.history.replay import AppliedRecord, find_record
from unabridged.marks import CLEARED_PREFIX, find_summary_turn_id, is_stub
from unabridged.settings import Prices
from unabridged.tokens.estimate import estimate
from unabridged_cli.inspector.listing import NotInArchive
from unabridged_cli.inspector.threads import describe_records, is_compaction, read_parts_by_hash, read_view

Fate = Literal["stayed", "cleared", "shortened", "changed", "went", "put in"]
MessagePosition = tuple[int, str | None]
"""Turn and hash: of an original the turn, of what was put in the hash, of a stub both."""
_MAX_PRIOR_COMPACTIONS: Final = 64
"""Compactions that are gone back to find out which one put something in."""
_MAX_MESSAGES_ESTIMATED: Final = 400
"""Messages before a change whose size is estimated."""
_MAX_SOURCES: Final = 4_000


def describe_compaction(archive: Archive, scope: Scope, record_id: str) -> dict[str, Any]:
    """Return the compaction with this id. `before` and `after` hold [fate, turn, hash, the place in the other list]."""
    record = _find_compaction(archive, scope, record_id)
    receipt = receipt_from_dict(record.data["receipt"])
    original = _find_positions_before(archive, record, receipt.messages_before)
    stop = record.start + len(record.before)
    summary = _find_summary_turn(archive, record)
    return {
        **describe_records([record])[0],
        "live": any(one.id == record.id for one in archive.keyed(scope, [record.key])),
        "receipt": asdict(receipt),
        "start": record.start,
        "head": [list(position) for position in original[: record.start]],
        "before": _build_before_rows(record, original, fates := _find_fates(archive, record)),
        "after": _build_after_rows(record, original, fates),
        "tail": _to_turn_ranges([turn for turn, _ in original[stop : receipt.messages_before]]),
        "summary": summary,
        "sources": _read_ledger_sources(record) if summary else [],
        "prose": bool(record.data.get("prose")),
        "cache": _estimate_cache_effect(archive, record, receipt, [turn for turn, _ in original[: record.start]]),
    }


def describe_context_after(archive: Archive, scope: Scope, record_id: str) -> dict[str, Any]:
    """Return the list that a compaction left, as [turn, hash]; behind it come the turns from `next` on."""
    record = _find_compaction(archive, scope, record_id)
    return {
        "rows": [list(position) for position in _find_positions_after(archive, record)],
        "next": record.data["next_turn"],
    }


def _find_compaction(archive: Archive, scope: Scope, record_id: str) -> Record:
    record = archive.record(scope, record_id)
    if record is None or not is_compaction(record):
        why = "the thread was forgotten, or begun anew"
        raise NotInArchive(f"there is no compaction {record_id!r} in this thread: {why}")
    return record


def _find_positions_after(
    archive: Archive, record: Record, levels: int = _MAX_PRIOR_COMPACTIONS
) -> list[MessagePosition]:
    """Return turn and hash of every message that the compaction left, up to the end of what changed.

    What stayed has no hash of its own here; if an earlier compaction put it in, that one knows it.
    """
    turns = record.data["turns"]
    if record.start == 0 and None not in record.after:
        return list(zip(turns, record.after, strict=False))
    original = _find_positions_before(archive, record, 0, levels - 1)
    came_from = {slot: i for i, slot in enumerate(record.before) if isinstance(slot, int)}
    positions = original[: record.start]
    for j, (turn, name) in enumerate(zip(turns[record.start :], record.after, strict=False)):
        stayed = came_from.get(j) if name is None else None
        positions.append((turn, name) if stayed is None else (turn, original[record.start + stayed][1]))
    return positions


def _find_positions_before(
    archive: Archive, record: Record, count: int, levels: int = _MAX_PRIOR_COMPACTIONS
) -> list[MessagePosition]:
    """Return turn and hash of every message of the original list; the turn is -1 for what was put in before."""
    prior = find_record(archive, record.scope, record.prior) if record.prior else None
    applied = AppliedRecord(prior, prior.start) if prior else None
    turns = find_original_turns(applied, max(count, record.start + len(record.before)))
    earlier = _find_positions_after(archive, prior, levels) if prior is not None and levels > 0 else []
    return [earlier[i] if i < len(earlier) else (turn, None) for i, turn in enumerate(turns)]


def _find_fates(archive: Archive, record: Record) -> dict[int, tuple[int, Fate]]:
    """Return for each message of `after` that replaces another one the index of that one, and how it was changed."""
    exchanged = find_replacements(record)
    if record.kind == "clearing":
        return {j: (i, "cleared") for j, i in exchanged.items()}
    hashes = _filter_hashes(record.after[j] for j in exchanged)
    texts = {part.hash: part.text for part in read_parts_by_hash(archive, record.scope, hashes)}
    return {j: (i, _detect_fate(texts.get(str(record.after[j]), ""))) for j, i in exchanged.items()}


def _detect_fate(text: str) -> Fate:
    if CLEARED_PREFIX in text or any(is_stub(line) for line in text.splitlines()):
        return "cleared"
    return "shortened" if "was left out to fit the window]" in text else "changed"


def _build_before_rows(
    record: Record, original: Sequence[MessagePosition], fates: dict[int, tuple[int, Fate]]
) -> list[list[Any]]:
    became = {i: (j, fate) for j, (i, fate) in fates.items()}
    rows: list[list[Any]] = []
    for i, item in enumerate(record.before):
        turn, name = original[record.start + i]
        if isinstance(item, int):
            rows.append(["stayed", turn, name, item])
        else:
            j, fate = became.get(i, (None, "went"))
            rows.append([fate, turn, item, j])
    return rows


def _build_after_rows(
    record: Record, original: Sequence[MessagePosition], fates: dict[int, tuple[int, Fate]]
) -> list[list[Any]]:
    stayed = {slot: i for i, slot in enumerate(record.before) if isinstance(slot, int)}
    turns = record.data["turns"][record.start :]
    rows: list[list[Any]] = []
    for j, item in enumerate(record.after):
        turn = turns[j] if j < len(turns) else -1
        if item is None:
            i = stayed.get(j)
            rows.append(["stayed", turn, None if i is None else original[record.start + i][1], i])
        else:
            i, fate = fates.get(j, (None, "put in"))
            rows.append([fate, turn, item, i])
    return rows


def _find_summary_turn(archive: Archive, record: Record) -> dict[str, Any] | None:
    """Return the summary turn that was put in, whole."""
    for part in read_parts_by_hash(archive, record.scope, _filter_hashes(record.after)):
        view = read_view(part.body)
        if view is not None and find_summary_turn_id(view):
            return {"hash": part.hash, "text": view.text}
    return None


def _read_ledger_sources(record: Record) -> list[list[Any]]:
    """Return [text, turn] of each file and name of the ledger, to lead back from lines of a summary without a turn."""
    ledger: Any = json.loads(record.data.get("ledger") or "{}")
    files = [[file["path"], file["turn"]] for file in ledger.get("files") or ()]
    return [*files, *([name["text"], name["turn"]] for name in ledger.get("names") or ())][:_MAX_SOURCES]


def _estimate_cache_effect(archive: Archive, record: Record, receipt: Receipt, head: Sequence[int]) -> dict[str, Any]:
    """Estimate the effect on the provider's prompt cache: tokens written anew, and the requests until that pays off."""
    prefix = 0
    exact = len(head) <= _MAX_MESSAGES_ESTIMATED
    if head and exact:
        texts = {part.turn: part.text for part in archive.parts(record.scope, 0, max(head) + 1) if part.turn in head}
        exact = all(turn in texts for turn in head)
        prefix = sum(map(estimate, texts.values()))
    rewritten = max(0, receipt.tokens_after - prefix)
    saved, prices = receipt.tokens_before - receipt.tokens_after, Prices()
    pays = ceil(rewritten * prices.rewrite_cost() / (saved * prices.read)) if saved > 0 else None
    return {
        "kept": record.start, "rewritten": rewritten, "exact": exact, "saved": saved, "pays_after": pays,
        "read": prices.read, "write": prices.write,
    }  # fmt: skip


def _filter_hashes(items: Any) -> list[str]:
    return [item for item in items if isinstance(item, str)]


def _to_turn_ranges(turns: Sequence[int]) -> list[list[int]]:
    """Return the turns as half-open ranges."""
    runs = groupby(enumerate(turns), key=lambda pair: pair[1] - pair[0])
    spans = [[turn for _, turn in run] for _, run in runs]
    return [[span[0], span[-1] + 1] for span in spans]
