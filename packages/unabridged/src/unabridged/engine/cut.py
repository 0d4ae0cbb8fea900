"""Find where a conversation may be cut, and where it should be. Pure: views and sizes in, indices out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import NamedTuple

from unabridged.legality import find_unanswered_round
from unabridged.marks import is_trusted_summary
from unabridged.messages import View

_LEAST_SHARE_OF_CEILING, _LEAST_SHARE_OF_AMOUNT = 1 / 3, 2 / 3
"""What a tail that begins with a person's message must have of the longest one: below a ceiling, and of an amount."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The messages at `gone`, which go; everything else stays, in order. The tail begins at `tail`."""

    gone: tuple[int, ...]
    tail: int
    asked: int = 0
    """Where the tail would begin if there were room for all that was asked for."""


def find_safe_indices(views: Sequence[View]) -> list[int]:
    """Return every index at which the list can be cut: no call from its answer, no reasoning from its reply."""
    inside = zip(_find_inside_rounds(views), _find_inside_replies(views), strict=True)
    return [i for i, (in_round, in_reply) in enumerate(inside) if not (in_round or in_reply)]


def _find_inside_rounds(views: Sequence[View]) -> list[bool]:
    """Return for each index whether a cut there would separate a call from its answer.

    Ids may be reused: the newest call counts. In a text protocol, where an observation answers in a `user` turn, the
    index between it and the action before it is inside, too.
    """
    opened = [0] * (len(views) + 2)
    asked: dict[str, int] = {}
    last = -1  # the last message that is no system message
    for i, view in enumerate(views):
        for answer in view.answers:
            if answer.call_id in asked:
                opened[asked[answer.call_id] + 1] += 1
                opened[i + 1] -= 1
        asked.update((id_, i) for call in view.calls for id_ in call.ids)
        if view.role == "user" and view.origin == "tool" and not view.answers:
            opened[last + 1] += 1
            opened[i + 1] -= 1
        last = i if view.role != "system" else last
    if (waiting := find_unanswered_round(views)) is not None:  # its results are yet to come
        opened[waiting + 1] += 1
        opened[len(views)] -= 1
    return [depth > 0 for depth in accumulate(opened[: len(views) + 1])]


def _find_inside_replies(views: Sequence[View]) -> list[bool]:
    """Return for each index whether a cut there would separate reasoning from the rest of its reply."""
    inside = [False] * (len(views) + 1)
    for i in range(1, len(views)):
        before = views[i - 1]
        inside[i] = before.glued or (inside[i - 1] and before.role == "assistant" and views[i].role == "assistant")
    return inside


def find_staying_indices(views: Sequence[View], pinned: Collection[int]) -> set[int]:
    """Return the indices that never go: system messages, opaque items, and pins with the whole round they are in.

    Nor does what stands before a provider's own compaction: it takes nothing, and nobody would read what replaces it.
    """
    anchors = {*pinned, *(i for i, view in enumerate(views) if view.opaque and not is_trusted_summary(view))}
    systems = {i for i, view in enumerate(views) if view.role == "system"}
    return systems | expand_to_whole_rounds(views, anchors) | set(range(count_dropped_by_provider(views)))


def count_dropped_by_provider(views: Sequence[View]) -> int:
    """Return how many messages at the beginning a provider drops: those before the last compaction of its own."""
    return next((i for i in range(len(views) - 1, -1, -1) if views[i].resets), 0)


def zero_sizes_dropped_by_provider(views: Sequence[View], sizes: Sequence[int]) -> list[int]:
    """Return the sizes, with nothing for what a provider drops."""
    gone = count_dropped_by_provider(views)
    return [0] * gone + list(sizes[gone:])


def expand_to_whole_rounds(views: Sequence[View], indices: Iterable[int]) -> set[int]:
    """Return the messages at these indices and all that can't be parted from them."""
    safe, whole = find_safe_indices(views), set[int]()
    for index in indices:
        place = bisect_right(safe, index)
        whole.update(range(safe[place - 1], safe[place]))
    return whole


