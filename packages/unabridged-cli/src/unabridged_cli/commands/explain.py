"""`explain`: say for each message of a conversation what a compaction would do with it, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from unabridged.compactor import Outlook
from unabridged.sessions import LoadedFile
from unabridged_cli import options, screen
from unabridged_cli.archives import open_compactor
from unabridged_cli.commands.compact import Keep, Summariser, Trigger, settings_from
from unabridged_cli.picture import group_by_fate
from unabridged_cli.targets import resolve_target

_STYLES = {"stays": "", "goes": "dim", "quoted": "green", "shortened": "yellow", "cleared": "yellow", "mended": "red"}


def explain(
    file: options.FileOrSession,
    *,
    window: options.Window = None,
    model: options.ModelName = None,
    summariser: Summariser = None,
    trigger: Trigger = None,
    keep: Keep = None,
    format_: options.FormatName = None,
    which: options.ConversationChoice = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Say for each message whether it would stay, go or be quoted, and why. Nothing is written, stored or paid for.

    It is worked out by the code that compacts. No model is asked: one that is named with --summariser only says that
    its prose would stand beside the quotations, which leaves them less room.
    """
    target = resolve_target(file, None, write=False)
    settings = settings_from(trigger, keep, window)
    loaded = options.load_file(target.file, format_, which, max_size)
    settings |= {"agent": model or loaded.model, "model": summariser}
    opened = open_compactor(loaded, target.file, ("memory:", None, target.thread), new=True, **settings)
    with opened as (compactor, name), screen.show_spinner("planning"):
        outlook = compactor.plan(loaded.messages, thread=name, system=loaded.system, tools=loaded.tools)
    if as_json:
        screen.print_json(_build_report(loaded, outlook))
    else:
        _print_outlook(loaded, outlook)


def _build_report(loaded: LoadedFile, outlook: Outlook) -> dict[str, Any]:
    sizes = {"tokens": outlook.tokens, "budget": outlook.budget}
    messages = [asdict(one) for one in outlook.messages]
    return {"file": str(loaded.path), **sizes, "trigger": outlook.trigger, "why": outlook.why, "messages": messages}


def _print_outlook(loaded: LoadedFile, outlook: Outlook) -> None:
    messages = screen.format_count(len(loaded.messages), "message")
    screen.print_line(f"{loaded.path.name}: {messages}, {outlook.tokens:,} tokens, budget {outlook.budget:,}", "bold")
    screen.print_line(f"It would be compacted: {outlook.trigger}." if outlook.trigger else "Nothing would be done.")
    rows = []
    for run in group_by_fate(outlook.messages):
        places = f"{run[0].index:,}" if len(run) == 1 else f"{run[0].index:,} to {run[-1].index:,}"
        fate = Text(run[0].fate, style=_STYLES[run[0].fate])
        rows.append((places, fate, sum(one.tokens or 0 for one in run), run[0].why))
    console = screen.make_console()
    console.print(screen.build_table("what would become of each message", ("messages", "", "tokens", "why"), rows))
