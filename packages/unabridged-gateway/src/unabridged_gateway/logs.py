"""The gateway's log on standard error, as text or a JSON object a line: no content, no key, no query is in it.

What an exception says may quote what it failed at: its type and where it was raised are told, and not its words.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

Kind = Literal["quiet", "text", "json"]
"""What goes wrong, as text; a line for each request too; the same as JSON."""
FACTS: Final = "unabridged_facts"
"""The attribute of a log record that holds names and numbers by themselves."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_OURS: Final = ("unabridged", "uvicorn")
_FRAMES: Final = 8
_NEEDLESS: Final = (
    "Unsupported upgrade request", "No supported WebSocket library", "a compaction was given up, the archive",
    "keep is ",
)  # fmt: skip
"""How uvicorn begins to complain of a WebSocket, which is refused here on purpose; and what each compaction has to say
of an archive that fails, which is said once for all of them; and of a `keep`, which is said with the model's name."""


class Facts(dict[str, Any]):
    """Names and numbers; as a text, where somebody wants one, `name=value`."""

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" if " " in str(value) else f"{name}={value}" for name, value in self.items())


def begin_log(kind: Kind) -> None:
    """Have this process log this way, whoever it is that logs."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if kind == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("uvicorn.error").addFilter(_is_worth_saying)
    logging.getLogger("unabridged").addFilter(_is_worth_saying)
    logging.getLogger("unabridged.gateway").setLevel(logging.WARNING if kind == "quiet" else logging.INFO)


def _is_worth_saying(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_NEEDLESS)


class TextLines(logging.Formatter):
    """A line for each record, whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said = " ".join([_message(record), *(f"{name}={value}" for name, value in _error(record).items())])
        shown = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", said)
        return f"{_time(record)} {record.levelname.lower()} {shown}"


class JsonLines(logging.Formatter):
    """A JSON object for each record; a request's names and numbers are members of it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        facts: Mapping[str, Any] = getattr(record, FACTS, {})
        said = {} if facts else {"message": _message(record)}
        return msgspec.json.encode({**line, **said, **facts, **_error(record)}).decode()


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _message(record: logging.LogRecord) -> str:
    """What is said; of what others say the first line, since asyncio quotes exceptions behind it."""
    said = record.getMessage()
    return said if record.name.startswith(_OURS) else said.partition("\n")[0]


def _error(record: logging.LogRecord) -> dict[str, str]:
    """The type of the exception and the places it passed, the innermost last."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return {}
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return {"error": type(error).__name__, "at": " ".join(f"{frame.filename}:{frame.lineno}" for frame in frames)}
