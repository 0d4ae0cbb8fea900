"""Every few rounds, begin again from the originals: what is carried from summary to summary would drift.

A round folds the earlier summary and a new block into one. Every `EVERY` rounds the ledger is gathered from the
original conversation instead, as the archive holds it, and so is the prose when one ask can show all of it. Where the
archive no longer holds it, or there is too much to read again, the round goes on with what was carried. In every round
the model also sees some of the prose of earlier rounds, as it was when it was new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.errors import ArchiveError
from unabridged.formats import Format, Message
from unabridged.history.replay import find_record, take_back
from unabridged.ledger.entries import from_json
from unabridged.messages import View

EVERY = 4
"""Rounds after which a ledger is derived anew."""
MOST_MESSAGES = 20_000
MOST_TEXT = 2_000_000
"""Messages and characters up to which a conversation is read again."""
MOST_ROUNDS = 64
"""Rounds whose prose is looked for."""


def due(rounds: int, depth: int) -> bool:
    """Whether to begin again, so many rounds after the last time and with so many records behind.

    The longer the record, the rarer: reading all of it again then costs each round the same, however long it is.
    """
    return rounds + 1 >= max(EVERY, depth // 2)


class Whole(NamedTuple):
    """Messages of the original conversation, each with its place in it."""

    views: list[View]
    turns: list[int]


class Prose(NamedTuple):
    """What a model wrote in an earlier round, and up to where it went."""

    end: int
    text: str


def originals(
    archive: Archive, scope: Scope, messages: list[Message], format_: Format, *, last: int, characters: int
) -> list[Message] | None:
    """The original conversation behind a list, of which the turn at `last` is needed.

    None where that is too much to read (the newest record tells how many `characters` went so far), and where the
    archive has it no more.
    """
    if not 0 <= last < MOST_MESSAGES or characters > MOST_TEXT:
        return None
    try:
        whole, records = take_back(archive, scope, messages, format_, every=True)
    except ArchiveError:  # pruned, or forgotten: what was carried is all there is
        return None
    return whole if records and last < len(whole) else None


def read_proses(archive: Archive, record: Record | None) -> list[Prose]:
    """The prose of this record's round and of those before it, oldest first."""
    found: list[Prose] = []
    for _ in range(MOST_ROUNDS):
        if record is None:
            break
        text = record.data.get("prose")
        if text:
            found.append(Prose(from_json(record.data["ledger"]).end, text))
        record = find_record(archive, record.scope, record.prior) if record.prior else None
    return found[::-1]


def spaced(found: Sequence[Prose], room: int, count: Callable[[str], int]) -> str:
    """The newest prose, and of the older ones as many as `room` takes, the first and then evenly spaced; dated."""
    if len(found) < 2:
        return "".join(prose.text for prose in found)
    size = max(1, max(count(prose.text) for prose in found) + 12)
    number = max(1, min(len(found), room // size))
    places = {round(i * (len(found) - 1) / max(1, number - 1)) for i in range(number)} | {len(found) - 1}
    if number == 1:
        return found[-1].text
    dated = [f"Record up to message {found[i].end - 1}:\n{found[i].text.strip()}" for i in sorted(places)]
    return "\n\n".join(dated)
