"""People's messages, word for word, newest first as far as a budget goes; all of them are finished requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from unabridged.intent import own_words
from unabridged.languages import labels
from unabridged.messages import View
from unabridged.texts import cut_middle, fenced

SMALLEST = 48
"""Tokens below which a shortened message says nothing any more."""

_NOTE = "[… the middle of this message of {tokens} tokens is left out …]"


class Preserved(NamedTuple):
    """The text for the summary turn, and the numbers of the messages that it holds in full."""

    text: str = ""
    whole: frozenset[int] = frozenset()


def preserve_user_messages(
    numbered: Sequence[tuple[int, View]], budget: int, count: Callable[[str], int], language: str = ""
) -> Preserved:
    """People's messages, newest first up to `budget` tokens; the newest that does not fit is cut to head and tail.

    Summary turns, observations and host notes are nobody's words and stay out. Each is labelled finished, so that it is
    not taken up again: what is open stands in the ledger. Rendered oldest first.
    """
    entries: list[str] = []
    whole: set[int] = set()
    for turn, view in reversed(numbered):
        if not view.is_request or not view.text.strip():
            continue
        text, label = own_words(view.text), f"[{turn}] {labels(language)['is_finished']}:"
        entry = f"{label}\n{fenced(text)}"
        if fits := count(entry) + 1 <= budget:
            whole.add(turn)
        else:
            room = budget - count(f"{label}\n{fenced('')}") - 2
            if room < SMALLEST:
                break
            entry = f"{label}\n{fenced(cut_middle(text, room, count, _NOTE))}"
        entries.append(entry)
        budget -= count(entry) + 1
        if not fits:
            break
    return Preserved("\n".join(reversed(entries)), frozenset(whole))
