"""Write the gateway's log on standard error, as text or a JSON object a line: no content, no key, no query is in it.

What an exception says may quote what it failed at: its type and where it was raised are logged, and not its words.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

FACTS_ATTRIBUTE: Final = "unabridged_facts"
"""The attribute of a log record that holds names and numbers by themselves."""

_CONTROL_CHARACTER_PATTERN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LOGGER_NAMES: Final = ("unabridged", "uvicorn")
_MAX_FRAMES: Final = 8
_OMITTED_MESSAGES: Final = (
    "Unsupported upgrade request", "No supported WebSocket library", "a compaction was given up, the archive",
    "keep is ",
)  # fmt: skip
"""How records begin that are left out: uvicorn's of a WebSocket, which is refused here on purpose; and those of each
compaction on an archive that fails, or on a `keep`, which are logged here once, the second with the model's name."""


class LogFacts(dict[str, Any]):
    """Names and numbers; as a text, `name=value`."""

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" if " " in str(value) else f"{name}={value}" for name, value in self.items())


def configure_log(kind: Literal["quiet", "text", "json"]) -> None:
    """Configure the log of this process: what goes wrong, as text; or also a line for each request, as text or JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLineFormatter() if kind == "json" else TextLineFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("uvicorn.error").addFilter(_should_log)
    logging.getLogger("unabridged").addFilter(_should_log)
    logging.getLogger("unabridged.gateway").setLevel(logging.WARNING if kind == "quiet" else logging.INFO)


def _should_log(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_OMITTED_MESSAGES)


class TextLineFormatter(logging.Formatter):
    """Formats each record as one line, whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text = " ".join(
            [_format_message(record), *(f"{name}={value}" for name, value in _describe_error(record).items())]
        )
        shown = _CONTROL_CHARACTER_PATTERN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
        return f"{_format_time(record)} {record.levelname.lower()} {shown}"


class JsonLineFormatter(logging.Formatter):
    """Formats each record as a JSON object; a request's names and numbers are members of it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {"time": _format_time(record), "level": record.levelname.lower(), "logger": record.name}
        facts: Mapping[str, Any] = getattr(record, FACTS_ATTRIBUTE, {})
        message = {} if facts else {"message": _format_message(record)}
        return msgspec.json.encode({**line, **message, **facts, **_describe_error(record)}).decode()


def _format_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _format_message(record: logging.LogRecord) -> str:
    """Return the message; of other libraries' the first line, since asyncio quotes exceptions behind it."""
    message = record.getMessage()
    return message if record.name.startswith(_LOGGER_NAMES) else message.partition("\n")[0]


def _describe_error(record: logging.LogRecord) -> dict[str, str]:
    """Return the type of the exception and the places it passed, the innermost last."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return {}
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    return {"error": type(error).__name__, "at": " ".join(f"{frame.filename}:{frame.lineno}" for frame in frames)}
