"""How the time of every reader of texts grows with the text: `python lab/scripts/growth.py`, and a part of `make soak`.

Texts made to be slow to read are read at n and at 2n characters. What takes more than 3.2 times as long for the double,
and again from 2n to 4n, is printed, and the exit code is 1. Times are noise on a busy machine: medians of three, and a
few milliseconds count as nothing.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from unabridged import Compactor, Settings, check, repair
from unabridged.archive.secrets import mask
from unabridged.errors import UnabridgedError

N = 20_000
RATIO = 3.2
LITTLE = 0.02
"""Seconds that count as nothing: a pattern that is quadratic takes more."""

PIECES = {
    "blanks": " ", "newlines": "\n", "slashes": "/", "parents": "../", "keys": "sk-", "tokens": "eyJ", "backticks": "`",
    "brackets": "[", "parentheses": "(", "quotes": '"', "apostrophes": "'", "escapes": '\\"', "dotted": "a.a.",
    "hashes": "#", "headings": "### Standing rules\n- a\n", "listed": "- ### Standing rules\n", "executes": "<execute>",
    "runs": "<run ", "dashes": "-", "digits": "1,", "emoji": "\U0001f600", "joiners": "\u200c", "questions": "?",
    "here": "<<a", "files": "(Open file: ", "pem": "-----BEGIN PRIVATE KEY-----", "thanks": "\u8c22\u8c22\u4f60\u554a",
    "capitals": "A", "words": "never a ", "colons": "a:\n\n", "lines": "a\n", "table": "| a ",
}  # fmt: skip


def texts(length: int) -> Iterator[tuple[str, str]]:
    """Yield each piece repeated up to so many characters, between words that begin and end it."""
    for name, piece in PIECES.items():
        run = (piece * (length // len(piece) + 1))[:length]
        yield name, f"Action: a{run}b"
        yield f"{name} in an output", f"<returncode>0</returncode>\n<output>\na{run}b\n</output>"


def rounds(role: str, text: str) -> list[dict[str, Any]]:
    """Generate a conversation in which a person, a model, a tool or the arguments of a call hold this text once."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": text if role == "person" else "Fix the parser."}]
    for i in range(12):
        command = f"cat {text}" if role == "call" and i == 3 else "ls"
        call = {"name": "bash", "arguments": json.dumps({"command": command})}
        said = text if role == "model" and i == 3 else "Looking."
        found = text if role == "tool" and i == 3 else "ok"
        messages += [
            {
                "role": "assistant",
                "content": said,
                "tool_calls": [{"id": f"c{i}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"c{i}", "content": found},
        ]
    return [*messages, {"role": "user", "content": "Go on."}]


def protocol(text: str) -> list[dict[str, Any]]:
    """Generate a conversation in a text protocol whose action and observation hold the text."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the parser."}]
    for i in range(12):
        messages += [
            {"role": "assistant", "content": text if i == 3 else "Look.\n```bash\nls\n```"},
            {"role": "user", "content": f"Observation: {text if i == 5 else 'ok'}"},
        ]
    return messages


def fit(messages: list[dict[str, Any]], model: Callable[[str], str] | None = None) -> None:
    """Run one compaction, whatever the outcome."""
    settings = Settings(trigger=("messages", 8), keep=("messages", 4), retries=0)
    try:
        Compactor(model, window=200_000, archive="memory:", settings=settings).fit(messages, thread="t")
    except UnabridgedError:
        return


READERS: dict[str, Callable[[str], object]] = {
    "a person's turn": lambda text: fit(rounds("person", text)),
    "a model's turn": lambda text: fit(rounds("model", text)),
    "a tool's answer": lambda text: fit(rounds("tool", text)),
    "a call": lambda text: fit(rounds("call", text)),
    "a text protocol": lambda text: fit(protocol(text)),
    "a reply": lambda text: fit(rounds("", ""), lambda _: text),
    "mask": mask,
    "check": lambda text: check(rounds("tool", text)),
    "repair": lambda text: repair(rounds("model", text)),
}


def seconds(read: Callable[[str], object], text: str) -> float:
    """Return the median of three; each text differs, because readers cache what they read."""
    taken = []
    for i in range(3):
        begun = time.perf_counter()
        read(f"{text}{i} {time.time_ns()}")
        taken.append(time.perf_counter() - begun)
    return median(taken)


def grows(read: Callable[[str], object], short: str, long: str) -> float:
    """Return how many times as long the longer text takes."""
    return seconds(read, long) / max(seconds(read, short), LITTLE)


def too_fast(length: int = N) -> list[str]:
    """Return a line for each reader that is slower than linear from n to 2n, and again from 2n to 4n."""
    found = []
    sizes = (texts(length), texts(2 * length), texts(4 * length))
    for (name, short), (_, long), (_, longest) in zip(*sizes, strict=True):
        for reader, read in READERS.items():
            if (first := grows(read, short, long)) > RATIO and (again := grows(read, long, longest)) > RATIO:
                found.append(f"{reader}, {name}: {first:.1f} and {again:.1f} times as long for twice the {length:,}")
    return found


def main() -> int:
    """Print what grows too fast."""
    logging.disable(logging.CRITICAL)
    found = too_fast()
    print("\n".join(found) or f"{len(READERS)} readers of {2 * len(PIECES)} texts: none grows faster than its text")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
