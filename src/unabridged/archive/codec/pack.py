"""Smaller bytes for the same message: zlib where it pays, with what messages have in common known beforehand.

The first byte says how: 0 as it is, 1 deflated, 2 a slice of the body. What search sees of a message is nearly all in
its body already, so it is deflated with the body itself as the dictionary: a few percent instead of as much again.
"""

from __future__ import annotations

import json
import zlib
from functools import lru_cache
from typing import Final

from unabridged.errors import ArchiveError

# What messages of every format look like, the commonest last (nearest). Never change it: add a method 2 instead.
SKELETON: Final = (
    rb'{"role":"system","content":"{"type":"message","id":"msg_","status":"completed","content":[{"type":"output_text",'
    rb'"annotations":[],"text":"{"type":"function_call_output","call_id":"call_","output":"{"type":"function_call",'
    rb'"id":"fc_","call_id":"call_","name":"","arguments":"{"type":"image_url","image_url":{"url":"data:image/png;base64,'
    rb'{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_","content":[{"type":"text","text":"",'
    rb'"is_error":false}]}{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"},'
    rb'{"type":"tool_use","id":"toolu_","name":"","input":{"command":"","path":"/{"role":"tool","tool_call_id":"call_",'
    rb'"name":"","content":"{"role":"assistant","content":"","tool_calls":[{"id":"call_","type":"function",'
    rb'"function":{"name":"","arguments":"{\"path\":\"/}"}}]}{"role":"user","content":"'
)
_PLAIN: Final = b"\0"
_DEFLATED: Final = b"\1"
_SLICE: Final = b"\2"
_WINDOW: Final = 32_768  # how far back deflate can refer
_ESCAPES: Final = ((b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\t", b"\t"), (b'\\"', b'"'))


def pack(body: bytes) -> bytes:
    """The body, deflated if that makes it smaller."""
    small = _deflate(body, SKELETON)
    return _DEFLATED + small if len(small) < len(body) else _PLAIN + body


def unpack(packed: bytes) -> bytes:
    """The body that was packed; an `ArchiveError` if the bytes were damaged."""
    if packed[:1] == _PLAIN:
        return packed[1:]
    if packed[:1] == _DEFLATED:
        return _inflate(packed[1:], SKELETON)
    raise ArchiveError(f"a stored message is packed by method {packed[:1].hex()!r}. Update unabridged.")


def pack_view(role: str, origin: str, text: str, body: bytes) -> bytes:
    """Who says it and what search sees of it, as little more than a reference to the body."""
    head = _head(role, origin)
    seen = text.encode("utf-8", "surrogatepass")
    readable = _readable(body)
    if len(seen) > _WINDOW // 2 and (at := readable.find(seen)) >= 0:
        # Too long for deflate to look back over, but all in one piece: a whole file, a long log.
        return _SLICE + b"%d:%d\n%b" % (at, at + len(seen), head)
    return _DEFLATED + _deflate(head + b"\n" + seen, _nearest(readable))


@lru_cache(maxsize=64)
def _head(role: str, origin: str) -> bytes:
    """Who says it, as JSON: there are few roles and origins, and many messages."""
    return json.dumps([role, origin]).encode()


def unpack_view(packed: bytes, body: bytes) -> tuple[str, str, str]:
    """Role, origin and text, given the same body."""
    readable = _readable(body)
    try:
        if packed[:1] == _SLICE:
            place, _, head = packed[1:].partition(b"\n")
            start, stop = (int(number) for number in place.split(b":"))
            seen = readable[start:stop]
        elif packed[:1] == _DEFLATED:
            head, _, seen = _inflate(packed[1:], _nearest(readable)).partition(b"\n")
        else:
            raise ArchiveError(f"what search sees is packed by method {packed[:1].hex()!r}. Update unabridged.")
        role, origin = json.loads(head)
        return role, origin, seen.decode("utf-8", "surrogatepass")
    except (ValueError, TypeError) as error:
        raise ArchiveError(f"what search sees of a stored message can't be read: {error}. Run `verify`.") from error


def _readable(body: bytes) -> bytes:
    """The body with JSON's commonest escapes undone, as the text has them."""
    if b"\\" not in body:
        return body
    pieces = body.split(b"\\\\")  # what is left between escaped backslashes has only escapes of one sign
    for escape, sign in _ESCAPES:
        pieces = [piece.replace(escape, sign) for piece in pieces]
    return b"\\".join(pieces)


def _nearest(readable: bytes) -> bytes:
    """What deflate may refer to: the end of the body, and the skeleton for the sake of an empty one."""
    return SKELETON + readable[-(_WINDOW - len(SKELETON)) :]


def _deflate(data: bytes, dictionary: bytes) -> bytes:
    # A window no larger than needed: for a short message, setting up the full one costs more than the work itself.
    bits = max(10, min(15, (len(data) + len(dictionary)).bit_length()))
    deflater = zlib.compressobj(6, zlib.DEFLATED, -bits, min(9, bits - 6), zlib.Z_DEFAULT_STRATEGY, dictionary)
    return deflater.compress(data) + deflater.flush()


def _inflate(data: bytes, dictionary: bytes) -> bytes:
    inflater = zlib.decompressobj(-15, dictionary)
    try:
        inflated = inflater.decompress(data) + inflater.flush()
    except zlib.error as error:
        raise ArchiveError(f"{len(data):,} stored bytes can't be unpacked: {error}. Run `verify`.") from error
    if not inflater.eof or inflater.unused_data:
        raise ArchiveError(
            f"{len(data):,} stored bytes can't be unpacked: they end too soon or too late. Run `verify`."
        )
    return inflated
