"""The host's own state (to-dos, running sub-agents, a mode it is in), asked for at each compaction, never remembered.

A summary turn shows it as of the newest message then, in the host's voice. The next summary asks anew, so nothing of it
is carried on; a caller who resends the whole history gets the recorded turn again, with the state as of then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from unabridged.asking.drivers import LOOP, as_error, guard
from unabridged.text_tools import cut_middle, fenced, neutral

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from threading import Thread

Provider = Callable[[str], str | Awaitable[str | None] | None]
"""Given the thread's name, tells how things stand; None or an empty text: nothing to tell."""

MOST_STUCK = 4
"""Calls of one provider that never returned, after which it is not asked again."""
SHARE = 0.2
"""Of the summary turn, what the state may take."""
SMALLEST = 24
"""Tokens below which a shortened state says nothing."""

_HEADING = "## State as of message {turn} (told by the host, not by the user)"
_NOTE = "[… the middle of the host's state of {tokens} tokens is left out …]"


def ask(provider: Provider, thread: str, seconds: float) -> str:
    """What the provider tells within so many seconds; whatever it raises is raised here.

    It runs in a daemon thread of its own, with the caller's context: one that never returns is left behind there.
    """
    said = _called(provider, thread, seconds)
    if said is not None and not isinstance(said, str):
        raise TypeError(f"a state provider returns a text or None; got {type(said).__name__}")
    return said or ""


def render(text: str, turn: int, room: int, count: Callable[[str], int]) -> str:
    """The state as a part of a summary turn, within `room` tokens; "" when there is nothing to tell or no room."""
    text = "\n".join(neutral(line) for line in text.strip().splitlines())
    if not text:
        return ""
    heading = _HEADING.format(turn=turn)
    part = f"{heading}\n{fenced(text)}"
    if count(part) <= room:
        return part
    left = room - count(f"{heading}\n{fenced('')}") - 4
    if left < SMALLEST:
        return ""
    part = f"{heading}\n{fenced(cut_middle(text, left, count, _NOTE))}"
    return part if count(part) <= room else ""


def _called(provider: Provider, thread: str, seconds: float) -> Any:
    """What it returns; an awaitable is awaited on the caller's own loop, or on one in the provider's thread."""
    import asyncio  # noqa: PLC0415 - costs a third of the package's import, and few need it
    import threading  # noqa: PLC0415 - likewise
    from concurrent.futures import Future  # noqa: PLC0415 - likewise
    from contextvars import copy_context  # noqa: PLC0415 - likewise

    _stuck[:] = [(one, worker) for one, worker in _stuck if worker.is_alive()]
    if (left := sum(one == provider for one, _ in _stuck)) >= MOST_STUCK:
        raise TimeoutError(f"{left} earlier calls of the state provider never returned: it is not asked again")
    loop, done = _free_loop(), Future[Any]()

    async def bounded(waiting: Awaitable[Any]) -> Any:
        return await asyncio.wait_for(guard(waiting, "state"), seconds)

    def work() -> None:
        try:
            said: Any = provider(thread)
            if isinstance(said, Awaitable):
                waiting = bounded(said)
                on_loop = asyncio.run_coroutine_threadsafe(waiting, loop) if loop is not None else None
                said = on_loop.result() if on_loop is not None else asyncio.run(waiting)
            done.set_result(said)
        except BaseException as error:  # noqa: BLE001 - handed to the one who waits
            done.set_exception(as_error(error, "state"))

    worker = threading.Thread(target=copy_context().run, args=(work,), name="unabridged-state", daemon=True)
    worker.start()
    try:
        return done.result(seconds)
    except TimeoutError:
        if not done.done():
            _stuck.append((provider, worker))
        raise TimeoutError(f"the state provider told nothing within {seconds:g} s") from None


_stuck: list[tuple[Provider, Thread]] = []
"""Calls that were left behind, with whose they are."""


def _free_loop() -> AbstractEventLoop | None:
    """The caller's event loop, unless there is none or this very call keeps it from running."""
    import asyncio  # noqa: PLC0415 - see above

    loop = LOOP.get()
    if loop is None or not loop.is_running():
        return None
    try:
        return None if asyncio.get_running_loop() is loop else loop
    except RuntimeError:
        return loop
