"""The ledger as text, within a budget of tokens. The layout of a summary turn is here and nowhere else.

`LAYOUT` says which sections there are and in which order they stand; the words of their headings are labels in
`languages/*.json`. `SERVED` says who gets how much of the room, and in which order. A new section is a row in each,
a label, and a method of `Lines` that gives its candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from unabridged.ledger.entries import Ledger
from unabridged.ledger.lines import LESSER, Lines
from unabridged.ledger.page import Item, Line, Page, Section, Shorten
from unabridged.text_tools import Count


class Row(NamedTuple):
    """One section of the summary turn."""

    name: str
    heading: str = ""
    """The label of its heading in the language files."""
    candidates: Callable[[Lines], Iterator[Line] | Iterator[Item] | Iterator[Line | Item]] | None = None
    """Its lines, most important first; None where it comes as a whole."""
    counted: str = ""
    """What its entries are called when the receipt says how many found no place."""
    story: bool = False
    """Whether it tells what was done and said: with a model, its prose does."""
    piecemeal: bool = False
    """Whether its entries are so short that they are bought one by one."""
    rest: Callable[[Lines], Line | None] | None = None
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
    Row("notes", "notes", Lines.notes, "notes", story=True),
    Row("sayings", "sayings", Lines.sayings, "sayings"),
    Row("state", "state", Lines.state, story=True),
    Row("files", "files", Lines.files, "files", piecemeal=True),
    Row("names", "names", Lines.names, "names", piecemeal=True),
    Row("decided", optional=False),
    Row("own_words"),
    Row("prose", optional=False),
    Row("host_state", optional=False),
)
OPTIONAL = tuple(row.name for row in LAYOUT if row.optional)


class Serving(NamedTuple):
    """Room for a section: a share of the budget, of a small and of a large one, for entries of at least this rank."""

    section: str
    small: float
    large: float
    least: float = 0.05
    shorten: Shorten = "first"
    adapt: Callable[[Lines, float], float] | None = None
    """The share that it comes to for these lines."""


def _helping(share: float, least: float) -> Iterator[Serving]:
    """A little for each, so that no section starves the others."""
    for section in ("rules", "notes", "done", "finished", "failures", "files", "names"):
        yield Serving(section, share, share, least, "first" if least else "all")


# What a reader must have comes first, then what the next steps will name. What is left goes in small helpings, what was
# hardly met last. Tuned together on recorded coding sessions; small changes hardly matter.
SERVED = (
    Serving("open", 0.60, 0.60, shorten="none"),
    Serving("rules", 0.35, 0.35),
    Serving("open", 1.00, 1.00),
    Serving("notes", 0.13, 0.15, adapt=Lines.share_of_decisions),
    Serving("sayings", 1.00, 1.00),
    Serving("state", 0.07, 0.07),
    Serving("finished", 0.05, 0.08),
    Serving("done", 0.14, 0.10, adapt=Lines.share_of_actions),
    Serving("notes", 0.06, 0.06),
    Serving("failures", 0.04, 0.04),
    Serving("files", 0.26, 0.18),
    Serving("names", 0.44, 0.50),
    *_helping(0.04, 0.05),
    *_helping(0.04, 0.04),
    *_helping(0.06, 0.02),
    Serving("passing", 0.10, 0.10),
    *_helping(0.10, LESSER),
    *_helping(0.10, 0.005),
    *_helping(0.20, 0.001),
    *_helping(1.00, 0.0),
)
_SMALL, _LARGE = 1_000, 3_000
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
    lines = Lines(ledger, page, kept, spoken)
    for row in LAYOUT:
        if row.candidates is not None:
            wanted = row.name not in without and (story or not row.story)
            candidates = row.candidates(lines) if wanted else ()
            page.sections[row.name] = Section(lines.heading(row.heading), candidates, piecemeal=row.piecemeal)
    page.left -= (spare := min(budget // 20, _POINTERS))
    for serving in SERVED:
        share = between((serving.small, serving.large), budget)
        share = share if serving.adapt is None else serving.adapt(lines, share)
        if share:
            page.fill(page.sections[serving.section], share, serving.least, serving.shorten)
    page.left += spare
    lines.drop_failures_told_twice()
    for row in LAYOUT:
        if row.rest is not None and row.name not in without and (line := row.rest(lines)) is not None:
            page.add(page.sections[row.name], line, page.left)
    page.fill(page.sections["names"], 1.0)
    sections = page.texts()
    left = ((row.counted, len(page.sections[row.name].left())) for row in LAYOUT if row.counted)
    return Rendered(sections, tuple(f"{number} {what}" for what, number in left if number))


def between(shares: tuple[float, float], budget: int) -> float:
    """The share for this budget: the first up to a small one, the second from a large one on, and between them."""
    way = min(max((budget - _SMALL) / (_LARGE - _SMALL), 0.0), 1.0)
    return shares[0] + (shares[1] - shares[0]) * way
