"""How much the suite tries: `make test` some of everything, `make test ALL=1` all of it."""

from __future__ import annotations

import os

ALL = bool(os.environ.get("UNABRIDGED_ALL"))
"""Whether everything is run that needs no download and no hour."""


def examples(few: int, many: int) -> int:
    """Return how many examples a property is tried with; `UNABRIDGED_EXAMPLES` overrules both numbers."""
    return int(os.environ.get("UNABRIDGED_EXAMPLES") or (many if ALL else few))
