"""One request of a wrapped client: fitted before it is sent, learned from, and sent once more where it is too long."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from unabridged.adapters import kit
from unabridged.adapters.kit.native import add_compaction_beta
from unabridged.adapters.sdk.endpoints import STREAMS, find_endpoint
from unabridged.adapters.sdk.history import History
from unabridged.adapters.sdk.native_model import NativeModel
from unabridged.formats.fields import begins_with_compaction

Function = Callable[..., Any]
Post = Callable[[kit.Body], Any]
"""Posts a body."""
NativeMaker = Callable[..., NativeModel] | None
"""Returns what has the provider compact, for a body in this format, with these headers; None where nothing does."""
ITEMS_ATTRIBUTE = "_iterator"
"""The attribute that the SDKs' streams take their items from."""


@dataclass(frozen=True, slots=True)
class SdkCall:
    """One call of the client's: the request in its body, and the function that posts a body."""

    request: kit.Request
    endpoint: kit.Endpoint
    body: kit.Body
    post: Post

    def send(self, messages: list[Any]) -> Any:
        """Post these messages; below the trigger the very body that was passed."""
        if messages is self.request.messages:
            return self.post(self.body)
        return self.post(self.endpoint.with_messages(self.body, messages))

    def wrap_stream(self, stream: Any, sent: kit.ExchangeResult[Any], *, is_async: bool) -> Any:
        """Return the SDK's stream; one that is refused after it was opened goes on with a second response."""
        ours = weakref.ref(stream)

        def open_again(messages: list[Any]) -> Any:
            return _take_over_response(ours, self.send(messages))

        async def aopen_again(messages: list[Any]) -> Any:
            return _take_over_response(ours, await self.send(messages))

        kind = STREAMS[self.endpoint.format.name]
        watched: Any = kit.astream_fitted if is_async else kit.stream_fitted
        again = aopen_again if is_async else open_again
        items = watched(self.request, sent.fitted, getattr(stream, ITEMS_ATTRIBUTE), again, kind)
        setattr(stream, ITEMS_ATTRIBUTE, items)
        return stream


def fit_post(post: Function, history: History, *, is_async: bool, native: NativeMaker = None) -> Function:
    """Return the `post` of a client, with every conversation in a body fitted; `native`: by the provider itself."""

    @wraps(post)
    def fitted(path: str, *, body: Any = None, **options: Any) -> Any:
        endpoint, more = find_endpoint(path), options.get("options") or {}
        headers = more.get("headers") or {}

        def send_body(shorter: kit.Body) -> Any:
            if native and endpoint is kit.MESSAGES_ENDPOINT and begins_with_compaction(shorter["messages"]):
                with_beta = {**more, "headers": dict(add_compaction_beta(headers.items()))}
                return post(path, body=shorter, **{**options, "options": with_beta})
            return post(path, body=shorter, **options)

        own = native and partial(native, headers=headers)
        return _send_fitted(history, endpoint, body, send_body, own, is_async=is_async)

    return fitted


def fit_method(
    method: Function, history: History, endpoint: kit.Endpoint, *, is_async: bool, native: NativeMaker = None
) -> Function:
    """Return a method of a resource, with the conversation in its arguments fitted before the SDK makes JSON of it."""

    @wraps(method)
    def fitted(**arguments: Any) -> Any:
        own = native and partial(native, headers=arguments.get("extra_headers") or {})
        return _send_fitted(history, endpoint, arguments, lambda shorter: method(**shorter), own, is_async=is_async)

    return fitted


def _send_fitted(
    history: History, endpoint: kit.Endpoint | None, body: Any, post: Post, own: NativeMaker, *, is_async: bool
) -> Any:
    """Return the response to what fits; of an async client, an awaitable of it."""
    if endpoint is None or history.is_sent_unchanged(endpoint, body):
        return post(body)
    steps = _run_call(history, endpoint, body, post, own, is_async=is_async)
    return kit.arun(steps) if is_async else kit.run(steps)


def prepare_call(
    history: History, endpoint: kit.Endpoint, body: kit.Body, post: Post, own: NativeMaker = None
) -> kit.Steps[SdkCall]:
    """Return the call, with its request measured for the model that it names."""
    body = endpoint.with_lists(body)
    model = None if own is None else own(body, endpoint.format.name)
    if history.is_ready(endpoint):
        return SdkCall(history.request(endpoint, body, model), endpoint, body, post)
    request: kit.Request = yield kit.call_in_thread(history.request, endpoint, body, model)
    return SdkCall(request, endpoint, body, post)


def _run_call(
    history: History, endpoint: kit.Endpoint, body: kit.Body, post: Post, own: NativeMaker, *, is_async: bool
) -> kit.Steps[Any]:
    """Send what fits; return the response, a stream with what it takes to go on with a second one."""
    call = yield from prepare_call(history, endpoint, body, post, own)
    sent = yield from call.request.exchange(call.send)
    call.request.observe(sent.fitted, _read_raw_report(sent.response))
    return call.wrap_stream(sent.response, sent, is_async=is_async) if _is_stream(sent.response) else sent.response


def _read_raw_report(response: Any) -> Any:
    """Return what a raw response (`with_raw_response`) reports, if it is there already; else None."""
    raw = getattr(response, "http_response", None)
    if raw is None or not getattr(raw, "is_closed", False):
        return None
    with suppress(Exception):  # an answer that is no JSON reports nothing
        return raw.json()
    return None


def _is_stream(response: Any) -> bool:
    """Return whether this is the SDK's own stream of events."""
    return hasattr(response, ITEMS_ATTRIBUTE) and hasattr(response, "response")


def _take_over_response(ours: weakref.ref[Any], second: Any) -> Any:
    """Return the items of the second response, which becomes that of the stream that the caller has."""
    if (stream := ours()) is not None:
        stream.response = second.response
    return getattr(second, ITEMS_ATTRIBUTE)
