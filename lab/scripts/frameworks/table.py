"""The table of docs/frameworks.md: a line a framework, written between two marks."""

from __future__ import annotations

from collections.abc import Iterable

import workspace
from frameworks.catalogue import FRAMEWORKS
from frameworks.runs import Comparison, Outcome

PAGE = workspace.ROOT / "docs" / "frameworks.md"
BEGIN, END = "<!-- made by `make frameworks` -->\n", "<!-- end -->"
HEAD = (
    "| framework | with its defaults | its history | with ours | tokens at most | compactions | its history |"
    " replayed |\n"
    "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |\n"
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
        _say(one.defaults),
        f"{one.defaults.kept} of {one.defaults.read}",
        _say(one.ours),
        f"{one.ours.largest:,}",
        f"{one.ours.compactions}",
        f"{one.ours.kept} of {one.ours.read}",
        f"{one.same} of {one.messages}",
    )
    return f"| {' | '.join(cells)} |"


def _say(run: Outcome) -> str:
    if not run.finished:
        return f"ended at request {run.requests + 1}: " + ("refused" if run.refused else run.error or "no answer")
    if not run.refused:
        return f"finished, {run.requests} requests"
    return f"refused {'once' if run.refused == 1 else f'{run.refused} times'}, shortened by itself, finished"
