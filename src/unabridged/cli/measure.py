"""`measure`: what fills the window, where windows would have been crossed, and what it costs.

Nothing of a message is kept but its numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from heapq import nlargest
from itertools import pairwise
from typing import Any

from rich.table import Table
from rich.text import Text

from unabridged.cli import options
from unabridged.cli.picture import COLORS, OTHER
from unabridged.cli.screen import console, facts, number_of, one_line, print_json, say, table, track
from unabridged.formats import Message, format_named
from unabridged.measure.calibrate import usage_of
from unabridged.measure.meter import Meter
from unabridged.measure.models import ModelInfo, family_of, model_info
from unabridged.messages import View
from unabridged.sessions import Loaded

WINDOWS = (32_000, 128_000, 200_000, 1_000_000)
LARGEST = 10
_UNKNOWN = "an unknown tool"


def measure(
    file: options.File,
    *,
    model: options.ModelName = None,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """What fills the window: by whom and by tool, the largest messages, the windows crossed, the cost.

    Counts what the client would send now: the conversation since its last compaction. Tokens are estimates that err on
    the high side; costs are at list prices.
    """
    loaded = options.load_file(file, format_, which, max_size)
    agent = model or loaded.model
    weight = weigh(loaded, agent, track(loaded.messages, "measuring"))
    price = cost(loaded, weight, agent)
    if as_json:
        print_json(_report(loaded, weight, price, agent))
    else:
        _show(loaded, weight, price, agent)


def _report(loaded: Loaded, weight: Weight, price: Cost | None, agent: str | None) -> dict[str, Any]:
    info = model_info(agent)
    return {
        "file": str(loaded.path),
        "kind": loaded.kind,
        "format": loaded.format,
        "model": agent,
        "window": info.window if info else None,
        "messages": len(loaded.messages),
        "requests": len(weight.requests),
        "tokens": weight.total,
        "shares": {name: asdict(share) for name, share in _ordered(weight)},
        "largest": list(_largest(loaded, weight)),
        "crossed": {str(window): weight.crossed(window) for window in WINDOWS},
        "cost": asdict(price) if price else None,
        "warnings": list(loaded.warnings),
    }


def _show(loaded: Loaded, weight: Weight, price: Cost | None, agent: str | None) -> None:
    screen = console()
    what = f"{loaded.kind}, {loaded.format}" if loaded.kind not in {"json", "jsonl"} else loaded.format
    head = f"{loaded.path.name}: {number_of(len(loaded.messages), 'message')}, {weight.total:,} tokens ({what}"
    say(head + (f", {agent})" if agent else ")"), "bold")
    screen.print(_shares(weight, max(10, screen.width - 66)))
    width = max(20, screen.width - 52)
    rows = [
        (large["index"], one_line(large["whose"], 24), large["tokens"], one_line(large["begins"], width))
        for large in _largest(loaded, weight)
    ]
    screen.print(table("the largest messages", ("message", "whose", "tokens", "begins"), rows))
    screen.print(facts("windows", _crossings(weight, agent)))
    screen.print(facts("cost", _costs(price, agent)))


def _ordered(weight: Weight) -> list[tuple[str, Share]]:
    return sorted(weight.shares.items(), key=lambda item: -item[1].tokens)


def _shares(weight: Weight, cells: int) -> Table:
    most = max((share.tokens for share in weight.shares.values()), default=1)
    rows = []
    for name, share in _ordered(weight):
        bar = Text("█" * max(1, round(cells * share.tokens / most)), style=COLORS.get(name, OTHER))
        rows.append((one_line(name, 32), share.count, share.tokens, share.tokens / weight.total, bar))
    return table("what fills the window", ("what", "pieces", "tokens", "share", ""), rows)


def _largest(loaded: Loaded, weight: Weight) -> Iterator[dict[str, Any]]:
    """The largest messages, the largest first."""
    read = format_named(loaded.format).read
    sizes = [after - before for before, after in pairwise(weight.totals)]
    for index in nlargest(LARGEST, range(len(sizes)), key=lambda index: (sizes[index], -index)):
        text = read(loaded.messages[index]).whole_text()
        yield {"index": index, "whose": weight.whose[index], "tokens": sizes[index], "begins": text[:400]}


def _crossings(weight: Weight, agent: str | None) -> list[tuple[str, str]]:
    rows = []
    for window in WINDOWS:
        index = weight.crossed(window)
        where = "not crossed" if index is None else f"crossed by message {index:,} of {len(weight.whose):,}"
        name = f"{window // 1_000:,}k" if window < 1_000_000 else "1m"
        rows.append((name, f"{where} ({weight.total / window:.0%} of it)"))
    info = model_info(agent)
    if info:
        rows.append((info.name, f"window {info.window:,}: {weight.total / info.window:.0%} of it"))
    return rows


def _costs(price: Cost | None, agent: str | None) -> list[tuple[str, str]]:
    if price is None:
        return [("unknown", f"no prices are known for {agent}" if agent else "the file names no model: give --model")]
    rows = [
        ("so far, without a cache", f"${price.uncached:,.4f} (estimated at the prices of {price.model})"),
        ("so far, all cached", f"${price.cached:,.4f} (estimated)"),
        ("next request, cold", f"${price.next_cold:,.4f} for its input"),
        ("next request, cached", f"${price.next_warm:,.4f} for its input"),
    ]
    if price.reported is not None:
        rows.insert(0, ("so far, as reported", f"${price.reported:,.4f} in {price.reports:,} reports"))
    return rows


# -- the numbers ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Share:
    """How much of the window something takes, and how often it stands there."""

    count: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Weight:
    """A conversation in numbers; all in tokens."""

    shares: dict[str, Share] = field(default_factory=dict)
    """By whose they are: system, tools, user, assistant, thinking, `results of NAME`, images and files."""
    total: int = 0
    totals: list[int] = field(default_factory=list)
    """Before the first message, and after each."""
    whose: list[str] = field(default_factory=list)
    """Whose words each message is."""
    requests: list[tuple[int, int]] = field(default_factory=list)
    """Tokens in and out of each request that the model has answered."""

    def add(self, name: str, tokens: int, count: int = 1) -> None:
        """More of something."""
        if tokens:
            share = self.shares.setdefault(name, Share())
            share.count += count
            share.tokens += tokens
            self.total += tokens

    def crossed(self, window: int) -> int | None:
        """The index of the message that was too much for this window; None where all fits."""
        return max(0, bisect_right(self.totals, window) - 1) if self.total > window else None


def weigh(loaded: Loaded, model: str | None, messages: Iterable[Message]) -> Weight:
    """Weigh every one of the conversation's messages once."""
    reader = format_named(loaded.format)
    meter = Meter(model=model, family=family_of(model, reader.family))
    weight, names = Weight(), dict[str, str]()
    weight.add("system", meter.overhead(loaded.system, None))
    weight.add("tools", meter.overhead(None, loaded.tools))
    weight.totals.append(weight.total)
    answering = False
    for index, message in enumerate(messages):
        view = reader.read(message)
        if index in loaded.origins:
            view = view.said_by(loaded.origins[index])
        names.update((id_, call.name) for call in view.calls for id_ in call.ids)
        weight.whose.append(_whose(view, names))
        _weigh_message(weight, view, message, meter, names)
        if view.role == "assistant":
            sent, _ = weight.requests.pop() if answering else (weight.totals[-1], 0)
            weight.requests.append((sent, weight.total - sent))
        answering = view.role == "assistant"
        weight.totals.append(weight.total)
    return weight


