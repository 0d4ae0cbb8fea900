"""A model as it is called: what it takes, and how a call is started without waiting for it.

A blocking model runs in a daemon thread of its own, an async one as a task: either can be abandoned. Coroutines asked
for from plain threads, and those of provider strings, run on one event loop kept for the process, so that a client's
connections are never used from two loops; the agent's own model is asked on the agent's loop. The loop of the process
survives whatever runs on it: a coroutine that raises `SystemExit`, one that stops the loop, a fork. One that was closed
all the same is replaced by the next call.
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
from unabridged.asking.drivers import await_and_wrap_errors, find_free_loop, wrap_in_exception
from unabridged.asking.replies import read_reply
from unabridged.errors import SettingsError
from unabridged.tokens.estimate import estimate
from unabridged.tokens.models import find_model_info

T = TypeVar("T")

LOOP_CHECK_SECONDS = 0.2
"""How often a call in another thread's event loop is checked: that loop may have ended."""


class LateBoundModel:
    """A summariser that stands for a model which only the request under way knows: the agent's own.

    Its window is the agent's, as the provider has taught it, whatever the table says of the name. It runs in the
    caller's event loop wherever that is possible: the model's connections belong there.
    """

    remedy = ""
    """What to do to have a model where there is none."""

    def explain_missing_model(self) -> str:
        """Return why there is no model to ask now; "" where there is one."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CallableModel:
    """A model and how to call it."""

    name: str
    call: Callable[[Any], Any]
    takes_ask: bool
    """Else it takes a text, and returns one."""
    is_async: bool
    on_own_loop: bool = False
    """Whether its coroutines belong on the event loop of the process, from wherever they are asked for."""
    window: int | None = None
    """The most tokens it takes, as given, else as the model table knows it by its name; None when neither does."""
    late_bound: LateBoundModel | None = None
    """The model itself, where only the request under way knows it."""

    def explain_missing_model(self) -> str:
        """Return why it can't be asked now; "" where it can."""
        return self.late_bound.explain_missing_model() if self.late_bound is not None else ""


PendingCall = Future[Reply] | asyncio.Future[Reply]
"""A call under way: a future of a thread, or a task."""


def wrap_model(model: Any, window: int | None = None) -> CallableModel:
    """Return the model, wrapped; raise `SettingsError` when it is neither a callable nor a `"provider:name"`."""
    if isinstance(model, CallableModel):
        return model
    if isinstance(model, str):
        from unabridged.asking.providers import open_model  # noqa: PLC0415 - an SDK is imported only when one is used

        model = open_model(model)
    if not callable(model):
        raise SettingsError(f'model must be a callable, "provider:name" or None; got {type(model).__name__}')
    call = getattr(model, "__call__", None)  # noqa: B004 - what it is called by matters, not whether it can be
    is_async = inspect.iscoroutinefunction(model) or inspect.iscoroutinefunction(call)
    name = getattr(model, "name", None) or getattr(model, "__qualname__", None) or type(model).__name__
    late = model if isinstance(model, LateBoundModel) else None
    info = find_model_info(str(name)) if late is None else None
    window = window or (info.window if info else None)
    on_own_loop = getattr(model, "on_own_loop", False)
    return CallableModel(str(name), model, _accepts_ask(model), is_async, on_own_loop, window, late)


def close_model(model: CallableModel) -> None:
    """Close the connections of a provider's model; other models are their owners' to close."""
    if model.on_own_loop:
        run_on_own_loop(model.call.aclose()).result(10)  # type: ignore[attr-defined] # ProviderModel


def _accepts_ask(model: Callable[..., Any]) -> bool:
    """Return whether its first parameter is an `Ask`: by its annotation, without one by its name, `ask`."""
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


def fits_window(model: CallableModel, ask: Ask) -> bool:
    """Return whether the model can take the ask: it was made for a window as small, or is no longer than the window."""
    if model.window is None or ask.window is None or ask.window <= model.window:
        return True
    return not ask.messages and estimate(ask.instruction, "unknown") + ask.max_tokens <= model.window


