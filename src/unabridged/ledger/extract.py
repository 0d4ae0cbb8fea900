"""The model-free summariser: the whole body of a summary turn, made by rule. Deterministic, fast, any language."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from unabridged.ledger.entries import Ledger
from unabridged.ledger.gather import gather
from unabridged.ledger.merge import merge
from unabridged.ledger.render import Refer, render
from unabridged.messages import View
from unabridged.texts import Count


@dataclass(frozen=True, slots=True)
class Extract:
    """The body of a summary turn, the ledger behind it, and what of the ledger found no place in the text."""

    text: str
    ledger: Ledger
    left_out: tuple[str, ...]


def extract(
    views: Sequence[View],
    *,
    prior: Ledger | None = None,
    first_turn: int = 0,
    turns: Sequence[int] | None = None,
    answered: bool,
    kept: Collection[int] = (),
    budget: int,
    count: Count,
    refer: Refer | None = None,
    spoken: Collection[int] = (),
) -> Extract:
    """Summarise these messages, with the ledger of what went before folded in, within `budget` tokens.

    `kept`: turns among them whose own message stays in the context beside the summary, the open request's above all.
    `spoken`: those whose words the summary turn gives in full elsewhere.
    """
    ledger = gather(views, first_turn=first_turn, turns=turns, answered=answered)
    if prior is not None:
        ledger = merge(prior, ledger)
    rendered = render(ledger, budget, count, refer=refer, kept=kept, spoken=spoken)
    return Extract(rendered.text, ledger, rendered.left_out)
