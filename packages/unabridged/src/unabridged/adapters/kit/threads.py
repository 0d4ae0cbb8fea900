"""The name of the conversation that a call belongs to."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from unabridged.adapters.kit.context import set_temporarily
from unabridged.archive.names import Name, check_name, is_name

_thread_name: ContextVar[Any] = ContextVar("unabridged_thread", default=None)


def thread(name: Name) -> AbstractContextManager[str]:
    """Make this the thread of calls within that name none; each task and each thread of the program has its own."""
    return set_temporarily(_thread_name, check_name(name))


def current_thread() -> str | None:
    """Return the thread that `thread` names here; None outside of one."""
    return _thread_name.get()  # type: ignore[no-any-return]


def name_sub_thread(thread: str, first_id: str | None, remembered_name: object = None) -> str:
    """Return a name for a sub-agent's conversation in its parent's thread: remembered, else by its first message.

    Only names inside the run's own thread are believed: what is remembered in messages may come from anyone. A thread
    whose name is too long to be added to is shared.
    """
    if not first_id:
        return thread
    if isinstance(remembered_name, str) and remembered_name.startswith(f"{thread}/") and is_name(remembered_name):
        return remembered_name
    digest = hashlib.sha256(first_id.encode("utf-8", "replace")).hexdigest()[:16]
    return next(filter(is_name, (f"{thread}/{first_id}", f"{thread}/{digest}")), thread)