def start_call(model: CallableModel, ask: Ask, *, here: bool) -> PendingCall:
    """Start the call and return at once. `here`: the running event loop may carry an async model."""
    if not model.is_async:
        return _call_in_thread(model, ask)
    coroutine = _call_async(model, ask)
    if here and not model.on_own_loop:
        return asyncio.ensure_future(coroutine)
    loop = find_free_loop() if model.late_bound is not None else None
    return run_on_own_loop(coroutine) if loop is None else _run_in_loop(coroutine, loop)


async def _call_async(model: CallableModel, ask: Ask) -> Reply:
    async def call() -> Any:
        return await model.call(_build_argument(model, ask))

    return read_reply(await await_and_wrap_errors(call(), model.name), model.name)


def _call_in_thread(model: CallableModel, ask: Ask) -> Future[Reply]:
    work: Future[Reply] = Future()
    work.set_running_or_notify_cancel()  # from now on it ends only when the call returns

    def call() -> None:
        try:
            result = model.call(_build_argument(model, ask))
            if inspect.isawaitable(result):
                result = run_on_own_loop(await_and_wrap_errors(result, model.name)).result()
            work.set_result(read_reply(result, model.name))
        except BaseException as error:  # noqa: BLE001 - it is handed to the one who waits
            work.set_exception(wrap_in_exception(error, model.name))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(call,), name="unabridged-ask", daemon=True).start()
    return work


def _run_in_loop(coroutine: Coroutine[Any, Any, Reply], loop: asyncio.AbstractEventLoop) -> Future[Reply]:
    """Run the call on the caller's loop, from another thread; it fails where that loop is closed before its end."""
    try:
        work = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:  # it was closed since it was found
        return run_on_own_loop(coroutine)
    followed: Future[Reply] = Future()

    def follow() -> None:
        while not work.done() and not followed.done() and not loop.is_closed():
            wait([work, followed], LOOP_CHECK_SECONDS, FIRST_COMPLETED)
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
            with suppress(RuntimeError, ValueError):  # nobody runs it any more: closed here, it causes no warning
                coroutine.close()

    threading.Thread(target=follow, name="unabridged-follow", daemon=True).start()
    return followed


def _build_argument(model: CallableModel, ask: Ask) -> Ask | str:
    """Return what the model is called with. Lists are copies: what it appends changes nobody's conversation."""
    if model.takes_ask:
        fields = {key: getattr(ask, key) for key in ("system", "messages", "tools")}
        lists: Any = {key: copy(value) for key, value in fields.items() if isinstance(value, Sequence | Mapping)}
        return replace(ask, **lists)
    if ask.messages:
        raise SettingsError(f"{model.name} takes a text, so it can't be asked as a suffix of the live prompt")
    return ask.instruction


# -- the event loop of this process ------------------------------------------------------------------------------------

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of each process, by its id: a forked child starts its own, since no thread survives a fork."""


def run_on_own_loop(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run the coroutine on the loop of this process; return a future that any thread may wait for."""
    return asyncio.run_coroutine_threadsafe(coroutine, get_own_loop())


def get_own_loop() -> asyncio.AbstractEventLoop:
    """Return the running loop of this process, started when it is first needed and again when it was closed."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None or loop.is_closed():
            loop = asyncio.new_event_loop()
            threading.Thread(target=_keep_loop_running, args=(loop,), name="unabridged-home", daemon=True).start()
            _loops[os.getpid()] = loop
        return loop


def _keep_loop_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is closed, whatever stops it: a task that leaves the loop by force, or `loop.stop()`."""
    while not loop.is_closed():
        with suppress(BaseException):  # `SystemExit` in a task, say: the loop belongs to everybody
            loop.run_forever()


def _renew_lock() -> None:
    """Replace the lock in a forked child: one that another thread held would never be released."""
    global _lock  # noqa: PLW0603 - the one place that replaces it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
