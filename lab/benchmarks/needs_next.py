"""What the agent needs next and still has: the model-free summary and a plain tail of the same size, on real data.

    python -m benchmarks.needs_next FOLDER [--every 24000] [--budget 1000 --budget 3000]

Each conversation is cut every so many tokens. The summary turn is made at the cut, within the budget, from all that
stood before it: at once, and as compaction after compaction would. It is scored together with what stays beside it,
the system prompt and the newest message of a person. Even and odd conversations are told apart: what is tuned is tuned
on even ones.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unabridged.authorship import assign_origins
from unabridged.engine.plan import find_newest_person_message
from unabridged.formats import detect_message_format
from unabridged.messages import View
from unabridged.summary.gather import gather_ledger
from unabridged.summary.layout import render_within_budget
from unabridged.summary.ledger import Ledger
from unabridged_corpus.evaluate.score import Needs, NeedsScore, average_shares, count_held_needs, find_cuts, find_needs

Count = Callable[[str], int]


class Cut(NamedTuple):
    """One cut of one conversation."""

    conversation: str
    even: bool
    before: Sequence[View]
    kept: tuple[int, ...]
    needed: Needs


def conversations(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield every conversation in the folder's JSON Lines files, with its name."""
    for path in sorted(folder.glob("*.jsonl")):
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            data = json.loads(line)
            yield f"{path.stem}:{data.get('id', i)}", data["messages"]


def all_cuts(folder: Path, every: int, *, most: int | None = None) -> Iterator[Cut]:
    """Yield every cut after which something is needed."""
    for number, (name, messages) in enumerate(conversations(folder)):
        if most is not None and number >= most:
            return
        places = find_cuts(messages, every)
        if not places:
            continue
        format_ = detect_message_format(messages)
        views = assign_origins([format_.read(message) for message in messages])
        for place in places:
            needed = find_needs(messages[:place], messages[place:])
            if needed.files or needed.names:
                following = next((view for view in views[place:] if view.origin != "host"), None)
                answered = following is not None and following.origin == "person"
                kept = () if answered else tuple(find_newest_person_message(views[:place]))
                yield Cut(name, number % 2 == 0, views[:place], kept, needed)


def at_once(cut: Cut, budget: int, count: Count) -> str:
    """Return one summary of everything."""
    return render_within_budget(gather_ledger(cut.before), budget, count, kept=cut.kept).text()


class Rolling:
    """A summary made from the previous one at each cut, as in a long conversation."""

    def __init__(self) -> None:
        self._standing: dict[str, tuple[int, Ledger]] = {}

    def __call__(self, cut: Cut, budget: int, count: Count) -> str:
        """Return the summary at this cut, made from the ledger of the previous cut and the messages since."""
        start, prior = self._standing.get(cut.conversation, (0, None))
        ledger = gather_ledger(cut.before[start:], prior=prior, first_turn=start)
        self._standing[cut.conversation] = (len(cut.before), ledger)
        return render_within_budget(ledger, budget, count, kept=cut.kept).text()


def plain_tail(cut: Cut, budget: int, count: Count) -> str:
    """Return the last messages, as many as fit the budget."""
    kept: list[str] = []
    for view in reversed(cut.before):
        text = view.whole_text()
        if count("\n".join([text, *kept])) > budget:
            break
        kept.insert(0, text)
    return "\n".join(kept)


def rows(
    folder: Path, *, every: int = 24_000, budgets: Sequence[int] = (1_000, 3_000), most: int | None = None
) -> list[dict[str, Any]]:
    """Return a row for each way and budget: the shares of files and names it kept, averaged over conversations."""
    count = counter()
    found = list(all_cuts(folder, every, most=most))
    table = []
    for budget in budgets:
        for name, way in (("summary", at_once), ("summary, rolling", Rolling()), ("plain tail", plain_tail)):
            scores: dict[bool, dict[str, list[NeedsScore]]] = {True: {}, False: {}}
            for cut in found:
                text = way(cut, budget, count)
                if count(text) > budget:
                    raise AssertionError(f"{name} took {count(text)} of {budget} tokens in {cut.conversation}")
                beside = [view.text for view in cut.before if view.role == "system"]
                beside += [cut.before[i].text for i in cut.kept or _last_person(cut.before)]
                score = count_held_needs("\n".join([text, *beside]), cut.needed)
                scores[cut.even].setdefault(cut.conversation, []).append(score)
            table.append(_row(name, budget, scores))
    return table


def _last_person(views: Sequence[View]) -> tuple[int, ...]:
    return tuple(i for i, view in enumerate(views) if view.origin == "person")[-1:]


def _row(name: str, budget: int, scores: dict[bool, dict[str, list[NeedsScore]]]) -> dict[str, Any]:
    both = {**scores[True], **scores[False]}
    row: dict[str, Any] = {"tokens": budget, "way": name, "conversations": len(both)}
    for label, part in (("all", both), ("even", scores[True]), ("odd", scores[False])):
        files, names = average_shares(part)
        row[f"files, {label}"], row[f"names, {label}"] = f"{files:.1%}", f"{names:.1%}"
    return row


def counter() -> Count:
    """Return the exact o200k counter where the tokenizer is installed, else one by characters / 3.5, with a warning."""
    try:
        import toktok  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra, only for exact counts
    except ImportError:
        print("toktok-rs is not installed: tokens are characters / 3.5", file=sys.stderr)
        return lambda text: int(len(text) / 3.5) + 1
    return lambda text: int(toktok.batch_count([text.encode("utf-8", "replace").decode()], "o200k_base", 1)[0])


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """Return the rows of the folder that `BENCH_DATA` names, or none when it is not set."""
    folder = os.environ.get("BENCH_DATA")
    return rows(Path(folder), most=20 if quick else None) if folder else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="conversations as JSON Lines, each with `messages`")
    parser.add_argument("--every", type=int, default=24_000, help="tokens (characters of JSON / 4) between cuts")
    parser.add_argument("--budget", type=int, action="append", help="tokens for the summary turn; may be repeated")
    options = parser.parse_args(arguments)
    table = rows(options.folder, every=options.every, budgets=options.budget or (1_000, 3_000))
    heads = list(table[0]) if table else []
    for cells in (heads, ["---"] * len(heads), *([str(row[head]) for head in heads] for row in table)):
        print(f"| {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
