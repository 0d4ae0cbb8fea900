"""`check`: what a provider would refuse, and a mended copy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from unabridged.cli import options
from unabridged.cli.screen import console, fail, number_of, plain, print_json, say, working
from unabridged.errors import IllegalConversation
from unabridged.legal import PROVIDERS, Finding, repair
from unabridged.legal import check as findings_of
from unabridged.sessions import Loaded, save

Provider = Annotated[
    list[str] | None,
    typer.Option("--provider", help=f"Check for this one; repeated: for each. One of {', '.join(PROVIDERS)}."),
]


def check(
    file: options.File,
    *,
    provider: Provider = None,
    mend: Annotated[bool, typer.Option("--repair", help="Write a mended copy to -o; nothing else changes.")] = False,
    out: options.Out = None,
    model: options.ModelName = None,
    pending: Annotated[
        bool, typer.Option("--pending", help="The last round is still running: its missing results are no fault.")
    ] = False,
    format_: options.FormatName = None,
    which: options.Which = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """What a provider would refuse, with message and rule; by default the provider of the file's own format.

    Ends with 1 when something would be refused, and with 0 when nothing would, or when it was mended.
    """
    if mend and out is None:
        fail("--repair needs -o OUT: the file that was read is never changed", 2)
    if out is not None and not mend:
        fail("-o is for the mended copy: say --repair, too", 2)
    loaded = options.load_file(file, format_, which, max_size)
    agent = model or loaded.model
    chosen = provider or [loaded.format]
    if mend and len(chosen) > 1:
        fail("a copy is mended for one provider: name one", 2)
    with working("checking"):
        found = {
            name: findings_of(loaded.messages, name, model=agent, format=loaded.format, pending=pending)
            for name in chosen
        }
    mended = _mend(loaded, chosen[0], agent, pending=pending) if mend else None
    if out is not None and mended is not None:
        save(loaded, mended[0], out)
    if as_json:
        print_json(_report(loaded, found, mended[1] if mended else None, str(out) if out else None))
    else:
        _show(loaded, found, mended[1] if mended else None)
        if out is not None:
            say(f"Written to {out}.")
    if any(found.values()) and not mend:
        raise typer.Exit(1)


def _mend(loaded: Loaded, provider: str, agent: str | None, *, pending: bool) -> tuple[list[Any], list[Finding]]:
    """The mended messages and all that was done to them; they are checked once more."""
    done = repair(loaded.messages, provider, model=agent, format=loaded.format, pending=pending)
    left = findings_of(done.messages, provider, model=agent, format=loaded.format, pending=pending)
    if left:
        raise IllegalConversation(f"can't be mended: {left[0].message}")
    return done.messages, list(done.findings)


def _report(
    loaded: Loaded, found: dict[str, list[Finding]], mended: list[Finding] | None, out: str | None
) -> dict[str, Any]:
    return {
        "file": str(loaded.path),
        "kind": loaded.kind,
        "format": loaded.format,
        "messages": len(loaded.messages),
        "findings": {name: [asdict(finding) for finding in findings] for name, findings in found.items()},
        "mended": None if mended is None else [asdict(finding) for finding in mended],
        "out": out,
    }


def _show(loaded: Loaded, found: dict[str, list[Finding]], mended: list[Finding] | None) -> None:
    for name, findings in found.items():
        shown = mended if mended is not None else findings
        if not shown:
            say(f"{number_of(len(loaded.messages), 'message')}: {name} takes them as they are.")
            continue
        table = Table(title_justify="left", title_style="bold")
        table.title = f"{name}: {len(shown):,} {'mended' if mended is not None else 'would be refused'}"
        table.add_column("message", justify="right", no_wrap=True)
        table.add_column("rule", no_wrap=True)
        table.add_column("what is wrong", overflow="fold")
        for finding in shown:
            table.add_row(f"{finding.index:,}", finding.rule, Text(plain(finding.message)))
        console().print(table)
