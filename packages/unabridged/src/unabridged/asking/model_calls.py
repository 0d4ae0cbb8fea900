"""A model as we call it: what it takes, how a call is started without waiting for it, and what its errors mean.

A blocking model runs in a daemon thread of its own, an async one as a task: either can be left to itself. Coroutines
asked for from plain threads, and those of provider strings, live on one event loop kept for the process, so that a
client's connections are never used from two loops; the agent's own model is asked on the agent's loop. The loop of the
process survives whatever runs on it: a coroutine that raises `SystemExit`, one that stops the loop, a fork. One that
was closed all the same is replaced by the next call.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from unabridged.asking.ask import Ask, Reply
from unabridged.asking.drivers import as_error, free_loop, guard
from unabridged.asking.replies import read_reply
from unabridged.errors import SettingsError
from unabridged.measure.estimate import estimate
from unabridged.measure.models import model_info

T = TypeVar("T")

_LOOK = 0.2
"""Seconds after which a call in another thread's event loop is looked after: that loop may be gone."""


class LateModel:
    """A summariser that stands for a model which only the request under way knows; called with an `Ask`, async.

    That is the agent's model: its window is the agent's, as the provider has taught it, whatever the table says of the
    name. It runs in the caller's event loop wherever that is possible: the model's connections belong there.
    """

    remedy = ""
    """What to do to have a model where there is none."""

    def missing(self) -> str:
        """Return why there is no model to ask now; "" where there is one."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Speaker:
    """A model and how to call it."""

    name: str
    call: Callable[[Any], Any]
    takes_ask: bool
    """Else it takes a text, and returns one."""
    is_async: bool
    at_home: bool = False
    """Whether its coroutines belong on our own event loop, wherever they are asked for."""
    window: int | None = None
    """The most tokens it takes, as told, else as the model table knows it by its name; None when neither does."""
    late: LateModel | None = None
    """Itself, where only the request under way knows the model."""

    def missing(self) -> str:
        """Return why it can't be asked now; "" where it can."""
        return self.late.missing() if self.late is not None else ""


Work = Future[Reply] | asyncio.Future[Reply]
"""A call under way: a future of a thread, or a task."""


def speaker_of(model: Any, window: int | None = None) -> Speaker:
    """The model, wrapped; refused when it is neither a callable nor a `"provider:name"`."""
    if isinstance(model, Speaker):
        return model
    if isinstance(model, str):
        from unabridged.asking.providers import open_model  # noqa: PLC0415 - an SDK is imported only when one is used

        model = open_model(model)
    if not callable(model):
        raise SettingsError(f'model must be a callable, "provider:name" or None; got {type(model).__name__}')
    call = getattr(model, "__call__", None)  # noqa: B004 - its signature is wanted, not whether it has one
    is_async = inspect.iscoroutinefunction(model) or inspect.iscoroutinefunction(call)
    name = getattr(model, "name", None) or getattr(model, "__qualname__", None) or type(model).__name__
    late = model if isinstance(model, LateModel) else None
    info = model_info(str(name)) if late is None else None
    window = window or (info.window if info else None)
    return Speaker(str(name), model, _takes_ask(model), is_async, getattr(model, "at_home", False), window, late)


def close(speaker: Speaker) -> None:
    """Let go of the connections a provider's model holds; other models are their owners' to close."""
    if speaker.at_home:
        at_home(speaker.call.aclose()).result(10)  # type: ignore[attr-defined] # Provided


def _takes_ask(model: Callable[..., Any]) -> bool:
    """By the annotation of its first parameter; without one, by its name: `ask` is an `Ask`, all else a text."""
    try:
        parameters = list(inspect.signature(model).parameters.values())
    except (TypeError, ValueError):
        return False
    if not parameters:
        raise SettingsError("a summariser takes one argument, the prompt as a str or an Ask; this one takes none")
    first = parameters[0]
    if first.annotation in {Ask, "Ask"} or str(first.annotation).endswith(".Ask"):
        return True
    return first.name == "ask" and first.annotation not in {str, "str"}


def takes(speaker: Speaker, ask: Ask) -> bool:
    """Whether the ask fits the model: it was made for a window as small, or takes no more than there is."""
    if speaker.window is None or ask.window is None or ask.window <= speaker.window:
        return True
    return not ask.messages and estimate(ask.instruction, "unknown") + ask.max_tokens <= speaker.window


