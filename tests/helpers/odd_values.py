"""Values that no provider takes in a message, and every place where one can stand."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    0, 7, -1.5, float("nan"), True, False, None, "", "word", "\ud800", b"bytes", (), ("a", 1), [], [0], [None],
    ["a", 1], [[]], [{}], {}, {"a": 1}, {1: 2}, {"type": 3}, {"type": []}, {"type": "text", "text": 5},
    {"type": "text"}, {1, 2}, {(1, 2): 3}, [{"type": "tool_use", "id": 5, "name": None, "input": 0}],
    [{"type": "tool_result"}], object(), [{"function": 3}], [{"function": {"name": 2, "arguments": {1: 2}}}], range(3),
    type, dt.date(2020, 1, 1), [{"type": "image_url", "image_url": 3}],
    [{"type": "image", "source": {"data": 3}}], [{"type": "document"}],
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a list of messages, by its keys and indices."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from places(inner, (*path, key))


def put(messages: list[Any], path: tuple[Any, ...], odd: Any) -> list[Any]:
    """A copy with `odd` at the place."""
    changed: Any = copy.deepcopy(messages)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    return list(changed)
