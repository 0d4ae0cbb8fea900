"""Print the summary turns that conversations would get, as a person or an agent reads them: Markdown.

    python lab/scripts/print_summary_turns.py FOLDER_OR_FILE [--turns 10] [--budget 1000] [--every 24000]

Model-free, each turn made by way of all compactions before it. `docs/summary-turns.md` is made with it from the
conversations in `examples/`, which were written for this project.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from unabridged.engine.cut import find_safe_indices
from unabridged.engine.plan import find_newest_person_message
from unabridged.languages.detection import detect_language
from unabridged.marks import format_summary_turn
from unabridged_corpus.evaluate.arms import build_unabridged_arm
from unabridged_corpus.evaluate.cut_points import CutPoint, make_token_counter
from unabridged_corpus.evaluate.data import EvalConversation, read_conversations
from unabridged_corpus.evaluate.score import Needs, find_cuts


def all_cuts(conversation: EvalConversation, every: int) -> Iterator[CutPoint]:
    """Yield the conversation at each point where a window of this size is full, or at its end if it never is.

    As in a compaction, no call is separated from its results, and the newest message of a person is kept.
    """
    views = conversation.views
    safe = find_safe_indices(views)
    full = find_cuts(conversation.messages, every) or [len(views) - 1]
    for place in dict.fromkeys(safe[bisect_right(safe, place) - 1] for place in full):
        if place:
            answered = views[place].origin == "person"
            kept = () if answered else tuple(find_newest_person_message(views[:place]))
            yield CutPoint(conversation, place, kept, Needs(frozenset(), frozenset()))


def turn_of(moments: Sequence[CutPoint], budget: int) -> tuple[str, int]:
    """Return the summary turn at the last of these cuts, built through all cuts before it, and its tokens."""
    count, _ = make_token_counter()
    arm = build_unabridged_arm(budget, count)
    text = [arm(moment) for moment in moments][-1]
    language = detect_language(view.text for view in moments[-1].before if view.origin == "person")
    return format_summary_turn("0" * 12, text, 0, moments[-1].place, language), count(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="a file or a folder of conversations")
    parser.add_argument("--turns", type=int, default=10, help="how many; spread over the cuts there are")
    parser.add_argument("--budget", type=int, default=1_000, help="tokens of each")
    parser.add_argument("--every", type=int, default=24_000, help="tokens (characters of JSON / 4) between cuts")
    options = parser.parse_args(arguments)
    places = [
        moments[: place + 1]
        for moments in (list(all_cuts(found, options.every)) for found in read_conversations(options.data))
        for place in range(len(moments))
    ]
    fence = "`" * 8
    for number in range(min(options.turns, len(places))):
        moments = places[number * len(places) // min(options.turns, len(places))]
        text, tokens = turn_of(moments, options.budget)
        name = f"{moments[-1].conversation.name}, compaction {len(moments)}"
        print(f"## {name}\n\n{tokens:,} tokens\n\n{fence}text\n{text}\n{fence}\n")
        behind = "\n".join(f"[{i}] {moments[-1].before[i].text.strip()}" for i in moments[-1].kept)
        if behind:
            print(f"Right behind it, as its own message:\n\n{fence}text\n{behind}\n{fence}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
