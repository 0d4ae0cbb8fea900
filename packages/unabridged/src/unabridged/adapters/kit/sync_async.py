"""One generator in place of a sync and an async copy of the same work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from unabridged.asking.drivers import arun_generator, run_generator

P = ParamSpec("P")
T = TypeVar("T")


class Step(NamedTuple):
    """A call that may block, and the function that is awaited in its place in an event loop."""

    function: Callable[..., Any]
    async_function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]


Steps = Generator[Step, Any, T]
"""Work that yields each call that may block, and gets what it returned."""


def call_method(owner: Any, name: str, /, *arguments: Any, **options: Any) -> Step:
    """Return a step that calls a method whose async form is named with an `a` in front."""
    return Step(getattr(owner, name), getattr(owner, f"a{name}", None), arguments, options)


def call_in_thread(function: Callable[..., Any], *arguments: Any) -> Step:
    """Return a step that calls a sync function; in an event loop it runs in a thread."""
    return Step(function, partial(asyncio.to_thread, function), arguments, {})


def call_host(function: Callable[..., Any], *arguments: Any) -> Step:
    """Return a step that calls the host's function, which is sync for sync callers and async for async ones."""
    return Step(function, function, arguments, {})


def run(steps: Steps[T]) -> T:
    """Carry out the work, each call in this thread; return its result."""
    return run_generator(steps, lambda step: step.function(*step.arguments, **step.options))


async def arun(steps: Steps[T]) -> T:
    """Carry out the work without blocking the event loop; return its result."""
    return await arun_generator(steps, lambda step: step.async_function(*step.arguments, **step.options))


def make_sync_and_async(work: Callable[P, Steps[T]]) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """Return the work as a function, and as one that does not block the event loop."""

    @wraps(work)
    def sync_form(*arguments: P.args, **options: P.kwargs) -> T:
        return run(work(*arguments, **options))

    @wraps(work)
    async def async_form(*arguments: P.args, **options: P.kwargs) -> T:
        return await arun(work(*arguments, **options))

    own = work.__name__.lstrip("_")
    sync_form.__name__, async_form.__name__ = own, f"a{own}"
    return sync_form, async_form


def is_in_event_loop() -> bool:
    """Return whether an event loop runs in this thread, so that nothing here may wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
