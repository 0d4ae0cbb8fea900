"""Recognise "the request is too long" in whatever shape a provider says it, and nothing else.

Read are SDK exceptions (with what they were raised from), JSON bodies as dicts or text, error events of a stream,
and responses that stopped because the window was full. Never the words of a message: only error texts, codes and stop
reasons are looked at. A rate limit ("Request too large … tokens per min") and a wrong `max_tokens` are not overflows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unabridged.text_tools import parse_json


@dataclass(frozen=True, slots=True)
class Overflow:
    """The request was too long: the provider's limit, the input it counted, the answer asked for, where it said so."""

    limit: int | None = None
    requested: int | None = None
    output: int | None = None


_TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("overflow.json").read_text(encoding="utf-8"))
"""What providers say, by who says it: `codes`, `patterns` of texts, and `account limits`, which are no overflows."""
_OVERFLOW_CODES = frozenset(_TABLE["codes"].values())
"""Codes, stop reasons and classes of exceptions that say it without a text."""
_ACCOUNT_LIMIT_CODES = frozenset(_TABLE["account limits"])
_ACCOUNT_LIMIT_PATTERN = re.compile(
    r"tokens? per (?:min|day|hour|sec)|\b[TR]P[MD]\b|rate limit|quota|throttl|too many requests|please wait",
    re.IGNORECASE,
)

_TEXT_FIELDS = ("message", "Message", "detail")
_CODE_FIELDS = ("code", "type", "status", "Code", "stop_reason", "finish_reason", "status_code", "reason")
_COUNT_FIELDS = ("n_ctx", "n_prompt_tokens")
_NESTED_FIELDS = (
    "error", "Error", "errors", "body", "details", "response", "response_metadata", "incomplete_details", "choices",
    "candidates",
)  # fmt: skip
"""Where answers keep more about their failure. Never a message's content."""


def _compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern in which `<limit>`, `<input>`, `<output>` and `<total>` stand for numbers."""
    numbered = re.sub("<(limit|input|output|total)>", r"(?P<\1>\\d[\\d,_]{0,30})", text)
    return re.compile(numbered, re.IGNORECASE | re.DOTALL)


_OVERFLOW_PATTERNS = tuple(_compile_pattern(text) for texts in _TABLE["patterns"].values() for text in texts)
"""The first that matches counts; those with numbers come before those without."""


def is_overflow(answer: object) -> Overflow | None:
    """Return what the answer says about the request being too long; None when it says nothing of that."""
    for _ in range(6):  # an exception, and what it was raised from: wrappers of SDK errors are common
        report = _FailureReport(answer)
        if report.is_account_limit():
            return None
        if (overflow := report.find_overflow()) is not None:
            return overflow
        if not isinstance(answer, BaseException) or answer.__cause__ is None:
            return None
        answer = answer.__cause__
    return None


class _FailureReport:
    """What an answer says about its failure: texts, codes (an HTTP status is one), and counts under known names."""

    def __init__(self, answer: object) -> None:
        self.texts: list[str] = []
        self.codes: set[str | int] = set()
        self.counts: dict[str, int] = {}
        self._read(answer, 0)

    def _read(self, answer: object, depth: int) -> None:
        if depth > 5 or answer is None:
            return
        if isinstance(answer, str | bytes):
            self._read_text(answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer, depth)
        elif isinstance(answer, list | tuple):
            for item in answer[:20]:
                self._read(item, depth + 1)
        else:
            self._read_object(answer, depth)

    def _read_text(self, text: str, depth: int) -> None:
        body = parse_json(text) if text.lstrip().startswith(("{", "[")) else None
        if body is None:
            self.texts.append(text[:4_000])
        self._read(body, depth + 1)

    def _read_object(self, answer: object, depth: int) -> None:
        if isinstance(answer, BaseException):
            self.codes |= {kind.__name__.lower() for kind in type(answer).__mro__}
            self.texts.append(read_error_text(answer)[:4_000])
        codes = [read_field(answer, key) for key in _CODE_FIELDS]
        self.codes |= {code.lower() if isinstance(code, str) else code for code in codes if isinstance(code, str | int)}
        counts = {key: read_field(answer, key) for key in _COUNT_FIELDS}
        self.counts |= {key: count for key, count in counts.items() if isinstance(count, int)}
        for text in (read_field(answer, key) for key in _TEXT_FIELDS):
            if isinstance(text, str):
                self._read_text(text, depth + 1)
        for key in _NESTED_FIELDS:
            self._read(_read_body(read_field(answer, key)), depth + 1)

    def is_account_limit(self) -> bool:
        """Return whether it says that the account, not the window, is at its limit."""
        is_limit = bool(self.codes & _ACCOUNT_LIMIT_CODES) or any(map(_ACCOUNT_LIMIT_PATTERN.search, self.texts))
        return is_limit and not self.codes & _OVERFLOW_CODES

    def find_overflow(self) -> Overflow | None:
        """Return what it says about the request being too long; None where it says nothing of that."""
        matches = (pattern.search(text) for text in self.texts for pattern in _OVERFLOW_PATTERNS)
        match = next(filter(None, matches), None)
        if match is None and not self.codes & _OVERFLOW_CODES:
            return None
        groups = match.groupdict() if match else {}
        numbers = {name: int(re.sub(r"\D", "", text)) for name, text in groups.items() if text}
        limit, output = numbers.get("limit", self.counts.get("n_ctx")), numbers.get("output")
        if limit is not None and output is not None and output >= limit:
            return None  # the answer alone was asked too long: no shorter conversation would help
        return Overflow(limit, numbers.get("input", self.counts.get("n_prompt_tokens")), output)


def read_error_text(error: BaseException) -> str:
    """Return the text of an error; "" where showing it raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an SDK's error may raise while it is shown
        return ""


def read_field(answer: object, key: str) -> Any:
    """Return a field of a dict, or an attribute; None where there is none or reading it raises."""
    if isinstance(answer, Mapping):
        return answer.get(key)
    try:
        return getattr(answer, key, None)
    except Exception:  # noqa: BLE001 - an SDK's property may raise anything, e.g. on a body not yet read
        return None


def _read_body(value: Any) -> Any:
    """Return the text of an HTTP response's body; other values as they are."""
    if value is None or isinstance(value, str | bytes | Mapping | list | tuple):
        return value
    text = read_field(value, "text")
    return text if isinstance(text, str) else value
