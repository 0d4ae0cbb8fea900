"""Draw misses of `tasks` at random, as files for readers who judge whether the agent would have had to fetch again.

    python -m benchmarks.draw_misses --data FOLDER --out FOLDER [--count 30] [--seed 0]

Each file shows a call, the source of lines that it copies, and the request that lacked them, shortened, without the
name of the arm. `key.json` has the names. Drawn are arms, windows and conversations with equal chances, then one fetch
of that run; of runs that were refused, one before the refusal.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import data
from benchmarks.bench import Bench, Job, start_of
from benchmarks.driver import Process
from benchmarks.parts.tasks import WINDOWS
from benchmarks.tasks import replay_one
from unabridged_corpus.evaluate.score import join_argument_values
from unabridged_corpus.evaluate.task_cost import MeasuredMessage, Miss

QUESTION = "Would the agent have had to fetch this again?"
AROUND, EACH, WHOLE = 1_500, 1_000, 40_000
"""Characters that are shown of a call or a source, of a result in the request, and of the request."""
FIRST = 4
"""Messages at the beginning of the request that are shown in any case."""


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("BENCH_DATA"), help="folder of JSON Lines files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    key = {}
    for number, (job, one, miss) in enumerate(draw(Bench(options.data), options.count, options.seed), 1):
        name = f"{number:02}.md"
        (options.out / name).write_text(describe(number, one, miss), encoding="utf-8")
        key[name] = {
            "arm": job.arm,
            "window": job.window,
            "conversation": one.name,
            "lines": [each.line for each in miss.needs],
        }
        print(name, key[name])
    (options.out / "key.json").write_text(json.dumps(key, indent=1), encoding="utf-8")


def draw(bench: Bench, count: int, seed: int) -> Iterator[tuple[Job, data.Recorded, Miss]]:
    """Yield so many misses, each of another run and another place."""
    chance = random.Random(seed)  # noqa: S311 - drawing, not secrets
    jobs = [bench.job(arm, window) for arm in bench.compared for window in WINDOWS]
    chosen = data.chosen(bench.folder, even=False, limit=bench.limit, most=bench.most)
    runs = [(job, one) for job in jobs for one in chosen if one.task().needs]
    chance.shuffle(runs)
    seen: set[tuple[str, int, int]] = set()
    for job, one in runs:
        found: list[Miss] = []
        with Process(job.peer) as process:
            replay_one(process, one, found.append, **start_of(job))
        fetches = {(one.name, miss.needs[0].place, miss.needs[0].source.place): miss for miss in found}
        if new := sorted(set(fetches) - seen):
            drawn = chance.choice(new)
            seen.add(drawn)
            yield job, one, fetches[drawn]
        if len(seen) == count:
            return


def describe(number: int, one: data.Recorded, miss: Miss) -> str:
    """Return a miss as a page for a reader."""
    need, source = miss.needs[0], miss.needs[0].source
    call = one.lines[need.place].view
    lines = "\n".join(each.line for each in miss.needs)
    words = dict.fromkeys(re.findall(r"\w{3,}", lines))
    shown = "\n".join(message.folded for message in miss.request)
    gone = [word for word in words if word not in shown]
    said = "\n".join([call.text, *(f"{it.name}\n{join_argument_values(it.arguments)}" for it in call.calls)])
    asked = source.asked if isinstance(source.asked, str) else f"{source.asked.name} {source.asked.arguments}"
    return f"""# Miss {number}

**{QUESTION}** Answer yes or no, with the reason in one sentence.

The lines of the source that the call copies, and that stand nowhere in the request:

{fenced(lines)}

Of their {len(words)} words, the request lacks {len(gone)}: {", ".join(gone[:40]) or "none"}.

## The call (message {need.place} of the recording)

{fenced(around(said, need.line))}

## The source: what was asked (message {source.place - 1} or before)

{fenced(around(asked, need.line))}

## The source: its result (message {source.place}, {len(source.text):,} characters), around the line

{fenced(around(source.text, need.line))}

## The request that was sent for the call, and lacks the lines ({len(miss.request)} messages)

{fenced(request(miss.request))}
"""


def around(text: str, line: str) -> str:
    """Return the part of a text around a line of it; its beginning where the line is not in it."""
    found = re.search(r"\s+".join(map(re.escape, line.split())), text)
    start = max(0, (found.start() if found else 0) - AROUND // 2)
    end = start + AROUND
    return f"{'[…] ' if start else ''}{text[start:end]}{' […]' if end < len(text) else ''}"


def request(messages: Sequence[MeasuredMessage]) -> str:
    """Return the first messages and as many of the last as there is room for, of long ones the ends."""
    texts = [f"--- {one.view.role}\n{ends(one.view.whole_text(), one.view.role)}" for one in messages]
    first, rest, last = texts[:FIRST], texts[FIRST:], list[str]()
    room = WHOLE - sum(map(len, first))
    while rest and (room := room - len(rest[-1])) >= 0:
        last.insert(0, rest.pop())
    return "\n".join([*first, *([f"[… {len(rest)} messages …]"] if rest else []), *last])


def ends(text: str, role: str) -> str:
    """Return both ends of a long text; of what is no result most of it, since it may be a summary."""
    most = EACH if role == "tool" else 5 * EACH
    return text if len(text) <= most else f"{text[: most // 2]}\n[… characters left out …]\n{text[-most // 2 :]}"


def fenced(text: str) -> str:
    """Return the text in a fence that nothing in it closes."""
    return f"``````text\n{text}\n``````"


if __name__ == "__main__":
    main()
