"""`check`: find what a provider would refuse, and write a mended copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from unabridged.legality import PROVIDERS, Finding, repair
from unabridged.legality import check as find_findings
from unabridged.sessions import LoadedFile, save
from unabridged_cli import options, screen

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
    which: options.ConversationChoice = None,
    as_json: options.AsJson = False,
    max_size: options.MaxSize = options.MAX_SIZE,
) -> None:
    """Find what a provider would refuse, with message and rule; by default the provider of the file's own format.

    Ends with 1 when something would be refused, and with 0 when nothing would, or when it was mended.
    """
    if mend and out is None:
        screen.fail("--repair needs -o OUT: the file that was read is never changed", 2)
    if out is not None and not mend:
        screen.fail("-o is for the mended copy: say --repair, too", 2)
    loaded = options.load_file(file, format_, which, max_size)
    providers = provider or [loaded.format]
    if mend and len(providers) > 1:
        screen.fail("a copy is mended for one provider: name one", 2)
    how: dict[str, Any] = {"model": model or loaded.model, "format": loaded.format, "pending": pending}
    with screen.show_spinner("checking"):
        findings = {name: find_findings(loaded.messages, name, **how) for name in providers}
    mended = None
    if mend and out is not None:
        done = repair(loaded.messages, providers[0], **how)
        save(loaded, done.messages, out)
        mended = done.findings
    if as_json:
        screen.print_json(_build_check_report(loaded, findings, mended, out))
    else:
        _print_findings(loaded, findings, mended)
        if out is not None:
            screen.print_line(f"Written to {out}.")
    if any(findings.values()) and not mend:
        raise typer.Exit(1)


def _build_check_report(
    loaded: LoadedFile, findings: dict[str, list[Finding]], mended: Sequence[Finding] | None, out: Path | None
) -> dict[str, Any]:
    return {
        "file": str(loaded.path),
        "kind": loaded.kind,
        "format": loaded.format,
        "messages": len(loaded.messages),
        "findings": {name: list(map(asdict, of_one)) for name, of_one in findings.items()},
        "mended": None if mended is None else list(map(asdict, mended)),
        "out": str(out) if out else None,
    }


def _print_findings(loaded: LoadedFile, findings: dict[str, list[Finding]], mended: Sequence[Finding] | None) -> None:
    for name, of_one in findings.items():
        shown = of_one if mended is None else mended
        if not shown:
            screen.print_line(f"{screen.format_count(len(loaded.messages), 'message')}: {name} takes them as they are.")
            continue
        title = f"{name}: {len(shown):,} {'mended' if mended is not None else 'would be refused'}"
        rows = [(finding.index, finding.rule, finding.message) for finding in shown]
        screen.make_console().print(screen.build_table(title, ("message", "rule", "what is wrong"), rows))
