"""The policies that the cost simulator compares: each decides what to send at a model call.

A policy is given the list it returned last time and what has come since, as an agent that keeps its list would.
Lines it leaves alone must be the very same objects: that is how the simulator knows what a provider's cache holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

from unabridged import Compaction, Compactor, Settings
from unabridged.authorship import assign_origins
from unabridged.engine.clear import ClearingTerms, build_edits, plan_clearing
from unabridged.formats import Slot, get_format
from unabridged.messages import View
from unabridged.settings import Clear, Prices
from unabridged.tokens.calibrate import Usage
from unabridged_corpus.evaluate.task_cost import MeasuredMessage, SideAsk


class Policy(Protocol):
    """A policy, which decides what is sent at each model call."""

    def fit(self, lines: list[MeasuredMessage], idle: float) -> tuple[list[MeasuredMessage], list[SideAsk]]:
        """Return what to send now, `idle` seconds after the last call, and the extra calls that this took."""
        ...


@dataclass(frozen=True, slots=True)
class Conversation:
    """One recorded run."""

    id: str
    format: str
    lines: list[MeasuredMessage] = field(repr=False)


def load(folder: Path, names: Sequence[str]) -> list[Conversation]:
    """Read and measure the conversations of these files (`NAME.jsonl`: `id`, `format` and `messages` on each line)."""
    found = []
    for name in names:
        for text in (folder / f"{name}.jsonl").read_text().splitlines():
            row = json.loads(text)
            found.append(conversation(f"{name}/{row['id']}", row["format"], row["messages"]))
    return found


def conversation(name: str, format_name: str, messages: Sequence[Any]) -> Conversation:
    """Read the messages into a conversation, each measured once."""
    read = get_format(format_name).read
    views = assign_origins([read(message) for message in messages])
    lines = [MeasuredMessage(message, view, tokens_of(view)) for message, view in zip(messages, views, strict=True)]
    return Conversation(name, format_name, lines)


def tokens_of(view: View) -> int:
    """Return the tokens of a message: its text, and a few for the frame around it."""
    return 4 + count(view.whole_text())


@lru_cache(maxsize=200_000)
def count(text: str) -> int:
    """Return the tokens in o200k where its tokenizer is installed, else an estimate."""
    try:
        import toktok  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
    except ImportError:
        return round(len(text) / 3.6)
    return int(toktok.batch_count([text.encode("utf-8", "replace").decode()], "o200k_base")[0])


class Raw:
    """A policy that sends everything, every time."""

    def fit(self, lines: list[MeasuredMessage], idle: float) -> tuple[list[MeasuredMessage], list[SideAsk]]:
        """Return the list unchanged."""
        del idle
        return lines, []


@dataclass(frozen=True)
class Mask:
    """A policy that masks all but the last `keep` results; with `step`, only when that many more can be masked."""

    format: str
    keep: int = 10
    step: int = 1

    def fit(self, lines: list[MeasuredMessage], idle: float) -> tuple[list[MeasuredMessage], list[SideAsk]]:
        """Return the list with old results masked."""
        del idle
        results = [i for i, line in enumerate(lines) if line.view.origin == "tool" or line.view.answers]
        hidden = max(0, len(results) - self.keep) // self.step * self.step
        fitted = list(lines)
        for i in results[:hidden]:
            if not _masked(lines[i].view):
                wanted = "answer" if lines[i].view.answers else "text"
                fitted[i] = edited(lines[i], self.format, partial(_mask, wanted))
        return fitted, []


@dataclass(frozen=True)
class Summary:
    """A policy that summarises all but the last `keep` messages at `trigger` tokens, in a call apart or as a suffix."""

    format: str
    trigger: int
    keep: int
    suffix: bool = False
    size: int = 1_000
    """Tokens of the summary: an assumption, the same for every policy that asks for one."""

    def fit(self, lines: list[MeasuredMessage], idle: float) -> tuple[list[MeasuredMessage], list[SideAsk]]:
        """Return the list, or from the trigger on the system messages, a summary and the tail."""
        del idle
        if sum(line.tokens for line in lines) < self.trigger:
            return lines, []
        system = [line for line in lines if line.view.role == "system"]
        body = [line for line in lines if line.view.role != "system"]
        cut = max(0, len(body) - self.keep)
        while cut > 0 and (body[cut].view.answers or body[cut].view.role == "tool"):
            cut -= 1  # a result stays with its call
        if cut <= 1:
            return lines, []
        gone = body[:cut]
        if self.suffix:
            extra = SideAsk(prompt=lines, fresh=_INSTRUCTION, output=self.size)
        else:
            extra = SideAsk(fresh=_INSTRUCTION + sum(line.tokens for line in gone), output=self.size)
        message = get_format(self.format).text("user", "[summary]")
        summary = MeasuredMessage(message, View("user", "summary", "[summary]"), self.size)
        return [*system, summary, *body[cut:]], [extra]


@dataclass(frozen=True)
class Payback:
    """A policy of clearing alone: it clears old bulk when that pays; with a trigger, it summarises the rest."""

    format: str
    prices: Prices = field(default_factory=Prices)
    keep_rounds: int = 3
    minimum: int = 50
    patience: float = 0.5
    then: Summary | None = None

    def fit(self, lines: list[MeasuredMessage], idle: float) -> tuple[list[MeasuredMessage], list[SideAsk]]:
        """Return the list after clearing what pays to clear."""
        views = [line.view for line in lines]
        sizes = [line.tokens for line in lines]
        over = max(0, sum(sizes) - self.then.trigger + 1) if self.then else 0
        wanted = Clear(keep_rounds=self.keep_rounds, minimum=self.minimum)
        terms = ClearingTerms(self.prices, over, idle, self.patience)
        clearing = plan_clearing(views, sizes, wanted, terms, count=count)
        fitted = list(lines)
        if clearing is not None:
            for i, edit in build_edits(clearing).items():
                fitted[i] = edited(lines[i], self.format, edit)
        return self.then.fit(fitted, idle) if self.then else (fitted, [])


@dataclass
class Through:
    """A policy around any function from the caller's list to the list to send; its own model calls are not counted."""

    format: str
    send: Callable[[list[Any]], list[Any]]
    known: dict[int, MeasuredMessage] = field(default_factory=dict, repr=False)
    """Lines by the identity of their message, which they hold on to: an object is never mistaken for an older one."""

    def fit(self, lines: list[MeasuredMessage], idle: float) -> tuple[list[MeasuredMessage], list[SideAsk]]:
        """Return what the compactor sends; a message that it left alone keeps its line object."""
        del idle
        self.known |= {id(line.message): line for line in lines}
        return [self._line(message) for message in self.send([line.message for line in lines])], []

    def _line(self, message: Any) -> MeasuredMessage:
        if id(message) not in self.known:
            view = get_format(self.format).read(message)
            self.known[id(message)] = MeasuredMessage(message, view, tokens_of(view))
        return self.known[id(message)]


