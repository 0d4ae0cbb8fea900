"""Call the host's functions around a compaction: to look, to change what the summariser is shown, to rebuild the list.

    Compacting event -> prepare -> model -> finalize -> callback -> Compacted event

A hook that raises, or returns what is no conversation, ends this compaction and nothing else: history stays, the error
is reported, the run goes on. The host's other functions (`counter`, `origin`, `pin`, `redact`) can't be done without:
what they raise is `FunctionFailed`, reported while the request fits and raised when it does not.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any, get_args

from unabridged.asking.drivers import await_and_wrap_errors, find_free_loop, wrap_in_exception
from unabridged.errors import FunctionFailed, SettingsError
from unabridged.formats.base import Message
from unabridged.messages import Origin
from unabridged.settings import Settings
from unabridged.text_tools import cut_middle, neutralise_markup, wrap_in_fence

StateProvider = Callable[[str], str | Awaitable[str | None] | None]
"""Returns the host's state for a thread's name; None or an empty text where there is none."""

MAX_STUCK_PROVIDERS = 4
"""Calls of one provider that never returned, after which it is not asked again."""
MAX_STATE_SHARE = 0.2
"""The share of the summary turn that the state may take."""
MIN_STATE_TOKENS = 24
"""Tokens below which a shortened state says nothing."""

_STATE_HEADING = "## State as of message {turn} (told by the host, not by the user)"
_CUT_NOTE = "[… the middle of the host's state of {tokens} tokens is left out …]"


class HookRaised(Exception):  # noqa: N818 - never leaves the engine
    """A hook of the host raised; `stage` is its name, the error its cause."""

    def __init__(self, stage: str, error: Exception) -> None:
        self.stage, self.error = stage, error
        self.reason = f"{stage} raised {type(error).__name__}"
        """What happened without what the error says, for logs and receipts."""
        super().__init__(f"{self.reason}: {error}")


@dataclass(frozen=True, slots=True)
class Hooks:
    """The host's own functions; each may be left out."""

    prepare: Callable[[list[Message]], Sequence[Message]] | None = None
    """Gets what is about to go, returns what the summariser is shown instead."""
    finalize: Callable[[list[Message], list[Message]], list[Message]] | None = None
    """Gets the conversation as it was and as it would be, returns the final one; it is checked like any other."""
    callback: Callable[[tuple[Message, ...], tuple[Message, ...]], object] | None = None
    """Looks at the conversation before and after."""

    def __post_init__(self) -> None:
        for name in ("prepare", "finalize", "callback"):
            refuse_unusable_function(name, getattr(self, name))

    def run_prepare(self, messages: list[Message]) -> list[Message]:
        """Return what the summariser is shown."""
        return _require_messages("prepare", _call_hook("prepare", self.prepare, messages)) if self.prepare else messages

    def run_finalize(self, before: list[Message], after: list[Message]) -> list[Message]:
        """Return the final list."""
        if self.finalize is None:
            return after
        return _require_messages("finalize", _call_hook("finalize", self.finalize, list(before), list(after)))

    def run_callback(self, before: Sequence[Message], after: Sequence[Message]) -> None:
        """Call the `callback` hook with both lists, read-only."""
        if self.callback:
            _call_hook("callback", self.callback, tuple(before), tuple(after))


