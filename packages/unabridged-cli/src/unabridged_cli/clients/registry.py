"""Every client that is known."""

from __future__ import annotations

from unabridged_cli.clients import claude_code, codex, opencode, pi
from unabridged_cli.clients.client import CodingAgent

CLIENTS: dict[str, CodingAgent] = {
    client.name: client for client in (claude_code.CLIENT, codex.CLIENT, pi.CLIENT, opencode.CLIENT)
}
"""By its name on the command line."""
