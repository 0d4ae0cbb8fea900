"""The callback: LiteLLM shows it each async request before it is sent, and says afterwards what became of it.

A request that is refused as too long is made shorter at once. Where LiteLLM can send it again, it sends that:
`acompletion` by its own `context_window_fallback_dict`, a router by its retry policy. Else the caller gets the refusal.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, TypeVar, cast

import litellm
from litellm.exceptions import ContextWindowExceededError
from litellm.integrations.custom_logger import CustomLogger

from unabridged.adapters import kit
from unabridged.adapters.kit.context import set_temporarily
from unabridged.adapters.litellm.deployments import ENDPOINTS, find_namespace, find_session
from unabridged.adapters.sdk import History
from unabridged.adapters.sdk.requests import fit_method
from unabridged.archive import codec
from unabridged.archive.names import Name
from unabridged.asking.overflow import is_overflow
from unabridged.compactor import Compaction
from unabridged.errors import WontFit

F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger("unabridged.litellm")
codec.allow("litellm.types.utils")  # a `Message` of LiteLLM's may stand in a conversation

_is_fitting: ContextVar[bool] = ContextVar("unabridged_litellm_is_fitting", default=False)
"""Whether a call made here is one of ours: a summariser may ask by way of LiteLLM."""
_numbers = itertools.count(1)
_CALLBACK_LISTS = (
    "callbacks", "input_callback", "success_callback", "failure_callback", "_async_success_callback",
    "_async_failure_callback",
)  # fmt: skip
"""The first is the program's; the callbacks in it are put into the others with the first call."""
_MAX_OPEN_CALLS = 256
"""Calls at once; of more, whose ends were never reported, only the newest are remembered."""
_REPEATED = "acompletion"
"""The type of the calls that LiteLLM itself sends once more, with another model, when they are too long."""
_MODELS_FIELD = "context_window_fallback_dict"
"""Where it looks for that model, by the name of the first; the same one will do, with a shorter list."""


@dataclass(frozen=True, slots=True)
class _OpenCall:
    """A call that a model is answering."""

    kind: str
    model: str
    request: kit.Request
    fitted: Compaction
    sent: list[Any]
    """The list that LiteLLM sends: once more, if it is refused and a shorter one was put into it."""
    fallbacks: dict[str, str]
    """Where LiteLLM then looks for the model to send it to."""


