"""The ledger of a session: what all of it leaves behind, carried on from the newest one that is archived.

It is made in blocks. When a client waits and there is no time for all of them, the first and the newest are looked at:
that ledger is used and not archived. A process that nobody waits for then looks at everything (`complete_ledger`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from unabridged.archive.protocol import Archive, RecordData
from unabridged.messages import View
from unabridged.summary.gather import gather_ledger
from unabridged.summary.ledger import Ledger, from_json, to_json
from unabridged_cli.clients.hook import transcript
from unabridged_cli.clients.hook.session_copy import build_short_views, find_newest_record, read_position, store_record

REMINDER_KIND: Final = "reminder"
"""The kind of a record of what a context was given, or of a ledger."""
_BLOCK_MESSAGES, _BLOCK_CHARACTERS = 200, 400_000
"""What is gathered at once, about: some of it takes time by its square."""
_MAX_BLOCK_LENGTH: Final = 5
"""How many times that, where nobody speaks at whose words a block could end."""
_ANSWER_CHARACTERS: Final = 2_000
"""Characters of a tool's answer that count for the size of a block: no more are looked at."""
_TAIL_BYTES: Final = 8_000_000
"""Bytes at the end of a file that are looked at whole; of what is before, only what people said and were answered."""
_NEWEST_BLOCKS_READ: Final = 3
"""Blocks that are always looked at, besides the first."""
_BLOCKS_PER_RECORD: Final = 20
"""Blocks after which a ledger is archived that nobody waits for."""

NumberedMessage = tuple[int, transcript.TranscriptMessage]
"""A message, behind its turn."""


class SessionLedger(NamedTuple):
    """The ledger of a whole session, the position it reaches to, and how many messages were skipped for time."""

    ledger: Ledger
    end: transcript.FilePosition
    unread: int


def read_ledger(archive: Archive, session: transcript.HookSession, deadline: float) -> SessionLedger:
    """Return the newest archived ledger, extended by later messages; after `deadline` only by the newest ones."""
    ledger, position = _read_newest_ledger(archive, session)
    messages, end = _select_relevant_messages(session, position)
    blocks = list(split_into_blocks(messages))
    unread = 0
    for number, block in enumerate(blocks):
        if 0 < number < len(blocks) - _NEWEST_BLOCKS_READ and time.monotonic() > deadline:
            unread += len(block)
        else:
            ledger = _extend_ledger(ledger, session.kind, block)
    return SessionLedger(ledger or Ledger(), end, unread)


def complete_ledger(archive: Archive, session: transcript.HookSession, reason: str, deadline: float) -> None:
    """Extend the archived ledger by all new messages, saving it now and then; stop at `deadline`."""
    ledger, position = _read_newest_ledger(archive, session)
    messages = enumerate(transcript.read_messages_from(session.path, session.kind, position.offset), position.turn)
    unsaved: SessionLedger | None = None
    for number, block in enumerate(split_into_blocks(messages), start=1):
        ledger = _extend_ledger(ledger, session.kind, block)
        unsaved = SessionLedger(ledger, _position_after(session, block[-1]), 0)
        is_late = time.monotonic() > deadline
        if is_late or number % _BLOCKS_PER_RECORD == 0:
            archive_ledger(archive, session, unsaved, reason)
            unsaved = None
        if is_late:
            return
    if unsaved is not None:
        archive_ledger(archive, session, unsaved, reason)


def archive_ledger(
    archive: Archive, session: transcript.HookSession, new: SessionLedger, reason: str, made_of: str = ""
) -> None:
    """Archive a ledger and how far it reaches; if messages were skipped, archive only that fact."""
    ledger, position, unread = new
    notes = [f"{unread:,} messages were not looked at: there was no time for them"] if unread else []
    turns = [[ledger.first, ledger.end]]
    data: RecordData = {} if unread else {"ledger": to_json(ledger)}
    made: dict[str, Any] = {"reason": reason, "made_of": made_of, "turns": turns, "notes": notes, "data": data}
    store_record(archive, session, REMINDER_KIND, position, **made)


