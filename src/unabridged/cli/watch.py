"""`watch`: follow a growing session file, and see its window fill."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from unabridged.cli import options
from unabridged.cli.measure import Weight, weigh
from unabridged.cli.screen import console, fail, number_of, plain, print_json
from unabridged.measure.models import FALLBACK_WINDOW, model_info
from unabridged.sessions import Loaded, SessionFileError, load

_SPARKS = "▁▂▃▄▅▆▇█"
_KINDS = (("system", "cyan"), ("tools", "cyan"), ("user", "green"), ("assistant", "blue"), ("thinking", "blue"))


@dataclass(slots=True)
class _Seen:
    """What the file looked like at the last look."""

    window: int
    trigger: float
    tokens: list[int] = field(default_factory=list)
    loaded: Loaded | None = None
    weight: Weight | None = None
    problem: str = ""
    seconds: float = 0.0
    """How long the last look took: a large file is not looked at all the time."""


def watch(
    file: options.File,
    *,
    window: Annotated[
        str | None, typer.Option(help="The window in tokens: 32768, 32k, 1m. Default: the model's, or 32,768.")
    ] = None,
    model: options.ModelName = None,
    trigger: Annotated[float, typer.Option(help="The share of the window that is marked.", min=0.01, max=1)] = 0.85,
    interval: Annotated[float, typer.Option(help="Seconds between looks.", min=0.05)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="One look, and done.")] = False,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Follow a growing session file and show its window filling, live. Ctrl-C ends it.

    In a pipe a line is printed for each change; with --json a JSON object on each line.
    """
    if options.is_stdin(file):
        fail("watch follows a file as it grows: name one. unabridged measure - reads standard input once", 2)
    tokens = options.number(window, "a window") if window else None
    chosen = int(which) if which is not None and which.isdecimal() else which
    how = {"format": format_, "which": chosen, "max_size": options.number(max_size, "a size")}
    loaded = load(file, **how)  # type: ignore[arg-type] # a file that can't be read at all is said at once
    info = model_info(model or loaded.model)
    seen = _Seen(tokens or (info.window if info else FALLBACK_WINDOW), trigger)
    _look(seen, loaded, model)
    try:
        _follow(file, seen, model, how, interval=interval, once=once, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _follow(
    file: Path, seen: _Seen, model: str | None, how: dict[str, Any], *, interval: float, once: bool, as_json: bool
) -> None:
    screen = console()
    live = None if as_json or once or not screen.is_terminal else Live(console=screen, auto_refresh=False)
    if live:
        live.start()
    try:
        while True:
            _tell(seen, live, as_json=as_json)
            if once:
                return
            _until_changed(file, max(interval, seen.seconds), seen)
            started = time.monotonic()
            try:
                _look(seen, load(file, **how), model)
            except (SessionFileError, OSError) as error:
                seen.problem = str(error)
            seen.seconds = time.monotonic() - started
    finally:
        if live:
            live.stop()


def _until_changed(file: Path, interval: float, seen: _Seen) -> None:
    """Wait for another size or time; a file that is gone for a moment is waited for."""
    before = (
        _stamp(file) if seen.problem else (seen.loaded.source.stamp if seen.loaded and seen.loaded.source else None)
    )
    while True:
        time.sleep(interval)
        if (now := _stamp(file)) is not None and now != before:
            return


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        info = file.stat()
    except OSError:
        return None
    return (info.st_size, info.st_mtime_ns)


def _look(seen: _Seen, loaded: Loaded, model: str | None) -> None:
    seen.loaded, seen.problem = loaded, ""
    seen.weight = weigh(loaded, model or loaded.model)
    seen.tokens.append(seen.weight.total)


def _tell(seen: _Seen, live: Live | None, *, as_json: bool) -> None:
    loaded, weight = seen.loaded, seen.weight
    if loaded is None or weight is None:
        return
    if as_json:
        shares = {name: share.tokens for name, share in weight.shares.items()}
        facts = {"messages": len(loaded.messages), "tokens": weight.total, "window": seen.window, "shares": shares}
        print_json({**facts, "full": weight.total / seen.window, "problem": seen.problem or None})
    elif live:
        live.update(_draw(seen, loaded, weight, live.console.width), refresh=True)
    else:
        console().print(Text(_line(seen, loaded, weight)), soft_wrap=True)


def _line(seen: _Seen, loaded: Loaded, weight: Weight) -> str:
    grown = f" ({seen.tokens[-1] - seen.tokens[-2]:+,})" if len(seen.tokens) > 1 else ""
    full = f"{weight.total:,} of {seen.window:,} tokens, {weight.total / seen.window:.0%} full{grown}"
    return plain(f"{number_of(len(loaded.messages), 'message')}, {full}{'; ' + seen.problem if seen.problem else ''}")


def _draw(seen: _Seen, loaded: Loaded, weight: Weight, width: int) -> RenderableType:
    cells = max(10, width - 2)
    bar, total, drawn = Text("│"), 0, 0
    known = dict(_KINDS)
    for name, share in sorted(weight.shares.items(), key=lambda item: [*known, item[0]].index(item[0])):
        total += share.tokens
        upto = min(cells, round(cells * total / seen.window))
        bar.append("█" * (upto - drawn), style=known.get(name, "yellow"))
        drawn = max(drawn, upto)
    mark = round(cells * seen.trigger)
    free = Text(("·" * cells)[drawn:])
    if mark > drawn:
        free = Text("·" * (mark - drawn - 1) + "╎" + "·" * (cells - mark))
    bar.append_text(free).append("│")
    history = seen.tokens[-cells:]
    sparks = "".join(_SPARKS[min(7, 8 * value // max(1, seen.window))] for value in history)
    over = weight.total >= seen.trigger * seen.window
    style = "bold red" if over else "bold"
    said = Text("unabridged compact would make it shorter" if over else "", style="red")
    return Group(Text(_line(seen, loaded, weight), style=style), bar, Text(sparks, style="dim"), said)
