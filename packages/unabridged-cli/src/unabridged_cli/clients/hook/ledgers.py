"""The ledger of a session: what all of it leaves behind, carried on from the newest one that is archived.

It is made in blocks. When a client waits and there is no time for all of them, the first and the newest are looked at:
that ledger is told and not archived. A process that nobody waits for then looks at everything (`carry_on`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from unabridged.archive.protocol import Archive, RecordData
from unabridged.ledger.entries import Ledger, from_json, to_json
from unabridged.ledger.gather import gather
from unabridged.messages import View
from unabridged_cli.clients.hook.copying import keep, newest_record, short_views_of
from unabridged_cli.clients.hook.transcript import Kind, Message, Place, Said, Source, place_at, read_from

REMINDER: Final = "reminder"
"""The kind of a record of what a context was told, or of a ledger."""
_BLOCK, _BLOCK_SIZE = 200, 400_000
"""Messages that are gathered at once, and characters of them, about: some of it takes time by their square."""
_MOST: Final = 5
"""How many times that, where nobody speaks at whose words a block could end."""
_ANSWER: Final = 2_000
"""Characters of a tool's answer that count: no more are looked at."""
_WHOLE: Final = 8_000_000
"""Bytes at the end of a file that are looked at whole; of what is before, only what people said and were answered."""
_NEWEST: Final = 3
"""Blocks that are always looked at, besides the first."""
_EVERY: Final = 20
"""Blocks after which a ledger is archived that nobody waits for."""

_Turn = tuple[int, Said]
"""A message, and its turn."""


class Read(NamedTuple):
    """What the whole session leaves behind, how far that reaches, and how many messages there was no time for."""

    ledger: Ledger
    place: Place
    unread: int


class Block(NamedTuple):
    """Messages that are gathered at once, and whether they are the last of the session."""

    messages: list[_Turn]
    is_last: bool = False


def read_ledger(archive: Archive, source: Source, deadline: float) -> Read:
    """The newest ledger that is archived, and what came since. After `deadline`, only what is newest is looked at."""
    ledger, place = _newest(archive, source)
    messages, end = _worth_reading(source, place)
    blocks = list(blocks_of(messages))
    unread = 0
    for number, block in enumerate(blocks):
        if 0 < number < len(blocks) - _NEWEST and time.monotonic() > deadline:
            unread += len(block.messages)
        else:
            ledger = _add(ledger, source.kind, block)
    return Read(ledger or Ledger(), end, unread)


def carry_on(archive: Archive, source: Source, reason: str, deadline: float) -> None:
    """Archive the ledger of the whole session, every message looked at; what `deadline` leaves is for the next time."""
    ledger, place = _newest(archive, source)
    messages = enumerate(read_from(source.path, source.kind, place.offset), place.turn)
    for number, block in enumerate(blocks_of(messages), start=1):
        ledger = _add(ledger, source.kind, block)
        late = time.monotonic() > deadline
        if late or block.is_last or number % _EVERY == 0:
            keep_ledger(archive, source, ledger, _behind(source, block.messages[-1]), reason=reason)
        if late:
            return


def keep_ledger(
    archive: Archive, source: Source, ledger: Ledger, place: Place, *, reason: str, of: str = "", unread: int = 0
) -> None:
    """Archive a ledger that reaches to this place; where it leaves messages out only that, and nothing builds on it."""
    notes = [f"{unread:,} messages were not looked at: there was no time for them"] if unread else []
    turns = [[ledger.first, ledger.end]]
    more: RecordData = {} if unread else {"ledger": to_json(ledger)}
    keep(archive, source, REMINDER, place, reason=reason, of=of, turns=turns, notes=notes, more=more)


def _newest(archive: Archive, source: Source) -> tuple[Ledger | None, Place]:
    """The newest ledger that is archived, and how far it reaches."""
    record = newest_record(archive, source, REMINDER, "ledger")
    if record is None:
        return None, Place()
    return from_json(record.data["ledger"]), Place.of(record.data.get("place"))


def _worth_reading(source: Source, place: Place) -> tuple[list[_Turn], Place]:
    """The messages behind a place that are looked at while a client waits, and the place behind all of them."""
    whole = source.path.stat().st_size - _WHOLE
    older, newer, last = list[_Turn](), list[_Turn](), None
    for last in enumerate(read_from(source.path, source.kind, place.offset), place.turn):
        if last[1].end > whole:
            newer.append(last)
        elif _is_talk(last[1].message):
            older.append(last)
    return [*_asked_and_answered(older), *newer], place if last is None else _behind(source, last)


def _behind(source: Source, last: _Turn) -> Place:
    turn, said = last
    return place_at(source.path, said.end, turn + 1)


def _add(ledger: Ledger | None, kind: Kind, block: Block) -> Ledger:
    """The ledger with what a block leaves behind."""
    turns, messages = zip(*block.messages, strict=True)
    views, kept = _work_in(short_views_of(kind, messages), turns)
    return gather(views, prior=ledger, turns=kept)


# -- blocks ------------------------------------------------------------------------------------------------------------


def blocks_of(messages: Iterable[_Turn]) -> Iterator[Block]:
    """The messages in blocks that end where a person speaks; where none does for long, behind a tool's answer."""
    block: list[_Turn] = []
    size = 0
    for turn, said in messages:
        length = max(len(block) / _BLOCK, size / _BLOCK_SIZE)
        behind_answer = length >= _MOST and is_answer(block[-1][1].message) and not is_answer(said.message)
        if behind_answer or (length >= 1 and _is_persons(said)):
            yield Block(block)
            block, size = [], 0
        block.append((turn, said))
        size += min(said.end - said.start, _ANSWER) if is_answer(said.message) else said.end - said.start
    if block:
        yield Block(block, is_last=True)


def _is_persons(said: Said) -> bool:
    return said.origin is None and said.message.get("role") == "user" and _is_talk(said.message)


def _is_talk(message: Message) -> bool:
    """Whether a message only speaks: no call of a tool, and no answer of one."""
    return message.get("type", "message") == "message" and not _kinds(message) & {"tool_use", "tool_result"}


def is_answer(message: Message) -> bool:
    """Whether a message is a tool's answer."""
    return str(message.get("type")).endswith("_output") or "tool_result" in _kinds(message)


def _kinds(message: Message) -> set[Any]:
    """The kinds of its blocks."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return {str(part.get("type")) for part in parts if isinstance(part, dict)}


def _asked_and_answered(talk: Sequence[_Turn]) -> list[_Turn]:
    """What people said, and what the assistant said last before they spoke."""
    kept: list[_Turn] = []
    follows = True  # a person
    for turn, said in reversed(talk):
        speaks = said.message.get("role") == "user"
        kept += [(turn, said)] if speaks or follows else []
        follows = speaks
    return kept[::-1]


def _work_in(views: Sequence[View], turns: Sequence[int]) -> tuple[list[View], list[int]]:
    """The views without the summaries that the model wrote as one more message.

    Codex keeps that message in front of the compaction it was written for. It answers nobody's request.
    """
    drafts = {
        i
        for i, (view, following) in enumerate(pairwise(views))
        if following.origin == "summary" and view.origin == "model" and view.text.strip() in following.text
    }
    kept = [i for i in range(len(views)) if i not in drafts]
    return [views[i] for i in kept], [turns[i] for i in kept]