def _read_newest_ledger(
    archive: Archive, session: transcript.HookSession
) -> tuple[Ledger | None, transcript.FilePosition]:
    """Return the newest ledger that is archived, and how far it reaches."""
    record = find_newest_record(archive, session, REMINDER_KIND, "ledger")
    return None if record is None else from_json(record.data["ledger"]), read_position(record)


def _select_relevant_messages(
    session: transcript.HookSession, position: transcript.FilePosition
) -> tuple[list[NumberedMessage], transcript.FilePosition]:
    """Return the messages after a position that are read while a client waits, and the position after the last one."""
    tail = session.path.stat().st_size - _TAIL_BYTES
    older, newer, last = list[NumberedMessage](), list[NumberedMessage](), None
    for last in enumerate(transcript.read_messages_from(session.path, session.kind, position.offset), position.turn):
        if last[1].end > tail:
            newer.append(last)
        elif _is_without_tools(last[1].message):
            older.append(last)
    return [*_select_prompts_and_answers(older), *newer], position if last is None else _position_after(session, last)


def _position_after(session: transcript.HookSession, last: NumberedMessage) -> transcript.FilePosition:
    turn, message = last
    return transcript.build_position(session.path, message.end, turn + 1)


def _extend_ledger(ledger: Ledger | None, kind: transcript.TranscriptKind, block: Sequence[NumberedMessage]) -> Ledger:
    """Return the ledger extended by what a block of messages contains."""
    views = build_short_views(kind, [message for _, message in block])
    kept = _exclude_summary_drafts(views)
    return gather_ledger([views[i] for i in kept], prior=ledger, turns=[block[i][0] for i in kept])


# -- blocks ------------------------------------------------------------------------------------------------------------


def split_into_blocks(messages: Iterable[NumberedMessage]) -> Iterator[list[NumberedMessage]]:
    """Yield the messages in blocks that end where a person speaks; where none does for long, behind a tool's answer."""
    block: list[NumberedMessage] = []
    size = 0
    for turn, message in messages:
        length = max(len(block) / _BLOCK_MESSAGES, size / _BLOCK_CHARACTERS)
        is_after_answer = length >= _MAX_BLOCK_LENGTH and is_tool_result(block[-1][1].message)
        if (is_after_answer and not is_tool_result(message.message)) or (length >= 1 and _is_from_person(message)):
            yield block
            block, size = [], 0
        block.append((turn, message))
        size += min(message.size, _ANSWER_CHARACTERS) if is_tool_result(message.message) else message.size
    if block:
        yield block


def _is_from_person(message: transcript.TranscriptMessage) -> bool:
    return message.origin is None and message.message.get("role") == "user" and _is_without_tools(message.message)


def _is_without_tools(message: transcript.Message) -> bool:
    """Return whether a message has text only: no tool call and no tool result."""
    return message.get("type", "message") == "message" and not _list_part_types(message) & {"tool_use", "tool_result"}


def is_tool_result(message: transcript.Message) -> bool:
    """Return whether a message is a tool's answer."""
    return str(message.get("type")).endswith("_output") or "tool_result" in _list_part_types(message)


def _list_part_types(message: transcript.Message) -> set[Any]:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return {str(part.get("type")) for part in parts if isinstance(part, dict)}


def _select_prompts_and_answers(talk: Sequence[NumberedMessage]) -> list[NumberedMessage]:
    """Return the messages of people, and the assistant's last message before each of them."""
    kept: list[NumberedMessage] = []
    is_before_person = True
    for turn, message in reversed(talk):
        is_person = message.message.get("role") == "user"
        kept += [(turn, message)] if is_person or is_before_person else []
        is_before_person = is_person
    return kept[::-1]


def _exclude_summary_drafts(views: Sequence[View]) -> list[int]:
    """Return the indices of all views except drafts of summaries.

    Codex keeps the model's summary as a message in front of the compaction that it was written for.
    """

    def is_draft(view: View, following: View) -> bool:
        is_pair = (view.origin, following.origin) == ("model", "summary")
        return is_pair and view.text.strip() in following.text

    drafts = {i for i, pair in enumerate(pairwise(views)) if is_draft(*pair)}
    return [i for i in range(len(views)) if i not in drafts]
