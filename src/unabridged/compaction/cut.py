"""Where a conversation may be cut, and where it should be. Pure: views and sizes in, indices out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from unabridged.messages import View


@dataclass(frozen=True, slots=True)
class Cut:
    """Messages at `gone` go; everything else stays, untouched and in order. The tail begins at `tail`."""

    gone: tuple[int, ...]
    tail: int


def safe_indices(views: Sequence[View]) -> list[int]:
    """Every index at which the list can be parted: no call from its answer, no reasoning from what it belongs to."""
    unsafe = [rounds or reply for rounds, reply in zip(_inside_rounds(views), _inside_replies(views), strict=True)]
    return [i for i, inside in enumerate(unsafe) if not inside]


def _inside_rounds(views: Sequence[View]) -> list[bool]:
    """Between a call and its answer, whatever stands between them. Ids may be reused: the newest call counts.

    In a text protocol, where an observation answers in a `user` turn, between it and the action before it.
    """
    opened = [0] * (len(views) + 2)
    asked: dict[str, int] = {}
    said = -1  # the last message that is no system message
    for i, view in enumerate(views):
        for answer in view.answers:
            if answer.call_id in asked:
                opened[asked[answer.call_id] + 1] += 1
                opened[i + 1] -= 1
        asked.update((id_, i) for call in view.calls for id_ in call.ids)
        if view.role == "user" and view.origin == "tool" and not view.answers:
            opened[said + 1] += 1
            opened[i + 1] -= 1
        said = i if view.role != "system" else said
    return [depth > 0 for depth in accumulate(opened[: len(views) + 1])]


def _inside_replies(views: Sequence[View]) -> list[bool]:
    """Between a glued item and the rest of the reply it opened: the provider wants them together."""
    inside = [False] * (len(views) + 1)
    for i in range(1, len(views)):
        before = views[i - 1]
        inside[i] = before.glued or (inside[i - 1] and before.role == "assistant" and views[i].role == "assistant")
    return inside


def indices_that_stay(views: Sequence[View], safe: Sequence[int], pinned: Collection[int]) -> set[int]:
    """Indices that never go: system messages, opaque items, and pins together with the whole round they are in.

    Nor does what stands before a provider's own compaction: it takes nothing, and nobody would read what replaces it.
    """
    anchors = {*pinned, *(i for i, view in enumerate(views) if view.opaque)}
    systems = {i for i, view in enumerate(views) if view.role == "system"}
    return systems | whole_rounds(safe, anchors) | set(range(dropped(views)))


def dropped(views: Sequence[View]) -> int:
    """How many messages at the beginning a provider drops: those before the last compaction of its own."""
    return next((i for i in range(len(views) - 1, -1, -1) if views[i].resets), 0)


def counted(views: Sequence[View], sizes: Sequence[int]) -> list[int]:
    """The sizes, with nothing for what a provider drops."""
    gone = dropped(views)
    return [0] * gone + list(sizes[gone:])


def whole_rounds(safe: Sequence[int], indices: Iterable[int]) -> set[int]:
    """The messages at these indices and all that can't be parted from them."""
    whole: set[int] = set()
    for index in indices:
        place = bisect_right(safe, index)
        whole.update(range(safe[place - 1], safe[place]))
    return whole


def count_separators(views: Sequence[View], gone: Collection[int], place: int) -> int:
    """How often two turns of one side meet when these go and a summary, a user's turn, stands at `place`."""
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


def plan_cut(
    views: Sequence[View],
    sizes: Sequence[int],
    *,
    keep_tokens: int | None = None,
    keep_messages: int | None = None,
    pinned: Collection[int] = (),
    kept: Collection[int] = (),
) -> Cut | None:
    """The cut that keeps as much recent conversation as both ceilings allow; None when nothing could go.

    A user-turn boundary is preferred, unless it would leave less than a third of what may stay: then, and when one
    turn is longer than the ceilings, the cut falls between two rounds. The last round always stays, and so do the
    messages in `kept`, wherever they stand.
    """
    safe = safe_indices(views)
    stays = indices_that_stay(views, safe, pinned)
    tail = _tail_start(views, sizes, safe, stays, keep_tokens=keep_tokens, keep_messages=keep_messages)
    gone = tuple(i for i in range(tail) if i not in stays and i not in kept)
    return Cut(gone, tail) if gone else None


def _tail_start(
    views: Sequence[View],
    sizes: Sequence[int],
    safe: Sequence[int],
    stays: Collection[int],
    *,
    keep_tokens: int | None,
    keep_messages: int | None,
) -> int:
    last = max((i for i in safe if i < len(views)), default=0)
    best, best_tokens = last, sum(sizes[i] for i in range(last, len(views)) if i not in stays)
    boundary, boundary_tokens = (last, best_tokens) if _starts_turn(views, last) else (None, 0)
    allowed = set(safe)
    tokens = messages = 0
    for i in range(len(views) - 1, -1, -1):
        if i not in stays:
            tokens += sizes[i]
            messages += 1
        if (keep_tokens is not None and tokens > keep_tokens) or (
            keep_messages is not None and messages > keep_messages
        ):
            break
        if i in allowed and i <= last:
            best, best_tokens = i, tokens
            if _starts_turn(views, i):
                boundary, boundary_tokens = i, tokens
    if boundary is not None and 3 * boundary_tokens >= best_tokens:
        return boundary
    return best


def _starts_turn(views: Sequence[View], index: int) -> bool:
    starts = index < len(views) and views[index].origin == "person"
    return starts and (index == 0 or views[index - 1].origin != "person")
