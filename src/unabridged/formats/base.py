"""What the engine asks of a wire format, and the little that all of them share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self

from unabridged.errors import IllegalConversation
from unabridged.messages import Call, View

if TYPE_CHECKING:
    from unabridged.legal.wires import Wire

Message = Any
"""One of the caller's own messages: a dict, or a response object of an SDK. Never converted, only read."""


class Slot(NamedTuple):
    """Which piece of a message an edit is looking at; `id` is the call's, for `answer` and `call`.

    An `attached` text is edited where it stands: its block stays the block that it is.
    """

    kind: Literal["text", "answer", "call", "media", "attached"]
    id: str = ""


Texts = tuple[str, tuple[str, ...], tuple[str, ...]]
"""All that is counted in a plain message: what it says, the name and arguments of each call in turn, each answer."""

Edit = Callable[[Slot, str], str]
"""Gets a piece's text (for media: its source) and returns what should stand there; the same text means no change."""


class Format(Protocol):
    """One wire format. Reading never fails on what the provider accepts; making yields plain dicts.

    What can't be read is `Unreadable`: an id, a text or a list of parts is never guessed from something else.
    """

    name: str
    """`openai-chat`, `openai-responses`, `anthropic`; an adapter's own format has another."""

    provider: str
    """Whose rules its messages are checked by, one of `unabridged.legal.PROVIDERS`; a wire format's is its own name."""

    lone_system: bool
    """Whether a system message in the middle must stand between a user's turn and the assistant's."""

    merges_turns: bool
    """Whether turns of one side may follow each other: whoever sends them on puts them together. Only the summary is
    then set apart from a user's turn behind it."""

    @property
    def wire(self) -> Wire | None:
        """How mending takes its messages apart and puts them together; None for those that `legal` knows itself."""
        ...

    def read(self, message: Message) -> View:
        """What the message says."""
        ...

    def claims(self, message: Message) -> bool:
        """Whether only this format writes messages like this one."""
        ...

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """A new message with just this text."""
        ...

    def answer(self, calls: tuple[Call, ...], text: str) -> list[Message]:
        """New messages that answer each of these calls with `text`, marked as errors where the format can."""
        ...

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed.

        A media piece for which other text is returned becomes a text piece.
        """
        ...

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without its thinking; the same object when it has none; None when nothing would be left."""
        ...


def get(message: Message, key: str, default: Any = None) -> Any:
    """A field of a dict or of an SDK object."""
    if isinstance(message, dict):  # by far the most frequent, and much faster to tell than Mapping
        return message.get(key, default)
    return message.get(key, default) if isinstance(message, Mapping) else getattr(message, key, default)


def texts_of(message: Message, format_: Format) -> Texts | None:
    """The texts of a plain message, which need no view to be counted; None where only `read` tells what is in it.

    A format may have a method `texts` for it, which gives what its `read` would put into the view, and None for
    everything that `read` refuses and for whatever holds more than these texts.
    """
    try:
        texts: Texts | None = format_.texts(message)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - no such method, or an odd message: `read` says what is wrong with it
        return None
    return texts


class Unreadable(IllegalConversation):
    """A place in a message holds what no provider takes there: the place, what was found, what belongs there."""

    def __init__(self, place: str, found: object, wanted: str) -> None:
        self.place, self.found, self.wanted = place, found, wanted
        shown = repr(found)
        shown = shown if len(shown) <= 40 else f"{shown[:30]}…"
        super().__init__(f"{place or 'it'} is {shown} ({type(found).__name__}), where {wanted} belongs")

    def within(self, place: str) -> Self:
        """The same, seen from what the place is in."""
        return type(self)(f"{place}.{self.place}" if self.place else place, self.found, self.wanted)


def kind_of(holder: Any) -> str | None:
    """The `type` of a message or part, which must be an object of some kind."""
    kind = get(holder, "type")
    if isinstance(kind, str):
        return kind
    if kind is not None:
        raise Unreadable("type", kind, "a text")
    if not isinstance(holder, Mapping) and not any(hasattr(holder, name) for name in ("role", "type", "model_dump")):
        raise Unreadable("", holder, "a dict or an SDK's object")
    return None


def word(holder: Any, key: str) -> str:
    """A field that is looked up in sets of known words; "" when it holds anything else."""
    value = get(holder, key)
    return value if isinstance(value, str) else ""


def text_at(holder: Any, key: str) -> str:
    """A field that holds a text, or nothing."""
    value = get(holder, key)
    if value is None or isinstance(value, str):
        return value or ""
    raise Unreadable(key, value, "a text")


def id_at(holder: Any, key: str) -> str:
    """A field that holds an id. Some servers number their calls: a whole number is taken as its digits."""
    value = get(holder, key)
    return str(value) if type(value) is int else text_at(holder, key)


def list_at(holder: Any, key: str) -> list[Any] | tuple[Any, ...]:
    """A field that holds a list, or nothing."""
    return listed(get(holder, key), key)


def listed(value: Any, place: str, wanted: str = "a list") -> list[Any] | tuple[Any, ...]:
    """The value, which must be a list; nothing is an empty one."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return value
    raise Unreadable(place, value, wanted)


def plain(message: Message) -> dict[str, Any]:
    """A shallow dict copy of a message or block, to build an edited one from; SDK objects are dumped."""
    if isinstance(message, Mapping):
        return dict(message)
    dump = getattr(message, "model_dump", None)
    if dump is None:
        msg = f"can't read a message of type {type(message).__name__}: expected a dict or an SDK response object"
        raise TypeError(msg)
    return dict(dump(mode="json", exclude_unset=True))


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def as_json(value: Any) -> str:
    """Call arguments as the text the model wrote: strings as they are, objects as compact JSON."""
    return value if isinstance(value, str) else _compact(value)
