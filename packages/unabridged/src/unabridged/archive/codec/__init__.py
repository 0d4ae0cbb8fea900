r"""Messages as bytes and back, exactly: what comes back equals what went in, type for type.

The body is JSON in UTF-8. A message of plain JSON types, which nearly every message is, is written as it stands. What
JSON can't say is a tagged object, `{"$unabridged": kind, …}`:

    str         text with lone surrogates, escaped        bytes, bytearray        base64
    int         beyond 1,024 bits, in hexadecimal         tuple, set, frozenset   their items
    float       nan and the infinities, by their bits     dict                    pairs: other keys, or our own tag
    datetime    …, date, time, timedelta, Decimal, UUID   object, enum            a class and its fields
    like        a class that builds on a plain one        data                    anything else that can be dumped

A body is data, and may come from anyone: a class is looked for only in the modules allowed and among those that this
process wrote itself (`classes`), and only a model, a dataclass or an enum is ever made, its fields set without running
its code. What can't be made comes back as plain data, and the log says so once. Only what is no data at all (a
function, a lock, a circle) is refused when it is written, with the place it stands at.
"""

from __future__ import annotations

import hashlib
import json
from math import isfinite
from types import ModuleType
from typing import Any, Final

from unabridged.archive.codec.classes import DEEPEST, LARGEST, TAG, allow
from unabridged.errors import ArchiveError

__all__ = ["allow", "decode", "digest", "encode"]

_TAG_BYTES: Final = f'"{TAG}"'.encode()
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))


def encode(message: Any) -> bytes:
    """The message as bytes: the same bytes for the same message, and `decode` gives it back exactly."""
    if _is_plain(message, 0):
        try:
            return _ENCODER.encode(message).encode()
        except UnicodeEncodeError:
            pass  # lone surrogates somewhere: the tagged form says where
    try:
        return _ENCODER.encode(_tagged().pack(message, "message")).encode()
    except RecursionError as error:
        raise ArchiveError(
            "can't archive message: nested too deep for this stack. Pass the deep part as JSON text."
        ) from error


def decode(body: bytes) -> Any:
    """The message that `encode` wrote."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"a stored message of {len(body):,} bytes can't be read: {error}. Run `verify`.") from error
    return _tagged().unpack(value) if _TAG_BYTES in body else value


def digest(body: bytes) -> str:
    """The name of a body: its hash, tagged with the algorithm."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _tagged() -> ModuleType:
    """How to say what plain JSON can't; only the rare message needs it."""
    from unabridged.archive.codec import tagged  # noqa: PLC0415 - just so

    return tagged


def _is_plain(value: Any, depth: int) -> bool:
    """Whether JSON alone says this exactly. Subclasses (an enum that is a str) are not what JSON gives back."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return _is_plain_leaf(value)
    if depth >= DEEPEST:
        return False
    if kind is dict:
        for key in value:
            if type(key) is not str or key == TAG:
                return False
        value = value.values()
    for item in value:  # noqa: SIM110 - `all` with a generator doubles the time, and every message passes here
        if type(item) is not str and not _is_plain(item, depth + 1):
            return False
    return True


def _is_plain_leaf(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-LARGEST < value < LARGEST)
    if kind is float:
        return isfinite(value)
    return kind is str or kind is bool or value is None
