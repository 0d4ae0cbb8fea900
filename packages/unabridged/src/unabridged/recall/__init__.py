"""Find what left the context.

In reading order: `lookup` (search, its order, and read), `passages` (what a search shows), `excerpts` (which part of a
message), `results` (what comes back), `tools` for agents.
"""

from __future__ import annotations

from unabridged.archive.references import find_part, make_reference
from unabridged.recall.lookup import original, read, search
from unabridged.recall.results import Found, Neighbour, Reading, Result

__all__ = ["Found", "Neighbour", "Reading", "Result", "find_part", "make_reference", "original", "read", "search"]
