"""The ledger as text, within a budget of tokens. The layout of a summary turn's body is here.

`LAYOUT` says which sections there are and in which order they stand; the words of their headings are labels in
`languages/*.json`. `SERVED` says who gets how much of the room, and in which order. A new section is a row in each,
a label, and a method of `Lines` that gives its candidates. The frame around it is in `marks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from unabridged.ledger.entries import Ledger
from unabridged.ledger.lines import DECIDED, Lines
from unabridged.ledger.page import Item, Line, Page, Section
from unabridged.text_tools import Count


class Row(NamedTuple):
    """One section of the summary turn."""

    name: str
    heading: str = ""
    """The label of its heading in the language files."""
    candidates: Callable[[Lines], Iterable[Line | Item]] | None = None
    """Its lines, most important first; None where it comes as a whole."""
    counted: str = ""
    """What its entries are called when the receipt says how many found no place."""
    story: bool = False
    """Whether it tells what was done and said: with a model, its prose does."""
    rest: Callable[[Lines, Sequence[Any]], Line | None] | None = None
    """A line on what found no place."""
    optional: bool = True
    """Whether the host can leave it out (`Settings.without`)."""


LAYOUT = (
    Row("open", "open", Lines.open_requests, "open requests", optional=False),
    Row("finished", "finished", Lines.finished, "finished requests", rest=Lines.more_requests),
    Row("rules", "rules", Lines.rules, "standing rules", optional=False),
    Row("passing", "passing", Lines.passing),
    Row("done", "done", Lines.done, "actions", story=True, rest=Lines.more_actions),
    Row("failures", "faults", Lines.failures, "failures", story=True),
    Row("notes", "notes", Lines.notes, "notes"),
    Row("sayings", "sayings", Lines.sayings, "sayings"),
    Row("state", "state", Lines.state, story=True),
    Row("files", "files", Lines.files, "files"),
    Row("names", "names", Lines.names, "names"),
    Row("own_words"),
    Row("prose", optional=False),
    Row("host_state", optional=False),
)
OPTIONAL = tuple(row.name for row in LAYOUT if row.optional)


class Serving(NamedTuple):
    """Room for a section: a share of the budget, at first without what is `lesser`."""

    section: str
    share: float
    lesser: bool = False
    shorten: bool = True
    """Whether its first line may be shortened."""


def _helping(share: float, *, lesser: bool = False) -> Iterable[Serving]:
    """A little for each, so that no section starves the others."""
    for section in ("rules", "notes", "done", "finished", "failures", "files", "names"):
        yield Serving(section, share, lesser)


# What a reader must have comes first, then what the next steps will name. What is left goes in small helpings, what was
# hardly met last. Tuned together on recorded coding sessions; small changes hardly matter.
SERVED = (
    Serving("open", 0.60, shorten=False),
    Serving("rules", 0.35),
    Serving("open", 1.00),
    Serving("notes", DECIDED),
    Serving("sayings", 1.00),
    Serving("state", 0.07),
    Serving("finished", 0.06),
    Serving("done", 0.14),
    Serving("notes", 0.06, lesser=True),
    Serving("failures", 0.04),
    Serving("files", 0.26),
    Serving("names", 0.45),
    *_helping(0.05),
    *_helping(0.05),
    Serving("passing", 0.10),
    *_helping(0.10, lesser=True),
    *_helping(0.20, lesser=True),
    *_helping(1.00, lesser=True),
)
_POINTERS = 48
"""Tokens put by for where the rest stands."""


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
    story: bool = True,
    spoken: Collection[int] = (),
    without: Collection[str] = (),
) -> Rendered:
    """The ledger within `budget` tokens as `count` counts them; never more, however small the budget.

    `kept` names the turns whose own message stays in the context: those are pointed at, not repeated. Without
    `story`, what was done and said is left to the prose. `spoken` names the turns whose words the summary turn gives in
    full elsewhere, `without` the sections that are not wanted.
    """
    page = Page(budget, count)
    lines = Lines(ledger, budget, count, kept=kept, spoken=spoken, story=story)
    for request in ledger.requests:
        if request.turn in lines.kept | lines.spoken:
            page.know(request.text)
    for row in LAYOUT:
        if row.candidates is not None:
            wanted = row.name not in without and (story or not row.story)
            page.sections[row.name] = Section(lines.heading(row.heading), row.candidates(lines) if wanted else ())
    page.left -= (spare := min(budget // 20, _POINTERS))
    for serving in SERVED:
        page.fill(page.sections[serving.section], serving.share, lesser=serving.lesser, shorten=serving.shorten)
    page.left += spare
    for row in LAYOUT:
        section = page.sections.get(row.name)
        if row.rest and section and (line := row.rest(lines, section.waiting)) and section.lines:
            page.add(section, line, page.left)
    page.fill(page.sections["names"], 1.0, lesser=True)
    left = ((row.counted, len(page.sections[row.name].waiting)) for row in LAYOUT if row.counted)
    return Rendered(page.texts(), tuple(f"{number} {what}" for what, number in left if number))
