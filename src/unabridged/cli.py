"""The command line: parse, call, print.

Exit codes: 0 done; 1 it can't be made to fit or be mended; 2 wrong input, with one line that says what to do.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from unabridged.engine import Compaction, Compactor
from unabridged.errors import IllegalConversation, SettingsError, UnabridgedError, WontFit
from unabridged.formats import FORMATS, Message, detect, format_named
from unabridged.legal import check
from unabridged.measure import Meter
from unabridged.messages import View

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    help="Keep an agent's conversation inside its model's window, and lose nothing on the way.",
)
_SIZE = re.compile(r"([\d_.,]+)\s*([kKmM]?)")
_COLORS = {"person": "green", "model": "blue", "tool": "yellow", "host": "magenta", "summary": "bold red"}


@app.callback()
def _root() -> None:
    """Keep an agent's conversation inside its model's window, and lose nothing on the way."""


@app.command(epilog="Example: unabridged compact session.json --window 32k -o shorter.json")
def compact(
    file: Annotated[Path, typer.Argument(help="A conversation: JSON list, {system, tools, messages}, or JSON Lines.")],
    window: Annotated[str, typer.Option(help="The model's window in tokens: 32768, 32k, 1m.")] = "32k",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the compacted conversation goes.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and nothing else.")] = False,
    format_: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = None,
) -> None:
    """Compact a conversation into a window: show what went, what stayed, and the summary that stands for it."""
    try:
        document, messages = _load(file)
        with Compactor(window=_tokens(window), archive="memory:", format=format_) as compactor:
            done = compactor.fit(messages, thread=file.name, system=document.get("system"), tools=document.get("tools"))
            budget = compactor.limits.budget
        format_used = format_named(format_) if format_ else detect(messages)
        findings = check(done.messages, format_used.name)
        if out is not None:
            _save(out, document, done.messages)
    except (WontFit, IllegalConversation) as error:
        _fail(str(error), 1)
    except (UnabridgedError, OSError) as error:
        _fail(str(error), 2)
    legal = f"legal for {format_used.name}" if not findings else f"illegal: {findings[0].message}"
    if as_json:
        typer.echo(json.dumps(_outcome(done, legal), ensure_ascii=True))
        return
    _picture(done, messages, legal, budget)
    if out is not None:
        Console().print(f"Written to {out}.")


def main() -> None:
    """The console script."""
    app()


def _tokens(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"can't read a window of {text!r}: write 32768, 32k or 1m")
    number, unit = match.groups()
    return int(float(re.sub("[_,]", "", number)) * {"": 1, "k": 1_000, "m": 1_000_000}[unit.lower()])


def _load(file: Path) -> tuple[dict[str, Any], list[Message]]:
    """The document around the messages (system, tools, whatever else it holds) and the messages themselves."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} is not text: expected a conversation as JSON or JSON Lines") from error
    try:
        document = json.loads(text)
    except ValueError:
        try:
            document = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise SettingsError(f"{file} is neither JSON nor JSON Lines: {error}") from error
    if isinstance(document, list) and document:
        document = {"messages": document}
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise SettingsError(f"{file} holds no messages: expected a list of them, or an object with a `messages` list")
    return document, messages


def _save(out: Path, document: dict[str, Any], messages: list[Message]) -> None:
    """Written whole or not at all, readable by its owner alone."""
    whole: Any = {**document, "messages": messages} if len(document) > 1 else messages
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(whole, file, ensure_ascii=True, indent=1)
        Path(name).replace(out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _outcome(done: Compaction, legal: str) -> dict[str, Any]:
    return {
        "changed": done.changed,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "legal": legal,
        "why": done.why,
        "receipt": asdict(done.receipt) if done.receipt else None,
        "messages": done.messages,
    }


def _picture(done: Compaction, before: list[Message], legal: str, budget: int) -> None:
    console = Console()
    format_ = detect(before)
    console.print(_strip("before", [format_.read(m) for m in before], done.tokens_before, console.width))
    console.print(_strip("after", [format_.read(m) for m in done.messages], done.tokens_after, console.width))
    legend = "  ".join(f"[{color}]█[/] {origin}" for origin, color in _COLORS.items())
    console.print(f"         {legend}\n")
    summary = next((v for m in done.messages if (v := format_.read(m)).text.startswith("[unabridged summary ")), None)
    if summary is not None:
        console.print(Panel(Text(summary.text), title="the summary turn", border_style="red"))
    table = Table(title="receipt", show_header=False, title_justify="left")
    for name, value in _facts(done, legal, budget, len(before)):
        table.add_row(name, value)
    console.print(Group(table))


def _facts(done: Compaction, legal: str, budget: int, before: int) -> list[tuple[str, str]]:
    share = f" ({done.tokens_after / done.tokens_before:.0%})" if done.tokens_before else ""
    facts = [
        ("tokens", f"{done.tokens_before:,} → {done.tokens_after:,}{share}, budget {budget:,}"),
        ("messages", f"{before:,} → {len(done.messages):,}"),
        ("check", legal),
    ]
    if done.receipt is None:
        return [*facts, ("unchanged", done.why or "below the trigger: nothing to do")]
    receipt = done.receipt
    turns = ", ".join(f"{first + 1}-{last}" for first, last in receipt.turns)
    facts += [
        ("why", receipt.reason),
        ("turns compacted", turns),
        ("summariser", receipt.summariser),
        ("id", receipt.id),
    ]
    return facts + [("note", note) for note in receipt.notes]


def _strip(label: str, views: list[View], tokens: int, width: int) -> Text:
    """One bar, as wide as the terminal: each message takes its share, in the colour of whose words it is."""
    meter = Meter(family="openai")  # only the shares matter here
    sizes = [meter.message(view, None) for view in views]
    cells = max(10, width - 30)
    text = Text(f"{label:>7}  ")
    drawn, total = 0, 0
    for view, size in zip(views, sizes, strict=True):
        total += size
        upto = round(cells * total / max(1, sum(sizes)))
        origin = "summary" if view.text.startswith("[unabridged summary ") else view.origin
        text.append("█" * (upto - drawn), style=_COLORS[origin])
        drawn = upto
    text.append(f" {tokens:,} tokens")
    return text


def _fail(message: str, code: int) -> NoReturn:
    Console(stderr=True).print(Text(f"unabridged: {message}"))
    raise typer.Exit(code)
