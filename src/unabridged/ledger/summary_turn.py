"""The ledger as text, within a budget of tokens. The layout of a summary turn's body is here.

`LAYOUT` says which sections there are, in which order they stand and what each may take; the words of their headings
are labels in `languages/*.json`. A new section is a row, a label, and a method of `Sections` that writes it. The
frame around it is in `marks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import NamedTuple

from unabridged.ledger.entries import Action, Ledger
from unabridged.ledger.sections import Sections
from unabridged.text_tools import Count


class Row(NamedTuple):
    """One section of the summary turn."""

    name: str
    heading: str = ""
    """The label of its heading in the language files."""
    write: Callable[[Sections, int], str] | None = None
    """Writes it within so many tokens; None where it comes as a whole."""
    share: float = 0.0
    """What it may take of the budget, as far as those before it in `SERVED` left it."""
    beside: float = 0.0
    """The same beside a model's prose, which tells what was done."""
    optional: bool = True
    """Whether the host can leave it out (`Settings.without`)."""


LAYOUT = (
    Row("prose", optional=False),
    Row("open", "open", Sections.open_requests, 1.0, 1.0, optional=False),
    Row("doubtful", "doubtful", Sections.doubtful, 0.8, 0.5, optional=False),
    Row("rules", "rules", Sections.rules, 0.5, 0.5, optional=False),
    Row("done", "done", Sections.story, 1.0),
    Row("own_words", "own_words", Sections.own_words, beside=0.9),
    Row("todo", "todo", Sections.todo, 0.15, 0.3),
    Row("checks", "checks", Sections.checks, 0.08),
    Row("files", "files", Sections.files, 0.1, 0.15),
    Row("names", "names", Sections.names, 0.25, 0.05),
    Row("host_state", optional=False),
)
OPTIONAL = tuple(row.name for row in LAYOUT if row.optional)
SERVED = ("rules", "open", "doubtful", "todo", "checks", "files", "own_words", "done", "names")
"""Who gets room first; what is open gets all that rules leave."""
NAMES = 1_000
"""Tokens of names at most: what next steps turn out to need is hardly among the others, and more are a burden."""
OPEN = 0.8
"""The share of the budget that rules leave to what is open, where it needs so much."""


class Rendered(NamedTuple):
    """The text of each section, and what of the ledger they do not hold."""

    sections: Mapping[str, str]
    left_out: tuple[str, ...]

    def text(self, **others: str) -> str:
        """The body of the summary turn, with other parts of it in their places."""
        parts = {**self.sections, **others}
        return "\n\n".join(text for row in LAYOUT if (text := parts.get(row.name, "").strip()))


def render(
    ledger: Ledger,
    budget: int,
    count: Count,
    *,
    kept: Collection[int] = (),
    prose: str = "",
    people: float = inf,
    without: Collection[str] = (),
    scant: bool = False,
    later: Sequence[Action] = (),
) -> Rendered:
    """The ledger within `budget` tokens as `count` counts them; never more, however small the budget.

    `kept` names the turns whose own message stays in the context: those are pointed at, not repeated. Beside a model's
    `prose`, which tells what was done, only people's words and decisions are given, and files and names that it lacks.
    `scant` says that the prose is short for its room, so that names are listed which a longer one would have.
    `people` is the most that people's words may take where they are not open; `without` names sections not wanted.
    `later` is what was done in messages that stay: it tells whether checks are up to date.
    """
    sections = Sections(ledger, count, kept, people, prose, scant=scant)
    sections.later = later
    rows = {row.name: row for row in LAYOUT}
    texts: dict[str, str] = {}
    left = budget
    # What others may not take: the open requests' share, and a few names.
    asked = f"## {sections.heading(rows['open'].heading)}\n{sections.open_requests(budget)}"
    saved = {"rules": min(count(asked) + 2, int(budget * OPEN))}
    shares = {row.name: row.beside if prose else row.share for row in LAYOUT}
    shares["names"] = min(shares["names"], NAMES / max(budget, 1))
    saved["done"] = saved["own_words"] = 0 if "names" in without else int(budget * shares["names"])
    for name in SERVED:
        row = rows[name]
        if name in without or row.write is None or not shares[name]:
            continue
        heading = f"## {sections.heading(row.heading)}\n"
        room = min(int(budget * shares[name]), left - saved.get(name, 0)) - count(heading) - 1
        if text := row.write(sections, max(room, 0)):  # without any room, what is left out is counted
            texts[name] = heading + text
            sections.know(text)
            left -= count(texts[name]) + 1
    return _within(Rendered(texts, sections.left_out()), budget, count)


def _within(rendered: Rendered, budget: int, count: Count) -> Rendered:
    """Counts of pieces may add up to less than the count of the whole: then what was served last goes."""
    texts = dict(rendered.sections)
    while texts and count(rendered.text()) > budget:
        texts.pop(next(name for name in reversed(SERVED) if name in texts))
        rendered = rendered._replace(sections=texts)
    return rendered
