"""A message a line: the plainest session file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unabridged.formats import Message
from unabridged.sessions.document import is_message, wire_format
from unabridged.sessions.loaded import Lines, Loaded, SessionFileError, Stamp
from unabridged.sessions.text import Progress, collect


def load_jsonl(path: Path, stamp: Stamp, format_name: str | None, progress: Progress | None) -> Loaded:
    """Every line a message. A line that is something else is an error here: nothing says that it may be left out."""
    lines, warnings = Lines(stamp), list[str]()
    messages: list[Message] = []
    numbers: list[tuple[int, ...]] = []
    for line in collect(path, stamp, progress, lines, warnings):
        if not is_message(line.value):
            raise SessionFileError(
                f"line {line.number + 1} of {path} is not a message: expected a role or a type, "
                f"found {_keys(line.value)}"
            )
        lines.owners[line.number] = len(messages)
        messages.append(line.value)
        numbers.append((line.number,))
    if any("left alone" in warning for warning in warnings):
        raise SessionFileError(f"{path}: {warnings[0].replace(' and was left alone', '')}: mend or remove that line")
    return Loaded(
        path=path,
        kind="jsonl",
        format=wire_format(messages, format_name, {}),
        messages=messages,
        lines=tuple(numbers),
        warnings=tuple(warnings),
        source=lines,
    )


def _keys(value: dict[str, Any]) -> str:
    return ", ".join(sorted(value)[:5]) or "an empty object"
