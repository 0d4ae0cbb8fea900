"""Serve one request with a conversation in it, from what the client sent to what it is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from unabridged.adapters.kit import Request, astream_fitted
from unabridged.adapters.kit.native import add_compaction_beta
from unabridged.archive.names import check_name
from unabridged.compactor import Compaction
from unabridged.errors import SettingsError
from unabridged.formats.fields import begins_with_compaction
from unabridged.legality.reasoning import strip_all_thinking
from unabridged.tokens.calibrate import Usage, parse_usage
from unabridged_gateway import codex, headers, protocols
from unabridged_gateway.calls import GatewayCall, RawHeaders, relay_answer
from unabridged_gateway.fitting import Engines
from unabridged_gateway.json_body import JsonBody, JsonCache
from unabridged_gateway.refusals import RequestRefused
from unabridged_gateway.request_body import RequestBody
from unabridged_gateway.request_log import RequestOutcome
from unabridged_gateway.sse import SseChunk, SseReader, SseStream
from unabridged_gateway.summariser import ClientRoute
from unabridged_gateway.upstream import Headers, Upstream, UpstreamAnswer, parse_answer

_MAX_READ_BYTES: Final = 16 << 20
"""Of a plain answer, kept to read its usage; a longer one is passed on all the same."""
_MAX_NOTE_CHARACTERS: Final = 500
THREAD_HEADER: Final = b"x-unabridged-thread"


class SharedResources(NamedTuple):
    """What all requests of a gateway use."""

    engines: Engines
    cache: JsonCache
    upstream: Upstream
    tokens: Mapping[str, str]


class ConversationRequest:
    """One request: fitted where its length does not tell that it fits, sent, and sent again where it is too long."""

    def __init__(
        self,
        shared: SharedResources,
        call: GatewayCall,
        protocol: protocols.Protocol,
        received: RequestBody,
        tenant: str,
    ) -> None:
        self._engines, self._cache, self._upstream, self._tokens = shared
        self._call, self._protocol, self._received, self._tenant = call, protocol, received, tenant
        self._body: JsonBody | None = None
        self._request: Request | None = None
        """None where the body was not read, or there is nothing to fit."""
        self._fitted: Compaction | None = None
        self._answer: UpstreamAnswer | None = None
        """The newest: one that is refused makes room for another."""
        self._thread: str | None = None
        self._note = ""
        self._asks_for_compaction = False
        """Whether the client asks for a compaction, and not for an answer."""
        self._model, self._is_rewritten, self._is_sent_again = "", False, False
        self._usage: Usage | None = None

    async def serve(self) -> None:
        """Answer the client with what the provider says; raise `RequestRefused` for a thread without a legal name."""
        self._thread = _read_thread(self._call)
        try:
            model = protocols.parse_model_from_path(self._call.path)
            if not self._engines.fits_by_length(self._received.plain, self._tenant, model, self._call.connection):
                await self._fit()
            if self._asks_for_compaction and await self._answer_with_compaction():
                return
            answer = await self._send_upstream(self._fitted.messages if self._fitted else None)
            if answer.status >= 400 and (messages := await self._find_replacement_messages(answer)) is not None:
                self._is_sent_again = True
                answer = await self._send_upstream(messages)
            await relay_answer(
                self._call, self._read_answer_pieces(answer), lambda: self._answer or answer, self._build_own_headers
            )
        finally:
            if self._answer is not None:
                self._answer.close()
            self._request = None  # it refers to this object: else the body stays until garbage is collected

    def outcome(self) -> RequestOutcome:
        """Return what became of this request, once it is over."""
        return RequestOutcome(
            "unparsed" if self._body is None else "rewritten" if self._is_rewritten else "parsed",
            self._received.plain,
            self._model,
            self._note,
            self._fitted,
            self._is_sent_again,
            self._usage,
        )

    async def _fit(self) -> None:
        """Read the request and have it fitted, if there is a conversation in it that could be."""
        try:
            self._body = JsonBody(self._received.plain, self._protocol.endpoint.messages, self._cache)
            self._request = await self._read_request(self._body)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the provider says so
            self._note = f"not read: {type(error).__name__}"
        if self._request is not None:
            self._request, self._fitted, note = await self._engines.fit(self._request)
            self._note = note or self._engines.find_overruled_setting(self._request, self._model)

    async def _read_request(self, body: JsonBody) -> Request | None:
        endpoint, call = self._protocol.endpoint, self._call
        if field := endpoint.find_keeping_field(body):
            self._note = f"the provider keeps this conversation: {field}"
            return None
        messages: Any = endpoint.read_messages(body)
        if not isinstance(messages, list) or not messages:
            return None
        if self._protocol.name == "responses":
            to_compact = codex.find_items_to_compact(messages)
            self._asks_for_compaction = to_compact is not None
            messages = codex.unpack_compactions(messages if to_compact is None else to_compact, self._cache)
        self._model = self._protocol.agent(call.path, body, None).name or ""
        route = ClientRoute(
            self._protocol, protocols.to_unstreamed_target(call.target), self._model,
            self._build_upstream_headers(decoded=True), body,
        )  # fmt: skip
        request = await self._engines.request(
            self._protocol, call.path, body, messages, self._thread, namespace=self._tenant, values=route
        )
        return replace(request, on_fitted=self._keep_fitted)

    def _keep_fitted(self, fitted: Compaction) -> None:
        self._fitted = fitted

    async def _send_upstream(self, messages: list[Any] | None) -> UpstreamAnswer:
        """Send the request with these messages; where they are the client's own, the very bytes that came."""
        body = self._body
        self._is_rewritten = False
        data = self._received.sent
        if body is not None and messages is not None and messages is not body.get(self._protocol.endpoint.messages):
            self._is_rewritten, data = True, body.with_messages(messages)
        passed = self._build_upstream_headers(decoded=self._is_rewritten)
        if self._is_rewritten and self._protocol.family == "anthropic" and begins_with_compaction(messages or ()):
            passed = add_compaction_beta(passed)
        if self._answer is not None:
            self._answer.close()
        self._call.expect_next_byte()
        self._answer = await self._upstream.open(
            self._protocol.family, "POST", self._call.target, passed, data, watched=True
        )
        self._call.expect_next_byte()
        return self._answer

    async def _answer_with_compaction(self) -> bool:
        """Answer with the compacted conversation; return whether that could be done."""
        if self._request is None or self._body is None:
            return False
        compaction = await self._engines.compact(self._request)
        if compaction is None:
            return False
        self._fitted = compaction
        tokens = compaction.tokens_before, compaction.tokens_after
        record = compaction.receipt.id if compaction.receipt else "none"
        response = codex.build_response(
            str(self._body.get("model") or ""), codex.pack_messages(compaction.messages), tokens, record
        )
        if not self._body.get("stream"):
            await self._call.reply(200, response, self._build_own_headers())
            return True
        await self._call.begin(200, [(b"content-type", b"text/event-stream"), *self._build_own_headers()])
        await self._call.end(b"".join(codex.build_events(response)))
        return True

    def _build_upstream_headers(self, *, decoded: bool) -> Headers:
        watched = self._body is not None
        return headers.to_upstream(self._call.raw_headers, self._tokens, encoded=not decoded, watched=watched)

    async def _find_replacement_messages(self, answer: UpstreamAnswer) -> list[Any] | None:
        """Return the messages to send in place of those that this answer refuses; None where it is passed on."""
        error = await answer.error()
        if protocols.is_too_long_error(error):
            self._call.expect_next_byte(soon=False)
            if self._request is None:
                await self._fit()
            if self._request is None or self._fitted is None:
                return None
            shorter = await self._engines.shorten(self._request, self._fitted, error)
            if shorter is None:
                return None
            self._request, self._fitted, note = shorter
            self._note = note or self._note
            return self._fitted.messages
        if self._fitted is None or not (self._is_rewritten and protocols.is_thinking_error(error)):
            return None
        self._note, self._request = "thinking refused once, and left out", None  # what it takes now teaches nothing
        return strip_all_thinking(self._fitted.messages, self._protocol.endpoint.format)

    def _read_answer_pieces(self, answer: UpstreamAnswer) -> AsyncIterator[bytes]:
        """Return the bytes of the answer as they come, read for what they report."""
        if self._request is None or self._fitted is None or answer.status >= 400:
            return answer.pieces()
        read = self._read_stream if answer.is_stream else self._read_plain
        return read(answer, self._request, self._fitted)

    async def _read_plain(self, answer: UpstreamAnswer, request: Request, fitted: Compaction) -> AsyncIterator[bytes]:
        kept: list[bytes] = []
        size = 0
        async for piece in answer.pieces():
            size += len(piece)
            if size <= _MAX_READ_BYTES:
                kept.append(piece)
            yield piece
        if answer.is_json and size <= _MAX_READ_BYTES:
            self._usage = parse_usage(self._protocol.report(parse_answer(b"".join(kept))))
            request.observe(fitted, self._usage)

    async def _read_stream(self, answer: UpstreamAnswer, request: Request, fitted: Compaction) -> AsyncIterator[bytes]:
        """Yield the events; a refusal before the model has begun is followed by the answer to a shorter request."""

        async def read(opened: UpstreamAnswer) -> AsyncIterator[SseChunk]:
            reader = SseReader(self._protocol.events.begins_answer)
            async for piece in opened.pieces():
                self._call.expect_next_byte(soon=False)  # what a refusal leads to takes its time
                yield reader.read(piece)
                self._call.expect_next_byte()

        async def open_again(messages: list[Any]) -> AsyncIterator[SseChunk]:
            self._note, self._is_sent_again = "refused as too long once", True
            return read(await self._send_upstream(messages))

        stream = SseStream(self._protocol.events)
        async for piece in astream_fitted(request, fitted, read(answer), open_again, stream):
            yield piece.raw
        self._usage = stream.usage_so_far

    def _build_own_headers(self) -> RawHeaders:
        """Return the headers that tell the client about its conversation."""
        if not self._note and self._fitted is None:
            return []
        values = [
            (b"x-unabridged-note", " ".join(self._note.split())[:_MAX_NOTE_CHARACTERS].encode("ascii", "replace"))
        ]
        if fitted := self._fitted:
            values += [
                (THREAD_HEADER, fitted.thread.encode("utf-8", "replace")),
                (b"x-unabridged-tokens-before", str(fitted.tokens_before or "").encode()),
                (b"x-unabridged-tokens-after", str(fitted.tokens_after or "").encode()),
                (b"x-unabridged-record", fitted.receipt.id.encode() if fitted.receipt else b""),
            ]
        return [(name, value) for name, value in values if value]


def _read_thread(call: GatewayCall) -> str | None:
    """Return the thread that the client names, None where it names none; raise `RequestRefused` for an illegal name."""
    value = next((value for name, value in call.raw_headers if name == THREAD_HEADER), None)
    if value is None:
        return None
    try:
        return check_name(value.decode("utf-8", "surrogateescape"), THREAD_HEADER.decode())
    except SettingsError as error:
        raise RequestRefused(400, str(error)) from None
