"""What a rule looks at and what it says; and the rounds of a conversation, as most providers pair them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from unabridged.formats.base import Message
from unabridged.messages import Answer, Call, View

LEGACY = "function:"
"""How the ids begin that Chat's old function calls are read with; they are paired by name, and nobody checks them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a provider refuses: the rule's stable name, the message it is about, what is wrong and the remedy."""

    rule: str
    index: int
    message: str


class Round(NamedTuple):
    """Calls that stand together and the answers right behind them, each with its index; `stop` is what follows."""

    calls: list[tuple[int, Call]]
    answers: list[tuple[int, Answer]]
    stop: int


@dataclass(frozen=True)
class Conversation:
    """A conversation that is to be sent to `provider`. With `messages` None only the views are known."""

    views: Sequence[View]
    messages: Sequence[Message] | None
    format: str
    provider: str
    model: str | None = None
    pending: bool = False
    """The last round is still running: its missing answers, or the user's next turn, are yet to come."""

    @property
    def own(self) -> bool:
        """Whether the provider reads these very messages; else a client translates them first."""
        return self.format == self.provider

    @property
    def items(self) -> bool:
        """Whether one turn of the model may be several messages."""
        return self.format == "openai-responses"

    @cached_property
    def rounds(self) -> list[Round]:
        """Every round, in order; answers that follow no call make a round without calls."""
        return list(_rounds(self.views, items=self.items))

    def wire(self) -> Iterable[tuple[int, Message]]:
        """The messages with their indices when the provider reads them as they are, else nothing."""
        return enumerate(self.messages) if self.own and self.messages is not None else ()

    def end(self) -> Iterable[tuple[int, Message]]:
        """The last of these messages, if any."""
        return [(len(self.messages) - 1, self.messages[-1])] if self.own and self.messages else ()

    def last(self, index: int) -> bool:
        """Whether nothing follows the message."""
        return index == len(self.views) - 1


Rule = Callable[[Conversation], Iterator[Finding]]


def _rounds(views: Sequence[View], *, items: bool) -> Iterator[Round]:
    start = 0
    while start < len(views):
        stop = _calls_stop(views, start, items=items)
        calls = [(i, call) for i in range(start, stop) for call in views[i].calls if not call.id.startswith(LEGACY)]
        answers_stop = _answers_stop(views, stop)
        answers = [
            (i, answer)
            for i in range(stop, answers_stop)
            for answer in views[i].answers
            if not answer.call_id.startswith(LEGACY)
        ]
        if calls or answers:
            yield Round(calls, answers, answers_stop)
        start = max(answers_stop, start + 1)


def _calls_stop(views: Sequence[View], start: int, *, items: bool) -> int:
    if not items:
        return start + 1 if views[start].calls else start
    while start < len(views) and views[start].role == "assistant":
        start += 1
    return start


def _answers_stop(views: Sequence[View], start: int) -> int:
    """Tool messages in a row answer together; a user message that carries results stands alone."""
    stop = start
    while stop < len(views) and views[stop].role == "tool":
        stop += 1
    if stop == start and start < len(views) and views[start].answers:
        return start + 1
    return stop


def says_nothing(view: View) -> bool:
    """Whether the message would make a turn without parts."""
    said = view.text or view.calls or view.answers or view.media or view.reasoning or view.attached or view.unread
    return not said and not view.opaque


@dataclass(slots=True)
class Seen:
    """Ids met so far, to find those that come twice."""

    ids: set[str] = field(default_factory=set)

    def again(self, id_: str) -> bool:
        """Whether this id was met before; a missing one is another rule's business."""
        known = id_ in self.ids
        if id_:
            self.ids.add(id_)
        return known


def grouped(pairs: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """For each index, in order, its ids as they stand in a message: `'a', 'b'`."""
    found: dict[int, list[str]] = {}
    for index, id_ in pairs:
        found.setdefault(index, []).append(repr(id_))
    for index, ids in found.items():
        yield index, ", ".join(ids)
