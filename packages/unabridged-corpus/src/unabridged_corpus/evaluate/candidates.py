"""Make the texts that a reader compares: ours, a plain prompt's, and any that the caller brings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unabridged.errors import SettingsError, SummaryFailed
from unabridged.summary.prompt import draw_key
from unabridged_corpus.evaluate.arms import build_shortener, find_summary_text
from unabridged_corpus.evaluate.data import EvalConversation
from unabridged_corpus.evaluate.reader import ReadingModel, fill_prompt_part, render_conversation, wrap_in_tags
from unabridged_corpus.evaluate.score import find_cuts

MESSAGES_AFTER = 40
"""Messages after the cut that a reader is shown."""
OWN_NAMES = ("unabridged", "model", "plain")
"""The names of the candidates that are made here."""

_FRAME_PATTERN = re.compile(r"^\[unabridged summary [^\n]*\n|^\[end of summary [^\]\n]*\]", re.MULTILINE)
_UNSAFE_CHARACTER_PATTERN = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Candidates:
    """The texts in place of what is before the cut, by name; and the indices of the messages that stay beside each."""

    conversation: EvalConversation
    place: int
    """Where it is cut: the number of messages before."""
    texts: Mapping[str, str]
    stays: Sequence[int]


def choose_cut(conversation: EvalConversation, window: int) -> int | None:
    """Return where to cut: as the file says, else at the last full window with enough after it; else None."""
    full = find_cuts(conversation.messages, window)
    places = [place for place in full if len(conversation.messages) - place >= MESSAGES_AFTER]
    place = conversation.cut or next(iter(places[-1:] or full), None)
    while place is not None and place < len(conversation.views) - 1 and conversation.views[place].answers:
        place += 1  # a call and its answers stay together
    return place


def make_candidates(
    conversation: EvalConversation, place: int, budget: int, writer: ReadingModel | None, texts: Mapping[str, Path]
) -> Candidates:
    """Return every text that can be made or found for this conversation."""
    brought = dict(_read_given_texts(conversation, texts))  # before anything is paid for
    before = list(conversation.messages[:place])
    done = build_shortener(None, budget)(before, conversation.name)
    kept = {id(message) for message in done.messages}
    found = {"unabridged": _read_summary_body(done.messages, conversation.format)}
    if writer is not None:
        with_prose = build_shortener(writer.model, budget, writer.add_spending)(before, conversation.name)
        if with_prose.receipt is None or with_prose.receipt.summariser == "model-free":
            raise SummaryFailed(f"{writer.asker.name} gave no summary of {conversation.name}")
        found["model"] = _read_summary_body(with_prose.messages, conversation.format)
        found["plain"] = _ask_plain_summary(conversation, place, len(found["model"]), writer)
    stays = [i for i, message in enumerate(before) if id(message) in kept]
    return Candidates(conversation, place, found | brought, stays)


def conversation_to_file_name(name: str) -> str:
    """Return the name of a conversation as that of a file."""
    return _UNSAFE_CHARACTER_PATTERN.sub("-", name).strip(".-")[:100] or "conversation"


def _read_summary_body(messages: Sequence[Any], format_: str) -> str:
    """Return our summary turn without the frame that says whose it is."""
    return _FRAME_PATTERN.sub("", find_summary_text(messages, format_)).strip()


def _ask_plain_summary(conversation: EvalConversation, place: int, characters: int, writer: ReadingModel) -> str:
    """Return what the same model makes of the whole conversation when it is asked in three sentences."""
    text = render_conversation(conversation.views[:place], 0, writer.room)
    key = draw_key(text)
    reply = writer.ask(
        f"{fill_prompt_part('plain', key=key, characters=f'{characters:,}')}\n\n"
        f"{wrap_in_tags('conversation', text, key)}"
    )
    if reply.stop not in {"end", None} or not reply.text.strip():
        raise SummaryFailed(f"{writer.asker.name} gave no plain summary of {conversation.name} ({reply.stop})")
    return reply.text.strip()


def _read_given_texts(conversation: EvalConversation, texts: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Yield the texts that were brought: in each folder the file that is named after the conversation."""
    for name, folder in texts.items():
        files = [folder / f"{conversation_to_file_name(conversation.name)}{suffix}" for suffix in (".md", ".txt")]
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            raise SettingsError(f"there is no text {name!r} for {conversation.name}: expected {files[0]}")
        yield name, file.read_text(encoding="utf-8", errors="replace").strip()