@dataclass
class Ours:
    """The product itself: a `Compactor` without a model, in this window, which receives the provider's token counts.

    `clear` are settings of the clearing that differ from the defaults.
    """

    format: str
    prices: Prices = field(default_factory=Prices)
    window: int = 1_000_000
    clear: Mapping[str, Any] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    """What each compaction was."""

    def __post_init__(self) -> None:
        settings = Settings(clear=Clear(prices=self.prices, **self.clear))
        self._engine = Compactor(
            window=self.window, archive="memory:", namespace="simulated", format=self.format, settings=settings
        )
        self._now = 0.0
        self._engine._runner.clock = lambda: self._now  # noqa: SLF001 - the time between two calls is simulated
        self._through = Through(self.format, self._send)
        self._sent: Compaction | None = None

    def fit(self, lines: list[MeasuredMessage], idle: float) -> tuple[list[MeasuredMessage], list[SideAsk]]:
        """Return what the compactor sends."""
        self._now += idle
        fitted, extra = self._through.fit(lines, idle)
        if self._sent is not None:
            self._engine.observe(self._sent, Usage(sum(line.tokens for line in fitted)))
        return fitted, extra

    def _send(self, messages: list[Any]) -> list[Any]:
        self._sent = fitted = self._engine.fit(messages, thread="t")
        if fitted.changed and fitted.receipt is not None:
            self.kinds.append(fitted.receipt.kind)
        return fitted.messages


def edited(line: MeasuredMessage, format_name: str, edit: Callable[..., str]) -> MeasuredMessage:
    """Return the line with its message edited and its origin unchanged."""
    format_ = get_format(format_name)
    message = format_.edit(line.message, edit)
    view = replace(format_.read(message), origin=line.view.origin)
    return MeasuredMessage(message, view, tokens_of(view))


_MASK = "[Old tool result cleared]"
_INSTRUCTION = 300  # tokens of the request for a summary


def _mask(kind: str, slot: Slot, text: str) -> str:
    return _MASK if slot.kind == kind else text


def _masked(view: View) -> bool:
    return all(answer.text == _MASK for answer in view.answers) if view.answers else view.text == _MASK
