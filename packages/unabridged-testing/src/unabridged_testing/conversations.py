"""Whole conversations, made from a shape, and the Hypothesis strategies that draw them.

Only few values are drawn; the rest follows from the seed among them. So two thousand conversations are made in seconds,
and a failing one is reproduced by its `Shape` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from unabridged_testing.script import ConversationWriter
from unabridged_testing.wire import EXTRAS, MessageKind, Shape, Wire
from unabridged_testing.wire_anthropic import AnthropicWire
from unabridged_testing.wire_chat import ChatWire
from unabridged_testing.wire_converse import ConverseWire
from unabridged_testing.wire_gemini import GeminiWire
from unabridged_testing.wire_responses import ResponsesWire

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_WIRE_CLASSES: tuple[type[Wire], ...] = (ChatWire, ResponsesWire, AnthropicWire, GeminiWire, ConverseWire)
WIRES = {wire.format: wire for wire in _WIRE_CLASSES}

_SIZE_CHOICES = ((1, 2, 3, 5, 7), (1, 2, 3, 4), (1, 2, 3, 4), (30, 100, 200, 350, 500))
"""Turns, rounds a turn, calls a round, characters a result: smallest first, as shrinking wants them."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Raw wire messages, with what is known about each from how it was made."""

    messages: list[Any]
    what: tuple[MessageKind, ...]
    said: tuple[str, ...]
    """The person's words in the message; empty where no person speaks."""

    @property
    def stops(self) -> tuple[int, ...]:
        """Return the lengths at which the model's turn comes: an agent's loop calls it with `messages[:stop]`."""
        theirs = {"call", "preamble", "answer", "action", "reasoning"}
        last = len(self.messages)
        return tuple(
            stop
            for stop in range(1, last + 1)
            if self.what[stop - 1] in {"person", "mixed", "result", "observation"}
            and (stop == last or self.what[stop] in theirs)
            and not _has_unanswered_calls(self.messages, self.what, stop)
        )

    def open_requests(self, stop: int | None = None) -> tuple[int, ...]:
        """Return which of the first `stop` messages hold a person's words that no answer has followed."""
        what = self.what[:stop]
        after = max((index for index, one in enumerate(what) if one == "answer"), default=-1)
        return tuple(index for index in range(after + 1, len(what)) if what[index] in {"person", "mixed"})


def _has_unanswered_calls(messages: list[Any], what: tuple[MessageKind, ...], stop: int) -> bool:
    """Return whether calls before `stop` get their results only after it."""
    if stop == len(messages) or what[stop] != "call" or what[stop - 1] != "result":
        return False
    return isinstance(messages[stop - 1], dict) and messages[stop - 1].get("type", "").endswith("_output")


def make_conversation(shape: Shape) -> Conversation:
    """Return the conversation with this shape; the same one every time."""
    wire = _find_wire(shape.format)(shape)
    ConversationWriter(shape, Random(shape.seed), wire).write()  # noqa: S311 - repeatable on purpose, no secret
    return Conversation(wire.messages, tuple(wire.what), tuple(wire.said))


def refusals(format: str, messages: Sequence[Any]) -> list[str]:  # noqa: A002 - the word every part uses for it
    """Return why the provider would refuse the list; empty when it takes it. Each reason starts with the index."""
    return _find_wire(format).refusals(messages) if messages else ["0: the list is empty"]


def _find_wire(format_: str) -> type[Wire]:
    if format_ not in WIRES:
        raise ValueError(f"unknown format {format_!r}: choose one of {', '.join(sorted(WIRES))}")
    return WIRES[format_]


def shapes(format: str) -> SearchStrategy[Shape]:  # noqa: A002 - the word every part uses for it
    """Return shapes of legal conversations in this format: small in a few draws, large where it matters."""
    st = _import_strategies()

    def build(drawn: tuple[int, str, tuple[int, int, int, int], str, int]) -> Shape:
        seed, kind, (turns, rounds, width, bulk), ending, extras = drawn
        if kind == "marathon":
            rounds, bulk = 20 + 3 * rounds, bulk // 3
            ending = "answered" if ending == "answered" else "working"
        elif kind == "protocol":
            rounds = 6 * rounds
        elif kind == "chat":
            turns, bulk = 5 * turns, 2 * bulk
        names = tuple(name for bit, name in enumerate(EXTRAS) if extras >> bit & 1)
        return Shape(format, seed, kind, turns, rounds, width, bulk, ending, names)  # type: ignore[arg-type]

    values = st.tuples(
        st.integers(0, 2**32 - 1),
        st.sampled_from(("agent", "agent", "agent", "marathon", "chat", "protocol")),
        st.tuples(*(st.sampled_from(sizes) for sizes in _SIZE_CHOICES)),
        st.sampled_from(("working", "asked", "answered")),
        st.integers(0, 2 ** len(EXTRAS) - 1),
    )
    # Composite, not mapped: a failing example then prints the shape itself.
    drawn: SearchStrategy[Shape] = st.composite(lambda draw: build(draw(values)))()
    return drawn


def conversations(format: str, *, legal: bool = True) -> SearchStrategy[list[Any]]:  # noqa: A002 - as above
    """Return lists of wire messages that the provider of `format` accepts; with `legal=False`, ones it may refuse."""
    st = _import_strategies()
    if legal:
        return shapes(format).map(lambda shape: make_conversation(shape).messages)
    whole = shapes(format).map(make_conversation)
    broken: SearchStrategy[list[Any]] = st.builds(damage, whole, st.integers(0, 2**32 - 1))
    return broken


def damage(conversation: Conversation, seed: int) -> list[Any]:
    """Return the messages as a crash or a careless edit leaves them: aborted turns, orphans, duplicates, strays."""
    rng = Random(seed)  # noqa: S311 - repeatable on purpose, no secret
    pairs = list(zip(conversation.messages, conversation.what, strict=True))
    for _ in range(rng.randint(1, 3)):
        places = [index for index, (_, what) in enumerate(pairs) if what in {"call", "result", "reasoning", "mixed"}]
        if not places:
            break
        place = rng.choice(places)
        kind = rng.choice(("drop", "double", "abort", "move"))
        if kind == "drop":
            del pairs[place]
        elif kind == "double":
            pairs.insert(place, pairs[place])
        elif kind == "abort":
            del pairs[place + 1 :]
        else:
            target = rng.randrange(len(pairs))
            pairs.insert(target, pairs.pop(place))
    return [message for message, _ in pairs]


def _import_strategies() -> Any:
    try:
        import hypothesis.strategies as st  # noqa: PLC0415 - only the strategies need it
    except ImportError as error:
        raise ImportError(
            'conversation strategies need Hypothesis: pip install "unabridged[testing]". '
            "`make_conversation(Shape(...))` works without it."
        ) from error
    return st