def start(speaker: Speaker, ask: Ask, *, here: bool) -> Work:
    """Begin the call and return at once. `here`: a running event loop may carry an async model."""
    if not speaker.is_async:
        return _in_thread(speaker, ask)
    coroutine = _call(speaker, ask)
    if here and not speaker.at_home:
        return asyncio.ensure_future(coroutine)
    loop = free_loop() if speaker.late is not None else None
    return at_home(coroutine) if loop is None else _in_loop(coroutine, loop)


async def _call(speaker: Speaker, ask: Ask) -> Reply:
    async def call() -> Any:
        return await speaker.call(_argument(speaker, ask))

    return read_reply(await guard(call(), speaker.name), speaker.name)


def _in_thread(speaker: Speaker, ask: Ask) -> Future[Reply]:
    work: Future[Reply] = Future()
    work.set_running_or_notify_cancel()  # from now on it ends only when the call returns

    def body() -> None:
        try:
            result = speaker.call(_argument(speaker, ask))
            if inspect.isawaitable(result):
                result = at_home(guard(result, speaker.name)).result()
            work.set_result(read_reply(result, speaker.name))
        except BaseException as error:  # noqa: BLE001 - it is handed to the one who waits
            work.set_exception(as_error(error, speaker.name))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(body,), name="unabridged-ask", daemon=True).start()
    return work


def _in_loop(coroutine: Coroutine[Any, Any, Reply], loop: asyncio.AbstractEventLoop) -> Future[Reply]:
    """Run the call on the caller's loop, from another thread; it fails where that loop is closed before its end."""
    work = asyncio.run_coroutine_threadsafe(coroutine, loop)
    followed: Future[Reply] = Future()

    def follow() -> None:
        while not work.done() and not followed.done() and not loop.is_closed():
            wait([work, followed], _LOOK, FIRST_COMPLETED)
        with suppress(InvalidStateError):  # nobody waits for it any more
            if not work.done() or work.cancelled():
                followed.set_exception(RuntimeError("the event loop that the model was asked in has ended"))
            elif (error := work.exception()) is not None:
                followed.set_exception(error)
            else:
                followed.set_result(work.result())
        if not loop.is_closed():
            work.cancel()
        else:
            with suppress(RuntimeError, ValueError):  # nobody runs it any more: it ends here, and nobody is warned
                coroutine.close()

    threading.Thread(target=follow, name="unabridged-follow", daemon=True).start()
    return followed


def _argument(speaker: Speaker, ask: Ask) -> Ask | str:
    """What the model is called with. Lists are copies, so that what it appends changes nobody's conversation."""
    if speaker.takes_ask:
        given = {key: getattr(ask, key) for key in ("system", "messages", "tools")}
        lists: Any = {key: copy(value) for key, value in given.items() if isinstance(value, Sequence | Mapping)}
        return replace(ask, **lists)
    if ask.messages:
        raise SettingsError(f"{speaker.name} takes a text, so it can't be asked as a suffix of the live prompt")
    return ask.instruction


# -- the event loop of this process ------------------------------------------------------------------------------------

_lock = threading.Lock()
_homes: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of each process, by its id: a forked child starts its own, since no thread survives a fork."""


def at_home(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run the coroutine on the loop of this process; a future that any thread may wait for."""
    return asyncio.run_coroutine_threadsafe(coroutine, home())


def home() -> asyncio.AbstractEventLoop:
    """The loop of this process, running; started when first needed, and anew when it was closed."""
    with _lock:
        loop = _homes.get(os.getpid())
        if loop is None or loop.is_closed():
            loop = asyncio.new_event_loop()
            threading.Thread(target=_keep_running, args=(loop,), name="unabridged-home", daemon=True).start()
            _homes[os.getpid()] = loop
        return loop


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is closed, whatever stops it: a task that leaves the loop by force, or `loop.stop()`."""
    while not loop.is_closed():
        with suppress(BaseException):  # `SystemExit` in a task, say: the loop belongs to everybody
            loop.run_forever()


def _renew() -> None:
    """In a forked child: a lock that another thread held would never be released."""
    global _lock  # noqa: PLW0603 - the one place that replaces it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
