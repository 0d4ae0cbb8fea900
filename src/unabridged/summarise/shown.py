"""What the summariser is shown of a conversation: plain text, split to fit its window, set off as data.

Every message begins with a line that carries a key drawn for this ask alone. Whatever stands in a message, a forged
header or a forged end of the data lacks the key: one that a text contains is never used. It is short, because every
message pays for it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from unabridged.messages import Media, View

Count = Callable[[str], int]

_KEY = "\x00key\x00"
"""Stands for the key until one is drawn; removed from any text that holds it."""
_UNSENDABLE = re.compile("[\ud800-\udfff]|\x00")
_SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789"
_WHO = {
    "person": "user",
    "model": "assistant",
    "tool": "tool",
    "host": "host",
    "summary": "summary",
    "unknown": "unknown",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """One message, or a part of one, as the summariser reads it."""

    text: str
    tokens: int


def describe(media: Media, turn: int) -> str:
    """An image or file in words: its kind, its size or address, and the message it stood in."""
    parts = [media.kind, media.mime if media.mime != media.kind else "", media.name]
    if media.source.startswith(("http://", "https://", "file", "gs://", "s3://")) and len(media.source) <= 300:
        parts.append(media.source)
    elif media.source:
        data = media.source.partition("base64,")[2] or media.source
        size = len(data) * 3 // 4
        parts.append(f"{size / 1_000:,.0f} kB" if size >= 1_000 else f"{size} bytes")
    return f"[{' '.join(part for part in parts if part)}, turn {turn}]"


def pieces(views: Sequence[View], turns: Sequence[int], count: Count, room: int) -> list[Piece]:
    """Every message as one piece, in order; one that is larger than `room` tokens as several."""
    names = {call.id: call.name for view in views for call in view.calls}
    found: list[Piece] = []
    for view, turn in zip(views, turns, strict=True):
        for who, text in _parts(view, turn, names):
            found += _pieces(f"{_KEY} [{turn}] {who}", sendable(text), count, room)
    return found


def _parts(view: View, turn: int, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What a message says, by whose words they are: thinking, text, calls, what is attached, answers, media."""
    who = _WHO[view.origin]
    thought = "\n".join(block.text for block in view.reasoning if block.text)
    if thought:
        yield f"{who}, thinking", thought
    media = "\n".join(describe(item, turn) for item in view.media)
    said = "\n".join(part for part in (view.text, media) if part)
    if said:
        yield who, said
    for call in view.calls:
        yield f"{who} calls {_name(call.name)}", call.arguments
    for text in view.attached:
        yield "tool of the provider" if who == "assistant" else f"attached, not the words of the {who}", text
    for answer in view.answers:
        failed = ", an error" if answer.error else ""
        tool = _name(names.get(answer.call_id, ""))
        yield f"tool {tool} answers{failed}" if tool else f"tool answers{failed}", answer.text


def _name(name: str) -> str:
    """A tool's name as it may stand in a header: on one line, and no longer than names are."""
    return sendable(" ".join(name.split()))[:80]


def _pieces(header: str, text: str, count: Count, room: int) -> Iterator[Piece]:
    whole = f"{header}\n{text}\n"
    size = count(whole)
    if size <= room:
        yield Piece(whole, size)
        return
    part = 1
    while text:
        label = f"{header}, part {part}\n"
        end = _fitting(text, room - count(label) - 2, count)
        piece = f"{label}{text[:end]}\n"
        yield Piece(piece, count(piece))
        text, part = text[end:], part + 1


def _fitting(text: str, room: int, count: Count) -> int:
    """How many characters of the text take at most `room` tokens; at least one, and whole lines or words."""
    end = min(len(text), max(1, room * 4))
    while end > 1 and (size := count(text[:end])) > room:
        end = max(1, min(end - 1, int(end * room / size * 0.97)))
    if end == len(text):
        return end
    for mark in "\n ":
        if (found := text.rfind(mark, end * 3 // 4, end)) > 0:
            return found + 1
    return end


def packed(found: Sequence[Piece], room: int) -> list[list[Piece]]:
    """The pieces in runs of at most `room` tokens, in order, each piece in one of them."""
    runs: list[list[Piece]] = []
    left = 0
    for piece in found:
        if not runs or piece.tokens > left:
            runs.append([])
            left = room
        runs[-1].append(piece)
        left -= piece.tokens
    return runs


def newest(found: Sequence[Piece], most: int) -> list[Piece]:
    """The last pieces, of at most `most` tokens together."""
    kept: list[Piece] = []
    for piece in reversed(found):
        most -= piece.tokens
        if most < 0:
            break
        kept.append(piece)
    return kept[::-1]


def draw_key(*texts: str) -> str:
    """A short mark drawn at random that none of these texts contains, so that nothing in them can be taken for ours."""
    tries = 0
    while True:
        tail = "".join(secrets.choice(_SIGNS) for _ in range(2 + tries // 8))
        key = f"{secrets.choice(_SIGNS[:26])}{secrets.choice(_SIGNS[26:])}{tail}"
        if not any(key in text for text in texts):
            return key
        tries += 1


def marks(key: str) -> tuple[str, ...]:
    """How the key stands in data: a reply with one of these repeats what it was shown."""
    return (f"#{key} [", f" {key}>") if key else ()


def data(label: str, texts: Sequence[str], key: str) -> str:
    """The texts between two lines that carry the key; keyed headers inside get it too."""
    body = "\n".join(text.strip("\n") for text in texts).replace(_KEY, f"#{key}")
    return f"<{label} {key}>\n{body}\n</{label} {key}>"


def sendable(text: str) -> str:
    """The text without what no HTTP client could send."""
    return _UNSENDABLE.sub("\ufffd", text)
