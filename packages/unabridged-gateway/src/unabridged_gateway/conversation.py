"""One request with a conversation in it, from what the client sent to what it is answered."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from unabridged.adapters.kit import Request, awatch
from unabridged.archive.names import check_name
from unabridged.compactor import Compaction
from unabridged.errors import SettingsError
from unabridged.legal.reasoning import without_thinking
from unabridged.measure.calibrate import Usage, usage_of
from unabridged_gateway import codex, headers
from unabridged_gateway.bodies import JsonBody, Seen
from unabridged_gateway.calls import Call, RawHeaders, relay
from unabridged_gateway.encodings import Body
from unabridged_gateway.fitting import Engines
from unabridged_gateway.protocols import Protocol, is_about_thinking, is_too_long, plain_target
from unabridged_gateway.refusals import Refused
from unabridged_gateway.sse import Piece, Pieces, Reader
from unabridged_gateway.summariser import Client
from unabridged_gateway.told import Told, Way
from unabridged_gateway.upstream import Answer, Headers, Upstream, parsed

_ANSWER = 16 << 20
"""Bytes of a plain answer that are kept to read its usage; a longer one is passed on all the same."""


THREAD = b"x-unabridged-thread"


class Shared(NamedTuple):
    """What all requests use."""

    engines: Engines
    seen: Seen
    upstream: Upstream
    tokens: Mapping[str, str]


class Conversation:
    """One request: fitted where its length does not tell that it fits, sent, and sent again where it is too long."""

    def __init__(self, shared: Shared, call: Call, protocol: Protocol, received: Body, tenant: str) -> None:
        self._engines, self._seen, self._upstream, self._tokens = shared
        self._call, self._protocol, self._received, self._tenant = call, protocol, received, tenant
        self._body: JsonBody | None = None
        self._request: Request | None = None
        """None where it was not read, or there is nothing to fit."""
        self._fitted: Compaction | None = None
        self._answer: Answer | None = None
        """The newest: one that is refused makes room for another."""
        self._thread: str | None = None
        self._note = ""
        self._compacts = False
        """Whether the client asks for a compaction, and not for an answer."""
        self._model, self._rewritten, self._again = "", False, False
        self._usage: Usage | None = None

    async def serve(self) -> None:
        """Answer the client with what the provider says; `Refused` where its conversation has no legal name."""
        self._thread = _named_thread(self._call)
        if not self._engines.fits_by_length(self._received.plain):
            await self._fit()
        if self._compacts and await self._answer_with_compaction():
            return
        try:
            answer = await self._post(self._fitted.messages if self._fitted else None)
            if answer.status >= 400 and (other := await self._in_its_place(answer)) is not None:
                self._again = True
                answer = await self._post(other)
            await relay(self._call, self._pieces(answer), lambda: self._answer or answer, self._about)
        finally:
            if self._answer is not None:
                self._answer.close()

    async def _fit(self) -> None:
        """Read the request and have it fitted, if there is a conversation in it that could be."""
        try:
            self._body = JsonBody(self._received.plain, self._protocol.endpoint.messages, self._seen)
            self._request = await self._read(self._body)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the provider says so
            self._note = f"not read: {type(error).__name__}"
        if self._request is not None:
            self._request, self._fitted, note = await self._engines.fit(self._request)
            self._note = note or self._engines.overruled(self._request, self._model)

    async def _read(self, body: JsonBody) -> Request | None:
        endpoint, call = self._protocol.endpoint, self._call
        if kept := endpoint.kept_by(body):
            self._note = f"the provider keeps this conversation: {kept}"
            return None
        messages: Any = endpoint.conversation(body)
        if not isinstance(messages, list) or not messages:
            return None
        if self._protocol.name == "responses":
            wanted = codex.without_trigger(messages)
            self._compacts = wanted is not None
            messages = codex.unpack(messages if wanted is None else wanted, self._seen)
        self._model = self._protocol.agent(call.path, body, None).name or ""
        client = Client(self._protocol, plain_target(call.target), self._model, self._headers(decoded=True))
        request = await self._engines.request(
            self._protocol, call.path, body, messages, self._thread, namespace=self._tenant, values=client
        )
        return replace(request, on_fitted=self._note_fitted)

    def _note_fitted(self, fitted: Compaction) -> None:
        self._fitted = fitted

    async def _post(self, messages: list[Any] | None) -> Answer:
        """Send the request with these messages; where they are the client's own, the very bytes that came."""
        body = self._body
        same = messages is None or body is None or messages is body.get(self._protocol.endpoint.messages)
        data = self._received.sent if same or messages is None or body is None else body.with_messages(messages)
        self._rewritten = not same
        if self._answer is not None:
            self._answer.close()
        self._call.waiting_since = time.monotonic()
        self._answer = await self._upstream.open(
            self._protocol.family, "POST", self._call.target, self._headers(decoded=not same), data, watched=True
        )
        self._call.waiting_since = time.monotonic()
        return self._answer

    async def _answer_with_compaction(self) -> bool:
        """Answer with the conversation as it was compacted; whether that could be done."""
        if self._request is None or self._body is None:
            return False
        done = await self._engines.compact(self._request)
        if done is None:
            return False
        self._fitted = done
        record = done.receipt.id if done.receipt else "none"
        model = str(self._body.get("model") or "")
        said = codex.answer(model, codex.pack(done.messages), (done.tokens_before, done.tokens_after), record)
        if not self._body.get("stream"):
            await self._call.reply(200, said, self._about())
            return True
        await self._call.begin(200, [(b"content-type", b"text/event-stream"), *self._about()])
        await self._call.end(b"".join(codex.events(said)))
        return True

    def _headers(self, *, decoded: bool) -> Headers:
        watched = self._body is not None
        return headers.to_upstream(self._call.raw_headers, self._tokens, encoded=not decoded, watched=watched)

    async def _in_its_place(self, answer: Answer) -> list[Any] | None:
        """What to send in place of a request that this answer refuses; None where the answer stands."""
        error = await answer.error()
        if is_too_long(error):
            shorter = await self._shortened(error)
            return None if shorter is None else shorter.messages
        if self._fitted is None or not (self._rewritten and is_about_thinking(error)):
            return None
        format_ = self._protocol.endpoint.format
        self._note, self._request = "thinking refused once, and left out", None  # what it takes now teaches nothing
        return without_thinking(self._fitted.messages, format_)

    async def _shortened(self, error: Any) -> Compaction | None:
        """What to send in place of a request that was called too long; None where nothing shorter can be made."""
        self._call.waiting_since = None
        if self._request is None:
            await self._fit()
        if self._request is None or self._fitted is None:
            return None
        done = await self._engines.shorten(self._request, self._fitted, error)
        if done is None:
            return None
        self._request, self._fitted, note = done
        self._note = note or self._note
        return self._fitted

    def _pieces(self, answer: Answer) -> AsyncIterator[bytes]:
        """The bytes of the answer as they come, with an eye on what they report."""
        if self._request is None or self._fitted is None or answer.status >= 400:
            return answer.pieces()
        watch = self._streamed if answer.is_stream else self._plain
        return watch(answer, self._request, self._fitted)

    async def _plain(self, answer: Answer, request: Request, fitted: Compaction) -> AsyncIterator[bytes]:
        kept: list[bytes] = []
        size = 0
        async for piece in answer.pieces():
            size += len(piece)
            if size <= _ANSWER:
                kept.append(piece)
            yield piece
        if answer.is_json and size <= _ANSWER:
            report = self._protocol.report(parsed(b"".join(kept)))
            self._usage = usage_of(report)
            request.observe(fitted, report)

    async def _streamed(self, answer: Answer, request: Request, fitted: Compaction) -> AsyncIterator[bytes]:
        """The events; a refusal before the model has begun is followed by the answer to a shorter request."""
        reader = Reader()

        async def read(opened: Answer) -> AsyncIterator[Piece]:
            async for piece in opened.pieces():
                self._call.waiting_since = None  # what a refusal leads to takes its time
                yield reader.read(piece)
                self._call.waiting_since = time.monotonic()

        async def open_again(messages: list[Any]) -> AsyncIterator[Piece]:
            self._note, self._again = "refused as too long once", True
            return read(await self._post(messages))

        kind = Pieces(self._protocol.events, reader)
        async for piece in awatch(request, fitted, read(answer), open_again, kind):
            yield piece.raw
        self._usage = kind.reported

    def told(self) -> Told:
        """What is told of this request, once it is over."""
        way: Way = "unparsed" if self._body is None else "rewritten" if self._rewritten else "parsed"
        return Told(way, self._received.plain, self._model, self._note, self._fitted, self._again, self._usage)

    def _about(self) -> RawHeaders:
        """What the client is told of its conversation."""
        if not self._note and self._fitted is None:
            return []
        told = {b"x-unabridged-note": " ".join(self._note.split())[:500]}
        if self._fitted is not None:
            told |= {
                THREAD: self._fitted.thread,
                b"x-unabridged-tokens-before": str(self._fitted.tokens_before or ""),
                b"x-unabridged-tokens-after": str(self._fitted.tokens_after or ""),
                b"x-unabridged-record": self._fitted.receipt.id if self._fitted.receipt else "",
            }
        told_as = {THREAD: "utf-8"}
        return [(name, value.encode(told_as.get(name, "ascii"), "replace")) for name, value in told.items() if value]


def _named_thread(call: Call) -> str | None:
    """Return the thread that the client names, None where it names none; what is no name is `Refused`."""
    sent = next((value for name, value in call.raw_headers if name == THREAD), None)
    if sent is None:
        return None
    try:
        return check_name(sent.decode("utf-8", "surrogateescape"), THREAD.decode())
    except SettingsError as error:
        raise Refused(400, str(error)) from None
