"""What fills a conversation's window, message by message; nothing of a message is kept but its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappush, heappushpop
from typing import Any

from unabridged.formats import format_named
from unabridged.measure.calibrate import usage_of
from unabridged.measure.meter import Meter
from unabridged.measure.models import ModelInfo, family_of, model_info
from unabridged.messages import View
from unabridged.sessions import Loaded

WINDOWS = (32_000, 128_000, 200_000, 1_000_000)
LARGEST = 10


@dataclass(slots=True)
class Share:
    """How much of the window something takes, and how often it stands there."""

    count: int = 0
    tokens: int = 0

    def add(self, tokens: int) -> None:
        """One more of it."""
        self.count += 1
        self.tokens += tokens


@dataclass(slots=True)
class Weight:
    """A conversation in numbers; all in tokens."""

    total: int = 0
    shares: dict[str, Share] = field(default_factory=dict)
    """By whose they are: system, tools, user, assistant, thinking, `results of NAME`, images and files."""
    largest: list[tuple[int, int, str, str]] = field(default_factory=list)
    """(tokens, index, whose words it is, how it begins), the largest first."""
    crossed: dict[int, int | None] = field(default_factory=dict)
    """For each window the index of the message that was too much; None where all fits."""
    requests: list[tuple[int, int]] = field(default_factory=list)
    """Tokens in and out of each request that the model has answered."""


def weigh(loaded: Loaded, model: str | None, step: Callable[[], None] = lambda: None) -> Weight:
    """Weigh every message once."""
    meter = Meter(model=model, family=family_of(model, format_named(loaded.format).family))
    reader = format_named(loaded.format)
    weight, names = Weight(crossed=dict.fromkeys(WINDOWS)), dict[str, str]()
    heap = list[tuple[int, int, str, str]]()
    _add(weight, "system", meter.overhead(loaded.system, None) if loaded.system else 0)
    _add(weight, "tools", meter.overhead(None, loaded.tools) if loaded.tools else 0)
    answering = False
    for index, message in enumerate(loaded.messages):
        view = reader.read(message)
        names.update((call.id, call.name) for call in view.calls)
        earlier = weight.total
        said = loaded.origins.get(index)
        whose = _whose(view if said is None else view.said_by(said), names)
        _weigh_message(weight, view, message, meter, names, whose=whose)
        tokens = weight.total - earlier
        if view.role == "assistant":
            sent, answered = weight.requests.pop() if answering else (earlier, 0)
            weight.requests.append((sent, answered + tokens))
        answering = view.role == "assistant"
        for window in WINDOWS:
            if weight.crossed[window] is None and weight.total > window:
                weight.crossed[window] = index
        item = (tokens, -index, whose, view.whole_text()[:400] if _small(heap, tokens) else "")
        heappush(heap, item) if len(heap) < LARGEST else heappushpop(heap, item)
        step()
    weight.largest = [(tokens, -index, whose, text) for tokens, index, whose, text in sorted(heap, reverse=True)]
    return weight


def _whose(view: View, names: dict[str, str]) -> str:
    """Whose words a message is, whatever its role: of a tool's, which tool's."""
    if view.answers and not view.text:
        return f"results of {names.get(view.answers[0].call_id, 'an unknown tool')}"
    if view.role in {"system", "assistant"}:
        return view.role
    return {"person": "user", "tool": "results of an unknown tool"}.get(view.origin, view.origin)


def _small(heap: list[tuple[int, int, str, str]], tokens: int) -> bool:
    return len(heap) < LARGEST or tokens >= heap[0][0]


def _add(weight: Weight, name: str, tokens: int) -> None:
    if tokens:
        weight.shares.setdefault(name, Share()).add(tokens)
        weight.total += tokens


def _weigh_message(
    weight: Weight, view: View, message: Any, meter: Meter, names: dict[str, str], *, whose: str
) -> None:
    """Each piece of the message to its own share; what stands around the message counts with its text."""
    bare = View(view.role, view.origin)
    empty = meter.message(bare)
    for answer in view.answers:
        tokens = meter.message(replace(bare, answers=(answer,))) - empty
        _add(weight, f"results of {names.get(answer.call_id, 'an unknown tool')}", tokens)
    for media in view.media:
        _add(weight, "images and files", meter.message(replace(bare, media=(media,))) - empty)
    for text in view.attached:
        name = "results of the provider's own tools" if view.role == "assistant" else "attached texts"
        _add(weight, name, meter.message(replace(bare, attached=(text,))) - empty)
    for reasoning in view.reasoning:
        _add(weight, "thinking", meter.message(replace(bare, reasoning=(reasoning,))) - empty)
    rest = replace(view, answers=(), media=(), reasoning=(), attached=())
    tokens = meter.message(rest, message)
    if view.answers and not view.text and not view.opaque:
        weight.shares[whose].tokens += tokens
        weight.total += tokens
    else:
        _add(weight, whose, tokens)


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars at the model's prices."""

    model: str
    uncached: float
    """All requests so far, as estimated, had nothing been cached."""
    cached: float
    """The same, had every prefix been found in the cache."""
    reported: float | None
    """All requests whose usage the file reports; None when it reports none."""
    reports: int
    next_cold: float
    """What only the input of the next request costs, nothing of it cached."""
    next_warm: float
    """The same, all but the newest messages cached."""


def cost(loaded: Loaded, weight: Weight, model: str | None) -> Cost | None:
    """What the conversation has cost and would cost; None when the prices are not known."""
    info = model_info(model)
    if info is None or not info.input:
        return None
    read, write = info.input * info.read_share, info.input * info.write_share
    uncached = cached = 0.0
    known = 0
    for sent, answered in weight.requests:
        uncached += sent * info.input + answered * info.output
        cached += known * read + (sent - known) * write + answered * info.output
        known = sent
    reported, reports = _reported(loaded, info)
    return Cost(
        info.name,
        uncached / 1e6,
        cached / 1e6,
        reported if reports else None,
        reports,
        weight.total * info.input / 1e6,
        (known * read + (weight.total - known) * write) / 1e6,
    )


def _reported(loaded: Loaded, info: ModelInfo) -> tuple[float, int]:
    dollars, reports = 0.0, 0
    read, write = info.input * info.read_share, info.input * info.write_share
    for report in loaded.usage:
        usage = usage_of(report.usage)
        if usage is None:
            continue
        fresh = max(0, usage.input - usage.cache_read - usage.cache_write)
        dollars += fresh * info.input + usage.cache_read * read + usage.cache_write * write + usage.output * info.output
        reports += 1
    return dollars / 1e6, reports
