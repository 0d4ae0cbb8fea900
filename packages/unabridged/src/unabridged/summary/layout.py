"""Write the ledger as text, within a budget of tokens. The layout of a summary turn's body is here.

`LAYOUT` says which sections there are, in which order they stand and what each may take; the words of their headings
are labels in `languages/*.json`. A new section is a row, a label, and a method of `Sections` that writes it. The
frame around it is in `marks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from unabridged.summary.ledger import Action, Ledger
from unabridged.summary.people import Quotations
from unabridged.summary.sections import Sections
from unabridged.text_tools import Count


class SectionLayout(NamedTuple):
    """One section of the summary turn."""

    name: str
    """Its name, and the label of its heading in the language files."""
    write: Callable[[Sections, int], str] | None = None
    """The method that writes it within so many tokens; None where it comes as a whole."""
    share: float = 0.0
    """What it may take of the budget, as far as those before it in `SECTION_ORDER` left it."""
    beside: float = 0.0
    """The same beside a model's prose, which says what was done."""


LAYOUT = (
    SectionLayout("prose"),
    SectionLayout("rules", Sections.rules, beside=0.3),
    SectionLayout("people", Sections.people, beside=1.0),
    SectionLayout("done", Sections.write_story, 1.0),
    SectionLayout("todo", Sections.todo, 0.15, 0.3),
    SectionLayout("checks", Sections.write_checks, 0.08),
    SectionLayout("files", Sections.files, 0.1, 0.15),
    SectionLayout("names", Sections.names, 0.1, 0.05),
    SectionLayout("host_state"),
    SectionLayout("newest"),
)
SECTION_ORDER = ("people", "rules", "todo", "checks", "files", "done", "names")
"""The order in which sections get room. People's words have a room of their own."""
DROP_ORDER = ("names", "files", "checks", "todo", "newest", "rules", "done", "people")
"""What goes first where even the smallest text is too long."""
_MOST_TRIES, _SLACK_TOKENS = 4, 8
"""How often a text that came out too long is made anew, and the tokens by which it is made shorter each time."""
MAX_NAMES_TOKENS = 1_000
"""Tokens of names at most: what next steps turn out to need is hardly among the others, and more are a burden."""


class RenderedLedger(NamedTuple):
    """The text of each section, what of the ledger they do not hold, and which messages of people are quoted."""

    sections: Mapping[str, str]
    left_out: tuple[str, ...]
    quoted: Quotations = Quotations({})

    def text(self, **others: str) -> str:
        """Return the body of the summary turn, with other parts of it in their places."""
        parts = {**self.sections, **others}
        return "\n\n".join(text for row in LAYOUT if (text := parts.get(row.name, "").strip()))


def render_within_budget(
    ledger: Ledger,
    budget: int,
    count: Count,
    *,
    people: int | None = None,
    total: int | None = None,
    kept: Collection[int] = (),
    prose: str = "",
    without: Collection[str] = (),
    later: Sequence[Action] = (),
) -> RenderedLedger:
    """Return the ledger as text: people's words within `people` tokens, the rest within `budget`, both in `total`.

    Without `people`, everything shares the budget, and people's words take up to half of it. `kept` names the turns
    whose own message stays in the context: those are pointed at, not repeated. Beside a model's `prose`, which says
    what was done, only people's words and rules are given, and files and ids that it lacks. `without` names
    sections to leave out; `later` is what was done in messages that stay: it shows whether checks are up to date.
    """
    if people is None:
        people, total = budget // 2, budget
    most = budget + people if total is None else total
    for _ in range(_MOST_TRIES):
        sections = Sections(ledger, count, kept, prose=prose)
        sections.later = later
        sections.quote_people(people)
        rendered = _render_sections(sections, min(budget, most - count(sections.people())), count, without)
        over = count(rendered.text()) - most
        if over <= 0:
            return rendered
        people = max(0, people - over - _SLACK_TOKENS)  # marks around quotations take more than was set aside
    for name in DROP_ORDER:
        if count(rendered.text()) > most:
            left = {key: text for key, text in rendered.sections.items() if key != name}
            rendered = rendered._replace(sections=left)
    if "people" in rendered.sections or "done" in rendered.sections:
        return rendered
    sections.quote_people(0)
    return rendered._replace(left_out=sections.left_out(), quoted=sections.quoted)


def measure_people(ledger: Ledger, room: int, count: Count, *, kept: Collection[int] = (), prose: str = "") -> int:
    """Return what people's words take of the room that they may have, with the heading."""
    sections = Sections(ledger, count, kept, prose=prose)
    sections.quote_people(room)
    heading = count(f"## {sections.heading('people')}\n")
    return count(sections.people()) + heading if sections.quoted.lines else 0


def _render_sections(sections: Sections, budget: int, count: Count, without: Collection[str]) -> RenderedLedger:
    """Return the sections, each within its share of the budget; people's words are quoted already."""
    closing = sections.write_newest_place()
    rows = {row.name: row for row in LAYOUT}
    texts: dict[str, str] = {"newest": closing} if closing else {}
    left = budget - count(closing)
    shares = {row.name: row.beside if sections.prose else row.share for row in LAYOUT}
    if "done" in without:  # people's words, which the story would have told, stand apart
        shares["people"] = rows["people"].beside
    shares["names"] = min(shares["names"], MAX_NAMES_TOKENS / max(budget, 1))
    saved = 0 if "names" in without else int(budget * shares["names"])
    for name in SECTION_ORDER:
        row = rows[name]
        if name in without or row.write is None or not shares[name]:
            continue
        heading = f"## {sections.heading(name)}\n"
        room = min(int(budget * shares[name]), left - (saved if name == "done" else 0)) - count(heading) - 1
        if text := row.write(sections, max(room, 0)):  # without any room, what is left out is counted
            texts[name] = heading + text
            sections.mark_as_shown(text)
            quoted = count(sections.people()) if name in {"people", "done"} else 0
            left -= max(count(texts[name]) + 1 - quoted, 0)
    return RenderedLedger(texts, sections.left_out(), sections.quoted)
