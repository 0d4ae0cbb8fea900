"""The fake summarisers that every arm gets: deterministic, without network and packages.

`echo` is a perfect memory of what it was shown, the ceiling: its reply is a mark that the scorer replaces by all of it.
`extractive` picks lines of the conversation by Luhn's rule (1958) within a token budget, at most ten words of each, so
that nothing is copied at length. Both write as much, however much is asked for. The rest are faults, named as a user
would name them.
"""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

WORKING = ("extractive", "echo")
FAULTS = (
    "connection lost",
    "time-out",
    "429",
    "hangs",
    "empty",
    "blank",
    "refusal",
    "tool call",
    "cut off",
    "error text",
    "longer than its input",
)
HANG = 2.0
"""Seconds that stand for ever."""
MARK = re.compile(r"memorymark(\d{4})")
_TAGS = re.compile(r"^(?:<[^>]*>|(?:Human|AI|Tool|System): )|</[^>]*>$")
"""What peers put around a message on its own first and last line."""
_DIGITS = re.compile(r"[\d\W_]+")
_WORDS = (
    "all",
    "of",
    "it",
    "is",
    "kept",
    "here",
    "and",
    "can",
    "be",
    "read",
    "again",
    "as",
    "it",
    "was",
    "said",
    "in",
    "that",
    "order",
    "with",
    "each",
    "name",
    "and",
    "why",
    "so",
)
_LEAST = 3
"""How often a word is said before it counts as one of the themes."""


class RateLimitError(Exception):
    """The error of an SDK for status 429."""

    status_code = 429


@dataclass(frozen=True, slots=True)
class Said:
    """One reply; `stop` is `end`, `length`, `tool` or `refusal`."""

    text: str
    stop: str = "end"
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """One call: what was shown, what came back, when; `live` are the messages of the agent's own prompt, if any."""

    shown: str
    reply: str
    live: tuple[Any, ...]
    began: float
    ended: float


@dataclass
class Fake:
    """A summariser of this kind that writes about `budget` tokens, takes `seconds`, and keeps every call."""

    kind: str = "extractive"
    budget: int = 500
    seconds: float = 0.0
    calls: list[Asked] = field(default_factory=list)
    heard: set[str] = field(default_factory=set)
    """Every line of the conversation: instructions and marks around it are not picked, as no real model would."""

    def hear(self, messages: Iterable[dict[str, Any]]) -> None:
        """Remember the conversation's own lines."""
        self.heard |= {line.strip() for message in messages for line in text_of(message).splitlines()}

    def __call__(self, shown: str, live: tuple[Any, ...] = ()) -> Said:
        """Return the reply to a prompt; a fault may raise instead."""
        began = time.perf_counter()
        said = Said("")
        try:
            if self.seconds:
                time.sleep(self.seconds)
            said = self._reply("\n".join([*map(text_of, live), shown]))
            self.heard |= set(said.text.splitlines())
        finally:
            self.calls.append(Asked(shown, said.text, live, began, time.perf_counter()))
        return said

    def _reply(self, shown: str) -> Said:
        if self.kind == "extractive":
            return Said(extract(shown, self.budget, self.heard))
        if self.kind == "echo":
            return Said(f"memorymark{len(self.calls):04} {_filler(4 * self.budget, len(self.calls))}")
        return _fault(self.kind, shown)


def _fault(kind: str, shown: str) -> Said:
    errors: dict[str, Exception] = {
        "connection lost": ConnectionError("connection reset by peer"),
        "time-out": TimeoutError("no answer within 600 s"),
        "429": RateLimitError("rate limit reached, status 429"),
    }
    replies = {
        "empty": Said(""),
        "blank": Said(" \n\n "),
        "refusal": Said("I'm sorry, but I can't help with that.", "refusal"),
        "tool call": Said("", "tool", 1),
        "cut off": Said("## Goals and constraints\nThe user wants", "length"),
        "error text": Said("Error: upstream service unavailable (503)"),
        "longer than its input": Said(f"{shown}\n{shown}"),
    }
    if kind == "hangs":
        time.sleep(HANG)
        return Said("too late")
    if kind in errors:
        raise errors[kind]
    if kind not in replies:
        raise ValueError(f"unknown fake {kind!r}: choose one of {', '.join((*WORKING, *FAULTS))}")
    return replies[kind]


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message and the arguments of its calls."""
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [str(part.get("text") or "") for part in content]
    calls = [call.get("function") or {} for call in message.get("tool_calls") or ()]
    return "\n".join([*parts, *(str(call.get("arguments") or "") for call in calls)])


def extract(shown: str, budget: int, heard: set[str]) -> str:
    """Return about `budget` tokens of the lines that hold most of the conversation's themes, the best lines first."""
    lines: dict[str, list[str]] = {}
    for line in html.unescape(shown).splitlines():
        text = _TAGS.sub("", line.strip()).strip()
        if text and text in heard and text not in lines:
            lines[text] = text.removeprefix("- ").split()
    said = Counter(word for words in lines.values() for word in set(words) if len(word) > 3)
    scored = []
    for place, (text, words) in enumerate(lines.items()):
        themes = sum(said[word] >= _LEAST for word in words)
        scored.append((themes * themes / max(1, len(words)), place, text))
    room, chosen, forms = 4 * budget, list[str](), set[str]()
    for _, _, text in sorted(scored, reverse=True):
        short = "- " + " ".join(word[:60] for word in lines[text][:10])
        if (form := _DIGITS.sub("0", short)) in forms:
            continue  # the same line of a log, another time
        forms.add(form)
        room -= len(short) + 1
        if room < 0:
            break
        chosen.append(short)
    return "\n".join(chosen) or "- nothing was said"


def _filler(size: int, seed: int) -> str:
    """Return words without meaning that never repeat as a phrase, so that a mark takes as much room as a summary."""
    words, state = [], seed + 1
    while size > 0:
        state = (state * 1_103_515_245 + 12_345) % 2**31
        words.append(_WORDS[state // 65_536 % len(_WORDS)])
        size -= len(words[-1]) + 1
    return " ".join(words)


def budget_for(window: int) -> int:
    """Return how many tokens a summary gets in a window of this size."""
    return max(60, min(600, window // 32))
