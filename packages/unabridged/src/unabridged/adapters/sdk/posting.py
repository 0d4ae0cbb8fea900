"""One request of a wrapped client: fitted before it is sent, learned from, and sent once more where it is too long."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any

from unabridged.adapters.kit import Body, Endpoint, Exchanged, Request, Steps, arun, awatch, blocking, run, watch
from unabridged.adapters.sdk.endpoints import STREAMS, endpoint_of
from unabridged.adapters.sdk.history import History
from unabridged.errors import WontFit

Function = Callable[..., Any]
ITEMS = "_iterator"
"""What the SDKs' streams take their items from."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the client's: the request in its body, and what posts a body."""

    request: Request
    endpoint: Endpoint
    body: Body
    post: Callable[[Body], Any]

    def send(self, messages: list[Any]) -> Any:
        """Post these messages; below the trigger the very body that was given."""
        if messages is self.request.messages:
            return self.post(self.body)
        return self.post(self.endpoint.with_messages(self.body, messages))

    def exchange(self) -> Steps[Exchanged[Any]]:
        """What was sent and its response; the provider's own error where no shorter request can be made."""
        try:
            return (yield from self.request.exchange(self.send))
        except WontFit as wont:
            raise refusal_in(wont) from None

    def watch(self, stream: Any, sent: Exchanged[Any]) -> Any:
        """The SDK's stream; one that is refused after it was opened goes on with a second response."""
        ours = weakref.ref(stream)

        def open_again(messages: list[Any]) -> Any:
            return _adopt(ours, self.send(messages))

        items = watch(self.request, sent.fitted, getattr(stream, ITEMS), open_again, STREAMS[self.endpoint.format.name])
        setattr(stream, ITEMS, with_own_errors(items))
        return stream

    def awatch(self, stream: Any, sent: Exchanged[Any]) -> Any:
        """`watch` for an event loop."""
        ours = weakref.ref(stream)

        async def open_again(messages: list[Any]) -> Any:
            return _adopt(ours, await self.send(messages))

        items = awatch(
            self.request, sent.fitted, getattr(stream, ITEMS), open_again, STREAMS[self.endpoint.format.name]
        )
        setattr(stream, ITEMS, with_own_errors_async(items))
        return stream


def refusal_in(wont: WontFit) -> Exception:
    """The provider's own error, with what we know of it as a note; the given one where nothing was sent yet."""
    refusal = wont.__cause__
    if not isinstance(refusal, Exception):
        return wont
    refusal.add_note(f"unabridged: {wont}")
    return refusal


def with_own_errors(items: Iterator[Any]) -> Iterator[Any]:
    """The items; the provider's own error where no shorter request can be made."""
    try:
        yield from items
    except WontFit as wont:
        raise refusal_in(wont) from None


async def with_own_errors_async(items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """`with_own_errors` for an event loop."""
    try:
        async with aclosing(items):
            async for item in items:
                yield item
    except WontFit as wont:
        raise refusal_in(wont) from None


def fit_post(post: Function, history: History, *, is_async: bool) -> Function:
    """The `post` of a client, with every conversation in a body fitted."""
    send = _asend if is_async else _send

    @wraps(post)
    def fitted(path: str, *, body: Any = None, **options: Any) -> Any:
        return send(history, endpoint_of(path), body, lambda shorter: post(path, body=shorter, **options))

    return fitted


def fit_method(method: Function, history: History, endpoint: Endpoint, *, is_async: bool) -> Function:
    """A method of a resource, with the conversation in its arguments fitted before the SDK makes JSON of it."""
    send = _asend if is_async else _send

    @wraps(method)
    def fitted(**arguments: Any) -> Any:
        return send(history, endpoint, arguments, lambda shorter: method(**shorter))

    return fitted


def _send(history: History, endpoint: Endpoint | None, body: Any, post: Callable[[Body], Any]) -> Any:
    if endpoint is None or history.leaves_alone(endpoint, body):
        return post(body)
    call, sent = run(_carry_out(history, endpoint, body, post))
    return call.watch(sent.response, sent) if _is_stream(sent.response) else sent.response


async def _asend(history: History, endpoint: Endpoint | None, body: Any, post: Callable[[Body], Any]) -> Any:
    if endpoint is None or history.leaves_alone(endpoint, body):
        return await post(body)
    call, sent = await arun(_carry_out(history, endpoint, body, post))
    return call.awatch(sent.response, sent) if _is_stream(sent.response) else sent.response


def open_call(history: History, endpoint: Endpoint, body: Body, post: Callable[[Body], Any]) -> Steps[Call]:
    """The call, with its request measured for the model that it names."""
    body = endpoint.whole(body)
    if history.is_ready(endpoint):
        return Call(history.request(endpoint, body), endpoint, body, post)
    request: Request = yield blocking(history.request, endpoint, body)
    return Call(request, endpoint, body, post)


def _carry_out(
    history: History, endpoint: Endpoint, body: Body, post: Callable[[Body], Any]
) -> Steps[tuple[Call, Exchanged[Any]]]:
    call = yield from open_call(history, endpoint, body, post)
    sent = yield from call.exchange()
    call.request.observe(sent.fitted, _raw_report(sent.response))
    return call, sent


def _raw_report(response: Any) -> Any:
    """What a raw response (`with_raw_response`) reports, if it is there already; else None."""
    raw = getattr(response, "http_response", None)
    if raw is None or not getattr(raw, "is_closed", False):
        return None
    with suppress(Exception):  # an answer that is no JSON reports nothing
        return raw.json()
    return None


def _is_stream(response: Any) -> bool:
    """Whether this is the SDK's own stream of events."""
    return hasattr(response, ITEMS) and hasattr(response, "response")


def _adopt(ours: weakref.ref[Any], again: Any) -> Any:
    """The items of the second response, which now is that of the stream that the caller holds."""
    if (stream := ours()) is not None:
        stream.response = again.response
    return getattr(again, ITEMS)
