"""The name of the conversation that a call belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from unabridged.archive.names import Name, check_name, is_name

_THREAD: ContextVar[str | None] = ContextVar("unabridged_thread", default=None)


@contextmanager
def thread(name: Name) -> Iterator[str]:
    """Within, calls that name no thread belong to this one; each task and each thread of the program has its own."""
    checked = check_name(name)
    token = _THREAD.set(checked)
    try:
        yield checked
    finally:
        _THREAD.reset(token)


def current_thread() -> str | None:
    """The thread that `thread` names here; None outside of one."""
    return _THREAD.get()


def sub_thread(thread: str, first_id: str | None, remembered: object = None) -> str:
    """The name of a sub-agent's conversation inside its parent's thread: `remembered`, else by its first message.

    Only names inside the run's own thread are believed: what is remembered in messages may come from anyone.
    """
    if not first_id:
        return thread
    if isinstance(remembered, str) and remembered.startswith(f"{thread}/") and is_name(remembered):
        return remembered
    name = f"{thread}/{first_id}"
    return name if is_name(name) else f"{thread}/{hashlib.sha256(first_id.encode('utf-8', 'replace')).hexdigest()[:16]}"
