"""How a request ends before it is passed on: refused in words, or left by its client."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - what the client is told, not a failure of ours
    """The request is answered here, with this status and these words, in the shape of its provider."""

    def __init__(self, status: int, words: str) -> None:
        self.status, self.words = status, words
        super().__init__(f"{status}: {words}")


class BadBody(Refused):
    """The body can't be read: too large (413), broken off (400), in an encoding nobody here knows (415), late (408).

    Some of it may not have been read yet: close the connection behind the answer.
    """


class ClientGone(Exception):  # noqa: N818 - likewise
    """The client left; there is nobody to answer."""
