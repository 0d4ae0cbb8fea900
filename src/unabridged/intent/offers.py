"""What the assistant offered, and which of it a short answer means: the option out of a list, or the last question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unabridged.intent import speech_acts as says
from unabridged.text_cache import remembered
from unabridged.text_tools import blank_fences, one_line, sentences

_LONGEST = 300
"""Characters of an option, and of the sentences around a question."""
_MOST = 9
"""Options that are kept of one message: the last ones."""
_LABEL = r"(?i:option )([A-Za-z]|\d{1,2})\b|\(?\b([A-Za-z]|\d{1,2})[).:\]](?=[*_]{0,2}(?:\s|\Z))"
_OPTION = re.compile(rf"^[ \t]*(?:(?:[-*+\u2022]|#{{1,6}}) +)?[*_]{{0,2}}(?:{_LABEL})[^\n]+", re.MULTILINE)
_CHOICE = re.compile(rf"{_LABEL}|(?<![^\s#(])([A-Z]|\d{{1,2}})(?![^\s,.!)])")
_ORDER = {"first": "1", "second": "2", "third": "3"}


@remembered
def offer_in(text: str) -> str:
    """The options in a text, one a line, and on the last line its last question with what leads up to it."""
    text = blank_fences(text)
    options = [*_options(text).values()]
    return "\n".join([*options, _last_question(text, options)])


def answered_offer(reply: str, offer: str, *, replies: bool) -> str:
    """What of an offer this reply means: the options it names; else, where it `replies` at all, the question."""
    options, question = _options(offer), offer.rpartition("\n")[2]
    chosen = [options[label] for label in _labels_in(reply) if label in options]
    return " ".join(chosen) if chosen or not replies else question or one_line(" ".join(options.values()), 2 * _LONGEST)


def _options(text: str) -> dict[str, str]:
    """The options of a text by their labels; of several lists the last."""
    found: dict[str, str] = {}
    for line in _OPTION.finditer(text):
        label = (line[1] or line[2]).lower()
        found.pop(label, None)
        found[label] = one_line(line[0].replace("**", "").lstrip("-*+#_\u2022 \t"), _LONGEST)
    return dict([*found.items()][-_MOST:])


def _labels_in(reply: str) -> list[str]:
    """The labels that a reply names: in a long one with a mark at its beginning, in a short one also without."""
    reply = reply.strip()
    if not says.few_words(reply, 8):
        marked = (found.groups()[:2] for found in _CHOICE.finditer(" ".join(reply.split()[:8])))
        return [label.lower() for pair in marked for label in pair if label]
    words = [_ORDER.get(word.lower(), word) for word in reply.split()]
    words[:1] = [word.upper() if len(words) < 3 else word for word in words[:1]]  # "b please"
    return [next(filter(None, found.groups())).lower() for found in _CHOICE.finditer(" ".join(words))]


def _last_question(text: str, options: Sequence[str]) -> str:
    """The question among the last sentences with the sentence before it, as far as they fit; else the last two.

    "" where it is one of the options.
    """
    told = sentences(text)
    asked = next((i for i in range(len(told) - 1, max(len(told) - 4, -1), -1) if says.asks(told[i])), len(told) - 1)
    if not told or any(told[asked] in option for option in options):
        return ""
    pair = one_line(" ".join(told[max(asked - 1, 0) : asked + 1]))
    return pair if len(pair) <= _LONGEST else one_line(told[asked], _LONGEST)
