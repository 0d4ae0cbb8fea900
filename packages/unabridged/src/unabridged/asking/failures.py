"""A model's error: whether it lasts, why it failed, what to do. Words for logs and receipts quote no chat."""

from __future__ import annotations

from typing import Any

from unabridged.asking.ask import AskFailed, FailureKind
from unabridged.asking.overflow import read_error_text, read_field
from unabridged.errors import SettingsError, SummaryFailed

_PROGRAMMING_ERRORS = (
    TypeError, AttributeError, NameError, ImportError, NotImplementedError, AssertionError, SettingsError,
)  # fmt: skip
_PASSING_STATUSES = frozenset({408, 409, 425, 429})
_SEE_EVENT = "The Failed event has the whole error"
_REMEDIES: dict[int | FailureKind, str] = {
    401: "Check its key",
    403: "Check its key, and that it may use this model",
    404: "Check its name",
    429: "A fallback= takes over while it is limited",
    "timeout": "Allow more time, Settings(deadline=…), or use a faster model",
    "too-long": "Use a summariser with a larger window, or say what it takes, model_window=",
    "unavailable": "A fallback= takes over while it is down; the Failed event has the whole error",
    "cool-down": "It is asked again then",
}


def is_lasting(error: BaseException) -> bool:
    """Return whether the same call would fail the same way again."""
    if isinstance(error, _PROGRAMMING_ERRORS) or type(error).__name__ == "UserError":
        return True
    return 400 <= (status := find_http_status(error) or 0) < 500 and status not in _PASSING_STATUSES


def classify_failure(error: BaseException) -> FailureKind:
    """Return the kind of an error that no retry saved."""
    if is_lasting(error):
        return "refused"
    is_timeout = isinstance(error, TimeoutError) or "timeout" in type(error).__name__.lower()
    return "timeout" if is_timeout else "unavailable"


def find_http_status(error: BaseException | None) -> int | None:
    """Return the HTTP status that an SDK's exception carries."""
    for holder in (error, read_field(error, "response")):
        for key in ("status_code", "status", "code"):
            value = read_field(holder, key)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
                return value
    return None


def read_retry_after(error: BaseException) -> float | None:
    """Return the seconds after which the provider asks to be called again; None where it names none."""
    for holder in (read_field(error, "response"), error):
        headers: Any = read_field(holder, "headers")
        try:
            seconds = float(headers.get("retry-after"))
        except (AttributeError, TypeError, ValueError):
            continue
        if seconds >= 0:
            return seconds
    return None


def describe_error_kind(error: BaseException) -> str:
    """Return the kind of an error and its HTTP status: `AuthenticationError, HTTP 401`."""
    status = find_http_status(error)
    return type(error).__name__ + (f", HTTP {status}" if status is not None else "")


def quote_error(error: BaseException) -> str:
    """Return the kind of an error and the beginning of its text."""
    text = " ".join(read_error_text(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def find_remedy(failed: SummaryFailed) -> str:
    """Return what to do about it, in a sentence."""
    if not isinstance(failed, AskFailed):
        return "Use another model, or a fallback="
    return _REMEDIES.get(find_http_status(failed.__cause__) or 0) or _REMEDIES.get(failed.why, _SEE_EVENT)
