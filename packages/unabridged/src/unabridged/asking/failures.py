"""A model's error: whether it lasts, why it failed, what to do; in words for logs and receipts, never what was said."""

from __future__ import annotations

from typing import Any

from unabridged.asking.ask import AskFailed, FailedBecause
from unabridged.asking.overflow import read_field, text_of
from unabridged.errors import SettingsError, SummaryFailed

_OUR_FAULT = (TypeError, AttributeError, NameError, ImportError, NotImplementedError, AssertionError, SettingsError)
_BY_STATUS = {
    401: "Check its key",
    403: "Check its key, and that it may use this model",
    404: "Check its name",
    429: "A fallback= takes over while it is limited",
}
_BY_KIND = {
    "timeout": "Allow more time, Settings(deadline=…), or use a faster model",
    "too-long": "Use a summariser with a larger window, or say what it takes, model_window=",
    "refused": "The Failed event has the whole error",
    "unavailable": "A fallback= takes over while it is down; the Failed event has the whole error",
    "cool-down": "It is asked again then",
}


def is_lasting(error: BaseException) -> bool:
    """Whether the same call would fail the same way again."""
    if isinstance(error, _OUR_FAULT) or type(error).__name__ == "UserError":
        return True
    status = status_of(error)
    return status is not None and 400 <= status < 500 and status not in {408, 409, 425, 429}


def reason_for(error: BaseException) -> FailedBecause:
    """In a word, why a call failed that no retry saved."""
    if is_lasting(error):
        return "refused"
    timeout = isinstance(error, TimeoutError) or "timeout" in type(error).__name__.lower()
    return "timeout" if timeout else "unavailable"


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status an SDK's exception carries."""
    for holder in (error, read_field(error, "response")):
        for key in ("status_code", "status", "code"):
            value = read_field(holder, key)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
                return value
    return None


def retry_after(error: BaseException) -> float | None:
    """The seconds after which the provider wants to be asked again."""
    for holder in (read_field(error, "response"), error):
        headers: Any = read_field(holder, "headers")
        try:
            seconds = float(headers.get("retry-after"))
        except (AttributeError, TypeError, ValueError):
            continue
        if seconds >= 0:
            return seconds
    return None


def kind_in_words(error: BaseException) -> str:
    """The kind of an error and its HTTP status: `AuthenticationError, HTTP 401`."""
    status = status_of(error)
    return type(error).__name__ + (f", HTTP {status}" if status is not None else "")


def beginning_of(error: BaseException) -> str:
    """Its kind and the beginning of what it says; the whole is its cause."""
    text = " ".join(text_of(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def remedy(failed: SummaryFailed) -> str:
    """What to do about it, in a sentence."""
    if not isinstance(failed, AskFailed):
        return "Use another model, or a fallback="
    by_status = _BY_STATUS.get(status_of(failed.__cause__) or 0)
    return by_status or _BY_KIND.get(failed.why, "The Failed event has the whole error")
