"""The texts that a reader compares: ours, a plain prompt's, and any that were brought; and where it is cut for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unabridged.errors import SettingsError, SummaryFailed
from unabridged.summarise.prompt import draw_key
from unabridged_corpus.evaluate.arms import shortener, summary_in
from unabridged_corpus.evaluate.data import Conversation
from unabridged_corpus.evaluate.reader import Voice, part, set_off, shown
from unabridged_corpus.evaluate.score import cuts

AFTER = 40
"""Messages after the cut that a reader is shown."""
OWN = ("unabridged", "model", "plain")
"""What the candidates are called that are made here."""

_FRAME = re.compile(r"^\[unabridged summary [^\n]*\n|^\[end of summary [^\]\n]*\]", re.MULTILINE)
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Candidates:
    """What stands in for the past in each case, by name; and the messages that stay beside it, whoever wrote it."""

    texts: Mapping[str, str]
    stays: Sequence[int]


def place_to_cut(conversation: Conversation, window: int) -> int | None:
    """Where its file says; else the last place where a window is full and enough follows. None where none is full."""
    full = cuts(conversation.messages, window)
    places = [place for place in full if len(conversation.messages) - place >= AFTER]
    place = conversation.cut or next(iter(places[-1:] or full), None)
    while place is not None and place < len(conversation.views) - 1 and conversation.views[place].answers:
        place += 1  # a call and its answers stay together
    return place


def candidates(
    conversation: Conversation, place: int, budget: int, writer: Voice | None, texts: Mapping[str, Path]
) -> Candidates:
    """Every text that can be made or found for this conversation."""
    brought = dict(_brought(conversation, texts))  # before anything is paid for
    before = list(conversation.messages[:place])
    done = shortener(None, budget)(before, conversation.name)
    kept = {id(message) for message in done.messages}
    found = {"unabridged": _body(done.messages, conversation.format)}
    if writer is not None:
        with_prose = shortener(writer.model, budget, writer.pay)(before, conversation.name)
        if with_prose.receipt is None or with_prose.receipt.summariser == "model-free":
            raise SummaryFailed(f"{writer.asker.name} gave no summary of {conversation.name}")
        found["model"] = _body(with_prose.messages, conversation.format)
        found["plain"] = _plain(conversation, place, len(found["model"]), writer)
    return Candidates(found | brought, [i for i, message in enumerate(before) if id(message) in kept])


def file_name(name: str) -> str:
    """The name of a conversation as that of a file."""
    return _UNSAFE.sub("-", name).strip(".-")[:100] or "conversation"


def _body(messages: Sequence[Any], format_: str) -> str:
    """Our summary turn without the frame that says whose it is."""
    return _FRAME.sub("", summary_in(messages, format_)).strip()


def _plain(conversation: Conversation, place: int, characters: int, writer: Voice) -> str:
    """What the same model makes of the whole conversation when it is asked in three sentences."""
    text = shown(conversation.views[:place], 0, writer.room)
    key = draw_key(text)
    reply = writer.ask(
        f"{part('plain', key=key, characters=f'{characters:,}')}\n\n{set_off('conversation', text, key)}"
    )
    if reply.stop not in {"end", None} or not reply.text.strip():
        raise SummaryFailed(f"{writer.asker.name} gave no plain summary of {conversation.name} ({reply.stop})")
    return reply.text.strip()


def _brought(conversation: Conversation, texts: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """The texts that were brought: in each folder the file that is named after the conversation."""
    for name, folder in texts.items():
        files = [folder / f"{file_name(conversation.name)}{suffix}" for suffix in (".md", ".txt")]
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            raise SettingsError(f"there is no text {name!r} for {conversation.name}: expected {files[0]}")
        yield name, file.read_text(encoding="utf-8", errors="replace").strip()
