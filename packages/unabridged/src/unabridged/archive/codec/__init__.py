r"""Write messages as bytes and read them back, exactly: what comes back equals what went in, type for type.

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
function, a lock, a circle) is refused when it is written, with its place.
"""

from __future__ import annotations

import hashlib
import json
from math import isfinite
from typing import Any, Final

from unabridged.archive.codec.classes import allow
from unabridged.errors import ArchiveError

__all__ = ["allow", "decode", "digest", "encode"]

TYPE_KEY: Final = "$unabridged"
"""The key that marks what plain JSON can't say; a caller's dict that has it is written as pairs."""
MAX_DEPTH: Final = 120
"""Levels of nesting that can be read back from deep inside any caller's stack."""
MAX_INTEGER: Final = 1 << 1024
"""Whole numbers from here on are written in hexadecimal: the interpreter limits how many decimal digits it reads."""
_TYPE_KEY_BYTES: Final = f'"{TYPE_KEY}"'.encode()
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))


def encode(message: Any) -> bytes:
    """Return the message as bytes: the same bytes for the same message, and `decode` gives it back exactly."""
    if _is_plain_json(message, 0):
        try:
            return _ENCODER.encode(message).encode()
        except UnicodeEncodeError:
            pass  # lone surrogates somewhere: the tagged form says where
    from unabridged.archive.codec.values import to_json  # noqa: PLC0415 - only the rare message needs it

    try:
        return _ENCODER.encode(to_json(message, "message")).encode()
    except RecursionError as error:
        deep = "nested too deep for this stack. Pass the deep part as JSON text."
        raise ArchiveError(f"can't archive message: {deep}") from error


def decode(body: bytes) -> Any:
    """Return the message that `encode` wrote."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"a stored message of {len(body):,} bytes can't be read: {error}. Run `verify`.") from error
    if _TYPE_KEY_BYTES not in body:
        return value
    from unabridged.archive.codec.values import from_json  # noqa: PLC0415 - only the rare message needs it

    return from_json(value)


def digest(body: bytes) -> str:
    """Return the name of a body: its hash, tagged with the algorithm."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _is_plain_json(value: Any, depth: int) -> bool:  # noqa: PLR0911 - one for each way, and every message passes here
    """Return whether JSON alone says this exactly: what subclasses are (an enum that is a str) it does not say."""
    kind = type(value)
    if kind is int:
        return bool(-MAX_INTEGER < value < MAX_INTEGER)
    if kind is float:
        return isfinite(value)
    if kind is dict:
        for key in value:
            if type(key) is not str or key == TYPE_KEY:
                return False
        value = value.values()
    elif kind is not list:
        return kind is str or kind is bool or value is None
    if depth >= MAX_DEPTH:
        return False
    for item in value:  # noqa: SIM110 - `all` with a generator doubles the time, and every message passes here
        if type(item) is not str and not _is_plain_json(item, depth + 1):
            return False
    return True
