"""The interface of contract and adapter: a request as the model got it, what it answers, and the door.

The contract plays the model: a `Brain` gets each request as `Seen` and returns what the model says. A `Door` builds an
agent of its framework with the adapter and a model that asks the brain, and runs it with the framework's own runner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from unabridged.formats import Format, get_format
from unabridged.formats.base import Family, Finding
from unabridged.formats.fields import get
from unabridged.legality import check
from unabridged.messages import View
from unabridged.tokens.meter import Meter
from unabridged.tokens.models import find_family

RECALL_TOOLS = ("search_history", "read_history")
"""The recall tools, by the names that every adapter gives them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as the model got it: the last thing before it would go over the wire."""

    views: tuple[View, ...]
    """What its messages say."""
    tokens: int
    """All of it, by our own meter: messages, system prompt and tools."""
    system: str = ""
    tools: tuple[str, ...] = ()
    """The names of the tools that it offers."""
    faults: tuple[Finding, ...] = ()
    """What the provider would refuse."""
    schemas: tuple[Any, ...] = field(default=(), repr=False)
    """The tools as they are offered."""
    model: str | None = None
    """The model's name, where the adapter knows it."""

    @classmethod
    def of(
        cls,
        messages: Sequence[Any],
        format_: Format | str,
        *,
        system: str = "",
        tools: Sequence[Any] = (),
        model: str | None = None,
    ) -> Self:
        """Return what is seen of these messages; `tools` are JSON schemas, `model` is the name that the adapter knows.

        Give the messages as the provider reads them where the framework can translate them (`"openai-chat"`, say):
        then what the adapter's own format reads wrongly shows up here.
        """
        fmt = get_format(format_)
        views = tuple(fmt.read(message) for message in messages)
        names = tuple(str(get(get(tool, "function") or tool, "name")) for tool in tools)
        faults = tuple(check(messages, format=fmt, model=model))
        return cls(views, 0, system, names, faults, tuple(tools), model).counted(fmt.family)

    def counted(self, family: Family) -> Self:
        """Return the same, counted for a model that cuts text so, unless its name says how it does."""
        meter = Meter(model=self.model, family=find_family(self.model, family))
        overhead = meter.overhead(self.system or None, list(self.schemas))
        return replace(self, tokens=overhead + sum(map(meter.message, self.views)))

    def begins_as(self, before: Seen) -> bool:
        """Return whether its messages begin as those of the other request."""
        return self.views[: len(before.views)] == before.views

    @property
    def text(self) -> str:
        """Return everything readable in its messages."""
        return "\n".join(view.whole_text() for view in self.views)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What the model answers: a text, or calls of tools, each by its name and its arguments. The ids are the door's."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    used: int = 0
    """The tokens of the request as the provider counts them, which the door reports in its framework's own usage; 0
    where the provider reports nothing."""


Brain = Callable[[Seen], ModelReply]
"""What the scripted model asks. Raises `TooLong` where a provider would refuse; several threads may call it at once."""


class TooLong(Exception):  # noqa: N818 - what the provider says, not an error of ours
    """The request is too long: the door raises its framework's own error for it, with both numbers in its words."""

    def __init__(self, limit: int, requested: int) -> None:
        super().__init__(f"prompt is too long: {requested} tokens > {limit} maximum")
        self.limit, self.requested = limit, requested


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a user's turn: base64, as the framework takes it."""

    data: str
    mime: str = "image/png"


Content = str | tuple[str | Image, ...]
"""What a user says: a text, or texts and pictures."""


class Session(Protocol):
    """One conversation of an agent, through the framework's real runner and its own way of keeping messages."""

    waiting: tuple[str, ...]
    """The names of the tools whose calls wait for a person's approval; empty when the turn has ended."""
    pieces: list[str]
    """With `streaming`, the pieces of the last turn's text as they came to the caller."""

    def say(self, content: Content) -> str:
        """Return the agent's answer to this turn of the user's; "" where it stops at a call that waits for approval."""

    def approve(self) -> str:
        """Let all calls that wait go on; the agent's answer, as `say` gives it."""

    def stored(self) -> list[Any]:
        """Return the messages that the framework keeps for the next turn, in the door's format."""

    def replay(self) -> list[Any]:
        """Return the original conversation, through the adapter's own way to get it."""

    def undo(self) -> None:
        """Take the newest compaction back, through the adapter's own way to do it."""

    def restart(self) -> None:
        """Go on as another process would: a new agent and a new adapter on what the framework and the archive kept."""

    def beside(self, thread: str) -> Session:
        """Return a new conversation of the same agent, with the same brain and, where it can be, the same adapter."""

    def close(self) -> None:
        """Let go of everything; a second time, or where `beside` shares it, that is harmless."""


class Door(Protocol):
    """How the contract opens an agent of one framework."""

    name: str
    format: Format
    """Reads what `Session.stored` and `Session.replay` give."""

    def open(
        self,
        brain: Brain,
        *,
        thread: str,
        tools: Mapping[str, Callable[..., str]],
        approve: Collection[str] = (),
        system: str = "",
        streaming: bool = False,
        recall: bool = False,
        **keywords: Any,
    ) -> Session:
        """Return a new agent with the adapter, which gets `keywords` of `Compactor` (window, archive, settings, model).

        Tools are plain functions with annotated arguments and a docstring; those named in `approve` wait for a person.
        With `streaming` the model's text comes in several pieces, and `say` takes the framework's stream. With `recall`
        the agent has the adapter's recall tools too.
        """
