"""Coding agents on this machine: Claude Code, Codex, pi and opencode.

Reading order: `client` (what each of them is), then a module a client, all of them in `registry`; `hook`, which they
call around a compaction. Only the standard library is needed here, and nothing but `hook` reads a conversation: that is
`unabridged.sessions`. The clients are loaded when they are asked for: a hook that one of them waits for needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unabridged_cli.clients.client import CodingAgent, SessionFile
    from unabridged_cli.clients.registry import CLIENTS

__all__ = ["CLIENTS", "CodingAgent", "SessionFile"]


def __getattr__(name: str) -> Any:
    """Return the public name, loaded now."""
    if name == "CLIENTS":
        from unabridged_cli.clients import registry  # noqa: PLC0415 - just so

        return registry.CLIENTS
    if name in __all__:
        from unabridged_cli.clients import client  # noqa: PLC0415 - just so

        return getattr(client, name)
    raise AttributeError(f"module 'unabridged_cli.clients' has no attribute {name!r}")
