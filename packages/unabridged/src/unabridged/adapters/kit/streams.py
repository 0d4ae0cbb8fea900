"""A streamed response: fitted before it is opened, opened once more where it is refused, learned from at its end."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import Any

from unabridged.adapters.kit.engine import Request
from unabridged.adapters.kit.sync_async import Steps, arun, run
from unabridged.asking.overflow import is_overflow
from unabridged.compactor import Compaction
from unabridged.errors import WontFit


class Stream:
    """Reads the items of one kind of stream; a subclass for each kind."""

    def begins_answer(self, item: Any) -> bool:  # noqa: ARG002 - for those that can tell
        """Return whether the model has begun to answer: what comes before is kept back, it may end in a refusal."""
        return True

    def refuses(self, item: Any) -> bool:
        """Return whether the item says that the request is too long."""
        return is_overflow(item) is not None

    def usage(self, item: Any) -> Any:
        """Return what the item reports of the request's tokens, or None."""
        return item


class ResponseEventStream(Stream):
    """Events of OpenAI's Responses API: a response that was begun may still fail."""

    STARTING = frozenset({"response.created", "response.queued", "response.in_progress"})

    def begins_answer(self, item: Any) -> bool:
        """Return whether the model has begun to answer."""
        return getattr(item, "type", None) not in self.STARTING

    def usage(self, item: Any) -> Any:
        """Return what the response reports when it is complete."""
        return getattr(getattr(item, "response", None), "usage", None)


class StreamRefused(Exception):  # noqa: N818 - never seen outside
    """A stream was opened, and then said that the request is too long."""

    def __init__(self, item: Any) -> None:
        super().__init__("the request is too long")
        self.item = item


class _StreamState:
    """What came of one stream so far: items kept back, and the newest report of its usage."""

    def __init__(self, kind: Stream, *, last: bool = False) -> None:
        self.kind, self.is_last = kind, last
        self.items: list[Any] | None = []
        """None as soon as the model has begun to answer."""
        self.report: Any = None

    def add_item(self, item: Any) -> list[Any]:
        """Return the items to hand on now; raise `StreamRefused` when a first stream says the request is too long."""
        if (report := self.kind.usage(item)) is not None:
            self.report = report
        if self.items is None:
            return [item]
        if not self.is_last and self.kind.refuses(item):
            raise StreamRefused(item)
        self.items.append(item)
        if not self.kind.begins_answer(item):
            return []
        ready, self.items = self.items, None
        return ready

    def refused_items(self, error: Exception) -> list[Any]:
        """Return the items of a stream that was refused, as the provider sent them."""
        return [*(self.items or ()), error.item] if isinstance(error, StreamRefused) else []


def stream(request: Request, open_stream: Callable[[list[Any]], Iterator[Any]], kind: Stream) -> Iterator[Any]:
    """Yield the items of the response to what fits; of a second one, to something shorter, where it was refused.

    It is learned from even if it is left early. A refusal among the items is shown where nothing can be shortened.
    """
    yield from stream_fitted(request, run(request.fit()), None, open_stream, kind)


def stream_fitted(
    request: Request, fitted: Compaction, opened: Any, open_stream: Callable[[list[Any]], Iterator[Any]], kind: Stream
) -> Iterator[Any]:
    """Yield the items of the response to `fitted`, which is `opened` already or None; if refused, retry shorter."""
    state = _StreamState(kind)
    try:
        try:
            yield from _read_items(open_stream(fitted.messages) if opened is None else opened, state)
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            if (shorter := run(_shorten(request, fitted, state, error))) is None:
                yield from state.refused_items(error)
                return
            fitted, state = shorter, _StreamState(kind, last=True)
            yield from _read_items(open_stream(fitted.messages), state)
    finally:
        request.observe(fitted, state.report)


def _read_items(opened: Any, state: _StreamState) -> Iterator[Any]:
    try:
        for item in opened:
            yield from state.add_item(item)
        yield from state.items or ()
    finally:
        if (close := getattr(opened, "close", None)) is not None:
            with suppress(Exception):  # the answer is there, whatever becomes of the connection
                close()


async def astream(request: Request, open_stream: Callable[[list[Any]], Any], kind: Stream) -> AsyncGenerator[Any, None]:
    """Run `stream` in an event loop; `open_stream` returns an async iterator, or an awaitable of one."""
    async with aclosing(astream_fitted(request, await arun(request.fit()), None, open_stream, kind)) as items:
        async for item in items:
            yield item


async def astream_fitted(
    request: Request, fitted: Compaction, opened: Any, open_stream: Callable[[list[Any]], Any], kind: Stream
) -> AsyncGenerator[Any, None]:
    """Run `stream_fitted` in an event loop; `opened` may be an awaitable."""
    state = _StreamState(kind)
    try:
        try:
            first = open_stream(fitted.messages) if opened is None else opened
            async with aclosing(_aread_items(first, state)) as items:
                async for item in items:
                    yield item
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            shorter = await arun(_shorten(request, fitted, state, error))
            if shorter is None:
                for item in state.refused_items(error):
                    yield item
                return
            fitted, state = shorter, _StreamState(kind, last=True)
            async with aclosing(_aread_items(open_stream(fitted.messages), state)) as items:
                async for item in items:
                    yield item
    finally:
        request.observe(fitted, state.report)


async def _aread_items(opening: Any, state: _StreamState) -> AsyncGenerator[Any, None]:
    opened = await opening if inspect.isawaitable(opening) else opening
    try:
        async for item in opened:
            for ready in state.add_item(item):
                yield ready
        for ready in state.items or ():
            yield ready
    finally:
        if (close := getattr(opened, "aclose", None) or getattr(opened, "close", None)) is not None:
            with suppress(Exception):
                await close()


def _shorten(request: Request, fitted: Compaction, state: _StreamState, error: Exception) -> Steps[Compaction | None]:
    """Return what to send in place of a refused request; None where the stream's own refusal is all there is.

    Raise the error itself once the model has begun to answer.
    """
    if state.items is None:
        raise error
    try:
        return (yield from request.shorten(fitted, error.item if isinstance(error, StreamRefused) else error))
    except WontFit:
        if isinstance(error, StreamRefused):
            return None
        raise