def count_separators(views: Sequence[View], gone: Collection[int], place: int) -> int:
    """Return how often two turns of one side meet when these go and a summary, a user's turn, stands at `place`."""
    lost = set(gone)
    met, last, gap = 0, "", False
    for i, view in enumerate(views):
        if lost and i == place:
            met, last, gap = met + (last == "user"), "user", True
        if i in lost:
            gap = True
        elif view.role != "system":
            side = "assistant" if view.role == "assistant" else "user"
            met, last, gap = met + (gap and side == last), side, False
    return met


class TailLimits(NamedTuple):
    """How much recent conversation is asked for, and how much there is room for; None where a measure has no bound."""

    tokens: int | None = None
    messages: int | None = None
    at_most: bool = False
    """Whether both are ceilings; else messages are a minimum, and a round that is parted stays whole."""
    room: int | None = None
    """The most tokens that the tail may take, whatever is asked for."""
    most: int | None = None
    """The most messages that it may have."""


def plan_cut(
    views: Sequence[View],
    sizes: Sequence[int],
    tail: TailLimits,
    *,
    pinned: Collection[int] = (),
    kept: Collection[int] = (),
) -> Cut | None:
    """Return the cut that keeps what is asked for, as far as there is room; None when nothing could go.

    The last round always stays, and so do the messages in `kept`, wherever they stand.
    """
    safe = find_safe_indices(views)
    stays = find_staying_indices(views, pinned)
    starts = _TailStarts(views, sizes, safe, stays)
    asked = starts.at_most(tail) if tail.at_most else starts.find_start_for_at_least(tail)
    start = starts.find_start_within_room(asked, tail)
    gone = tuple(i for i in range(start) if i not in stays and i not in kept)
    return Cut(gone, start, asked) if gone else None


class _TailStarts:
    """The places at which the tail of a list may begin, and what it takes from each."""

    def __init__(
        self, views: Sequence[View], sizes: Sequence[int], safe: Sequence[int], stays: Collection[int]
    ) -> None:
        self._views = views
        self._safe = [i for i in safe if i < len(views)] or [0]
        self._last = self._safe[-1]
        counts = [i not in stays for i in range(len(views))]
        self._messages = _sum_from_end(map(int, counts))
        self._tokens = _sum_from_end(size * counted_ for size, counted_ in zip(sizes, counts, strict=True))

    def find_start_for_at_least(self, tail: TailLimits) -> int:
        """Return where the tail begins that has so many messages, or so many tokens, with its first round whole."""
        starts = [0]
        if tail.messages is not None:
            enough = (i for i in range(self._last, -1, -1) if self._messages[i] >= tail.messages)
            starts.append(next(enough, 0))
        if tail.tokens is not None:
            inside = [i for i in range(len(self._views)) if self._tokens[i] <= tail.tokens]
            starts.append(min(inside, default=self._last))
        start = max(i for i in self._safe if i <= max(starts))
        if tail.tokens is None or starts[-1] < max(starts):
            return start
        return self._move_to_persons_turn(start, _LEAST_SHARE_OF_AMOUNT)

    def at_most(self, tail: TailLimits) -> int:
        """Return where the longest tail begins that is within both ceilings, with a person's message where it can."""
        ceilings = tail._replace(room=tail.tokens, most=tail.messages)
        return self._move_to_persons_turn(self.find_start_within_room(0, ceilings), _LEAST_SHARE_OF_CEILING)

    def find_start_within_room(self, start: int, tail: TailLimits) -> int:
        """Return the first place from `start` on at which a tail may begin and fits the room."""
        room, most = (inf if bound is None else bound for bound in (tail.room, tail.most))
        fits = (i for i in self._safe if i >= start and self._tokens[i] <= room and self._messages[i] <= most)
        return next(fits, self._last)

    def _move_to_persons_turn(self, start: int, share: float) -> int:
        """Return where a person begins to speak behind `start`, if the tail from there has this share of the tokens."""
        places = (i for i in self._safe if i >= start and _begins_persons_turn(self._views, i))
        boundary = next(places, start)
        return boundary if self._tokens[boundary] >= share * self._tokens[start] else start


def _sum_from_end(sizes: Iterable[int]) -> list[int]:
    """Return what all from each place on take together."""
    return [*accumulate(reversed([*sizes, 0]))][::-1]


def _begins_persons_turn(views: Sequence[View], index: int) -> bool:
    starts = index < len(views) and views[index].origin == "person"
    return starts and (index == 0 or views[index - 1].origin != "person")