def _whose(view: View, names: dict[str, str]) -> str:
    """Whose words a message is, whatever its role: of a tool's, which tool's."""
    if view.answers and not view.text:
        return f"results of {names.get(view.answers[0].call_id, _UNKNOWN)}"
    if view.role in {"system", "assistant"}:
        return view.role
    return {"person": "user", "tool": f"results of {_UNKNOWN}"}.get(view.origin, view.origin)


def _weigh_message(weight: Weight, view: View, message: Message, meter: Meter, names: dict[str, str]) -> None:
    """Each piece of the message to its own share; what stands around the message counts with its text."""
    bare = View(view.role, view.origin)
    empty = meter.message(bare)
    for name, piece in _pieces(view, bare, names):
        weight.add(name, meter.message(piece) - empty)
    rest = meter.message(replace(view, answers=(), media=(), reasoning=(), attached=()), message)
    only_results = view.answers and not view.text and not view.opaque
    weight.add(weight.whose[-1], rest, count=0 if only_results else 1)


def _pieces(view: View, bare: View, names: dict[str, str]) -> Iterator[tuple[str, View]]:
    """Everything in a message that is not its text, each alone, with the name of its share."""
    for answer in view.answers:
        yield f"results of {names.get(answer.call_id, _UNKNOWN)}", replace(bare, answers=(answer,))
    for media in view.media:
        yield "images and files", replace(bare, media=(media,))
    for text in view.attached:
        name = "results of the provider's own tools" if view.role == "assistant" else "attached texts"
        yield name, replace(bare, attached=(text,))
    for reasoning in view.reasoning:
        yield "thinking", replace(bare, reasoning=(reasoning,))


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
    sent = [0, *(tokens for tokens, _ in weight.requests)]
    answered = sum(tokens for _, tokens in weight.requests)
    reports = [usage for report in loaded.usage if (usage := usage_of(report.usage)) is not None]
    reported = sum(
        _dollars(info, one.input - one.cache_read - one.cache_write, one.cache_read, one.cache_write, one.output)
        for one in reports
    )
    return Cost(
        model=info.name,
        uncached=_dollars(info, sum(sent), output=answered),
        cached=_dollars(info, read=sum(sent[:-1]), written=sent[-1], output=answered),
        reported=reported if reports else None,
        reports=len(reports),
        next_cold=_dollars(info, weight.total),
        next_warm=_dollars(info, read=sent[-1], written=weight.total - sent[-1]),
    )


def _dollars(info: ModelInfo, fresh: int = 0, read: int = 0, written: int = 0, output: int = 0) -> float:
    """What so many tokens cost: input that is new, read from the cache or written to it, and output."""
    cached = read * info.read_share + written * info.write_share
    return ((max(0, fresh) + cached) * info.input + output * info.output) / 1e6