def _call_hook(stage: str, hook: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return hook(*arguments)
    except Exception as error:
        raise HookRaised(stage, error) from error


def _require_messages(stage: str, returned: Any) -> list[Message]:
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        close_coroutine(returned)
        raise HookRaised(stage, TypeError(f"{stage} must return a list of messages; got {type(returned).__name__}"))
    return list(returned)


@contextmanager
def raise_as_hook_raised(stage: str, hook: Callable[..., Any] | None) -> Iterator[None]:
    """Raise errors of the block as `HookRaised` if there is a hook, since it made what the block works on."""
    try:
        yield
    except FunctionFailed:
        raise
    except Exception as error:
        if hook is None:
            raise
        raise HookRaised(stage, error) from error


# -- the functions that can't be done without -------------------------------------------------------------------------


def wrap_host_function(
    name: str, function: Callable[..., Any] | None, good: Callable[[Any], bool], wanted: str
) -> Callable[..., Any] | None:
    """Return the function wrapped: it raises `FunctionFailed` for every error and for a wrong return value."""
    refuse_unusable_function(name, function)
    if function is None:
        return None

    def call(*arguments: Any) -> Any:
        try:
            value = function(*arguments)
        except Exception as error:
            raise FunctionFailed(name, f"raised {type(error).__name__}: {error}") from error
        if not good(value):
            close_coroutine(value)
            raise FunctionFailed(name, f"must return {wanted}; got {value!r:.60}")
        return value

    return call


def wrap_origin(origin: Callable[[Message], Origin | None] | None) -> Callable[..., Any] | None:
    """Return `origin`, which says whose words a message is, or None where it has no opinion."""
    words = get_args(Origin)
    wanted = f"one of {', '.join(words)}, or None"
    return wrap_host_function("origin", origin, lambda value: value is None or value in words, wanted)


def wrap_redact(redact: Callable[[str], str] | None) -> Callable[[str], str]:
    """Return `redact`, which returns the text that may be shown; without one every text may."""
    return wrap_host_function("redact", redact, lambda value: isinstance(value, str), "a text") or str


def wrap_pin(settings: Settings) -> Settings:
    """Return the settings with `pin` wrapped, so that it must return something that is true or false."""
    return replace(settings, pin=wrap_host_function("pin", settings.pin, _is_yes_or_no, "True or False"))


def _is_yes_or_no(value: Any) -> bool:
    try:
        bool(value)
    except Exception:  # noqa: BLE001 - an array, say: neither yes nor no
        return False
    return not inspect.isawaitable(value)


def refuse_unusable_function(name: str, function: object) -> None:
    """Refuse what can't be called, or only be awaited: it would seem to work, and nothing would come of it."""
    if function is None:
        return
    if not callable(function):
        raise SettingsError(f"{name} must be a function, or None; got {type(function).__name__}")
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        raise SettingsError(f"{name} must be a plain function: an async one would never be awaited")


def close_coroutine(value: Any) -> None:
    """Close a coroutine that nobody will await, so that Python does not warn of it."""
    if inspect.iscoroutine(value):
        value.close()


# -- the host's own state ---------------------------------------------------------------------------------------------
#
# To-dos, running sub-agents, a mode it is in: asked for at each compaction, never remembered. A summary turn shows it
# as of the newest message then, in the host's voice. The next summary asks anew, so nothing of it is carried on; a
# caller who resends the whole history gets the recorded turn again, with the state as of then.


def render_state(text: str, turn: int, room: int, count: Callable[[str], int]) -> str:
    """Return the state as a part of a summary turn, within `room` tokens; "" when there is none or no room."""
    text = "\n".join(neutralise_markup(line) for line in text.strip().splitlines())
    if not text:
        return ""
    heading = _STATE_HEADING.format(turn=turn)
    part = f"{heading}\n{wrap_in_fence(text)}"
    left = room - count(f"{heading}\n{wrap_in_fence('')}") - 4
    if count(part) > room and left >= MIN_STATE_TOKENS:
        part = f"{heading}\n{wrap_in_fence(cut_middle(text, left, count, _CUT_NOTE))}"
    return part if count(part) <= room else ""


def ask_state_provider(provider: StateProvider, thread: str, seconds: float) -> str:
    """Return what the provider says within so many seconds; whatever it raises is raised here.

    It runs in a daemon thread of its own, with the caller's context: one that never returns is left behind there. An
    awaitable is awaited on the caller's own loop, or on one in the provider's thread.
    """
    _stuck_providers[:] = [(one, worker) for one, worker in _stuck_providers if worker.is_alive()]
    if (left := sum(one == provider for one, _ in _stuck_providers)) >= MAX_STUCK_PROVIDERS:
        raise TimeoutError(f"{left} earlier calls of the state provider never returned: it is not asked again")
    loop, done = find_free_loop(), Future[Any]()

    async def bounded(waiting: Awaitable[Any]) -> Any:
        return await asyncio.wait_for(await_and_wrap_errors(waiting, "state"), seconds)

    def work() -> None:
        try:
            state: Any = provider(thread)
            if isinstance(state, Awaitable):
                waiting = bounded(state)
                on_loop = asyncio.run_coroutine_threadsafe(waiting, loop) if loop is not None else None
                state = on_loop.result() if on_loop is not None else asyncio.run(waiting)
            done.set_result(state)
        except BaseException as error:  # noqa: BLE001 - handed to the one who waits
            done.set_exception(wrap_in_exception(error, "state"))

    worker = Thread(target=copy_context().run, args=(work,), name="unabridged-state", daemon=True)
    worker.start()
    try:
        state = done.result(seconds)
    except TimeoutError:
        if not done.done():
            _stuck_providers.append((provider, worker))
        raise TimeoutError(f"the state provider told nothing within {seconds:g} s") from None
    if state is not None and not isinstance(state, str):
        raise TypeError(f"a state provider returns a text or None; got {type(state).__name__}")
    return state or ""


_stuck_providers: list[tuple[StateProvider, Thread]] = []
"""Calls that were left behind, each with its provider."""
