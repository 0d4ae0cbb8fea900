"""The lists of attempts to speak in a person's voice, and of lies and truths about people."""

from __future__ import annotations

import json
import re

from ledger_case import LISTS

Attempt = dict[str, str]


def _listed(name: str) -> list[Attempt]:
    found: list[Attempt] = json.loads((LISTS / name).read_text(encoding="utf-8"))
    return found


ATTEMPTS = {name: _listed(f"injections_{name}.json") for name in ("first", "second", "held_out", "third")}
CLAIMS: dict[str, list[str]] = json.loads((LISTS / "claims.json").read_text(encoding="utf-8"))
"""Lies about people that a summarising model may tell, and true sentences that look like them."""


def canary(attempt: Attempt) -> str:
    found = re.search(r"canary\d+|token\d+q|zebra\d+", attempt["text"])
    assert found is not None
    return found[0]
