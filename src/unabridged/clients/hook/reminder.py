"""What the context gets after a client's compaction: what its summary may have lost, word for word.

Standing rules, open and interrupted requests, what is finished, the files changed, and how to read the rest: by rule,
from the session itself, in the conversation's language. The ledger goes on from the one of the last compaction, so that
this, too, costs what is new.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Any, Final, NamedTuple

from unabridged.archive.protocol import Archive, RecordData
from unabridged.clients.hook.copying import keep, newest_record, short_views_of
from unabridged.clients.hook.log import log
from unabridged.clients.hook.transcript import Place, Said, Source, place_at, read_from
from unabridged.errors import ArchiveError
from unabridged.languages import labels
from unabridged.ledger.entries import Ledger, from_json, to_json
from unabridged.ledger.gather import gather
from unabridged.ledger.sections import Sections
from unabridged.ledger.summary_turn import NAMES, render
from unabridged.messages import View
from unabridged.text_tools import quote

REMINDER: Final = "reminder"
BUDGET: Final = 2_300
"""Tokens of it, about four bytes each: Claude Code puts what has more than 10,000 characters into a file."""
ALONE: Final = 6_000
"""The same where no summary of the client's stands beside it."""
_BLOCK: Final = 200
"""Messages that are gathered at once, about: some of it takes time by their square."""
_WHOLE: Final = 8_000_000
"""Bytes at the end of a file that are looked at whole; of what is before, only what people said and were answered."""
_LONGEST: Final = 15.0
"""Seconds after which only the newest blocks are looked at."""
_NEWEST: Final = 3
"""How many."""
_FINISHED: Final = 12
"""Finished requests that are named, the newest."""
_WIDTH: Final = 160
"""Characters of a finished request."""
_UNWANTED: Final = ("names", "checks", "own_words")


_Turn = tuple[int, Said]
"""A message, and its turn."""


class Read(NamedTuple):
    """What the whole session leaves behind, how far that reaches, and how many messages there was no time for."""

    ledger: Ledger
    place: Place
    unread: int


def remind(archive: Archive, source: Source, reason: str, *, alone: bool = False) -> str:
    """The text for the context, archived with what it was made from; empty where there is nothing to say.

    `alone`: it stands in the place of the client's summary, so it tells what was done as well, or is not given at all.
    """
    ledger, place, unread = read_ledger(archive, source, time.monotonic() + _LONGEST)
    if (not ledger.requests and not ledger.rules) or (alone and unread):
        return ""
    text = write_alone(ledger) if alone else write(ledger)
    turns = [[ledger.first, ledger.end]]
    notes = [f"{unread:,} messages were not looked at: there was no time for them"] if unread else []
    more: RecordData = {"ledger": to_json(ledger)}
    try:
        keep(archive, source, REMINDER, place, reason=reason, of=text, turns=turns, notes=notes, more=more)
    except ArchiveError as error:  # the text is none the worse for it: the next one is made from the beginning
        log(f"{source.thread}: what the context is told is not in the archive: {error}")
    return text


def read_ledger(archive: Archive, source: Source, deadline: float) -> Read:
    """The newest ledger that is archived, and what came since. After `deadline`, only what is newest is looked at."""
    record = newest_record(archive, source, REMINDER)
    ledger = from_json(record.data["ledger"]) if record is not None else None
    place = Place.of(record.data.get("place")) if record is not None else Place()
    whole = source.path.stat().st_size - _WHOLE
    older, newer, last = list[_Turn](), list[_Turn](), None
    for last in enumerate(read_from(source.path, source.kind, place.offset), place.turn):
        if last[1].end > whole:
            newer.append(last)
        elif _is_talk(last[1].message):
            older.append(last)
    if last is None:
        return Read(ledger or Ledger(), place, 0)
    unread = 0
    blocks = list(_blocks([*_asked_and_answered(older), *newer]))
    for i, (block, more) in enumerate(blocks):
        if i < len(blocks) - _NEWEST and time.monotonic() > deadline:
            unread += len(block)
            continue
        views, turns = _work_in(short_views_of(source.kind, [said for _, said in block]), [turn for turn, _ in block])
        ledger = gather(views, prior=ledger, turns=turns, answered=more or _ends_a_turn(views))
    return Read(ledger or Ledger(), place_at(source.path, last[1].end, last[0] + 1), unread)


