"""Weigh a session: what fills its window, what it has cost, and what the next request would.

Nothing of a message is kept but its numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from heapq import nlargest
from itertools import pairwise
from typing import Any

from unabridged.formats import Message, get_format
from unabridged.messages import View
from unabridged.sessions import LoadedFile
from unabridged.tokens.calibrate import parse_usage
from unabridged.tokens.meter import Meter
from unabridged.tokens.models import ModelInfo, find_family, find_model_info

WINDOWS = (32_000, 128_000, 200_000, 1_000_000)
LARGEST_MESSAGES = 10
_UNKNOWN_TOOL = "an unknown tool"


@dataclass(slots=True)
class WindowShare:
    """How much of the window something takes, and how often it is there."""

    count: int = 0
    tokens: int = 0


@dataclass(slots=True)
class ConversationWeight:
    """A conversation in numbers; all in tokens."""

    shares: dict[str, WindowShare] = field(default_factory=dict)
    """By whose they are: system, tools, user, assistant, thinking, `results of NAME`, images and files."""
    total: int = 0
    totals: list[int] = field(default_factory=list)
    """Before the first message, and after each."""
    whose: list[str] = field(default_factory=list)
    """Whose words each message is."""
    requests: list[tuple[int, int]] = field(default_factory=list)
    """Tokens in and out of each request that the model has answered."""

    def add(self, name: str, tokens: int, count: int = 1) -> None:
        """Add so many tokens to a share."""
        if tokens:
            share = self.shares.setdefault(name, WindowShare())
            share.count += count
            share.tokens += tokens
            self.total += tokens

    def find_crossing_message(self, window: int) -> int | None:
        """Return the index of the message that was too much for this window; None where all fits."""
        return max(0, bisect_right(self.totals, window) - 1) if self.total > window else None


def weigh_conversation(loaded: LoadedFile, model: str | None, messages: Iterable[Message]) -> ConversationWeight:
    """Return the weight of the conversation; each message is read once."""
    reader = get_format(loaded.format)
    meter = Meter(model=model, family=find_family(model, reader.family))
    weight, names = ConversationWeight(), dict[str, str]()
    weight.add("system", meter.overhead(loaded.system, None))
    weight.add("tools", meter.overhead(None, loaded.tools))
    weight.totals.append(weight.total)
    answering = False
    for index, message in enumerate(messages):
        view = reader.read(message)
        if index in loaded.origins:
            view = view.with_origin(loaded.origins[index])
        names.update((id_, call.name) for call in view.calls for id_ in call.ids)
        weight.whose.append(_name_author(view, names))
        _weigh_message(weight, view, message, meter, names)
        if view.role == "assistant":
            sent, _ = weight.requests.pop() if answering else (weight.totals[-1], 0)
            weight.requests.append((sent, weight.total - sent))
        answering = view.role == "assistant"
        weight.totals.append(weight.total)
    return weight


def _name_author(view: View, names: dict[str, str]) -> str:
    """Return whose words a message is, whatever its role: of a tool's, which tool's."""
    if view.answers and not view.text:
        return f"results of {names.get(view.answers[0].call_id, _UNKNOWN_TOOL)}"
    if view.role in {"system", "assistant"}:
        return view.role
    return {"person": "user", "tool": f"results of {_UNKNOWN_TOOL}"}.get(view.origin, view.origin)


def _weigh_message(
    weight: ConversationWeight, view: View, message: Message, meter: Meter, names: dict[str, str]
) -> None:
    """Add each piece of the message to its own share; what is around the message counts with its text."""
    bare = View(view.role, view.origin)
    empty = meter.message(bare)
    for name, piece in _split_message(view, bare, names):
        weight.add(name, meter.message(piece) - empty)
    rest = meter.message(replace(view, answers=(), media=(), reasoning=(), attached=()), message)
    only_results = view.answers and not view.text and not view.opaque
    weight.add(weight.whose[-1], rest, count=0 if only_results else 1)


def _split_message(view: View, bare: View, names: dict[str, str]) -> Iterator[tuple[str, View]]:
    """Yield everything in a message that is not its text, each alone, with the name of its share."""
    for answer in view.answers:
        yield f"results of {names.get(answer.call_id, _UNKNOWN_TOOL)}", replace(bare, answers=(answer,))
    for media in view.media:
        yield "images and files", replace(bare, media=(media,))
    for text in view.attached:
        name = "results of the provider's own tools" if view.role == "assistant" else "attached texts"
        yield name, replace(bare, attached=(text,))
    for reasoning in view.reasoning:
        yield "thinking", replace(bare, reasoning=(reasoning,))


@dataclass(frozen=True, slots=True)
class ConversationCost:
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


def estimate_cost(loaded: LoadedFile, weight: ConversationWeight, model: str | None) -> ConversationCost | None:
    """Return what the conversation has cost and would cost; None when the prices are not known."""
    info = find_model_info(model)
    if info is None or not info.input:
        return None
    sent = [0, *(tokens for tokens, _ in weight.requests)]
    answered = sum(tokens for _, tokens in weight.requests)
    reports = [usage for report in loaded.usage if (usage := parse_usage(report.usage)) is not None]
    reported = sum(
        _to_dollars(info, one.input - one.cache_read - one.cache_write, one.cache_read, one.cache_write, one.output)
        for one in reports
    )
    return ConversationCost(
        model=info.name,
        uncached=_to_dollars(info, sum(sent), output=answered),
        cached=_to_dollars(info, read=sum(sent[:-1]), written=sent[-1], output=answered),
        reported=reported if reports else None,
        reports=len(reports),
        next_cold=_to_dollars(info, weight.total),
        next_warm=_to_dollars(info, read=sent[-1], written=weight.total - sent[-1]),
    )


def _to_dollars(info: ModelInfo, fresh: int = 0, read: int = 0, written: int = 0, output: int = 0) -> float:
    """Return what so many tokens cost: input that is new, read from the cache or written to it, and output."""
    cached = read * info.cache_read_share + written * info.cache_write_share
    return ((max(0, fresh) + cached) * info.input + output * info.output) / 1e6


def build_report(
    loaded: LoadedFile, weight: ConversationWeight, price: ConversationCost | None, agent: str | None
) -> dict[str, Any]:
    """Return the report on a session, as it is written to files."""
    info = find_model_info(agent)
    file = {"file": str(loaded.path), "kind": loaded.kind, "format": loaded.format, "model": agent}
    counts = {"messages": len(loaded.messages), "requests": len(weight.requests), "tokens": weight.total}
    return {
        **file,
        "window": info.window if info else None,
        **counts,
        "shares": {name: asdict(share) for name, share in sort_shares(weight)},
        "largest": list(find_largest_messages(loaded, weight)),
        "crossed": {str(window): weight.find_crossing_message(window) for window in WINDOWS},
        "cost": asdict(price) if price else None,
        "warnings": list(loaded.warnings),
    }


def sort_shares(weight: ConversationWeight) -> list[tuple[str, WindowShare]]:
    """Return the shares, the largest first."""
    return sorted(weight.shares.items(), key=lambda item: -item[1].tokens)


def find_largest_messages(loaded: LoadedFile, weight: ConversationWeight) -> Iterator[dict[str, Any]]:
    """Yield the largest messages, the largest first."""
    read = get_format(loaded.format).read
    sizes = [after - before for before, after in pairwise(weight.totals)]
    for index in nlargest(LARGEST_MESSAGES, range(len(sizes)), key=lambda index: (sizes[index], -index)):
        text = read(loaded.messages[index]).whole_text()
        yield {"index": index, "whose": weight.whose[index], "tokens": sizes[index], "begins": text[:400]}
