"""Every few rounds, begin again from the originals: what is carried from summary to summary would drift.

A round folds the earlier summary and a new block into one. Every `ROUNDS_BETWEEN_READS` rounds the ledger is made from
original conversation instead, as the archive holds it, and so is the prose when one ask can show all of it. Where the
archive no longer holds it, or there is too much to read again, the round goes on with what was carried. In every round
the model also sees some of the prose of earlier rounds, as it was when it was new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.errors import ArchiveError
from unabridged.formats import Format, Message
from unabridged.history.replay import find_record, undo_records
from unabridged.messages import View
from unabridged.summary.ledger import from_json
from unabridged.text_tools import Count

ROUNDS_BETWEEN_READS = 4
"""Rounds after which a ledger is derived anew."""
MAX_MESSAGES = 20_000
MAX_CHARACTERS = 2_000_000
"""Messages and characters up to which a conversation is read again."""
MAX_ROUNDS = 64
"""Rounds whose prose is looked for."""


class OriginalMessages(NamedTuple):
    """Messages of the original conversation, each with its place in it."""

    views: list[View]
    turns: list[int]


class EarlierProse(NamedTuple):
    """What a model wrote in an earlier round, and the number of the first message that it did not cover."""

    end: int
    text: str


def should_begin_again(rounds: int, depth: int) -> bool:
    """Return whether to begin again, so many rounds after the last time and with so many records behind.

    The longer the record, the rarer: reading all of it again then costs each round the same, however long it is.
    """
    return rounds + 1 >= max(ROUNDS_BETWEEN_READS, depth // 2)


def read_originals(
    archive: Archive, scope: Scope, messages: list[Message], format_: Format, *, last: int, characters: int
) -> list[Message] | None:
    """Return the original conversation behind a list, of which the turn at `last` is needed.

    None where that is too much to read (the newest record says how many `characters` went so far), and where the
    archive no longer holds it.
    """
    if not 0 <= last < MAX_MESSAGES or characters > MAX_CHARACTERS:
        return None
    try:
        whole, records = undo_records(archive, scope, messages, format_, every=True)
    except ArchiveError:  # pruned, or forgotten: what was carried is all there is
        return None
    return whole if records and last < len(whole) else None


def read_earlier_prose(archive: Archive, record: Record | None) -> list[EarlierProse]:
    """Return the prose of this record's round and of those before it, oldest first."""
    proses: list[EarlierProse] = []
    for _ in range(MAX_ROUNDS):
        if record is None:
            break
        if text := record.data.get("prose"):
            proses.append(EarlierProse(from_json(record.data["ledger"]).end, text))
        record = find_record(archive, record.scope, record.prior) if record.prior else None
    return proses[::-1]


def select_evenly(proses: Sequence[EarlierProse], room: int, count: Count) -> str:
    """Return the newest prose and as many older ones as `room` takes, the first and then evenly spaced; dated."""
    if not proses:
        return ""
    size = max(1, max(count(prose.text) for prose in proses) + 12)
    number = min(len(proses), room // size)
    if number <= 1:
        return proses[-1].text
    places = {round(i * (len(proses) - 1) / (number - 1)) for i in range(number)}
    return "\n\n".join(f"Record up to message {proses[i].end - 1}:\n{proses[i].text.strip()}" for i in sorted(places))
