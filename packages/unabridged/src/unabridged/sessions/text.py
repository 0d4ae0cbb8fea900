"""Lines and bytes of a file: checked before it is read, and streamed."""

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
from unabridged.formats.fields import to_plain_dict
from unabridged.sessions.base import Entry, FileLine, FileStamp, LineFile, MessageMatch, SessionFileError

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the size of the file."""

HOOK_PREFIX = "[unabridged]"
"""How a text begins that our hook added to a session."""
ADDED_LINE_BREAK = b" \n"
"""How a line ends that was added after one without a line break, so that taking it away restores each byte."""
_BOM = b"\xef\xbb\xbf"
_PROGRESS_BYTES = 8 << 20
"""Between two reports of progress."""


def check_file(path: Path, max_size: int) -> FileStamp:
    """Raise `SessionFileError` for what can't be a conversation: missing, no file, empty, too large, not text."""
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise SessionFileError(f"{path} is a folder: name the session file inside it")
        if not stat.S_ISREG(info.st_mode):
            raise SessionFileError(f"{path} is not a regular file: save the conversation to one first")
        if info.st_size > max_size:
            size = f"{info.st_size:,} bytes, more than the {max_size:,} allowed"
            raise SessionFileError(f"{path} has {size}: raise the maximum size to read it")
        with path.open("rb") as stream:
            head = stream.read(8192)
    except OSError as error:
        raise SessionFileError(f"can't read {path}: {describe_os_error(error)}") from error
    if not head.strip(b" \t\r\n" + _BOM) and info.st_size <= len(head):
        raise SessionFileError(f"{path} is empty: there is no conversation in it")
    if b"\0" in head:
        raise SessionFileError(f"{path} is not text: expected JSON or JSON Lines in UTF-8")
    return FileStamp(info.st_size, info.st_mtime_ns)


def describe_os_error(error: OSError) -> str:
    """Return the system's message, without the number and the path."""
    return (error.strerror or str(error)).lower()


def parse_json(path: Path, raw: bytes) -> Any:
    """Return the JSON value; raise `SessionFileError` with what is wrong and where."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SessionFileError(f"{path} is not UTF-8 text: save it as UTF-8") from error
    except RecursionError as error:
        raise SessionFileError(f"{path} is nested too deeply: this is not a conversation") from error
    except ValueError as error:
        expected = "a list of messages, an object with `messages`, or JSON Lines"
        raise SessionFileError(f"{path} is not JSON: {error}. Expected {expected}") from error


def read_lines(
    path: Path, stamp: FileStamp, progress: Progress | None = None, *, start: int = 0, number: int = 0
) -> Iterator[FileLine]:
    """Yield every line of the file; a line that is not JSON comes with its problem.

    The first is the one that has this number and starts at this byte.
    """
    reported = start
    with path.open("rb") as stream:
        stream.seek(start)
        for place, raw in enumerate(stream, number):
            yield _parse_line(place, start, raw)
            start += len(raw)
            if progress and start - reported >= _PROGRESS_BYTES:
                progress(reported := start, stamp.size)
    if progress:
        progress(start, stamp.size)


def _parse_line(number: int, start: int, raw: bytes) -> FileLine:
    text = raw.removeprefix(_BOM) if number == 0 else raw
    if not text.strip():
        return FileLine(number, start, raw, None)
    try:
        return FileLine(number, start, raw, json.loads(text.decode()))
    except (ValueError, RecursionError) as error:
        return FileLine(number, start, raw, None, f"{type(error).__name__}: {error}")


def collect_entries(path: Path, progress: Progress | None, lines: LineFile) -> Iterator[FileLine]:
    """Yield the lines that are JSON objects, and note in `lines` how far the file is complete.

    A line that is cut off at the end of the file is left out with a warning, as clients die in the middle of a write;
    one in the middle is left alone with a warning, as clients do.
    """
    for line in read_lines(path, lines.stamp, progress):
        end = line.start + len(line.raw)
        cut_off = bool(line.problem) and end >= lines.stamp.size
        lines.complete_size = lines.complete_size if cut_off else end
        if lines.lines is not None:
            lines.lines.append(line)
        if line.problem:
            what = "is cut off and was left out" if cut_off else "is not JSON and was left alone"
            lines.warnings.append(f"line {line.number + 1} {what} ({line.problem})")
        elif isinstance(line.value, dict):
            yield line


def dump_line(value: Any) -> bytes:
    """Return the value as one compact JSON line."""
    return encode_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=to_plain_dict)) + b"\n"


def encode_json(text: str) -> bytes:
    """Return JSON text as UTF-8; a lone surrogate, which UTF-8 can't encode, as the escape it was read from."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def is_new_summary(match: MessageMatch, format_: Format) -> bool:
    """Return whether a match is a summary turn that a compaction added: a new user's turn without results of tools."""
    view = format_.read(match.message)
    return match.index is None and view.role == "user" and not view.answers


def link_entries(entries: Iterable[Entry], own: str, parent: str, first: str | None) -> Iterator[Entry]:
    """Yield the entries with new ids, each linked to the one before it, the first one to `first`."""
    for entry in entries:
        new = str(uuid.uuid4())
        yield entry | {own: new, parent: first}
        first = new


def format_current_time() -> str:
    """Return the time as clients write it: 2026-01-31T12:00:00.000Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_unchanged(path: Path, stamp: FileStamp, *, named: Path | None = None) -> None:
    """Raise `SessionFileError` when the file is no longer the one that was read; `named` is its name for people."""
    try:
        info = path.stat()
    except OSError as error:
        raise SessionFileError(f"can't read {path} again: {describe_os_error(error)}") from error
    if FileStamp(info.st_size, info.st_mtime_ns) != stamp:
        remedy = "close the client that writes it, and try again"
        raise SessionFileError(f"{named or path} changed while it was worked on: {remedy}")
