"""Word every ask, put together from the parts of `prompt.md`, with what is shown set off as data.

Only our own parts have places to fill in; what comes from outside (the conversation, an earlier record, a caller's own
prompt) is joined on as it is, so that no brace or bracket in it can mean anything. It stands between two lines that
carry a key drawn for this ask alone, and so does the first line of every message: a forged header or a forged end of
the data lacks the key, for one that a text contains is never used. It is short, because every message pays for it.

A prompt of the caller's own is sent with the conversation and nothing else of ours: an earlier summary and notes stand
in the conversation's place, between the same two lines, and a second ask has the words of the first.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from unabridged.languages import get_language_name

MESSAGES_FIELD = "{messages}"
"""Where a caller's own prompt wants the conversation; behind it when it does not say. Other braces mean nothing."""
KEY_FIELD = "\x00key\x00"
"""Stands for the key in what is shown until one is drawn; removed from any text that holds it."""

_KEY_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_UNSENDABLE_PATTERN = re.compile("[\ud800-\udfff]|\x00")
_PROMPT_TEXT = Path(__file__).with_name("prompt.md").read_text(encoding="utf-8")
_NAMES_AND_TEXTS = re.split(r"^## ([\w-]+)\n", _PROMPT_TEXT, flags=re.MULTILINE)[1:]
PROMPT_PARTS = {name: text.strip() for name, text in zip(_NAMES_AND_TEXTS[::2], _NAMES_AND_TEXTS[1::2], strict=True)}
"""The parts of the prompt by name."""


class Prompt(NamedTuple):
    """An instruction ready to be sent, and the key that sets its data off."""

    text: str
    key: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        """Return how the key stands in the data: a reply with one of these repeats what it was shown."""
        return (f"#{self.key} [", f" {self.key}>") if self.key else ()


class Wording(NamedTuple):
    """What is the same in every ask for one summary."""

    own: str | None = None
    """The caller's prompt in the place of ours."""
    language: str = ""
    """As `detect_certain_language` names it."""
    density: float = 3.0
    """Characters that a token of this conversation has: models count those better than tokens or words."""
    following: Sequence[str] = ()
    """The newest messages, which stay in the conversation: the record is to be right as of their end."""
    is_short: bool = False
    """Whether the sections are asked for in few words, for a summariser with a small window."""

    def build_record_prompt(
        self,
        texts: Sequence[str],
        *,
        tokens: int,
        prior: str = "",
        rules: Sequence[str] = (),
        part: bool = False,
        fault: str = "",
    ) -> Prompt:
        """Return the ask to write the record (or, of a `part`, notes) of these messages."""
        if self.own is not None:
            earlier = [f"{KEY_FIELD} earlier summary\n{remove_unsendable(prior)}\n"] * bool(prior)
            return _insert_into_own_prompt(self.own, [*earlier, *texts])
        following = () if part else self.following
        key = draw_key(*texts, prior, *rules, *following)
        task = [*self._build_task("citation", standing=True), _fill_part("data", key=key)]
        blocks = [*task, *[_fill_part("part")] * part]
        if prior:
            blocks += [_fill_part("prior"), _enclose_data("record", [prior], key)]
        blocks += [*_render_known_rules(rules, key), *self._build_limits(tokens, fault)]
        return _join_prompt(blocks, _enclose_data("conversation", texts, key), following, key)

    def build_fold_prompt(
        self, notes: Sequence[str], *, tokens: int, rules: Sequence[str] = (), last: bool = False, fault: str = ""
    ) -> Prompt:
        """Return the ask to put notes on consecutive parts together; the `last` time this gives the record."""
        if self.own is not None:
            heads = [f"{KEY_FIELD} summary of part {i + 1} of {len(notes)}" for i in range(len(notes))]
            texts = [f"{head}\n{remove_unsendable(note)}\n" for head, note in zip(heads, notes, strict=True)]
            return _insert_into_own_prompt(self.own, texts)
        following = self.following if last else ()
        key = draw_key(*notes, *rules, *following)
        heads = [_fill_part("note", number=str(i + 1), all=str(len(notes))) for i in range(len(notes))]
        numbered = [f"{head}\n{note}\n" for head, note in zip(heads, notes, strict=True)]
        task = [*self._build_task("citation", standing=last), _fill_part("fold", key=key)]
        blocks = [*task, *_render_known_rules(rules, key), *self._build_limits(tokens, fault)]
        return _join_prompt(blocks, _enclose_data("notes", numbered, key), following, key)

    def build_suffix_prompt(self, *, tokens: int, kept: int, rules: Sequence[str] = (), fault: str = "") -> Prompt:
        """Return the ask to write the record of the conversation that stands right above."""
        if self.own is not None:
            return Prompt(self.own)
        task = self._build_task("citation-suffix", standing=True)[1:]
        blocks = [_fill_part("suffix"), *task, *[_fill_part("kept", kept=f"{kept:,}")] * bool(kept)]
        known = _render_known_rules(rules, draw_key(*rules))
        return Prompt("\n\n".join([*blocks, *known, *self._build_limits(tokens, fault)]))

    def build_rewrite_prompt(self, how: str, draft: str, *, tokens: int, fault: str) -> Prompt:
        """Return the ask to write this record again: `how` is `shorten` or `translate`."""
        key = draw_key(draft)
        over = f"{max(len(draft) - self._to_characters(tokens), 0):,}"
        task = _fill_part(how, key=key, problem=fault, over=over, language=get_language_name(self.language))
        return Prompt("\n\n".join([task, self._build_size_limit(tokens), _enclose_data("record", [draft], key)]), key)

    def _build_task(self, citation: str, *, standing: bool = False) -> list[str]:
        sections = _fill_part("sections-short" if self.is_short else "sections", citation=_fill_part(citation))
        return [_fill_part("role"), sections, *[_fill_part("standing")] * standing, _fill_part("rules")]

    def _build_limits(self, tokens: int, fault: str) -> list[str]:
        name = get_language_name(self.language)
        language = _fill_part("language", language=name) if name else _fill_part("same-language")
        return [language, self._build_size_limit(tokens), *[_fill_part("again", problem=fault)] * bool(fault)]

    def _build_size_limit(self, tokens: int) -> str:
        return _fill_part("size", characters=f"{self._to_characters(tokens):,}")

    def _to_characters(self, tokens: int) -> int:
        return max(80, int(tokens * self.density))


