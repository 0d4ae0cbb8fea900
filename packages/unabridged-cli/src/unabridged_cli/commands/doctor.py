"""`doctor`: check what a coding agent needs of this package, and say what to do about what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

from unabridged_cli import options, screen
from unabridged_cli.clients.diagnosis import Diagnosis, check_machine
from unabridged_cli.clients.doctor import check_client, read_setup
from unabridged_cli.clients.registry import CLIENTS
from unabridged_cli.commands.clients import AnyClient, find_client


def doctor(client: AnyClient = None, *, as_json: options.AsJson = False) -> None:
    """Check everything that coding agents need of this package, by an install or the plugin, with a remedy for each.

    Programs and the MCP server are started, the archive is written and read, hooks must be there, be trusted and have
    run, and nothing may be there twice. Without a client: those that have something of this package. A line a check;
    ends with 1 where something is wrong.
    """
    folder, agents = Path.cwd(), [find_client(client)] if client else list(CLIENTS.values())
    setups = [read_setup(agent, os.environ, folder) for agent in agents]
    found = [setup for setup in setups if client or not setup.is_empty]
    checks = [*check_machine(os.environ, folder)]
    checks += [check for setup in found for check in check_client(setup, os.environ, folder)]
    if not found:
        remedy = "unabridged install CLIENT, or install the plugin"
        checks.append(Diagnosis("", "set-up", f"no client of {', '.join(CLIENTS)} has unabridged", remedy))
    if as_json:
        screen.print_json([{**check._asdict(), "ok": not check.remedy} for check in checks])
    else:
        for check in checks:
            screen.print_line(_format_check(check), "" if not check.remedy else "bold")
    if any(check.remedy for check in checks):
        raise SystemExit(1)


def _format_check(check: Diagnosis) -> str:
    name = f"{check.client} {check.what}".strip()
    return f"wrong  {name}: {check.found}. To do: {check.remedy}" if check.remedy else f"ok     {name}: {check.found}"
