"""Every client that is known."""

from __future__ import annotations

from unabridged_cli.clients.claude_code import ClaudeCode
from unabridged_cli.clients.client import CodingAgent
from unabridged_cli.clients.codex import Codex
from unabridged_cli.clients.opencode import OpenCode
from unabridged_cli.clients.pi import Pi

CLIENTS: dict[str, CodingAgent] = {client.name: client for client in (ClaudeCode(), Codex(), Pi(), OpenCode())}
"""By its name on the command line."""
