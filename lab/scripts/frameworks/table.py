"""The table of docs/frameworks.md: a line a framework, written between two marks."""

from __future__ import annotations

from collections.abc import Iterable

import workspace
from frameworks.catalogue import FRAMEWORKS
from frameworks.runs import REPORTS, Comparison, Outcome

PAGE = workspace.ROOT / "docs" / "frameworks.md"
BEGIN, END = "<!-- made by `make frameworks` -->\n", "<!-- end -->"
HEAD = (
    "| framework | with its defaults | with ours | compactions | its own history then | back from the archive |\n"
    "| --- | --- | --- | ---: | ---: | ---: |\n"
)


def lines_of(page: str) -> dict[str, str]:
    """Return the table's lines by the framework's name as people write it."""
    rows = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    return {row[3:].partition("]")[0]: row for row in rows if row.startswith("| [")}


def update(page: str, comparisons: Iterable[Comparison]) -> str:
    """Return the page with the lines of these frameworks in the place of their old ones."""
    lines = lines_of(page) | {one.title: _line(one) for one in comparisons}
    rows = [lines[framework.title] for framework in FRAMEWORKS.values() if framework.title in lines]
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{HEAD}" + "".join(f"{row}\n" for row in rows) + f"\n{END}{rest.partition(END)[2]}"


def _line(one: Comparison) -> str:
    link = f"[{one.title}](#{one.title.lower().replace(' ', '-')})"
    versions = ", ".join(f"{name} {number}" for name, number in one.versions.items())
    cells = (
        f"{link}: {versions}",
        _say_defaults(one.defaults),
        _say_ours(one.ours),
        str(one.ours.compactions),
        f"{one.ours.kept} of {REPORTS} reports",
        f"{one.same} of {one.messages} messages",
    )
    return f"| {' | '.join(cells)} |"


def _say_defaults(run: Outcome) -> str:
    left = f"its history has {run.kept} of {run.read} reports"
    if run.finished and not run.refused:
        return f"finished, none refused; {left}"
    if run.finished:
        return f"refused {_times(run.refused)}, shortened by itself, finished; {left}"
    return f"refused at request {run.requests + 1}, ended; {left}"


def _say_ours(run: Outcome) -> str:
    refused = "none refused" if not run.refused else f"refused {_times(run.refused)}"
    ended = "finished" if run.finished else f"ended ({run.error or 'without an answer'})"
    return f"{ended}, {run.requests} requests of at most {run.largest:,} tokens, {refused}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
