"""`watch`: follow a growing session file, and show its window fill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from unabridged.sessions import Loaded, SessionFileError, load
from unabridged.settings import FALLBACK_WINDOW
from unabridged.sizes import parse_size
from unabridged.tokens.models import find_model_info
from unabridged_cli import options, screen
from unabridged_cli.picture import COLORS, BarPiece, draw_bar
from unabridged_corpus.weigh import weigh_conversation


@dataclass(frozen=True, slots=True)
class _WindowFill:
    """What the file had at one look."""

    messages: int
    shares: dict[str, int]
    tokens: int
    window: int
    grown: int | None = None
    """Tokens since the last look."""
    problem: str = ""
    """Why the file can't be read now; the numbers are the last ones."""

    def to_json(self) -> dict[str, Any]:
        """Return the numbers for `--json`."""
        facts = {"messages": self.messages, "tokens": self.tokens, "window": self.window, "shares": self.shares}
        return {**facts, "full": self.tokens / self.window, "problem": self.problem or None}

    def format_line(self) -> str:
        """Return the numbers for people."""
        grown = "" if self.grown is None else f" ({self.grown:+,})"
        full = f"{self.tokens:,} of {self.window:,} tokens, {self.tokens / self.window:.0%} full{grown}"
        return screen.escape_control_characters(
            f"{screen.format_count(self.messages, 'message')}, {full}{self.problem and '; ' + self.problem}"
        )


def watch(
    file: options.File,
    *,
    window: options.Window = None,
    model: options.ModelName = None,
    trigger: Annotated[float, typer.Option(help="The share of the window that is marked.", min=0.01, max=1)] = 0.85,
    interval: Annotated[float, typer.Option(help="Seconds between looks.", min=0.05)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="One look, and done.")] = False,
    format_: options.FormatName = None,
    which: options.ConversationChoice = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Follow a growing session file and show its window filling, live. Ctrl-C ends it.

    In a pipe a line is printed for each change; with --json a JSON object on each line.
    """
    if options.is_stdin(file):
        screen.fail("watch follows a file as it grows: name one. unabridged measure - reads standard input once", 2)
    tokens = parse_size(window, "a window") if window else None
    max_bytes = parse_size(max_size, "a size")
    read = partial(load, file, format=format_, which=options.parse_index_or_id(which), max_size=max_bytes)
    looks = _follow_file(file, lambda: _measure_fill(read(), model, tokens), interval)
    console = screen.make_console()
    live = console.is_terminal and not (as_json or once)
    try:
        with Live(console=console, auto_refresh=False) if live else nullcontext() as display:
            for look in islice(looks, 1 if once else None):
                if as_json:
                    screen.print_json(look.to_json())
                elif display:
                    display.update(_draw_fill(look, trigger, console.width), refresh=True)
                else:
                    screen.print_line(look.format_line())
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _measure_fill(loaded: Loaded, model: str | None, window: int | None) -> _WindowFill:
    agent = model or loaded.model
    info = find_model_info(agent)
    weight = weigh_conversation(loaded, agent, loaded.messages)
    shares = {name: share.tokens for name, share in weight.shares.items()}
    return _WindowFill(len(loaded.messages), shares, weight.total, window or (info.window if info else FALLBACK_WINDOW))


def _follow_file(file: Path, measure: Callable[[], _WindowFill], interval: float) -> Iterator[_WindowFill]:
    """Yield a look now, and one after each change. A file that can't be read is an error at first only."""
    stamp, started = _read_file_stamp(file), time.monotonic()
    look = measure()
    while True:
        pause = max(interval, time.monotonic() - started)  # a large file is not looked at all the time
        yield look
        while _read_file_stamp(file) in {stamp, None}:  # one that is gone for a moment is waited for
            time.sleep(pause)
        stamp, started = _read_file_stamp(file), time.monotonic()
        try:
            new = measure()
            look = replace(new, grown=new.tokens - look.tokens)
        except (SessionFileError, OSError) as error:
            look = replace(look, grown=None, problem=str(error))


def _read_file_stamp(file: Path) -> tuple[int, int] | None:
    try:
        info = file.stat()
    except OSError:
        return None
    return (info.st_size, info.st_mtime_ns)


def _draw_fill(look: _WindowFill, trigger: float, width: int) -> RenderableType:
    cells = max(10, width - 2)
    order = [*COLORS, *look.shares]
    pieces = (BarPiece(name, "stayed", look.shares[name]) for name in sorted(look.shares, key=order.index))
    full = draw_bar(pieces, cells, look.window)[:cells]
    free = ["·"] * cells
    free[round(cells * trigger) - 1] = "╎"
    over = look.tokens >= trigger * look.window
    return Group(
        Text(look.format_line(), style="bold red" if over else "bold"),
        Text.assemble("│", full, "".join(free[len(full) :]), "│"),
        Text("unabridged compact would make it shorter" if over else "", style="red"),
    )