def _asked_and_answered(talk: Sequence[_Turn]) -> list[_Turn]:
    """What people said, and what the assistant said last before they spoke."""
    kept: list[_Turn] = []
    follows = True  # a person
    for turn, said in reversed(talk):
        speaks = said.message.get("role") == "user"
        kept += [(turn, said)] if speaks or follows else []
        follows = speaks
    return kept[::-1]


def _is_talk(message: dict[str, Any]) -> bool:
    """Whether a message only speaks: no call of a tool, and no answer of one."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    kinds = {part.get("type") for part in parts if isinstance(part, dict)}
    return message.get("type", "message") == "message" and not kinds & {"tool_use", "tool_result"}


def _blocks(messages: Sequence[_Turn]) -> Iterator[tuple[list[_Turn], bool]]:
    """The messages in blocks, and whether a person speaks behind each."""
    block: list[_Turn] = []
    for turn, said in messages:
        speaks = said.origin is None and said.message.get("role") == "user" and _is_talk(said.message)
        if len(block) >= _BLOCK and speaks:
            yield block, True
            block = []
        block.append((turn, said))
    if block:
        yield block, False


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


def _ends_a_turn(views: Sequence[View]) -> bool:
    """Whether the assistant spoke last, and called no tool: then it was done with what was asked last."""
    spoken = (view for view in reversed(views) if view.origin not in {"summary", "host"})
    last = next(spoken, None)
    return last is not None and last.origin == "model" and bool(last.text) and not last.calls


def write_alone(ledger: Ledger) -> str:
    """The ledger as the one summary of the conversation, within a larger budget."""
    told = _opening(ledger)
    return f"{told}\n\n{render(ledger, ALONE - _tokens(told) - 2, _tokens).text()}"


def _opening(ledger: Ledger) -> str:
    words = labels(ledger.language)
    return f"[unabridged] {words['compacted'].format(first=0, last=max(ledger.end - 1, 0))} {words['recall']}"


def write(ledger: Ledger) -> str:
    """The ledger as the context gets it beside the client's summary, within the budget."""
    words, told = labels(ledger.language), _opening(ledger)
    finished = _finished(ledger, words["finished"])
    room = BUDGET - _tokens(told) - _tokens(finished) - 4
    # Beside prose, which the client's own summary is: so only what people want and what changed.
    sections = render(ledger, room, _tokens, prose=" ", without=_UNWANTED).sections
    wanted = (sections.get(name, "") for name in ("open", "rules"))
    rest = (text for name, text in sections.items() if name not in {"open", "rules"})
    text = "\n\n".join(text.strip() for text in (told, *wanted, finished, *rest) if text.strip())
    return f"{text}{_names(ledger, text, words['names'])}"


def _names(ledger: Ledger, told: str, heading: str) -> str:
    """The names that the next steps may have to spell and that are not told yet, in what is left of the budget.

    They are what a summary loses most of.
    """
    sections = Sections(ledger, _tokens, (), inf)
    sections.know(told)
    room = BUDGET - _tokens(told) - _tokens(heading) - 4
    names = sections.names(min(room, NAMES))
    return f"\n\n## {heading}\n{names}" if names else ""


def _finished(ledger: Ledger, heading: str) -> str:
    done = [request for request in ledger.finished if request.state == "finished" and request.kind == "new"]
    lines = [f"- [{request.turn}] {quote(request.text, _WIDTH)}" for request in done[-_FINISHED:]]
    return "\n".join([f"## {heading}", *lines]) if lines else ""


def _tokens(text: str) -> int:
    """About as many as any model counts: four bytes each, so that there are never more characters than four times."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4
