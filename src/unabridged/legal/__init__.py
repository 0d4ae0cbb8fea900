"""What each provider refuses, rule by named rule, and how it is mended.

Reading order: `conversation` (what a rule sees), `pairing` (calls and answers), one file for each provider's rules,
`wires` and `rejoin` (mending), `repair` (the three functions below). `docs/legality.md` lists every rule.
"""

from __future__ import annotations

from unabridged.legal.conversation import Finding
from unabridged.legal.rejoin import NO_RESULT
from unabridged.legal.repair import PROVIDERS, Repaired, check, check_views, repair

__all__ = ["NO_RESULT", "PROVIDERS", "Finding", "Repaired", "check", "check_views", "repair"]
