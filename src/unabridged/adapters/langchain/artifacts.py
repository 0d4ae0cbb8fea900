"""Artifacts of tool messages that no archive can restore: they are left out of what is compacted, and that is said.

A model never sees an artifact. Each message is looked at once: a list that goes on is known by its objects.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from operator import is_
from weakref import WeakKeyDictionary

from langchain_core.messages import BaseMessage, ToolMessage

from unabridged.archive import codec
from unabridged.engine import Compactor
from unabridged.errors import ArchiveError

log = logging.getLogger("unabridged")

_MOST = 256
"""Threads whose messages are remembered."""

Looked = tuple[list[BaseMessage], dict[int, BaseMessage]]
"""The messages looked at, and by their ids the copies that take the place of some."""

_looked: WeakKeyDictionary[Compactor, OrderedDict[str | None, Looked]] = WeakKeyDictionary()


def archivable(compactor: Compactor, thread: str | None, messages: list[BaseMessage]) -> list[BaseMessage]:
    """The very list; or, where an artifact can't be archived, one with copies without it."""
    threads = _looked.setdefault(compactor, OrderedDict())
    seen, copies = threads.pop(thread, ([], {}))
    if len(seen) > len(messages) or not all(map(is_, seen, messages)):
        seen, copies = [], {}
    for message in messages[len(seen) :]:
        if isinstance(message, ToolMessage) and message.artifact is not None:
            copy = _without_artifact(message)
            if copy is not message:
                copies[id(message)] = copy
    threads[thread] = (list(messages), copies)
    while len(threads) > _MOST:
        threads.popitem(last=False)
    return [copies.get(id(message), message) for message in messages] if copies else messages


def _without_artifact(message: ToolMessage) -> ToolMessage:
    try:
        codec.encode(message.artifact)
    except ArchiveError as error:
        log.warning("the artifact of tool message %s is not archived with it: %s", message.id, error)
        return message.model_copy(update={"artifact": None})
    return message
