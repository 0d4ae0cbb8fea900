"""What is refused, rule by named rule, and how it is mended: what all providers share.

Reading order: `pairing` (the rules on calls and their answers), `rejoin` (how these are mended), `repair` (the three
functions below, and what is no message of its format), `reasoning` (whose thinking must go after a rewrite). What one
provider demands stands in its place in `unabridged.formats`; `docs/legality.md` lists every rule.
"""

from __future__ import annotations

from unabridged.formats.base import Finding
from unabridged.legality.pairing import find_unanswered_round
from unabridged.legality.rejoin import NO_RESULT
from unabridged.legality.repair import PROVIDERS, UNREPAIRABLE_RULES, RepairResult, check, check_views, repair

__all__ = [
    "NO_RESULT", "PROVIDERS", "UNREPAIRABLE_RULES", "Finding", "RepairResult", "check", "check_views",
    "find_unanswered_round", "repair",
]  # fmt: skip
