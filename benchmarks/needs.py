"""Needs-next recall: of the names an agent is about to use, how many are still in the context it was left with.

Needed are the file names and identifiers in the next 60 tool calls (in text protocols: assistant turns) that stood in
the conversation before, and are not shown again before they are used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from unabridged.messages import View

CALLS = 60
_PATH = re.compile(r"(?:[A-Za-z0-9_.-]+/)+[A-Za-z0-9_.-]+\.[A-Za-z0-9]{1,6}")
_NAME = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{7,}\b")
_CAMEL = re.compile("[a-z][A-Z]")


class Needs(NamedTuple):
    """What the agent will use and can only know from before."""

    files: frozenset[str]
    names: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.files or self.names)

    def recall(self, text: str) -> float:
        """The share of all of it that the text holds; a file counts by its own name, without folders."""
        kept = sum(file.rpartition("/")[2] in text for file in self.files) + sum(name in text for name in self.names)
        return kept / (len(self.files) + len(self.names))


def needs(before: Sequence[View], after: Sequence[View]) -> Needs:
    """What the next calls need of what stood before."""
    known = text_of(before)
    files: set[str] = set()
    names: set[str] = set()
    shown: set[str] = set()
    used = 0
    for view in after:
        acts = [call.arguments for call in view.calls] or ([view.text] if view.role == "assistant" else [])
        for text in acts:
            files |= {path for path in _PATH.findall(text) if path in known and path not in shown}
            names |= {word for word in _words(text) if word in known and word not in shown}
        if view.role != "assistant":
            for text in (view.text, *(answer.text for answer in view.answers)):
                shown |= {*_PATH.findall(text), *_NAME.findall(text)}
        used += len(acts)
        if used >= CALLS:
            break
    return Needs(frozenset(files), frozenset(names))


def text_of(views: Sequence[View]) -> str:
    """Everything readable in these messages."""
    return "\n".join(view.whole_text() for view in views)


def _words(text: str) -> set[str]:
    return {word for word in _NAME.findall(text) if "_" in word or _CAMEL.search(word)}
