"""`measure`: what fills the window, where windows would have been crossed, and what it costs.

Nothing of a message is kept but its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from heapq import nlargest
from typing import Any

from rich.table import Table
from rich.text import Text

from unabridged.cli import options
from unabridged.cli.screen import console, counting, facts, number_of, one_line, plain, print_json
from unabridged.formats import format_named
from unabridged.measure.calibrate import usage_of
from unabridged.measure.meter import Meter
from unabridged.measure.models import ModelInfo, family_of, model_info
from unabridged.messages import View
from unabridged.sessions import Loaded

_STYLES = {"system": "cyan", "tools": "cyan", "user": "green", "assistant": "blue", "thinking": "blue"}


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
    with counting("measuring", len(loaded.messages)) as step:
        weight = weigh(loaded, agent, step)
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
        "largest": [
            {"index": index, "whose": whose, "tokens": tokens, "begins": text}
            for tokens, index, whose, text in weight.largest
        ],
        "crossed": {str(window): index for window, index in weight.crossed.items()},
        "cost": asdict(price) if price else None,
        "warnings": list(loaded.warnings),
    }


def _ordered(weight: Weight) -> list[tuple[str, Any]]:
    return sorted(weight.shares.items(), key=lambda item: -item[1].tokens)


def _show(loaded: Loaded, weight: Weight, price: Cost | None, agent: str | None) -> None:
    screen = console()
    what = f"{loaded.kind}, {loaded.format}" if loaded.kind not in {"json", "jsonl"} else loaded.format
    head = f"{loaded.path.name}: {number_of(len(loaded.messages), 'message')}, {weight.total:,} tokens ({what}"
    screen.print(Text(plain(head + (f", {agent})" if agent else ")")), style="bold"))
    screen.print(_shares(weight, max(10, screen.width - 66)))
    screen.print(_largest(weight, max(20, screen.width - 52)))
    screen.print(facts("windows", _crossings(weight, len(loaded.messages), agent)))
    screen.print(facts("cost", _costs(price, agent)))


def _shares(weight: Weight, cells: int) -> Table:
    table = Table(title="what fills the window", title_justify="left", title_style="bold")
    table.add_column("what", max_width=32, overflow="fold")
    for name in ("pieces", "tokens", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = max((share.tokens for share in weight.shares.values()), default=1)
    for name, share in _ordered(weight):
        bar = Text("█" * max(1, round(cells * share.tokens / most)), style=_STYLES.get(name, "yellow"))
        part = f"{share.tokens / max(1, weight.total):.1%}"
        table.add_row(Text(one_line(name, 60)), f"{share.count:,}", f"{share.tokens:,}", part, bar)
    return table


def _largest(weight: Weight, width: int) -> Table:
    table = Table(title="the largest messages", title_justify="left", title_style="bold")
    table.add_column("message", justify="right", no_wrap=True)
    table.add_column("whose", max_width=24, overflow="fold")
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("begins", no_wrap=True, overflow="ellipsis")
    for tokens, index, whose, text in weight.largest:
        table.add_row(f"{index:,}", Text(one_line(whose, 60)), f"{tokens:,}", Text(one_line(text, width)))
    return table


def _crossings(weight: Weight, count: int, agent: str | None) -> list[tuple[str, str]]:
    rows = []
    for window, index in weight.crossed.items():
        where = "not crossed" if index is None else f"crossed by message {index:,} of {count:,}"
        rows.append(
            (f"{window // 1_000:,}k" if window < 1_000_000 else "1m", f"{where} ({weight.total / window:.0%} of it)")
        )
    info = model_info(agent)
    if info:
        rows.append((info.name, f"window {info.window:,}: {weight.total / info.window:.0%} of it"))
    return rows


def _costs(price: Cost | None, agent: str | None) -> list[tuple[str, str]]:
    if price is None:
        why = f"no prices are known for {plain(agent)}" if agent else "the file names no model: give --model"
        return [("unknown", why)]
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

WINDOWS = (32_000, 128_000, 200_000, 1_000_000)
LARGEST = 10


@dataclass(slots=True)
class Share:
    """How much of the window something takes, and how often it stands there."""

    count: int = 0
    tokens: int = 0


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
    largest = list[tuple[int, int, str, str]]()
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
        if len(largest) < LARGEST or tokens > largest[-1][0]:
            largest.append((tokens, index, whose, view.whole_text()[:400]))
            largest = nlargest(LARGEST, largest, key=lambda item: (item[0], -item[1]))
        step()
    weight.largest = largest
    return weight


def _whose(view: View, names: dict[str, str]) -> str:
    """Whose words a message is, whatever its role: of a tool's, which tool's."""
    if view.answers and not view.text:
        return f"results of {names.get(view.answers[0].call_id, 'an unknown tool')}"
    if view.role in {"system", "assistant"}:
        return view.role
    return {"person": "user", "tool": "results of an unknown tool"}.get(view.origin, view.origin)


def _add(weight: Weight, name: str, tokens: int) -> None:
    if tokens:
        share = weight.shares.setdefault(name, Share())
        share.count += 1
        share.tokens += tokens
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
