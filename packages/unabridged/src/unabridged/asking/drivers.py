"""Drivers: run a generator that yields what it needs to its end, in a thread or beside an event loop.

`asyncio` is imported only where it is used: it costs a third of the package's whole import.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from threading import Lock

P = ParamSpec("P")
T = TypeVar("T")
Y = TypeVar("Y")
S = TypeVar("S")

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.001, 0.05
"""Between two tries to take a lock beside an event loop: at first, and at most."""

own_loop: ContextVar[AbstractEventLoop | None] = ContextVar("unabridged_loop", default=None)
"""In a worker thread, the event loop that started it."""


class LockWait(NamedTuple):
    """A step that waits for a lock: a driver that took it sends True, one that only waited a little sends False."""

    lock: Lock


def take_lock(lock: Lock) -> Generator[LockWait, bool, None]:
    """Take the lock: now if it is free, else through the driver.

    No worker of an event loop ever waits for it: whoever holds it may need that worker to go on.
    """
    while not lock.acquire(blocking=False):
        if (yield LockWait(lock)):
            return


def run_generator(steps: Generator[Y, S, T], perform: Callable[[Y], S]) -> T:
    """Run a generator to its end: perform what it yields, and send the result, or throw the error, into it."""
    try:
        step = next(steps)
        while True:
            try:
                result: Any = step.lock.acquire() if isinstance(step, LockWait) else perform(step)
            except Exception as error:  # noqa: BLE001 - the generator decides what it means
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        steps.close()


def wrap_in_exception(error: BaseException, name: str) -> Exception:
    """Return the error, wrapped in a `RuntimeError` where it would end a thread, a loop or the process."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    wrapped = RuntimeError(f"{name} raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped


async def await_and_wrap_errors(waiting: Awaitable[T], name: str) -> T:
    """Await and return the result; raise errors as `wrap_in_exception` wraps them.

    The waiting task may still be cancelled, and on the main thread a keyboard interrupt goes through.
    """
    import asyncio  # noqa: PLC0415 - see above
    import threading  # noqa: PLC0415 - likewise

    try:
        return await waiting
    except Exception:
        raise
    except BaseException as error:
        task = asyncio.current_task()
        cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        main = threading.current_thread() is threading.main_thread()
        if cancelled or (isinstance(error, KeyboardInterrupt) and main):
            raise
        raise wrap_in_exception(error, name) from error


def find_free_loop() -> AbstractEventLoop | None:
    """Return the caller's event loop; None where there is none, or where this very call keeps it from running."""
    import asyncio  # noqa: PLC0415 - see above

    loop = own_loop.get()
    if loop is None or not loop.is_running():
        return None
    try:
        return None if asyncio.get_running_loop() is loop else loop
    except RuntimeError:
        return loop


async def run_in_thread(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run the function in a thread, as `asyncio.to_thread` does; there `own_loop` holds this event loop."""
    import asyncio  # noqa: PLC0415 - see above

    own_loop.set(asyncio.get_running_loop())
    return await asyncio.to_thread(function, *arguments, **options)


async def arun_generator(
    steps: Generator[Y, S, T], perform: Callable[[Y], Awaitable[S]], *, threads: bool = False
) -> T:
    """`run_generator` for an event loop: what the generator yields is awaited.

    With `threads` its own work is done in worker threads; else it does next to nothing itself. When the waiting task is
    cancelled in the middle of such work, the generator is closed as soon as that is done.
    """
    import asyncio  # noqa: PLC0415 - see above

    advance: Callable[[], Any] = partial(next, steps)
    pause = FIRST_PAUSE_SECONDS
    try:
        while True:
            is_done, value = await _advance_in_thread(steps, advance) if threads else _advance_generator(advance)
            if is_done:
                result: T = value
                return result
            if isinstance(value, LockWait):
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                advance = partial(steps.send, False)  # type: ignore[arg-type] # the answer to a LockWait
                continue
            try:
                advance = partial(steps.send, await perform(value))
            except Exception as error:  # noqa: BLE001 - the generator decides what it means
                advance = partial(steps.throw, error)
    finally:
        with suppress(ValueError):  # it is still at work in its thread, and closed when that is done
            steps.close()


def _advance_generator(advance: Callable[[], Any]) -> tuple[bool, Any]:
    """Advance a generator by a step; return (False, what it yields) or (True, what it returns)."""
    try:
        return False, advance()
    except StopIteration as stop:
        return True, stop.value


async def _advance_in_thread(steps: Generator[Any, Any, Any], advance: Callable[[], Any]) -> tuple[bool, Any]:
    import asyncio  # noqa: PLC0415 - see above

    work = asyncio.ensure_future(run_in_thread(_advance_generator, advance))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(lambda _: steps.close())
        raise
