"""A host's own list that follows a compaction of a copy of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar

M = TypeVar("M")


def read_message_id(message: Any) -> str | None:
    """Return the id that the framework gave the message."""
    return getattr(message, "id", None)


def name_by_identity(message: Any) -> str | None:
    """Return a name for the very object, where messages have no ids: good as long as the lists are referenced."""
    return str(id(message))


class PendingChange(TypedDict):
    """A compaction that a host's list has yet to follow: `order` holds ids of what stays, and new messages."""

    order: list[Any]
    known: list[str]
    """Ids of all messages that the compaction looked at or put in: a list that has followed it is not changed again."""


MessageNamer = Callable[[Any], str | None]


def change_between(
    before: Sequence[Any], after: Sequence[Any], named: MessageNamer = read_message_id
) -> PendingChange | None:
    """Return the change from one list to another, of messages that `named` tells apart; None when they are equal."""
    known = {name: message for message in before if (name := named(message))}

    def slot(message: Any) -> Any:
        name = named(message) or ""
        return name if name in known and (known[name] is message or known[name] == message) else message

    order = [slot(message) for message in after]
    new = [name for item in order if not isinstance(item, str) and (name := named(item)) and name not in known]
    return None if order == list(known) else {"order": order, "known": [*known, *new]}


def apply_change(messages: Sequence[M], change: PendingChange, named: MessageNamer = read_message_id) -> list[M]:
    """Return the host's messages after the compaction: its own objects in the new order, with all it did not look at.

    A message the compaction never saw (somebody left it out of the request, or it came since) keeps its place.
    """
    ids: list[Any] = [named(message) for message in messages]
    position = {own: i for i, own in enumerate(ids)}
    known = set(change["known"])
    new: list[M] = []
    done = 0
    for item in change["order"]:
        if not isinstance(item, str):
            new.append(item)
        elif item in position:
            new += [messages[i] for i in range(done, position[item]) if ids[i] not in known]
            new.append(messages[position[item]])
            done = max(done, position[item] + 1)
    return [*new, *(messages[i] for i in range(done, len(messages)) if ids[i] not in known)]
