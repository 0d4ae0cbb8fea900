"""Builders of views for the tests of the ledger and the extract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from unabridged.ledger.entries import Ledger
from unabridged.ledger.extract import Extract, extract
from unabridged.messages import Answer, Call, View


def person(text: str) -> View:
    return View("user", "person", text)


def says(text: str) -> View:
    return View("assistant", "model", text)


def calls(tool: str, text: str = "", call_id: str = "c", **arguments: Any) -> View:
    return View("assistant", "model", text, calls=(Call(call_id, tool, json.dumps(arguments)),))


def answers(text: str, call_id: str = "c", *, error: bool = False) -> View:
    return View("tool", "tool", answers=(Answer(call_id, text, error),))


def observation(text: str) -> View:
    """What a tool says in a text protocol: a `user` turn that is no person's."""
    return View("user", "tool", text)


def round_of(tool: str, result: str, *, text: str = "", **arguments: Any) -> list[View]:
    return [calls(tool, text, **arguments), answers(result)]


def count(text: str) -> int:
    """About what the engine counts: a token for three characters, and one for each sign of a script without spaces."""
    return len(text) // 3 + sum(char > "\u2e7f" for char in text) + (1 if text else 0)


def compacted(blocks: Sequence[Sequence[View]], *, budget: int = 3_000, answered: bool = True) -> Extract:
    """Block after block folded into one ledger, as many compactions do; the text of the last one."""
    prior: Ledger | None = None
    turn = 0
    made: Extract | None = None
    for block in blocks:
        made = extract(block, prior=prior, first_turn=turn, answered=answered, budget=budget, count=count)
        prior, turn = made.ledger, turn + len(block)
    assert made is not None
    return made
