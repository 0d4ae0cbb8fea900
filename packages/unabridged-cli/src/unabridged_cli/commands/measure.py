"""`measure`: show what fills the window, where windows would have been crossed, and what it costs."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from unabridged.sessions import LoadedFile
from unabridged.tokens.models import find_model_info
from unabridged_cli import options, screen
from unabridged_cli.picture import COLORS, OTHER_COLOR
from unabridged_corpus import weigh


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
    weight = weigh.weigh_conversation(loaded, agent, screen.track(loaded.messages, "measuring"))
    price = weigh.estimate_cost(loaded, weight, agent)
    if as_json:
        screen.print_json(weigh.build_report(loaded, weight, price, agent))
    else:
        _print_weight(loaded, weight, price, agent)


def _print_weight(
    loaded: LoadedFile, weight: weigh.ConversationWeight, price: weigh.ConversationCost | None, agent: str | None
) -> None:
    console = screen.make_console()
    what = f"{loaded.kind}, {loaded.format}" if loaded.kind not in {"json", "jsonl"} else loaded.format
    what += f", {agent}" if agent else ""
    messages = screen.format_count(len(loaded.messages), "message")
    screen.print_line(f"{loaded.path.name}: {messages}, {weight.total:,} tokens ({what})", "bold")
    console.print(_build_shares_table(weight, max(10, console.width - 66)))
    width = max(20, console.width - 52)
    rows = []
    for large in weigh.find_largest_messages(loaded, weight):
        whose, begins = large["whose"], screen.shorten_to_one_line(large["begins"], width)
        rows.append((large["index"], screen.shorten_to_one_line(whose, 24), large["tokens"], begins))
    console.print(screen.build_table("the largest messages", ("message", "whose", "tokens", "begins"), rows))
    console.print(screen.build_facts_table("windows", _build_window_rows(weight, agent)))
    console.print(screen.build_facts_table("cost", _build_cost_rows(price, agent)))


def _build_shares_table(weight: weigh.ConversationWeight, cells: int) -> Table:
    most = max((share.tokens for share in weight.shares.values()), default=1)
    rows = []
    for name, share in weigh.sort_shares(weight):
        bar = Text("█" * max(1, round(cells * share.tokens / most)), style=COLORS.get(name, OTHER_COLOR))
        rows.append((screen.shorten_to_one_line(name, 32), share.count, share.tokens, share.tokens / weight.total, bar))
    return screen.build_table("what fills the window", ("what", "pieces", "tokens", "share", ""), rows)


def _build_window_rows(weight: weigh.ConversationWeight, agent: str | None) -> list[tuple[str, str]]:
    rows = []
    for window in weigh.WINDOWS:
        index = weight.find_crossing_message(window)
        where = "not crossed" if index is None else f"crossed by message {index:,} of {len(weight.whose):,}"
        name = f"{window // 1_000:,}k" if window < 1_000_000 else "1m"
        rows.append((name, f"{where} ({weight.total / window:.0%} of it)"))
    info = find_model_info(agent)
    if info:
        rows.append((info.name, f"window {info.window:,}: {weight.total / info.window:.0%} of it"))
    return rows


def _build_cost_rows(price: weigh.ConversationCost | None, agent: str | None) -> list[tuple[str, str]]:
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
