"""Names of threads and namespaces: one rule for every door.

A name is text of 1 to 512 bytes of UTF-8 without control characters. A whole number and a UUID are taken as the text
that they are written as, since hosts number their conversations.
"""

from __future__ import annotations

import re
from typing import Any, Final
from uuid import UUID

from unabridged.errors import SettingsError

Name = str | int | UUID
"""What a thread or a namespace may be called."""

MAX_NAME_BYTES: Final = 512
"""Bytes of a name in UTF-8."""

_UNUSABLE_PATTERN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SHOWN_CHARACTERS: Final = 40


def check_name(value: Any, what: str = "thread") -> str:
    """Return the name as text; a `SettingsError` for what is no name, which says `what` it was meant for."""
    is_number = isinstance(value, int | UUID) and not isinstance(value, bool)
    if not is_number and not isinstance(value, str):
        raise _make_name_error(what, _describe_value(value))
    if isinstance(value, int) and value.bit_length() > 8 * MAX_NAME_BYTES:  # Python does not write longer ones out
        raise _make_name_error(what, f"a number of {value.bit_length():,} bits")
    text = str(value) if is_number else str.__str__(value)
    if found := _UNUSABLE_PATTERN.search(text):
        where = f"U+{ord(found[0]):04X} at character {found.start()}"
        raise _make_name_error(what, f"{_describe_value(text)}, with {where}")
    if not 1 <= (size := len(text.encode())) <= MAX_NAME_BYTES:
        raise _make_name_error(what, f"{_describe_value(text)}, of {size:,} bytes")
    return text


def optional_name(value: Any, what: str = "thread") -> str | None:
    """Return None as it is, and anything else as `check_name` does."""
    return None if value is None else check_name(value, what)


def is_name(value: Any) -> bool:
    """Return whether the value can be used as a name."""
    try:
        check_name(value)
    except SettingsError:
        return False
    return True


def _make_name_error(what: str, got: str) -> SettingsError:
    return SettingsError(
        f"{what} must be text of 1 to {MAX_NAME_BYTES} bytes of UTF-8 without control characters and lone surrogates, "
        f"an int or a UUID; got {got}. Use an id, or the hash of a longer text."
    )


def _describe_value(value: Any) -> str:
    """Return the value where it is short text, else its type: nothing in it can break the line of a log."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, str):
        return ascii(value) if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]!a}…"
    return f"a value of type {type(value).__name__}"
