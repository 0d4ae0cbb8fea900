"""What left the context, found again.

In reading order: `lookup` (search, its order, and read), `passages` (what a search shows), `excerpts`, `results`,
`tools` for agents, `mcp_server`.
"""

from __future__ import annotations

from unabridged.recall.lookup import Found, Neighbour, Reading, Result, find, original, read, reference, search

__all__ = ["Found", "Neighbour", "Reading", "Result", "find", "original", "read", "reference", "search"]
