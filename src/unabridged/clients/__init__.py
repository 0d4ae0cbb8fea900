"""Coding agents on this machine: Claude Code, Codex, pi and opencode.

Reading order: `client` (what each of them is to us), then a module a client. Only the standard library is needed here,
and nothing of it reads a conversation: that is `unabridged.sessions`.
"""

from __future__ import annotations

from unabridged.clients import claude_code, codex, opencode, pi
from unabridged.clients.client import Client, SessionFile

CLIENTS: dict[str, Client] = {
    client.name: client for client in (claude_code.CLIENT, codex.CLIENT, pi.CLIENT, opencode.CLIENT)
}
"""Every client that is known, by its name on the command line."""

__all__ = ["CLIENTS", "Client", "SessionFile"]
