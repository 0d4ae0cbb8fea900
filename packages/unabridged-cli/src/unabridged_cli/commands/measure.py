"""`measure`: show what fills the window, where windows would have been crossed, and what it costs."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from unabridged.sessions import Loaded
from unabridged.tokens.models import find_model_info
from unabridged_cli import options
from unabridged_cli.picture import COLORS, OTHER_COLOR
from unabridged_cli.screen import (
    build_facts_table,
    build_table,
    format_count,
    make_console,
    print_json,
    print_line,
    shorten_to_one_line,
    track,
)
from unabridged_corpus.weigh import (
    WINDOWS,
    ConversationCost,
    ConversationWeight,
    build_report,
    estimate_cost,
    find_largest_messages,
    sort_shares,
    weigh_conversation,
)


def measure(
    file: options.File,
    *,
    model: options.ModelName = None,
    format_: options.FormatName = None,
    which: options.ConversationChoice = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Show what fills the window: by whom and by tool, the largest messages, the windows crossed, the cost.

    Counts what the client would send now: the conversation since its last compaction. Tokens are estimates that err on
    the high side; costs are at list prices.
    """
    loaded = options.load_file(file, format_, which, max_size)
    agent = model or loaded.model
    weight = weigh_conversation(loaded, agent, track(loaded.messages, "measuring"))
    price = estimate_cost(loaded, weight, agent)
    if as_json:
        print_json(build_report(loaded, weight, price, agent))
    else:
        _print_weight(loaded, weight, price, agent)


def _print_weight(
    loaded: Loaded, weight: ConversationWeight, price: ConversationCost | None, agent: str | None
) -> None:
    screen = make_console()
    what = f"{loaded.kind}, {loaded.format}" if loaded.kind not in {"json", "jsonl"} else loaded.format
    head = f"{loaded.path.name}: {format_count(len(loaded.messages), 'message')}, {weight.total:,} tokens ({what}"
    print_line(head + (f", {agent})" if agent else ")"), "bold")
    screen.print(_build_shares_table(weight, max(10, screen.width - 66)))
    width = max(20, screen.width - 52)
    rows = [
        (
            large["index"],
            shorten_to_one_line(large["whose"], 24),
            large["tokens"],
            shorten_to_one_line(large["begins"], width),
        )
        for large in find_largest_messages(loaded, weight)
    ]
    screen.print(build_table("the largest messages", ("message", "whose", "tokens", "begins"), rows))
    screen.print(build_facts_table("windows", _build_window_rows(weight, agent)))
    screen.print(build_facts_table("cost", _build_cost_rows(price, agent)))


def _build_shares_table(weight: ConversationWeight, cells: int) -> Table:
    most = max((share.tokens for share in weight.shares.values()), default=1)
    rows = []
    for name, share in sort_shares(weight):
        bar = Text("█" * max(1, round(cells * share.tokens / most)), style=COLORS.get(name, OTHER_COLOR))
        rows.append((shorten_to_one_line(name, 32), share.count, share.tokens, share.tokens / weight.total, bar))
    return build_table("what fills the window", ("what", "pieces", "tokens", "share", ""), rows)


def _build_window_rows(weight: ConversationWeight, agent: str | None) -> list[tuple[str, str]]:
    rows = []
    for window in WINDOWS:
        index = weight.find_crossing_message(window)
        where = "not crossed" if index is None else f"crossed by message {index:,} of {len(weight.whose):,}"
        name = f"{window // 1_000:,}k" if window < 1_000_000 else "1m"
        rows.append((name, f"{where} ({weight.total / window:.0%} of it)"))
    info = find_model_info(agent)
    if info:
        rows.append((info.name, f"window {info.window:,}: {weight.total / info.window:.0%} of it"))
    return rows


def _build_cost_rows(price: ConversationCost | None, agent: str | None) -> list[tuple[str, str]]:
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
