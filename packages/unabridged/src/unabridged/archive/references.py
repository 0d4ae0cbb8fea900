"""References to archived messages: one form, one parser, one way to what they lead to, for every surface.

A reference is `12-9f3ac1d2ab`: the turn, and a mark made of the scope and the message's hash, so that one guessed, or
carried over from another thread, leads nowhere. A turn's number alone, `12` or `[12]` as it stands in a summary, is
this thread's own turn 12, and so is `9f3a1c2e4b5d/12`, as a stub names it, if that record is one of the thread; a
message's whole hash, `sha256:…`, is that message, if this thread holds it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Part, Scope
from unabridged.errors import ArchiveError, UnabridgedError
from unabridged.formats import Format, detect_message_format
from unabridged.messages import View

REFERENCE_FORMS: Final = (
    "a reference that a search gave (12-9f3ac1d2ab), a turn's number (12), what a stub names (9f3a1c2e4b5d/12) or a "
    "whole hash (sha256:…)"
)
"""What is accepted, in the words of every message that refuses something else."""

_SHORT_HASH_CHARACTERS: Final = 10
_TURN_PATTERN: Final = re.compile(rf"\[?(?:turn |t)?([0-9]{{1,9}})(?:-([0-9a-f]{{{_SHORT_HASH_CHARACTERS}}}))?\]?")
_HASH_PATTERN: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_STUB_PATTERN: Final = re.compile(r"(?:record )?([0-9a-f]{12})/([0-9]{1,9})")
_SPAN_PATTERN: Final = re.compile(r"\[?([0-9]{1,9})-[0-9]{1,9}\]?")
_UNPRINTABLE_PATTERN: Final = re.compile(r"[^\w:.\-/ ]")
_MAX_SHOWN_CHARACTERS: Final = 80


def make_reference(scope: Scope, turn: int, digest: str) -> str:
    """Return the reference to the message with this hash at this turn. It leads somewhere only inside its scope."""
    place = "".join(f"{len(item)}:{item}" for item in (*scope, digest)).encode("utf-8", "surrogatepass")
    return f"{turn}-{hashlib.sha256(place).hexdigest()[:_SHORT_HASH_CHARACTERS]}"


def find_part(archive: Archive, scope: Scope, ref: str | int) -> Part:
    """Return the archived message a reference leads to; an `ArchiveError` when it leads to none, or to several."""
    if isinstance(ref, int) and not isinstance(ref, bool):
        ref = str(ref)
    if not isinstance(ref, str):
        raise ArchiveError(f"a reference is a text, not {type(ref).__name__}: {REFERENCE_FORMS}.")
    text = ref.strip().lower() if len(ref) <= _MAX_SHOWN_CHARACTERS else ""
    if (whole := _HASH_PATTERN.fullmatch(text)) is not None:
        return _find_by_hash(archive, scope, f"sha256:{whole[1]}")
    if (stub := _STUB_PATTERN.fullmatch(text)) is not None and archive.record(scope, stub[1]) is not None:
        text = stub[2]
    if (match := _TURN_PATTERN.fullmatch(text)) is None:
        raise _make_unknown_error(ref)
    turn = int(match[1])
    parts = {make_reference(scope, turn, part.hash): part for part in archive.parts(scope, turn, turn + 1)}
    if match[2] is not None:
        if (name := f"{turn}-{match[2]}") in parts:
            return parts[name]
        raise _make_unknown_error(ref)
    if not parts:
        missing = f"turn {turn} is not in the archive. It may still stand in the context."
        raise ArchiveError(f"no such reference in this thread: {missing}")
    if len(parts) > 1:
        raise ArchiveError(f"turn {turn} has {len(parts)} versions, in branches: read one of {', '.join(parts)}.")
    return next(iter(parts.values()))


def _find_by_hash(archive: Archive, scope: Scope, digest: str) -> Part:
    """Return the message with this hash: one that went, else one that was put in, whose turn is then -1."""
    if (body := archive.bodies(scope, [digest]).get(digest)) is None:
        raise _make_unknown_error(digest)
    went = next((part for part in archive.parts(scope) if part.hash == digest), None)
    if went is not None:
        return went
    view = read_body_view(body)  # what was put in is ours, whatever its role
    role, text = (view.role, view.whole_text()) if view is not None else ("user", "")
    return Part(digest, body, -1, role, "summary", text)


def read_body_view(body: bytes, format_: Format | None = None) -> View | None:
    """Return what a stored message says; None for another program's classes, or a format of its own."""
    try:
        message = codec.decode(body)
        return (format_ or detect_message_format([message])).read(message)
    except (UnabridgedError, TypeError, ValueError, AttributeError):
        return None


def _make_unknown_error(ref: str) -> ArchiveError:
    if (span := _SPAN_PATTERN.fullmatch(ref.strip())) is not None:
        return ArchiveError(f"{ref.strip().strip('[]')} is several turns: read one at a time, such as {span[1]}.")
    shown = _UNPRINTABLE_PATTERN.sub("?", ref[:60]) + ("…" if len(ref) > 60 else "")
    return ArchiveError(
        f"no such reference in this thread: “{shown}”. References work only inside their thread: "
        f"give {REFERENCE_FORMS}."
    )
