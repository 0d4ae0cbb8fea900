"""Lines and bytes of a file: checked before it is opened, streamed, and never kept."""

from __future__ import annotations

import json
import re
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unabridged.formats import Format
from unabridged.formats.fields import plain
from unabridged.sessions.loaded import Entry, Line, Lines, Match, SessionFileError, Stamp

Progress = Callable[[int, int], None]
"""Gets the bytes read so far and the size of the file."""

UNENDED = b" \n"
"""How a line ends that was put behind one without a line break, so that the file can be had back to the byte."""
_BOM = b"\xef\xbb\xbf"
_STEP = 8 << 20


def check(path: Path, max_size: int) -> Stamp:
    """Refuse, unread, what can't be a conversation: missing, a folder, a device, empty, too large, not text."""
    try:
        info = path.stat()
    except OSError as error:
        raise SessionFileError(f"can't read {path}: {reason(error)}") from error
    if stat.S_ISDIR(info.st_mode):
        raise SessionFileError(f"{path} is a folder: name the session file inside it")
    if not stat.S_ISREG(info.st_mode):
        raise SessionFileError(f"{path} is not a regular file: save the conversation to one first")
    if info.st_size > max_size:
        raise SessionFileError(
            f"{path} has {info.st_size:,} bytes, more than the {max_size:,} allowed: raise the maximum size to read it"
        )
    try:
        with path.open("rb") as stream:
            head = stream.read(8192)
    except OSError as error:
        raise SessionFileError(f"can't read {path}: {reason(error)}") from error
    if not head.strip(b" \t\r\n" + _BOM):
        rest = info.st_size - len(head)
        if rest <= 0:
            raise SessionFileError(f"{path} is empty: there is no conversation in it")
    if b"\0" in head:
        raise SessionFileError(f"{path} is not text: expected JSON or JSON Lines in UTF-8")
    return Stamp(info.st_size, info.st_mtime_ns)


def reason(error: OSError) -> str:
    """What the system said, without the number and the path that stand elsewhere in the message."""
    return (error.strerror or str(error)).lower()


def parse(path: Path, raw: bytes) -> Any:
    """The JSON value, or one clear line about what is wrong and where."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SessionFileError(f"{path} is not UTF-8 text: save it as UTF-8") from error
    except RecursionError as error:
        raise SessionFileError(f"{path} is nested too deeply: this is not a conversation") from error
    except ValueError as error:
        raise SessionFileError(
            f"{path} is not JSON: {error}. Expected a list of messages, an object with `messages`, or JSON Lines"
        ) from error


def read_lines(
    path: Path, stamp: Stamp, progress: Progress | None = None, *, start: int = 0, number: int = 0
) -> Iterator[Line]:
    """Every line of the file, one at a time; a line that is not JSON comes with its problem.

    From the line on that has this number and starts at this byte.
    """
    reported = start
    with path.open("rb") as stream:
        stream.seek(start)
        for place, raw in enumerate(stream, number):
            yield _line(place, start, raw)
            start += len(raw)
            if progress and start - reported >= _STEP:
                progress(reported := start, stamp.size)
    if progress:
        progress(start, stamp.size)


def _line(number: int, start: int, raw: bytes) -> Line:
    text = raw.removeprefix(_BOM) if number == 0 else raw
    if not text.strip():
        return Line(number, start, raw, None)
    try:
        return Line(number, start, raw, json.loads(text.decode()))
    except (ValueError, RecursionError) as error:
        return Line(number, start, raw, None, f"{type(error).__name__}: {error}")


def collect(path: Path, progress: Progress | None, lines: Lines) -> Iterator[Line]:
    """The lines that are JSON objects, while `lines` learns how far the file is whole.

    A line that is cut off at the end of the file is tolerated with a warning, as clients die in the middle of a write;
    one in the middle is left alone with a warning, as clients do.
    """
    for line in read_lines(path, lines.stamp, progress):
        end = line.start + len(line.raw)
        cut_off = bool(line.problem) and end >= lines.stamp.size
        lines.whole = lines.whole if cut_off else end
        if lines.kept is not None:
            lines.kept.append(line)
        if line.problem:
            what = "is cut off and was left out" if cut_off else "is not JSON and was left alone"
            lines.warnings.append(f"line {line.number + 1} {what} ({line.problem})")
        elif isinstance(line.value, dict):
            yield line


def dump(value: Any) -> bytes:
    """One compact JSON line."""
    return encode(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=plain)) + b"\n"


def encode(text: str) -> bytes:
    """JSON text as UTF-8; a lone surrogate, which UTF-8 can't hold, as the escape it was read from."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def is_summary(found: Match, format_: Format) -> bool:
    """Whether this is a new turn that only speaks, in the user's place: the summary turn of a compaction."""
    view = format_.read(found.message)
    return found.index is None and view.role == "user" and not view.answers


def chain(entries: Iterable[Entry], own: str, parent: str, first: str | None) -> Iterator[Entry]:
    """The entries under names of their own, each linked to the one before it, the first one to `first`."""
    for entry in entries:
        name = str(uuid.uuid4())
        yield entry | {own: name, parent: first}
        first = name


def time_now() -> str:
    """The time as clients write it: 2026-01-31T12:00:00.000Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_unchanged(path: Path, stamp: Stamp, *, named: Path | None = None) -> None:
    """Refuse to go on when the file is no longer the one that was read; `named` is how people know it."""
    try:
        info = path.stat()
    except OSError as error:
        raise SessionFileError(f"can't read {path} again: {reason(error)}") from error
    if Stamp(info.st_size, info.st_mtime_ns) != stamp:
        raise SessionFileError(
            f"{named or path} changed while it was worked on: close the client that writes it, and try again"
        )
