"""A host's own list that follows a compaction of a copy of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, TypeVar

M = TypeVar("M")


class PendingChange(TypedDict):
    """A compaction that a host's list has yet to follow: `order` holds ids of what stays, and new messages."""

    order: list[Any]
    known: list[str]
    """Ids of all messages that the compaction looked at."""


def change_between(before: Sequence[Any], after: Sequence[Any]) -> PendingChange | None:
    """The change from one list of messages with an `id` to another; None when they are the same."""
    known = {message.id: message for message in before if message.id}
    order: list[Any] = [m.id if m.id in known and (known[m.id] is m or known[m.id] == m) else m for m in after]
    return None if order == list(known) else {"order": order, "known": [*known]}


def follow_change(messages: Sequence[M], change: PendingChange) -> list[M]:
    """The host's messages after the compaction: its own objects, in the new order, with all it did not look at.

    A message the compaction never saw (somebody left it out of the request, or it came since) keeps its place.
    """
    ids: list[Any] = [getattr(message, "id", None) for message in messages]
    place = {own: i for i, own in enumerate(ids)}
    known = set(change["known"])
    new: list[M] = []
    done = 0
    for item in change["order"]:
        if not isinstance(item, str):
            new.append(item)
            continue
        if item not in place:
            continue
        new += [messages[i] for i in range(done, place[item]) if ids[i] not in known]
        new.append(messages[place[item]])
        done = max(done, place[item] + 1)
    return [*new, *(messages[i] for i in range(done, len(messages)) if ids[i] not in known)]
