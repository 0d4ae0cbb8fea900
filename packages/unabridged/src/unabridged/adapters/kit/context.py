"""Context variables: a value that holds within a block, for each task and each thread of the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def set_temporarily(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Set the variable to this value within, and to what it was before at the end."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
