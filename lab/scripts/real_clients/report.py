"""Print the results of the real clients, and write them as a page: `docs/clients_measured.md`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from real_clients.grown import Check
from real_clients.packages import PACKAGES
from real_clients.recorded import Outcome
from unabridged_corpus.evaluate.score import NeedsScore

PAGE = Path(__file__).resolve().parents[3] / "docs" / "clients_measured.md"
HEAD = """\
# What real clients have after a compaction

<!-- made by `make clients`: run it again, don't change this page -->

Recorded sessions of a coding agent up to a compaction, each seeded as a session of the client at the size it had and
resumed. The client compacts by itself and gets the summary that a model wrote then, the same with and without
`unabridged install`. Measured is the first request that the client sends afterwards. Claude Code and Codex keep that
summary, and the hook adds to it; pi takes ours in its place, which no model wrote, and keeps about 20,000 tokens of the
end besides.

- **needed**: file names and identifiers of the next 60 calls, as recorded, that stood before the compaction and that
  the context still holds. Plain strings: whether a model makes use of them is not measured here.
- **people**: messages of people, of the whole conversation, that stand in the context word for word. One that is longer
  than what the hook may add is there by its beginning and its end, and not counted.
- **archived**: texts and tool results of the session that the archive has word for word.
- **found again**: of what is needed and no longer stands in the context, what a search for it in that archive shows.
- **tokens**: of the whole request, characters / 4; in the last row their average.
"""


def say(title: str, checks: Iterable[Check]) -> int:
    """Print checks as they come; how many do not hold."""
    print(f"\n{title}", flush=True)
    wrong = 0
    for check in checks:
        wrong += not check.holds
        detail = f": {check.detail}" if check.detail and not check.holds else ""
        print(f"  {'ok ' if check.holds else 'NOT'} {check.what}{detail}", flush=True)
    return wrong


def say_outcome(outcome: Outcome) -> None:
    """Print one run."""
    who = f"{outcome.client} {_who(outcome)}"
    numbers = f"needed {_needed([outcome])}, people {_of(outcome.people)}"
    numbers += f", archived {_of(outcome.archived)}, found again {_of(outcome.found)}" if outcome.ours else ""
    print(f"  {outcome.name} {who}: {numbers}, {outcome.tokens:,} tokens {outcome.trouble}", flush=True)


def _who(outcome: Outcome) -> str:
    return "with ours" if outcome.ours else "alone"


def page(outcomes: Sequence[Outcome]) -> str:
    """Return the page: a table for each client, a row for each session, and the totals."""
    parts = [HEAD, f"Clients: {', '.join(package for _, package in PACKAGES.values())}.\n"]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(run.name for run in outcomes), 1)}
    for client in dict.fromkeys(outcome.client for outcome in outcomes):
        runs = [outcome for outcome in outcomes if outcome.client == client]
        parts.append(f"\n## {client}\n")
        parts.append("| session | needed: alone | with | people: alone | with | archived | found again | tokens |")
        parts.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
        parts += [_row(str(number), [run for run in runs if run.name == name]) for name, number in numbers.items()]
        parts.append(_row("**all**", runs))
        parts += [f"\n{numbers[run.name]} {_who(run)}: {run.trouble.strip()}." for run in runs if run.trouble]
    return "\n".join(parts) + "\n"


def _row(name: str, runs: Sequence[Outcome]) -> str:
    alone, ours = ([run for run in runs if run.ours is with_us and run.tokens] for with_us in (False, True))

    def cell(get: Callable[[Outcome], tuple[int, int]], some: Sequence[Outcome]) -> str:
        return _of((sum(get(run)[0] for run in some), sum(get(run)[1] for run in some))) if some else "-"

    cells = [name, _needed(alone), _needed(ours)]
    cells += [cell(lambda run: run.people, some) for some in (alone, ours)]
    cells += [cell(lambda run: run.archived, ours), cell(lambda run: run.found, ours), _tokens(alone, ours)]
    return f"| {' | '.join(cells)} |"


def _tokens(alone: Sequence[Outcome], ours: Sequence[Outcome]) -> str:
    if not alone or not ours:
        return "-"
    before, after = (sum(run.tokens for run in some) // len(some) for some in (alone, ours))
    return f"{before:,} → {after:,}"


def _needed(runs: Sequence[Outcome]) -> str:
    held = sum(run.needs.files + run.needs.names for run in runs)
    of = sum(run.needs.files_needed + run.needs.names_needed for run in runs)
    return _of((held, of)) if runs else "-"


def _of(numbers: tuple[int, int]) -> str:
    return f"{numbers[0]} of {numbers[1]}"


def keep(outcomes: Iterable[Outcome], path: Path) -> None:
    """Write everything about every run as JSON, with the words that were lost; the file is not part of the project."""
    path.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1), encoding="utf-8")
    path.chmod(0o600)


def code_digest() -> str:
    """Return a digest of our code and of these scripts, so that results of different code are not mixed."""
    root = PAGE.parents[1]
    digest = hashlib.sha256()
    for path in sorted(
        path for folder in ("packages", "lab/scripts/real_clients") for path in (root / folder).rglob("*")
    ):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def read_kept(path: Path) -> dict[tuple[str, str, bool], Outcome]:
    """Return what `keep` wrote, by session, client and whether with ours; nothing when the file does not exist."""
    found = {}
    for facts in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else ():
        pairs = {name: tuple(facts[name]) for name in ("people", "archived", "found", "lost")}
        outcome = Outcome(**(facts | pairs | {"needs": NeedsScore(**facts["needs"])}))
        found[outcome.name, outcome.client, outcome.ours] = outcome
    return found
