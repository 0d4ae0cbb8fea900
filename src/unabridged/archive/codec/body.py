"""A message as bytes and back: plain JSON where that says it exactly, the tagged form where it does not."""

from __future__ import annotations

import hashlib
import json
from math import isfinite
from typing import Any, Final

from unabridged.archive.codec.bounds import DEEPEST, LARGEST, TAG
from unabridged.errors import ArchiveError

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
        from unabridged.archive.codec import tagged  # noqa: PLC0415 - only the rare message needs it

        return _ENCODER.encode(tagged.pack(message, "message")).encode()
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
    if _TAG_BYTES not in body:
        return value
    from unabridged.archive.codec import tagged  # noqa: PLC0415 - only the rare message needs it

    return tagged.unpack(value)


def digest(body: bytes) -> str:
    """The name of a body: its hash, tagged with the algorithm."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


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