def _insert_into_own_prompt(own: str, texts: Sequence[str]) -> Prompt:
    """Return the caller's own prompt with the conversation at the place it marks, else behind it."""
    key = draw_key(own, *texts)
    shown = _enclose_data("conversation", texts, key)
    head, place, tail = own.partition(MESSAGES_FIELD)
    return Prompt(f"{head}{shown}{tail}" if place else "\n\n".join(filter(None, [own, shown])), key)


def _join_prompt(blocks: Sequence[str], shown: str, following: Sequence[str], key: str) -> Prompt:
    """Return the whole of our prompt: what is shown stands behind everything but what stays."""
    newest = [_fill_part("stays"), _enclose_data("stays", following, key)] if following else []
    return Prompt("\n\n".join([*blocks, shown, *newest, _fill_part("now")]), key)


def _render_known_rules(rules: Sequence[str], key: str) -> list[str]:
    return [_fill_part("known-rules"), _enclose_data("rules", [f"- {rule}" for rule in rules], key)] if rules else []


def _fill_part(part: str, **values: str) -> str:
    """Return the part with these values in the places that it has."""
    text = PROMPT_PARTS[part]
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


# -- data -------------------------------------------------------------------------------------------------------------


def draw_key(*texts: str) -> str:
    """Return a short random key that none of these texts contains."""
    for tries in count():
        tail = "".join(secrets.choice(_KEY_CHARACTERS) for _ in range(2 + tries // 8))
        key = f"{secrets.choice(_KEY_CHARACTERS[:26])}{secrets.choice(_KEY_CHARACTERS[26:])}{tail}"
        if not any(key in text for text in texts):
            break
    return key


def remove_unsendable(text: str) -> str:
    """Return the text without what no HTTP client could send."""
    return _UNSENDABLE_PATTERN.sub("\ufffd", text)


def _enclose_data(label: str, texts: Sequence[str], key: str) -> str:
    """Return the texts between two lines that carry the key, so that nothing in them can be taken for ours."""
    body = "\n".join(text.strip("\n") for text in texts)
    body = body.replace(KEY_FIELD, f"#{key}") if label in {"conversation", "stays"} else remove_unsendable(body)
    return f"<{label} {key}>\n{body}\n</{label} {key}>"
