"""`watch`: follow a run as it happens, and show its windows fill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from unabridged.sessions import load
from unabridged.sizes import parse_size
from unabridged_cli import options, screen
from unabridged_cli.event_source import EventData, SessionReading, follow_events
from unabridged_cli.live_view import LiveThread, LiveView, format_event, format_fill, format_totals
from unabridged_cli.picture import COLORS, BarPiece, draw_bar

_SHOWN_THREADS = 8


def watch(
    source: options.EventSource,
    *,
    window: options.Window = None,
    model: options.ModelName = None,
    trigger: Annotated[float, typer.Option(help="The share of the window that is marked.", min=0.01, max=1)] = 0.85,
    interval: Annotated[float, typer.Option(help="Seconds between looks.", min=0.05)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show what there is, and end.")] = False,
    format_: options.FormatName = None,
    which: options.ConversationChoice = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Follow a run and show its windows filling, live: what was compacted, and what that saved. Ctrl-C ends it.

    A source is a session file, a file of events that a program writes with `Compactor(on_event=live(FILE))`, or the
    address of a gateway, with a token for it in UNABRIDGED_GATEWAY_TOKEN. In a pipe a line is printed for each event;
    with --json a JSON object on each line. --window, --model, --trigger, --format, --which and --max-size are for a
    session file.
    """
    if source == "-":
        screen.fail("watch follows a file as it grows: name one. unabridged measure - reads standard input once", 2)
    tokens = parse_size(window, "a window") if window else None
    max_bytes = parse_size(max_size, "a size")
    read = partial(load, format=format_, which=options.parse_index_or_id(which), max_size=max_bytes)
    reading = SessionReading(read, model, tokens, trigger)
    try:
        _show(follow_events(source, interval=interval, once=once, reading=reading), as_json=as_json, once=once)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _show(events: Iterator[EventData], *, as_json: bool, once: bool) -> None:
    view, console = LiveView(), screen.make_console()
    live = console.is_terminal and not (as_json or once)
    with Live(console=console) if live else nullcontext() as display:
        for event in events:
            thread = view.add(event)
            if as_json:
                screen.print_json(event)
            elif display:
                display.update(_draw_view(view, console.width))
            else:
                screen.print_line(format_event(event, thread))


def _draw_view(view: LiveView, width: int) -> RenderableType:
    shown = view.threads[:_SHOWN_THREADS]
    drawn = [part for thread in shown for part in _draw_thread(thread, max(10, width - 2))]
    more = len(view.threads) - len(shown)
    totals = format_totals(view.sum_up()) + (f"; {more:,} more conversations" if more else "")
    problem = [Text(screen.escape_control_characters(view.problem), style="red")] if view.problem else []
    return Group(*drawn, Text(totals, style="dim"), *problem)


def _draw_thread(thread: LiveThread, cells: int) -> list[RenderableType]:
    window, trigger = thread.sizes["window"] or 1, thread.sizes["trigger"]
    shares = thread.shares or {"model": thread.tokens}
    order = [*COLORS, *shares]
    pieces = (BarPiece(name, "stayed", shares[name]) for name in sorted(shares, key=order.index))
    full = draw_bar(pieces, cells, window)[:cells]
    free = ["·"] * cells
    if trigger:
        free[min(cells, max(1, round(cells * trigger / window))) - 1] = "╎"
    over = bool(trigger) and thread.tokens >= trigger
    name = screen.escape_control_characters(thread.name or "a conversation without a name")
    compacted = f", {screen.format_count(thread.compaction_count, 'compaction')}" if thread.compaction_count else ""
    return [
        Text(f"{name}: {format_fill(thread)}{compacted}", style="bold red" if over else "bold"),
        Text.assemble("│", full, "".join(free[len(full) :]), "│"),
    ]
