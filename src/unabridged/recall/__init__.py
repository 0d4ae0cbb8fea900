"""What left the context, found again: `lookup` (search and read), `excerpts`, `tools` for agents, `mcp_server`."""

from __future__ import annotations

from unabridged.recall.lookup import Found, Neighbour, Reading, Result, find, original, read, reference, search

__all__ = ["Found", "Neighbour", "Reading", "Result", "find", "original", "read", "reference", "search"]
