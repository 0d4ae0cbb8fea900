"""A summariser that failed, in words for logs and receipts: what happened and what to do, never what was said."""

from __future__ import annotations

from unabridged.asking.ask import AskFailed
from unabridged.asking.speaking import status_of
from unabridged.errors import SummaryFailed

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


def in_words(error: BaseException) -> str:
    """The kind of an error and its HTTP status: `AuthenticationError, HTTP 401`."""
    status = status_of(error)
    return type(error).__name__ + (f", HTTP {status}" if status is not None else "")


def remedy(failed: SummaryFailed) -> str:
    """What to do about it, in a sentence."""
    if not isinstance(failed, AskFailed):
        return "Use another model, or a fallback="
    status = status_of(failed.__cause__) if failed.__cause__ is not None else None
    return _BY_STATUS.get(status or 0) or _BY_KIND.get(failed.why, "The Failed event has the whole error")
