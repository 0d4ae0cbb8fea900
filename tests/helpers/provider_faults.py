"""Make one answer of a provider go wrong: values for the queue `ProviderApp.faults`."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """A way in which one answer goes wrong; by default, in none."""

    wait: float = 0
    """Seconds before anything is said."""
    status: int = 0
    """Return an error in place of the answer, in the provider's own shape."""
    retry_after: str = ""
    """With `fail_with_status`: the header of that name."""
    code: str = ""
    """With `fail_with_status`: the provider's own code of the error."""
    drop_after: int | None = None
    """The connection breaks after so many events; of an answer in one piece, in its middle."""
    body: bytes | None = None
    """Return an error in place of the answer, with status 200."""
    hold_after: int = 0
    """So many events are said, and the next when `until` is set."""
    until: threading.Event | None = None


def delay_answer(seconds: float) -> Fault:
    """Return a fault that delays the answer by so many seconds."""
    return Fault(wait=seconds)


def drop_midstream(after_events: int = 1) -> Fault:
    """Return a fault that breaks the connection after so many events."""
    return Fault(drop_after=after_events)


def fail_with_status(code: int, retry_after: str = "", *, code_name: str = "") -> Fault:
    """Return a fault that answers with the provider's own error of this status, and a `retry-after` header if set."""
    return Fault(status=code, retry_after=retry_after, code=code_name)


def answer_garbage(body: bytes = b"<html>\xff\x00 not what anybody asked for") -> Fault:
    """Return a fault that answers with status 200 and bytes that no SDK can read."""
    return Fault(body=body)


def pause_until(until: threading.Event, after_events: int = 1) -> Fault:
    """Return a fault that sends so many events, and the rest once `until` is set."""
    return Fault(hold_after=after_events, until=until)


ERROR_NAMES = {
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    403: ("permission_error", "PERMISSION_DENIED"),
    404: ("not_found_error", "NOT_FOUND"),
    413: ("request_too_large", "INVALID_ARGUMENT"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    503: ("overloaded_error", "UNAVAILABLE"),
    529: ("overloaded_error", "UNAVAILABLE"),
}
"""The names of statuses at Anthropic and at Google; any other is an error of their own."""


def build_provider_error(path: str, code: int, words: str = "", *, code_name: str = "") -> dict[str, Any]:
    """Return an error of this status, in the shape of the provider whose path it is."""
    kind, named = ERROR_NAMES.get(code, ("api_error", "INTERNAL"))
    words = words or f"The provider says {code}."
    if "/messages" in path:
        details = {"details": {"error_code": code_name}} if code_name else {}
        return {"type": "error", "error": {"type": kind, "message": words, **details}, "request_id": "req_1"}
    if "/v1beta/" in path or ":" in path:
        return {"error": {"code": code, "message": words, "status": named}}
    return {"error": {"message": words, "type": kind, "param": None, "code": None}}
