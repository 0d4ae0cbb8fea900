"""Pack a message into fewer bytes: deflate, with what messages have in common as its dictionary.

The first byte says how: 0 as it is, 1 deflated. What search sees of a message stands nearly all in its body, so that is
deflated with the end of the body in the dictionary, too.
"""

from __future__ import annotations

import json
import zlib
from typing import Final

from unabridged.errors import ArchiveError

try:
    from isal import isal_zlib as deflate
except ImportError:  # no wheel for this machine
    deflate = zlib  # type: ignore[misc]

# What messages of every format look like, the commonest last (nearest). A change needs another method.
COMMON_DICTIONARY: Final = (
    rb'{"role":"system","content":"{"type":"message","id":"msg_","status":"completed","content":[{"type":"output_text",'
    rb'"annotations":[],"text":"{"type":"function_call_output","call_id":"call_","output":"{"type":"function_call",'
    rb'"id":"fc_","call_id":"call_","name":"","arguments":"{"type":"image_url","image_url":{"url":"data:image/png;base64,'
    rb'{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_","content":[{"type":"text","text":"",'
    rb'"is_error":false}]}{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"},'
    rb'{"type":"tool_use","id":"toolu_","name":"","input":{"command":"","path":"/{"role":"tool","tool_call_id":"call_",'
    rb'"name":"","content":"{"role":"assistant","content":"","tool_calls":[{"id":"call_","type":"function",'
    rb'"function":{"name":"","arguments":"{\"path\":\"/}"}}]}{"role":"user","content":"'
)
REFERENCE_PREFIX: Final = b"\0object "
"""Stands between checksum and place in what is kept of a body that is elsewhere."""
_PLAIN_PREFIX: Final = b"\0"
_DEFLATED_PREFIX: Final = b"\1"
# Each makes it a little larger than the usual one, and is much faster.
_COMPRESSION_LEVEL: Final = 4 if deflate is zlib else 1
_WINDOW_BYTES: Final = 32_768  # how far back deflate can refer
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def pack(data: bytes, similar: bytes = b"") -> bytes:
    """Return the data, deflated if that makes it smaller; `similar` is other data that has much of it."""
    dictionary = _build_dictionary(similar)
    # A window no larger than needed: for a short message, setting up the full one costs more than the work itself.
    bits = max(10, min(15, (len(data) + len(dictionary)).bit_length()))
    level, memory = _COMPRESSION_LEVEL, min(9, bits - 6)
    deflater = deflate.compressobj(level, zlib.DEFLATED, -bits, memory, zlib.Z_DEFAULT_STRATEGY, dictionary)
    small = deflater.compress(data) + deflater.flush()
    return _DEFLATED_PREFIX + small if len(small) < len(data) else _PLAIN_PREFIX + data


def unpack(packed: bytes, similar: bytes = b"") -> bytes:
    """Return the data that was packed beside the same `similar` data; an `ArchiveError` if the bytes were damaged."""
    if packed[:1] == _PLAIN_PREFIX:
        return packed[1:]
    if packed[:1] != _DEFLATED_PREFIX:
        raise ArchiveError(f"a stored message is packed by method {packed[:1].hex()!r}. Update unabridged.")
    inflater = zlib.decompressobj(-15, _build_dictionary(similar))
    try:
        data = inflater.decompress(packed[1:]) + inflater.flush()
    except zlib.error as error:
        raise ArchiveError(f"{len(packed):,} stored bytes can't be unpacked: {error}. Run `verify`.") from error
    if not inflater.eof or inflater.unused_data:
        wrong = "they end too soon or too late"
        raise ArchiveError(f"{len(packed):,} stored bytes can't be unpacked: {wrong}. Run `verify`.")
    return data


def pack_view(role: str, origin: str, text: str, body: bytes) -> bytes:
    """Return who says a message and what search sees of it, packed beside its body: JSON, as the body most often is."""
    return pack(_ENCODER.encode([role, origin, text]).encode("utf-8", "surrogatepass"), body)


def unpack_view(packed: bytes, body: bytes) -> tuple[str, str, str]:
    """Return role, origin and text, given the same body."""
    try:
        role, origin, text = json.loads(unpack(packed, body).decode("utf-8", "surrogatepass"))
    except (ValueError, TypeError) as error:
        raise ArchiveError(f"what search sees of a stored message can't be read: {error}. Run `verify`.") from error
    return role, origin, text


def _build_dictionary(similar: bytes) -> bytes:
    """Return what deflate may refer to; the place of a body that is elsewhere may be another for the same message."""
    if similar.startswith(REFERENCE_PREFIX, 32):
        return COMMON_DICTIONARY
    return COMMON_DICTIONARY + similar[-(_WINDOW_BYTES - len(COMMON_DICTIONARY)) :]
