"""A streamed response: fitted before it is opened, opened once more where it is refused, learned from at its end."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import Any

from unabridged.adapters.kit.engine import Request
from unabridged.adapters.kit.steps import Steps, arun, run
from unabridged.asking.overflow import is_overflow
from unabridged.compactor import Compaction
from unabridged.errors import WontFit


class Stream:
    """How the items of one kind of stream are told apart; a subclass for each kind."""

    def says(self, item: Any) -> bool:  # noqa: ARG002 - for those that can tell
        """Whether the model has begun to answer: what comes before is held back, since it may end in a refusal."""
        return True

    def refuses(self, item: Any) -> bool:
        """Whether the item says that the request is too long."""
        return is_overflow(item) is not None

    def usage(self, item: Any) -> Any:
        """What the item reports of the request's tokens, or None."""
        return item


class Refused(Exception):  # noqa: N818 - never seen outside
    """A stream that was opened, and then said that the request is too long."""

    def __init__(self, item: Any) -> None:
        super().__init__("the request is too long")
        self.item = item


class _Held:
    """What came of one stream so far: items held back, and the newest report of its usage."""

    def __init__(self, kind: Stream, *, last: bool = False) -> None:
        self.kind, self.last = kind, last
        self.items: list[Any] | None = []
        """None as soon as the model has begun to answer."""
        self.report: Any = None

    def take(self, item: Any) -> list[Any]:
        """The items that can be handed on now; `Refused` when a first stream says that the request is too long."""
        if (report := self.kind.usage(item)) is not None:
            self.report = report
        if self.items is None:
            return [item]
        if not self.last and self.kind.refuses(item):
            raise Refused(item)
        self.items.append(item)
        if not self.kind.says(item):
            return []
        ready, self.items = self.items, None
        return ready

    def refusal(self, error: Exception) -> list[Any]:
        """The items of a stream that was refused, as the provider sent them."""
        return [*(self.items or ()), error.item] if isinstance(error, Refused) else []

    def cause(self, error: Exception) -> Any:
        """What the provider said; the error itself is raised once the model has begun to answer."""
        if self.items is None:
            raise error
        return error.item if isinstance(error, Refused) else error


def stream(request: Request, open_stream: Callable[[list[Any]], Iterator[Any]], kind: Stream) -> Iterator[Any]:
    """The items of the response to what fits; of a second one, to something shorter, where the first was refused.

    It is learned from even if it is left early. A refusal among the items is shown where nothing can be shortened.
    """
    fitted = run(request.fit())
    yield from _stream(request, fitted, lambda: open_stream(fitted.messages), open_stream, kind)


def watch(
    request: Request, fitted: Compaction, opened: Any, open_stream: Callable[[list[Any]], Iterator[Any]], kind: Stream
) -> Iterator[Any]:
    """`stream` for a response that is open already, to what `fitted` says."""
    return _stream(request, fitted, lambda: opened, open_stream, kind)


def _stream(
    request: Request,
    fitted: Compaction,
    open_first: Callable[[], Any],
    open_again: Callable[[list[Any]], Iterator[Any]],
    kind: Stream,
) -> Iterator[Any]:
    held = _Held(kind)
    try:
        try:
            yield from _taken(open_first(), held)
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            again = run(_shortened(request, fitted, held, error))
            if again is None:
                yield from held.refusal(error)
                return
            fitted, held = again, _Held(kind, last=True)
            yield from _taken(open_again(fitted.messages), held)
    finally:
        request.observe(fitted, held.report)


def _taken(opened: Any, held: _Held) -> Iterator[Any]:
    try:
        for item in opened:
            yield from held.take(item)
        yield from held.items or ()
    finally:
        if (close := getattr(opened, "close", None)) is not None:
            with suppress(Exception):  # what was said is said, whatever becomes of the connection
                close()


async def astream(request: Request, open_stream: Callable[[list[Any]], Any], kind: Stream) -> AsyncGenerator[Any, None]:
    """`stream` for an event loop; `open_stream` gives an async iterator, or an awaitable of one."""
    fitted = await arun(request.fit())
    opening = _open(open_stream, fitted.messages)
    async with aclosing(awatch(request, fitted, opening, open_stream, kind)) as items:
        async for item in items:
            yield item


async def _open(open_stream: Callable[[list[Any]], Any], messages: list[Any]) -> Any:
    opened = open_stream(messages)
    return await opened if inspect.isawaitable(opened) else opened


async def awatch(
    request: Request, fitted: Compaction, opened: Any, open_stream: Callable[[list[Any]], Any], kind: Stream
) -> AsyncGenerator[Any, None]:
    """`watch` for an event loop; `opened` may be awaited yet."""
    held = _Held(kind)
    try:
        try:
            async with aclosing(_ataken(opened, held)) as items:
                async for item in items:
                    yield item
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            again = await arun(_shortened(request, fitted, held, error))
            if again is None:
                for item in held.refusal(error):
                    yield item
                return
            fitted, held = again, _Held(kind, last=True)
            async with aclosing(_ataken(open_stream(fitted.messages), held)) as items:
                async for item in items:
                    yield item
    finally:
        request.observe(fitted, held.report)


async def _ataken(opening: Any, held: _Held) -> AsyncGenerator[Any, None]:
    opened = await opening if inspect.isawaitable(opening) else opening
    try:
        async for item in opened:
            for ready in held.take(item):
                yield ready
        for ready in held.items or ():
            yield ready
    finally:
        if (close := getattr(opened, "aclose", None) or getattr(opened, "close", None)) is not None:
            with suppress(Exception):
                await close()


def _shortened(request: Request, fitted: Compaction, held: _Held, error: Exception) -> Steps[Compaction | None]:
    """What to send in place of a request that was refused; None where the stream's own refusal is all there is."""
    try:
        return (yield from request.shorten(fitted, held.cause(error)))
    except WontFit:
        if isinstance(error, Refused):
            return None
        raise
