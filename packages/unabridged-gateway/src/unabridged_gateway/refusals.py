"""The ways in which a request ends early: refused here, refused by its provider, or left by its client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RequestRefused(Exception):  # noqa: N818 - what the client is told, not a failure of ours
    """A request that is answered here, with this status and these words, in the shape of its provider."""

    def __init__(self, status: int, words: str) -> None:
        self.status, self.words = status, words
        super().__init__(f"{status}: {words}")


class BadBody(RequestRefused):
    """A body that can't be read: too large (413), broken off (400), in an unknown encoding (415), late (408).

    Some of it may not have been read yet: close the connection behind the answer.
    """


class ClientGone(Exception):  # noqa: N818 - likewise
    """A client that has left: there is nobody to answer."""


class ProviderRefusal(Exception):  # noqa: N818 - what a provider answers, not a failure of ours
    """An error that a provider answered with; no word of its body, which may hold a key, is in the message."""

    def __init__(self, body: Any, status_code: int | None = None, error_code: str | None = None) -> None:
        super().__init__(
            "the provider refused the request" if status_code is None else f"the provider answered with {status_code}"
        )
        self.body, self.status_code, self.error_code = body, status_code, error_code


def read_error_code(content: Any) -> str | None:
    """Return the provider's own code of an error, where it has one."""
    for key in ("error", "details", "error_code"):
        content = content.get(key) if isinstance(content, Mapping) else None
    return content if isinstance(content, str) else None
