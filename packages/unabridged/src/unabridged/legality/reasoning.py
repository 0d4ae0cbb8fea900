"""What each model family demands of the thinking it finds in its history.

| rule     | models                              | what is refused                                  | after a rewrite  |
| -------- | ----------------------------------- | ------------------------------------------------ | ---------------- |
| `bound`  | Claude from version 5.1 on          | a block before which anything changed            | later blocks go  |
| `signed` | Claude before 5.1, Gemini from 3 on | a block altered, or gone from the turn's first   | all stays        |
| `glued`  | everything in Responses items       | reasoning without the item it led to             | all stays        |
| `free`   | the rest                            | nothing                                          | all stays        |

A `bound` model takes a turn without its thinking, so dropping is always safe there; it also takes a block away from
the middle as a change, so that once one goes, all behind it go. A `signed` model that was asked to think may refuse a
tool loop without its first block, so nothing is dropped there. Each provider says which rule its models have
(`thinking_rule`); a model that nobody knows is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.formats import PROVIDERS, get_format
from unabridged.formats.base import Format, Message, ThinkingRule
from unabridged.messages import View


def find_reasoning_rule(model: str | None, format: Format | str) -> ThinkingRule:  # noqa: A002 - the word every part uses
    """Return which of the four rules holds for this model, with or without a provider's prefix, in this format."""
    unnamed = get_format(format).thinking
    if model is None or unnamed == "glued":
        return unnamed
    rules = (provider.thinking_rule(model) for provider in PROVIDERS.values())
    return next((rule for rule in rules if rule is not None), "free")


def strip_thinking_from(
    messages: Sequence[Message], views: Sequence[View], fmt: Format, start: int, rule: ThinkingRule
) -> list[Message]:
    """Return the messages after a rewrite at `start`; for a `bound` model, without thinking from there on.

    A message that was nothing but thinking is left out. Every other message is the same object.
    """
    if rule != "bound":
        return list(messages)
    rest = [fmt.without_reasoning(messages[i]) if views[i].reasoning else messages[i] for i in range(start, len(views))]
    return [*messages[:start], *(message for message in rest if message is not None)]


def strip_all_thinking(messages: Sequence[Message], fmt: Format) -> list[Message]:
    """Return the messages without any thinking: what is left to send where a provider refuses what stands in them."""
    return strip_thinking_from(messages, [fmt.read(message) for message in messages], fmt, 0, "bound")
