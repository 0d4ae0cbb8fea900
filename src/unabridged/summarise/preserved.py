"""What people wrote, kept word for word beside the summary: newest first, as much as a budget holds, each message
labelled open or finished so that nothing answered is taken up again."""  # noqa: D205, D209 - one promise, two lines

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from unabridged.intent import own_words
from unabridged.languages import labels
from unabridged.messages import View
from unabridged.texts import cut_middle, fenced

SMALLEST = 48
"""Tokens below which a shortened message says nothing any more."""

_NOTE = "[… the middle of this message of {tokens} tokens is left out …]"


@dataclass(frozen=True, slots=True)
class Preserved:
    """The text for the summary turn, and which of the views it holds in full, shortened, or not at all."""

    text: str = ""
    whole: tuple[int, ...] = ()
    shortened: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()


def preserve_user_messages(
    views: Sequence[View],
    budget: int,
    count: Callable[[str], int],
    *,
    still_open: Collection[int] = (),
    turns: Sequence[int] = (),
    language: str = "",
) -> Preserved:
    """People's messages, newest first up to `budget` tokens; the newest that does not fit is cut to head and tail.

    Summary turns, observations and host notes are nobody's words and stay out. `still_open` are the indices of what
    people still wait for (`ledger.gather.open_indices`); everything else is labelled finished. Rendered oldest first.
    """
    numbers, words = turns or range(len(views)), labels(language)
    said = {i: own_words(view.text) for i, view in enumerate(views) if view.is_request and view.text.strip()}
    entries: dict[int, str] = {}
    shortened: list[int] = []
    left = budget
    for i, text in reversed(said.items()):
        label = f"[{numbers[i]}] {words['is_open' if i in still_open else 'is_finished']}:"
        entry = f"{label}\n{fenced(text)}"
        size = count(entry) + 1
        if size > left:
            room = left - count(f"{label}\n{fenced('')}") - 2
            if room < SMALLEST:
                break
            entry = f"{label}\n{fenced(cut_middle(text, room, count, _NOTE))}"
            shortened.append(i)
        entries[i] = entry
        left -= count(entry) + 1
        if shortened:
            break
    kept = sorted(entries)
    return Preserved(
        "\n".join(entries[i] for i in kept),
        tuple(i for i in kept if i not in shortened),
        tuple(shortened),
        tuple(i for i in said if i not in entries),
    )
