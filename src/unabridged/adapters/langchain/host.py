"""What a graph's state has to tell in a summary turn: to-dos, or whatever the host's function makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from unabridged.formats.base import get

HostState = Callable[[Any], Any]
"""Given the values of the graph's state: a text, None, or an awaitable of one."""

_VALUES: ContextVar[Any] = ContextVar("unabridged_graph_state", default=None)
_MARKS = {"completed": "x", "in_progress": "~"}


@contextmanager
def about(values: Any) -> Iterator[None]:
    """Within, this is the state that a compaction tells of."""
    token = _VALUES.set(values)
    try:
        yield
    finally:
        _VALUES.reset(token)


def provider_of(host_state: HostState) -> Callable[[str], Any]:
    """The function as the engine asks it, which knows no graph; nothing to tell outside of one."""

    def tell(_thread: str) -> Any:
        values = _VALUES.get()
        return None if values is None else host_state(values)

    return tell


def todos(values: Any) -> str:
    """The to-dos that `TodoListMiddleware` and Deep Agents keep in the state, each in a line; "" without any."""
    listed = get(values, "todos")
    items = [item for item in listed if get(item, "content")] if isinstance(listed, list | tuple) else []
    lines = [f"- [{_MARKS.get(str(get(item, 'status')), ' ')}] {get(item, 'content')}" for item in items]
    return "\n".join(["To-dos ([x] done, [~] under way):", *lines]) if lines else ""
