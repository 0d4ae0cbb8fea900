"""`measure`: what fills the window, where windows would have been crossed, and what it costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from unabridged.cli import options
from unabridged.cli.picture import facts
from unabridged.cli.screen import console, counting, number_of, one_line, plain, print_json
from unabridged.cli.weigh import Cost, Weight, cost, weigh
from unabridged.measure.models import model_info
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
    loaded = options.loaded_from(file, format_, which, max_size)
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
