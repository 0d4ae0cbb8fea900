"""Read the bodies of requests, and undo their `content-encoding`; neither form is ever larger than allowed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import zstandard

from unabridged_gateway.config import ListeningConfig
from unabridged_gateway.refusals import BadBody, ClientGone

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Headers as ASGI has them: names in lower case."""
Receive = Callable[[], Awaitable[Mapping[str, Any]]]

_MAX_ENCODINGS: Final = 3
_MAX_STREAMS: Final = 16
"""Of gzip members or zstd frames in one body: each costs, and a client has no reason to send more than one."""
_MIN_BYTES_FOR_THREAD: Final = 100_000
"""Bytes above which a body is decoded in a thread, so that others are served meanwhile."""
_PIECE_BYTES: Final = 512
"""Bytes that zstd is given at a time: it can't be told where to stop, and makes at most 17 MB of so many."""
_WINDOW_BYTES: Final = 8 * 1_024 * 1_024
"""The most memory a zstd frame may ask for: what RFC 9659 allows over HTTP."""


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request's body; both are the same object where nothing was encoded."""

    sent: bytes
    """As it came: what goes upstream, with its `content-encoding`, when nothing in it has to change."""
    plain: bytes
    """As it reads."""


async def read_body(receive: Receive, headers: RawHeaders, limits: ListeningConfig) -> RequestBody:
    """Return the body of an ASGI request; raise `BadBody` where there is none, `ClientGone` where the client leaves."""
    encodings: Sequence[str] = ()
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and (len(value) > 18 or int(value) > limits.max_body):
            raise _build_too_large_error(limits.max_body, "bytes")  # unread
        if name == b"content-encoding" and not encodings:
            encodings = parse_encodings(headers)
    sent = await _read_pieces(receive, limits.max_body)
    if not encodings or not sent:
        return RequestBody(sent, sent)
    if len(sent) > _MIN_BYTES_FOR_THREAD:
        return RequestBody(sent, await asyncio.to_thread(decode_body, sent, encodings, limits.max_decoded))
    return RequestBody(sent, decode_body(sent, encodings, limits.max_decoded))


def parse_encodings(headers: RawHeaders) -> tuple[str, ...]:
    """Return the encodings of the body, in their order; raise `BadBody` for one that is not known here."""
    values = [value for name, value in headers if name == b"content-encoding"]
    listed = b",".join(values).decode("latin-1").lower().split(",")
    names = tuple(name for name in map(str.strip, listed) if name not in {"", "identity"})
    for name in names:
        if name not in _DECODERS:
            raise BadBody(415, f"content-encoding {name[:40]!r} is not read here: send gzip, deflate, zstd, or none")
    if len(names) > _MAX_ENCODINGS:
        raise BadBody(415, f"the body has {len(names)} encodings, and at most {_MAX_ENCODINGS} are read: send one")
    return names


def decode_body(sent: bytes, encodings: Sequence[str], most: int) -> bytes:
    """Return the body without its encodings; raise `BadBody` where one is broken or hides too much."""
    for name in reversed(encodings):
        pieces, size = [], 0
        try:
            for piece in _DECODERS[name](sent, most):
                size += len(piece)
                if size > most:
                    raise _build_too_large_error(most, f"bytes once its {name} is undone")
                pieces.append(piece)
        except (zlib.error, zstandard.ZstdError) as error:
            raise BadBody(400, f"the body is not valid {name}: {error}") from None
        sent = b"".join(pieces)
    return sent


async def _read_pieces(receive: Receive, most: int) -> bytes:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise _build_too_large_error(most, "bytes")
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _build_too_large_error(most: int, what: str) -> BadBody:
    return BadBody(413, f"the body has more than {most:,} {what}: send less, or raise the gateway's limit")


def _gunzip(data: bytes, most: int) -> Iterator[bytes]:
    """Yield each member's bytes, and one more than allowed at most."""
    for _ in range(_MAX_STREAMS):
        stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        yield stream.decompress(data, most + 1)
        _require_stream_end("gzip", ended=stream.eof)
        data = stream.unused_data
        if not data:
            return
    raise _build_too_many_error("gzip members")


def _inflate(data: bytes, most: int) -> Iterator[bytes]:
    """Yield the bytes of a zlib stream, or of one without zlib's frame, which some clients send."""
    framed = len(data) > 1 and data[0] & 0x0F == zlib.DEFLATED and (data[0] << 8 | data[1]) % 31 == 0
    stream = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
    yield stream.decompress(data, most + 1)
    _require_stream_end("deflate", ended=stream.eof)
    if stream.unused_data:
        raise BadBody(400, f"{len(stream.unused_data):,} bytes follow the end of the deflate stream: send it alone")


def _decompress_zstd(data: bytes, most: int) -> Iterator[bytes]:  # noqa: ARG001 - it can't be bounded, so it is fed in pieces
    """Yield each frame's bytes, so few at a time that the caller can stop."""
    view, start = memoryview(data), 0
    opener = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    for _ in range(_MAX_STREAMS):
        frame = opener.decompressobj()
        while start < len(view) and not frame.eof:
            piece = view[start : start + _PIECE_BYTES]
            yield frame.decompress(piece)
            start += len(piece) - len(frame.unused_data)
        _require_stream_end("zstd", ended=frame.eof)
        if start >= len(view):
            return
    raise _build_too_many_error("zstd frames")


def _require_stream_end(name: str, *, ended: bool) -> None:
    if not ended:
        raise BadBody(400, f"the body ends before its {name} stream does: it was cut off on the way, send it again")


def _build_too_many_error(what: str) -> BadBody:
    return BadBody(400, f"the body has more than {_MAX_STREAMS} {what}: send it as one")


_DECODERS: Final[Mapping[str, Callable[[bytes, int], Iterator[bytes]]]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _inflate,
    "zstd": _decompress_zstd,
}
