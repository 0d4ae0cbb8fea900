"""A model as we call it: what it takes, how a call is started without waiting for it, and what its errors mean.

A blocking model runs in a daemon thread of its own, an async one as a task: either can be left to itself. Coroutines
asked for from plain threads, and those of provider strings, live on one event loop kept for them (`home`), so that a
client's connections are never used from two loops.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol

from unabridged.asking.ask import Ask, Reply
from unabridged.asking.drivers import as_error, guarded
from unabridged.asking.home import at_home
from unabridged.asking.replies import read_reply
from unabridged.errors import SettingsError
from unabridged.measure.estimate import estimate
from unabridged.measure.models import model_info


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


class Work(Protocol):
    """A call under way: a future of a thread, or a task."""

    def done(self) -> bool: ...  # noqa: D102
    def cancel(self) -> bool: ...  # noqa: D102
    def cancelled(self) -> bool: ...  # noqa: D102
    def exception(self) -> BaseException | None: ...  # noqa: D102
    def result(self) -> Any: ...  # noqa: D102
    def add_done_callback(self, fn: Callable[[Any], object], /) -> None: ...  # noqa: D102


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
    info = model_info(str(name))
    window = window or (info.window if info else None)
    return Speaker(str(name), model, _takes_ask(model), is_async, getattr(model, "at_home", False), window)


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
    return at_home(coroutine)


async def _call(speaker: Speaker, ask: Ask) -> Reply:
    async def said() -> Any:
        return await speaker.call(_argument(speaker, ask))

    return read_reply(await guarded(said(), speaker.name), speaker.name)


def _in_thread(speaker: Speaker, ask: Ask) -> Future[Reply]:
    work: Future[Reply] = Future()
    work.set_running_or_notify_cancel()  # from now on it ends only when the call returns

    def body() -> None:
        try:
            result = speaker.call(_argument(speaker, ask))
            if inspect.isawaitable(result):
                result = at_home(guarded(result, speaker.name)).result()
            work.set_result(read_reply(result, speaker.name))
        except BaseException as error:  # noqa: BLE001 - it is handed to the one who waits
            work.set_exception(as_error(error, speaker.name))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(body,), name="unabridged-ask", daemon=True).start()
    return work


def _argument(speaker: Speaker, ask: Ask) -> Ask | str:
    """What the model is called with. Lists are copies, so that what it appends changes nobody's conversation."""
    if speaker.takes_ask:
        copies = {key: _copied(getattr(ask, key)) for key in ("system", "messages", "tools")}
        return replace(ask, **copies)
    if ask.messages:
        raise SettingsError(f"{speaker.name} takes a text, so it can't be asked as a suffix of the live prompt")
    return ask.instruction


def _copied(value: Any) -> Any:
    if isinstance(value, tuple) or not isinstance(value, Sequence | Mapping) or isinstance(value, str):
        return value
    return dict(value) if isinstance(value, Mapping) else list(value)


# -- what an error means ----------------------------------------------------------------------------------------------

_OUR_FAULT = (TypeError, AttributeError, NameError, ImportError, NotImplementedError, AssertionError, SettingsError)


def lasting(error: BaseException) -> bool:
    """Whether the same call would fail the same way again."""
    if isinstance(error, _OUR_FAULT) or type(error).__name__ == "UserError":
        return True
    status = status_of(error)
    return status is not None and 400 <= status < 500 and status not in {408, 409, 425, 429}


def status_of(error: BaseException) -> int | None:
    """The HTTP status an SDK's exception carries."""
    for holder in (error, _field(error, "response")):
        for key in ("status_code", "status", "code"):
            value = _field(holder, key)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
                return value
    return None


def wait_told(error: BaseException) -> float | None:
    """The seconds after which the provider wants to be asked again."""
    for headers in (_field(_field(error, "response"), "headers"), _field(error, "headers")):
        try:
            seconds = float(headers.get("retry-after")) if headers is not None else -1.0
        except (AttributeError, TypeError, ValueError):
            continue
        if seconds >= 0:
            return seconds
    return None


def _field(holder: Any, key: str) -> Any:
    """An attribute, as far as it can be had: an SDK's property may raise anything."""
    try:
        return getattr(holder, key, None)
    except Exception:  # noqa: BLE001 - see above
        return None
