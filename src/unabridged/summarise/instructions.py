"""The wording of every ask, put together from the parts of `prompt.md`.

Only our own parts have places to fill in; what comes from outside (the conversation, an earlier record, a caller's own
prompt) is joined on as it is, so that no brace or bracket in it can mean anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from unabridged.languages import language_name
from unabridged.summarise.shown import data, draw_key, sendable

PLACE = "{messages}"
"""Where a caller's own prompt wants the conversation; behind it when it does not say. Other braces mean nothing."""
_WITHOUT_SPACES = frozenset({"zh", "ja", "ko", "thai"})


@cache
def parts() -> dict[str, str]:
    """The parts of the prompt by name."""
    text = Path(__file__).with_name("prompt.md").read_text(encoding="utf-8")
    found = re.split(r"^## ([\w-]+)\n", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(found[1::2], found[2::2], strict=True)}


@dataclass(frozen=True, slots=True)
class Question:
    """An instruction ready to be sent, and the key that sets its data off."""

    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Wording:
    """What is the same in every ask for one summary."""

    own: str | None = None
    """The caller's prompt in the place of ours."""
    language: str = ""
    """As `sure_language` names it."""

    def record(
        self,
        texts: Sequence[str],
        *,
        tokens: int,
        prior: str = "",
        ledger: str = "",
        part: bool = False,
        fault: str = "",
    ) -> Question:
        """Write the record (or, of a `part`, notes) of these messages."""
        key = draw_key(*texts, prior, ledger)
        blocks = [*self._task(standing=True), _filled("data", key=key)]
        if part:
            blocks.append(parts()["part"])
        if prior:
            blocks += [parts()["prior"], data("record", [sendable(prior)], key)]
        blocks += [*_ledger(ledger, key), *self._limits(tokens, fault)]
        return Question(self._showing(data("conversation", texts, key), blocks), key)

    def fold(self, notes: Sequence[str], *, tokens: int, ledger: str = "", fault: str = "") -> Question:
        """Put notes on consecutive parts together."""
        key = draw_key(*notes, ledger)
        numbered = [f"Notes {i + 1} of {len(notes)}:\n{sendable(note)}\n" for i, note in enumerate(notes)]
        blocks = [*self._task(), _filled("fold", key=key), *_ledger(ledger, key), *self._limits(tokens, fault)]
        return Question(self._showing(data("notes", numbered, key), blocks), key)

    def suffix(self, *, tokens: int, kept: int, ledger: str = "", fault: str = "") -> Question:
        """Write the record of the conversation that stands right above."""
        key = draw_key(ledger)
        own = [self.own.replace(PLACE, "(the conversation above)")] if self.own else self._task(standing=True)[1:]
        blocks = [parts()["suffix"], *own]
        blocks += [_filled("kept", kept=f"{kept:,}")] * bool(kept)
        return Question("\n\n".join([*blocks, *_ledger(ledger, key), *self._limits(tokens, fault)]))

    def shorten(self, draft: str, *, tokens: int, fault: str) -> Question:
        """Write this record again, shorter."""
        key = draw_key(draft)
        blocks = [
            _filled("shorten", key=key, problem=fault),
            self._size(tokens),
            data("record", [sendable(draft)], key),
        ]
        return Question("\n\n".join(blocks), key)

    def mend(self, draft: str, *, tokens: int, fault: str) -> Question:
        """Write this record again without what does not hold."""
        key = draw_key(draft, fault)
        task = _filled("mend", key=key).replace("<problem>", sendable(fault), 1)
        return Question("\n\n".join([task, self._size(tokens), data("record", [sendable(draft)], key)]), key)

    def translate(self, draft: str, *, tokens: int, fault: str) -> Question:
        """Write this record again in the conversation's language."""
        key = draw_key(draft)
        task = _filled("translate", key=key, problem=fault, language=language_name(self.language))
        return Question("\n\n".join([task, self._size(tokens), data("record", [sendable(draft)], key)]), key)

    def _showing(self, shown: str, blocks: Sequence[str]) -> str:
        """The whole prompt: what is shown goes where the caller's own prompt wants it, else behind everything."""
        head, place, tail = (self.own or "").partition(PLACE)
        whole = [f"{head}{shown}{tail}", *blocks[1:]] if place else [*blocks, shown]
        return "\n\n".join([*whole, parts()["now"]])

    def _task(self, *, standing: bool = False) -> list[str]:
        if self.own is not None:
            return [self.own]
        return [parts()["role"], parts()["sections"], *[parts()["standing"]] * standing, parts()["rules"]]

    def _limits(self, tokens: int, fault: str) -> list[str]:
        found = [self._size(tokens)]
        if self.own is None:
            named = language_name(self.language)
            found.insert(0, _filled("language", language=named) if named else parts()["same-language"])
        return found + [_filled("again", problem=fault)] * bool(fault)

    def _size(self, tokens: int) -> str:
        """Models count words better than tokens; names and numbers make a word dearer than in plain prose."""
        if self.language in _WITHOUT_SPACES:
            return _filled("size", words=f"{max(40, tokens * 6 // 10):,}").replace("words;", "characters;", 1)
        return _filled("size", words=f"{max(20, tokens * 45 // 100):,}")


def _ledger(ledger: str, key: str) -> list[str]:
    return [parts()["ledger"], data("ledger", [sendable(ledger)], key)] if ledger else []


def _filled(part: str, **values: str) -> str:
    text = parts()[part]
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    return text
