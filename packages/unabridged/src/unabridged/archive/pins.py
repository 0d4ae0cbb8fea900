"""Texts that somebody pinned to a thread: they stand in its summary turn from the next compaction on.

They are kept in the archive's notes, under a key that goes with the thread, beside other texts kept for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unabridged.archive.protocol import Archive, Scope
from unabridged.archive.store_rules import check_names, thread_note_key
from unabridged.errors import SettingsError

MOST_PINS, LONGEST_PIN = 100, 4_000
"""Pins of one thread, and characters of one pin."""


def list_pins(archive: Archive, scope: Scope) -> tuple[str, ...]:
    """Return the texts that are pinned to the thread, oldest first."""
    return read_thread_texts(archive, scope, "pins")


def pin(archive: Archive, scope: Scope, text: str) -> tuple[str, ...]:
    """Pin the text to the thread and return all that are pinned; one that is pinned already stays where it is."""
    value: Any = text
    if not isinstance(value, str) or not value.strip():
        raise SettingsError(f"a pin must be a text; got {value!r}")
    if len(text) > LONGEST_PIN:
        raise SettingsError(f"a pin may have {LONGEST_PIN:,} characters, this one has {len(text):,}: shorten it")
    check_names(*scope)
    pins = list_pins(archive, scope)
    if text in pins:
        return pins
    if len(pins) >= MOST_PINS:
        raise SettingsError(f"thread {scope.thread!r} has {MOST_PINS} pins already: unpin one first")
    write_thread_texts(archive, scope, "pins", (*pins, text))
    return (*pins, text)


def unpin(archive: Archive, scope: Scope, text: str) -> bool:
    """Take the pin away; return whether there was one with this text."""
    pins = list_pins(archive, scope)
    if text in pins:
        write_thread_texts(archive, scope, "pins", [one for one in pins if one != text])
    return text in pins


def read_thread_texts(archive: Archive, scope: Scope, what: str) -> tuple[str, ...]:
    """Return the texts that are stored for the thread under the name `what`."""
    found: Any = archive.remembered(scope.namespace, thread_note_key(scope.thread)) if scope.thread else None
    return tuple(text for text in (found or {}).get(what, ()) if isinstance(text, str))


def write_thread_texts(archive: Archive, scope: Scope, what: str, texts: Sequence[str]) -> None:
    """Store texts for the thread under the name `what`, leaving its other texts unchanged."""
    key = thread_note_key(scope.thread)
    archive.remember(scope.namespace, key, {**(archive.remembered(scope.namespace, key) or {}), what: list(texts)})
