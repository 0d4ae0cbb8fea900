"""What a `prepare` hook returned: which message of the conversation each of them is, whose words, and its number.

A summary quotes people with the numbers of their messages. So a message that the hook left as it is, or changed, keeps
its number and its author, and one that the hook made is nobody's in the conversation: never a person's.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from unabridged.messages import Origin, View


class Given(NamedTuple):
    """A message that the hook is given, and its number in the original conversation."""

    message: Any
    view: View
    turn: int


def find_given(messages: Sequence[Any], views: Sequence[View], given: Sequence[Given]) -> list[Given | None]:
    """Return for each message that the hook returned the one it was: None for one that the hook made.

    It is the same object; or, where there are as many as before, the one in its place; or the next that says the same.
    """
    own = {id(one.message): one for one in given}
    kept = {id(message) for message in messages}
    alike: dict[tuple[str, str], deque[Given]] = defaultdict(deque)
    for one in given:
        if id(one.message) not in kept:
            alike[one.view.role, one.view.text].append(one)
    found: list[Given | None] = []
    for i, (message, view) in enumerate(zip(messages, views, strict=True)):
        was = own.get(id(message))
        if was is None and len(messages) == len(given) and given[i].view.role == view.role:
            was = given[i]
        elif was is None and (same := alike[view.role, view.text]):
            was = same.popleft()
        found.append(was)
    return found


def authors_of(views: Sequence[View], found: Sequence[Given | None], said: Sequence[Origin | None]) -> list[View]:
    """Return the views with whose words they are: as the caller says, as in the conversation, else no person's."""
    authors = []
    for view, one, told in zip(views, found, said, strict=True):
        if told is None and one is not None and one.view.role == view.role:
            authors.append(view.said_by(one.view.origin))
        elif told is None and one is None and view.origin == "person":
            authors.append(view.said_by("host"))
        else:
            authors.append(view)
    return authors


def numbers_of(found: Sequence[Given | None], went: Sequence[int]) -> list[int]:
    """Return the number of each message; one that the hook made has the next number of what goes that nobody has.

    Where there is none left, it has that of the message before it.
    """
    taken = {one.turn for one in found if one is not None}
    free = deque(turn for turn in went if turn not in taken)
    numbers: list[int] = []
    for one in found:
        last = numbers[-1] if numbers else -1
        while free and free[0] <= last:
            free.popleft()
        if one is not None:
            numbers.append(one.turn)
        elif free:
            numbers.append(free.popleft())
        else:
            numbers.append(max((turn for turn in went if turn <= last), default=went[0] if went else 0))
    return numbers
