"""`check`: what a provider would refuse, and a mended copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.legal import PROVIDERS, Finding, repair
from unabridged.legal import check as findings_of
from unabridged.sessions import Loaded, save
from unabridged_cli import options
from unabridged_cli.screen import console, fail, number_of, print_json, say, table, working

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
    pending: options.Pending = False,
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
    chosen = provider or [loaded.format]
    if mend and len(chosen) > 1:
        fail("a copy is mended for one provider: name one", 2)
    how: dict[str, Any] = {"model": model or loaded.model, "format": loaded.format, "pending": pending}
    with working("checking"):
        found = {name: findings_of(loaded.messages, name, **how) for name in chosen}
    mended = None
    if mend and out is not None:
        done = repair(loaded.messages, chosen[0], **how)
        save(loaded, done.messages, out)
        mended = done.findings
    if as_json:
        print_json(_report(loaded, found, mended, out))
    else:
        _show(loaded, found, mended)
        if out is not None:
            say(f"Written to {out}.")
    if any(found.values()) and not mend:
        raise typer.Exit(1)


def _report(
    loaded: Loaded, found: dict[str, list[Finding]], mended: Sequence[Finding] | None, out: Path | None
) -> dict[str, Any]:
    return {
        "file": str(loaded.path),
        "kind": loaded.kind,
        "format": loaded.format,
        "messages": len(loaded.messages),
        "findings": {name: [asdict(finding) for finding in findings] for name, findings in found.items()},
        "mended": None if mended is None else [asdict(finding) for finding in mended],
        "out": str(out) if out else None,
    }


def _show(loaded: Loaded, found: dict[str, list[Finding]], mended: Sequence[Finding] | None) -> None:
    for name, findings in found.items():
        shown = mended if mended is not None else findings
        if not shown:
            say(f"{number_of(len(loaded.messages), 'message')}: {name} takes them as they are.")
            continue
        title = f"{name}: {len(shown):,} {'mended' if mended is not None else 'would be refused'}"
        rows = [(finding.index, finding.rule, finding.message) for finding in shown]
        console().print(table(title, ("message", "rule", "what is wrong"), rows))
