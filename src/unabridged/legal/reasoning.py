"""What each model family demands of the thinking it finds in its history: the one place that knows.

| rule     | models                              | what is refused                                  | after a rewrite  |
| -------- | ----------------------------------- | ------------------------------------------------ | ---------------- |
| `bound`  | Claude from version 5.1 on          | a block before which anything changed            | later blocks go  |
| `signed` | Claude before 5.1, Gemini from 3 on | a block altered, or gone from the turn's first   | all stays        |
| `glued`  | everything in Responses items       | reasoning without the item it led to             | all stays        |
| `free`   | the rest                            | nothing                                          | all stays        |

A `bound` model takes a turn without its thinking, so dropping is always safe there; it also takes a block away from
the middle as a change, so that once one goes, all behind it go. A `signed` model that was asked to think may refuse a
tool loop without its first block, so nothing is dropped there. When in doubt: a Claude name without a version is
taken for the newest (`bound`), any other unknown model is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from unabridged.formats.base import Format, Message
from unabridged.messages import View

Rule = Literal["bound", "signed", "glued", "free"]

FIRST_BOUND = (5, 1)
"""The version of Claude whose thinking is bound to everything before it, and of all that came after."""
FIRST_SIGNED_GEMINI = (3, 0)

# A date (`claude-opus-4-20250514`) is no minor version: that has one or two digits.
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_GEMINI = re.compile(r"gemini-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


def reasoning_rule(model: str | None, format: Format | str) -> Rule:  # noqa: A002 - the word every part uses for it
    """Which of the four rules holds for this model, named with or without a provider's prefix, in this format."""
    name = format if isinstance(format, str) else format.name
    if name == "openai-responses":
        return "glued"
    version = claude_version(model)
    if version is not None:
        return "bound" if version >= FIRST_BOUND else "signed"
    if model is not None and "claude" in model.lower():
        return "bound"
    if (gemini_version(model) or (0, 0)) >= FIRST_SIGNED_GEMINI:
        return "signed"
    return "signed" if model is None and name == "anthropic" else "free"


def strip_from(
    messages: Sequence[Message], views: Sequence[View], fmt: Format, start: int, rule: Rule
) -> list[Message]:
    """The messages after a rewrite at `start`: for a `bound` model, those from `start` on without their thinking.

    A message that was nothing but thinking is left out. Every other message is the same object.
    """
    if rule != "bound":
        return list(messages)
    kept: list[Message] = list(messages[:start])
    for message, view in zip(messages[start:], views[start:], strict=True):
        rest = fmt.without_reasoning(message) if view.reasoning else message
        if rest is not None:
            kept.append(rest)
    return kept


def claude_version(model: str | None) -> tuple[int, int] | None:
    """Major and minor version of a Claude model in any provider's spelling; None for others and for bare aliases."""
    return _version(_CLAUDE, model)


def gemini_version(model: str | None) -> tuple[int, int] | None:
    """Major and minor version of a Gemini model; None for others."""
    return _version(_GEMINI, model)


def _version(pattern: re.Pattern[str], model: str | None) -> tuple[int, int] | None:
    found = pattern.search(model.lower()) if model else None
    return (int(found[1]), int(found[2] or 0)) if found else None
