"""How a compaction gets into the state of a graph: message ids, and what a reducer is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.config import get_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES

_THREAD = "unabridged_thread"


class Pending(TypedDict):
    """A compaction that a state has yet to follow: `order` holds ids of what stays, and new messages."""

    order: list[Any]
    known: list[str]
    """Ids of all messages that the compaction looked at."""


def ensure_ids(messages: Sequence[BaseMessage]) -> None:
    """Give each message that has none an id."""
    for message in messages:
        if not message.id:
            message.id = str(uuid4())


def with_ids(before: Sequence[BaseMessage], after: Sequence[BaseMessage], thread: str | None) -> list[BaseMessage]:
    """The compacted list with an id for each new message: that of one that went, which streams have seen already.

    New messages also carry the name of a sub-agent's thread, by which its next call finds it again.
    """
    staying = {message.id for message in after if message.id}
    free = iter([message.id for message in before if message.id and message.id not in staying])

    def named(message: BaseMessage) -> BaseMessage:
        extra = {**message.additional_kwargs, **({_THREAD: thread} if thread and "/" in thread else {})}
        return message.model_copy(update={"id": next(free, None) or str(uuid4()), "additional_kwargs": extra})

    return [message if message.id else named(message) for message in after]


def pending_of(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> Pending | None:
    """The compaction from `before` to `after`, both with ids, for a state to follow; None when they are the same."""
    known = {message.id: message for message in before if message.id}
    order: list[Any] = [m.id if m.id in known and (known[m.id] is m or known[m.id] == m) else m for m in after]
    return None if order == list(known) else {"order": order, "known": [*known]}


def followed(state: Sequence[BaseMessage], pending: Pending) -> list[BaseMessage]:
    """The state's messages after the compaction: its own objects, in the new order, with all it did not look at.

    A message the compaction never saw (somebody left it out of the request, or it came since) keeps its place.
    """
    place = {message.id: i for i, message in enumerate(state)}
    known = set(pending["known"])
    new: list[BaseMessage] = []
    done = 0
    for item in pending["order"]:
        if not isinstance(item, str):
            new.append(item)
            continue
        if item not in place:
            continue
        new += [m for m in state[done : place[item]] if m.id not in known]
        new.append(state[place[item]])
        done = max(done, place[item] + 1)
    return [*new, *(m for m in state[done:] if m.id not in known)]


def replacing(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """The state update that puts these messages in the place of all others."""
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]}


def thread_of(messages: Sequence[BaseMessage]) -> str | None:
    """The name of the conversation in the archive: the run's `thread_id`; None outside of a thread.

    A sub-agent runs in its parent's thread, and several may run at once: each is named by its first message too.
    """
    try:
        configurable = get_config().get("configurable", {})
    except RuntimeError:
        return None
    thread = configurable.get("thread_id")
    if thread is None:
        return None
    if not str(configurable.get("checkpoint_ns") or "").rpartition("|")[0]:
        return str(thread)
    own = f"{thread}/"
    first = next((m for m in messages if m.type != "system"), None)
    if first is None or not first.id:
        return str(thread)
    told = first.additional_kwargs.get(_THREAD)
    # Only names inside the run's own thread are believed: messages may come from anyone.
    return told if isinstance(told, str) and told.startswith(own) else f"{own}{first.id}"
