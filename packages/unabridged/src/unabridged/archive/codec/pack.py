"""Smaller bytes for the same message: zlib where it pays, with what messages have in common known beforehand.

The first byte says how: 0 as it is, 1 deflated, 2 a slice of the body, 3 several, 4 several of which some are JSON.
What search sees of a message is nearly all in its body already, in a few pieces: these are written down; else it is
deflated with the body itself as the dictionary: a few percent instead of as much again.
"""

from __future__ import annotations

import json
import re
import zlib
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final

from unabridged.errors import ArchiveError

try:
    from isal import isal_zlib as deflate
except ImportError:  # no wheel for this machine
    deflate = zlib  # type: ignore[misc]

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
REFERENCE: Final = b"\0object "
"""Stands between checksum and place in what is kept of a body that is elsewhere."""
_PLAIN: Final = b"\0"
_DEFLATED: Final = b"\1"
_SLICE: Final = b"\2"
_PIECES: Final = b"\3"
_WITH_JSON: Final = b"\4"
_MOST_PIECES: Final = 64
_SEED: Final = 16  # bytes by which a piece is looked for
_LEVEL: Final = 4 if deflate is zlib else 1  # each a little larger than the usual one makes it, and much faster
_WINDOW: Final = 32_768  # how far back deflate can refer
_ESCAPES: Final = ((b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\t", b"\t"), (b'\\"', b'"'))
_LINE: Final = re.compile(rb"(?:\\n)?(?:[^\\]++|\\[^n])*+")  # up to the next line of an escaped text
_LENIENT: Final = json.JSONDecoder(strict=False)  # made once: `loads` makes one for every call
_UNUSUAL: Final = bytes(set(range(32)) - set(b"\n\r\t"))  # signs that JSON has to escape, too


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
    head, body = _head(role, origin), _told(body)
    pieces, rest = _pieces(_escape(text), body)
    if pieces or not text:
        method = _WITH_JSON if any(b"-" in piece for piece in pieces) else _PIECES
        return method + b"%b\n%b\n%b" % (head, b" ".join(pieces), rest)
    seen = text.encode("utf-8", "surrogatepass")
    return _DEFLATED + _deflate(head + b"\n" + seen, _nearest(_readable(body)))


def _escape(text: str) -> bytes:
    """The text as it stands between the quotes of JSON."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data.translate(None, _UNUSUAL)) < len(data):
        return encode_basestring(text)[1:-1].encode("utf-8", "surrogatepass")
    data = data.replace(b"\\", b"\\\\")
    for escape, sign in _ESCAPES:
        data = data.replace(sign, escape)
    return data


def _unescape(escaped: bytes) -> bytes:
    """What `_escape` made this of."""
    text: str = json.loads(b'"%b"' % escaped, strict=False)
    return text.encode("utf-8", "surrogatepass")


def _pieces(seen: bytes, body: bytes) -> tuple[list[bytes], bytes]:
    """What is seen, escaped as in JSON: places in the body (`12:40`), and what stands nowhere there (`5` bytes of it).

    The arguments of a call may stand in the body as JSON, where the text has them as a line behind the tool's name:
    such places (`12-40`) are not escaped. No pieces where there would be too many, or too little of it is in the body.
    """
    pieces: list[bytes] = []
    rest = b""
    at, most = 0, max(256, len(seen) // 16)
    while at < len(seen):
        start = body.find(seen[at : at + _SEED])
        if start >= 0:
            length = _common(seen, at, body, start)
            pieces.append(b"%d:%d" % (start, start + length))
            at += length
        else:
            behind, after, found = _pass_over(seen, at, body)
            rest += seen[at:behind]
            pieces += [b"%d" % (behind - at), *found]
            at = after
        if len(pieces) > _MOST_PIECES or len(rest) > most:
            return [], b""
    return pieces, rest


def _pass_over(seen: bytes, at: int, body: bytes) -> tuple[int, int, list[bytes]]:
    """Up to where it stands nowhere in the body, a word or a line; where to go on, and the place of JSON in between."""
    behind = seen.find(b" ", at) + 1
    if behind and body.find(seen[behind : behind + _SEED]) >= 0:
        return behind, behind, []
    end = _LINE.match(seen, behind or at).end()  # type: ignore[union-attr]  # it matches everywhere
    plain = _unescape(seen[behind:end]) if behind else b""
    start = body.find(plain) if plain else -1
    if start >= 0:
        return behind, end, [b"%d-%d" % (start, start + len(plain))]
    end = max(end, at + 1)
    return end, end, []


def _common(one: bytes, at: int, other: bytes, start: int) -> int:
    """How many bytes are the same from these places on."""
    low, high = 0, min(len(one) - at, len(other) - start)
    if one[at : at + high] == other[start : start + high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[at + low : at + middle] == other[start + low : start + middle]:
            low = middle
        else:
            high = middle
    return low


@lru_cache(maxsize=64)
def _head(role: str, origin: str) -> bytes:
    """Who says it, as JSON: there are few roles and origins, and many messages."""
    return json.dumps([role, origin]).encode()


@lru_cache(maxsize=64)
def _said_by(head: bytes) -> tuple[str, str]:
    """Who says it, as `_head` wrote it down."""
    role, origin = json.loads(head)
    return role, origin


def unpack_view(packed: bytes, body: bytes) -> tuple[str, str, str]:
    """Role, origin and text, given the same body."""
    body = _told(body)
    readable = b"" if packed[:1] in (_PIECES, _WITH_JSON) else _readable(body)
    try:
        if packed[:1] == _SLICE:
            place, _, head = packed[1:].partition(b"\n")
            start, stop = (int(number) for number in place.split(b":"))
            seen = readable[start:stop]
        elif packed[:1] in (_PIECES, _WITH_JSON):
            head, pieces, rest = packed[1:].split(b"\n", 2)
            escaped = _join(pieces.split(), body, rest).decode("utf-8", "surrogatepass")
            is_plain = "\\" not in escaped and '"' not in escaped
            return *_said_by(head), escaped if is_plain else _LENIENT.decode(f'"{escaped}"')
        elif packed[:1] == _DEFLATED:
            head, _, seen = _inflate(packed[1:], _nearest(readable)).partition(b"\n")
        else:
            raise ArchiveError(f"what search sees is packed by method {packed[:1].hex()!r}. Update unabridged.")
        return *_said_by(head), seen.decode("utf-8", "surrogatepass")
    except (ValueError, TypeError) as error:
        raise ArchiveError(f"what search sees of a stored message can't be read: {error}. Run `verify`.") from error


def _join(pieces: list[bytes], body: bytes, rest: bytes) -> bytes:
    """What `_pieces` took apart."""
    seen: list[bytes] = []
    for piece in pieces:
        if b":" in piece:
            start, _, stop = piece.partition(b":")
            seen.append(body[int(start) : int(stop)])
        elif b"-" in piece:
            start, _, stop = piece.partition(b"-")
            seen.append(_escape(body[int(start) : int(stop)].decode("utf-8", "surrogatepass")))
        else:
            seen.append(rest[: int(piece)])
            rest = rest[int(piece) :]
    return b"".join(seen)


def _told(body: bytes) -> bytes:
    """The body; nothing of one that is elsewhere, whose place may be another one for the same message."""
    return b"" if body.startswith(REFERENCE, 32) else body


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
    deflater = deflate.compressobj(_LEVEL, zlib.DEFLATED, -bits, min(9, bits - 6), zlib.Z_DEFAULT_STRATEGY, dictionary)
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
