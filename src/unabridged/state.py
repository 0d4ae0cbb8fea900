"""The host's own state (to-dos, running sub-agents, a mode it is in), asked for at each compaction, never remembered.

A summary turn shows it as of the newest message then, in the host's voice. The next summary asks anew, so nothing of it
is carried on; a caller who resends the whole history gets the recorded turn again, with the state as of then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from unabridged.driving import LOOP
from unabridged.ledger.phrasing import fenced, neutral
from unabridged.shorten import head_and_tail

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Provider = Callable[[str], str | Awaitable[str | None] | None]
"""Given the thread's name, tells how things stand; None or an empty text: nothing to tell."""

SECONDS = 5.0
"""How long an async provider may take; then the summary goes without the state."""
SHARE = 0.2
"""Of the summary turn, what the state may take."""
SMALLEST = 24
"""Tokens below which a shortened state says nothing."""

_HEADING = "## State as of message {turn} (told by the host, not by the user)"
_NOTE = "[… the middle of the host's state of {tokens} tokens is left out …]"


def told(provider: Provider, thread: str) -> str:
    """What the provider tells; whatever it raises is raised here."""
    said = provider(thread)
    if isinstance(said, Awaitable):
        said = _awaited(said)
    if said is not None and not isinstance(said, str):
        raise TypeError(f"a state provider returns a text or None; got {type(said).__name__}")
    return said or ""


def shown(text: str, turn: int, room: int, count: Callable[[str], int]) -> str:
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
    part = f"{heading}\n{fenced(head_and_tail(text, left, count, _NOTE))}"
    return part if count(part) <= room else ""


def _awaited(waiting: Awaitable[Any]) -> Any:
    """The result, within `SECONDS`: awaited on the caller's own loop, or on one of its own in a thread."""
    import asyncio  # noqa: PLC0415 - costs a third of the package's import, and few need it
    import threading  # noqa: PLC0415 - likewise
    from concurrent.futures import Future  # noqa: PLC0415 - likewise

    async def bounded() -> Any:
        return await asyncio.wait_for(waiting, SECONDS)

    loop = LOOP.get()
    if loop is not None and loop.is_running() and not _runs_here(loop):
        return asyncio.run_coroutine_threadsafe(bounded(), loop).result(SECONDS + 1)
    done: Future[Any] = Future()

    def work() -> None:
        try:
            done.set_result(asyncio.run(bounded()))
        except BaseException as error:  # noqa: BLE001 - handed to the one who waits
            done.set_exception(error)

    threading.Thread(target=work, name="unabridged-state", daemon=True).start()
    return done.result(SECONDS + 1)


def _runs_here(loop: AbstractEventLoop) -> bool:
    import asyncio  # noqa: PLC0415 - see above

    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
