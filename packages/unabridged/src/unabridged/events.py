"""The events of `on_event`: one per change, per decision not to change, and per failure.

They are emitted where they happen: in `engine/` (`pipeline`, `store`, `write`), `engine/call.py`, `compactor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Kind = Literal["summary", "clearing", "shortening", "repair", "copy", "reminder", "claims"]
"""The last three stand beside a compaction that a client makes itself: the session was copied into the archive, the
context was told what a summary loses, the client's summary was held against the record."""
COMPACTION_KINDS: frozenset[Kind] = frozenset({"summary", "clearing", "shortening", "repair"})
"""The kinds that changed a list."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The description of one compaction: why, what went, what it cost, where the originals are."""

    id: str
    """The record's id, which also stands in the first line of the summary turn."""
    thread: str
    """Which conversation."""
    kind: Kind
    """What was done: a summary, a clearing of old tool results, a shortening of large messages, a repair."""
    reason: str
    """What pulled the trigger, with numbers."""
    created: float
    """When, as Unix time."""
    turns: tuple[tuple[int, int], ...]
    """Half-open ranges of the original conversation's turns that went; where none did, of those that were edited."""
    messages_before: int
    """Messages in the list as it came."""
    messages_after: int
    """Messages in the list as it was sent."""
    tokens_before: int
    """Tokens of the whole request as it came: messages, system prompt and tools."""
    tokens_after: int
    """Tokens of the whole request as it was sent."""
    archive: str
    """Where the originals are."""
    summariser: str
    """The model that wrote the summary, or `model-free`."""
    cost: dict[str, float] = field(default_factory=dict)
    """What the summariser itself used: calls that were answered, usable or not, tokens and, where known, dollars."""
    notes: tuple[str, ...] = ()
    """What else was done or left out: a summariser or a hook that failed and why, repairs, shortened messages, dropped
    reasoning, rules kept by reference, names in a model's prose that stand nowhere."""
    mended: tuple[str, ...] = ()
    """What was left out of a model's prose: quotations that no person said, and what stood under a heading of ours."""
    edited: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of turns that stayed beside those that went, and were cleared, shortened or mended."""
    namespace: str = ""
    """Whose conversation it is: with the archive and the thread, where the originals are."""


_RECEIPT_FIELDS = frozenset(field.name for field in fields(Receipt))


def receipt_from_dict(stored: Mapping[str, Any]) -> Receipt:
    """Return the receipt that a record has; fields of later versions are left out."""
    data = {name: value for name, value in stored.items() if name in _RECEIPT_FIELDS}
    for name in ("turns", "edited"):
        data[name] = tuple((first, stop) for first, stop in data.get(name, ()))
    return Receipt(**{**data, "notes": tuple(data["notes"]), "mended": tuple(data.get("mended", ()))})


@dataclass(frozen=True, slots=True)
class Event:
    """The root of the events. `thread` is empty until a conversation that nobody named is compacted."""

    thread: str
    namespace: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Fitted(Event):
    """A call was answered, whether anything changed or not. Only a listener whose `every_call` is true gets this."""

    tokens_before: int
    """The size of the request as it came."""
    tokens_after: int
    """The size of the request as it should be sent."""
    messages: int
    """Messages in the list that should be sent."""
    window: int
    """The most tokens that the model takes."""
    budget: int
    """What a request may take: the window less the reserve."""
    trigger: int
    """The tokens at which it is compacted; 0 where only a number of messages says when."""
    agent: str = ""
    """The model that reads the conversation, where the compactor knows it."""


@dataclass(frozen=True, slots=True)
class Compacting(Event):
    """About to compact: the conversation as it is, and why. Nothing has been changed yet."""

    reason: str
    """What pulled the trigger, with numbers."""
    tokens: int
    """The size of the request now."""
    messages: Sequence[Any] = field(repr=False)
    """The conversation as it is."""


@dataclass(frozen=True, slots=True)
class Compacted(Event):
    """Done, archived: the conversation before and after, and the receipt."""

    receipt: Receipt
    """What was done, and what it cost."""
    before: Sequence[Any] = field(repr=False)
    """The conversation as it was."""
    after: Sequence[Any] = field(repr=False)
    """The conversation as it is sent."""


@dataclass(frozen=True, slots=True)
class Unchanged(Event):
    """The trigger was pulled but nothing changed: no safe cut, or nothing would be gained."""

    reason: str
    """Why nothing changed."""
    tokens: int
    """The size of the request, which stays."""


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """Something failed. The compaction was given up and the conversation is as it was; or it goes on without that.

    `stage` is `summary`, `archive`, `hook`, `transcript`, or the name of the host's function that failed. Stage
    `summary` comes once for each model that failed in a compaction, also where another one wrote the summary; a model
    that is left alone after a failure is not asked, and so does not fail again. Stage `state`: only the host's state
    could not be had. Stage `transcript`: the file could not be written, or the summary goes without one.
    """

    stage: str
    """What failed."""
    error: BaseException
    """The error itself, whole; it may quote what was said, so mind where you log it."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """What the model took for nothing: calls that were answered, tokens, dollars."""
    goes_on: bool = False
    """Whether the compaction goes on: with another model's summary, a model-free one, without hooks or the host's
    state. The receipt of `Compacted` then has the cost, too."""


@dataclass(frozen=True, slots=True)
class Undone(Event):
    """A compaction was taken back; its record is retired."""

    record: str
    """The id of the compaction that was taken back."""


Listener = Callable[[Event], object]
"""A function for `on_event`."""


def wants_every_call(listener: Listener | None) -> bool:
    """Return whether the listener takes `Fitted`, which comes at every call."""
    return bool(getattr(listener, "every_call", False))


class _Listeners:
    def __init__(self, listeners: Sequence[Listener | None]) -> None:
        self._listeners = [listener for listener in listeners if listener is not None]

    @property
    def every_call(self) -> bool:
        return any(map(wants_every_call, self._listeners))

    def __call__(self, event: Event) -> None:
        for listener in self._listeners:
            if not isinstance(event, Fitted) or wants_every_call(listener):
                listener(event)


def combine_listeners(*listeners: Listener | None) -> Listener:
    """Return a listener that passes each event to all of these in order; each may be None."""
    return _Listeners(listeners)


_NAMES = frozenset({"agent", "id", "kind", "record", "stage", "summariser"})


def describe_sizes(event: Event) -> dict[str, Any]:
    """Return the event as plain data: its name, sizes and costs, and the names of models, records and stages.

    Nothing that anybody said is in it, and no text of an error.
    """
    of = event.receipt if isinstance(event, Compacted) else event
    data: dict[str, Any] = {"event": type(event).__name__.lower(), "namespace": event.namespace, "thread": event.thread}
    for name, value in ((each.name, getattr(of, each.name)) for each in fields(of)):
        if isinstance(value, int | float) or name in _NAMES:
            data[name] = value
        elif isinstance(value, BaseException):
            data[name] = type(value).__name__
        elif isinstance(value, Mapping):
            data[name] = dict(value)
    return data