class CompactionCallback(CustomLogger):
    """Keeps what LiteLLM sends within its model's window. Takes the keywords of `Compactor`.

    A call belongs to the thread of the context (`with unabridged.thread("t1"):`), else to the session that it names
    (`litellm_session_id`, or `session_id` in its metadata), else to `thread`. Without any of these, a conversation is
    known by what it says. Behind LiteLLM's proxy each key has a namespace of its own. `history` replays, undoes and
    searches.
    """

    def __init__(self, thread: Name | None = None, **keywords: Any) -> None:
        super().__init__()
        self.history = History(thread, **keywords)
        self.number = next(_numbers)  # LiteLLM takes two callbacks with equal attributes for one
        self._open_calls: kit.BoundedMapping[str, _OpenCall] = kit.BoundedMapping(_MAX_OPEN_CALLS)

    def around(self, function: F) -> F:
        """Return `litellm.completion`, or another sync function of LiteLLM's or a router's, with its requests fitted.

        One that is refused as too long is sent once more, shorter.
        """
        endpoint = ENDPOINTS.get(function.__name__)
        if endpoint is None or inspect.iscoroutinefunction(function):
            raise TypeError(f"around takes a sync function such as litellm.completion, not {function!r}")
        send = fit_method(function, self.history, endpoint, is_async=False)
        names = list(inspect.signature(function).parameters)

        @wraps(function)
        def fitted(*arguments: Any, **options: Any) -> Any:
            call = {**dict(zip(names, arguments, strict=False)), **options}
            with _in_thread_of(call):
                return send(**call)

        return cast("F", fitted)

    def close(self) -> None:
        """Take the callback out of LiteLLM's lists, and close the archive if it was opened here."""
        for name in _CALLBACK_LISTS:
            if self in (callbacks := getattr(litellm, name)):
                callbacks.remove(self)
        self.history.close()

    # -- what LiteLLM calls -------------------------------------------------------------------------------------------

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """Return the call with messages that fit; None to leave it as it is."""
        kind, call_id = str(getattr(call_type, "value", call_type)), str(kwargs.get("litellm_call_id"))
        endpoint, outer = ENDPOINTS.get(kind), self._open_calls.get(call_id)
        if endpoint is None or _is_fitting.get() or (outer is not None and outer.kind != kind):
            return None  # a call that LiteLLM makes of another was fitted already, in the format of its caller
        if endpoint.messages not in kwargs:
            log.warning("a call is sent as it is: LiteLLM shows %s here only when passed by name", endpoint.messages)
        if self.history.is_sent_unchanged(endpoint, kwargs):
            return None
        body = endpoint.with_lists({"model": getattr(kwargs.get("litellm_logging_obj"), "model", None), **kwargs})
        make = partial(self.history.request, endpoint, body, namespace=find_namespace(kwargs))
        with _in_thread_of(kwargs), set_temporarily(_is_fitting, True):
            made = make() if self.history.is_ready(endpoint) else await asyncio.to_thread(make)
            request = replace(made, as_host_error=partial(_to_window_error, body["model"]))
            fitted = await kit.arun(request.fit())
        call = _OpenCall(kind, kwargs.get("model", ""), request, fitted, list(fitted.messages), {})
        self._open_calls[call_id] = call
        if kind == _REPEATED:
            return {_MODELS_FIELD: call.fallbacks, **kwargs, endpoint.messages: call.sent}
        return None if fitted.messages is request.messages else {**kwargs, endpoint.messages: call.sent}

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        """Learn from the usage that a whole response reports."""
        del call_type
        self._observe(request_data, response)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Learn from a stream at its end, if its usage was asked for; else what is here is LiteLLM's own estimate."""
        del start_time, end_time
        options = kwargs.get("stream_options") or (kwargs.get("optional_params") or {}).get("stream_options") or {}
        self._observe(kwargs, response_obj if options.get("include_usage") else None)

    async def async_post_call_failure_deployment_hook(self, request_data: Any, exception: Any, call_type: Any) -> None:
        """Make what was refused as too long shorter."""
        del call_type
        await self._shorten(request_data, exception)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Learn from a refusal in versions of LiteLLM that have no other hook for it."""
        del response_obj, start_time, end_time
        await self._shorten(kwargs, kwargs.get("exception"))

    # -- what becomes of a call ---------------------------------------------------------------------------------------

    def _observe(self, data: kit.Body, report: Any) -> None:
        call = self._open_calls.pop(str(data.get("litellm_call_id")), None)
        if call is not None:
            call.request.observe(call.fitted, report)

    async def _shorten(self, data: kit.Body, error: Any) -> None:
        """Put a shorter list where LiteLLM has the refused one; what can't be made shorter is the caller's error."""
        call = self._open_calls.pop(str(data.get("litellm_call_id")), None)
        if call is None or is_overflow(error) is None:
            return
        try:
            with set_temporarily(_is_fitting, True):
                shorter = await kit.arun(call.request.shorten(call.fitted, error))
        except Exception as other:  # noqa: BLE001 - LiteLLM would only log it
            log.warning("the request is too long, and stays so: %s", other)
            return
        call.sent[:] = shorter.messages
        call.fallbacks[call.model] = call.model


@contextmanager
def _in_thread_of(call: kit.Body) -> Iterator[None]:
    """Set the thread of the context to the session that the call names, if there is none."""
    session = find_session(call) if kit.current_thread() is None else None
    with nullcontext() if session is None else kit.thread(session):
        yield


def _to_window_error(model: Any, wont: WontFit) -> Exception:
    """Return LiteLLM's own error, which lets a router take a model with a larger window."""
    error: Exception = ContextWindowExceededError(str(wont), str(model), "")
    return error
