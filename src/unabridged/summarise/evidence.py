"""What was said, and by whom, in a form that a summary's claims can be held against. No model, no I/O.

A claim is compared by its content words: words of a language in a short form, so that `deleting` meets `delete`;
numbers and names as they are; in scripts without spaces, pairs of signs. How many of them must be found, and where, is
decided in `claims`; here they are looked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from unabridged.intent.foreign import foreign, own_words
from unabridged.intent.speech_acts import asks_back
from unabridged.languages import folded, sure_language
from unabridged.ledger.entries import Ledger
from unabridged.messages import View
from unabridged.texts import sentences

_EASTERN = "\u2e80-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[^\W{_EASTERN}]+(?:['-][^\W{_EASTERN}]+)*")
_KANA = re.compile(r"[\u30a0-\u30ff]{2,}")
_HAN = re.compile(r"[\u3400-\u9fff]{2,}|[\uac00-\ud7af]{2,}")
_ENDING = re.compile(
    r"(?:ations?|ions?|ments?|ings?|edly|ly|ed|ungen|ung|ern|er|en|ción|ad[oa]|ar|ir|ées?|és|ant|ent|s)\Z"
)
_LIGHT = re.compile(r"[etnoa]\Z")
_DOUBLE = re.compile(r"([^\W\d_])\1\Z")
_NUMBER = re.compile(r"(?<=\d)[,.' \u00a0\u202f](?=\d{3}(?!\d))")
_CLAUSE = re.compile(r"[,;:\uff0c\uff1b\u3001]|\b(?:but|aber|mais|pero)\b")
_A_NOD = 160
"""Characters up to which a message that begins with a yes is an answer to what the assistant asked."""


@cache
def _tables() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("claims.json").read_text(encoding="utf-8"))
    return tables


@cache
def wording(key: str) -> re.Pattern[str]:
    """The words of this kind in all languages, as one pattern for folded text."""
    tables = _tables()
    western = "|".join(table[key] for code, table in tables.items() if code not in {"zh", "ja"} and table[key])
    eastern = "|".join(table[key] for code, table in tables.items() if code in {"zh", "ja"} and table[key])
    # A sign of a script without spaces may stand right before or behind a western word; `user-list.ts` is no user.
    before, behind = rf"(?<![^\W{_EASTERN}])(?<![\w.]-)", rf"(?![^\W{_EASTERN}]|-\w|\.\w)"
    parts = [f"{before}(?:{western}){behind}"] + [eastern] * bool(eastern)
    return re.compile("|".join(parts))


def flag(language: str) -> str:
    """What is written behind a name that stands nowhere in the record, in this language; else in English."""
    return _tables().get(language, _tables()["en"])["flag"]


def flags() -> list[str]:
    """What is written so in any language."""
    return [table["flag"] for table in _tables().values()]


def squeezed(text: str) -> str:
    """The text as quotations are looked for in it: lower case, straight apostrophes, single spaces."""
    return " ".join(text.replace("\u2019", "'").replace("\u2018", "'").lower().split())


def unmarked(quotation: str) -> str:
    """A quotation as it is looked for: squeezed, without the marks at its ends."""
    return squeezed(quotation).strip(".,;:!?… 。\uff01\uff1f")


_LONGEST, _READ = 40, 60_000
"""Letters of a word, and characters of a turn, that are looked at."""


def content(text: str) -> frozenset[str]:
    """The content words of a text, in short form."""
    words = folded(text)
    found = {_short(word) for word in _WORD.findall(words) if _tells(word)}
    if not words.isascii():
        plain = wording("stop").sub(" ", words)
        found.update(_KANA.findall(plain))
        for run in _HAN.findall(plain):
            found.update(run[i : i + 2] for i in range(len(run) - 1))
    return frozenset(found)


def _tells(word: str) -> bool:
    if word[0].isdigit():
        return len(word) >= 2
    return len(word) >= 3 and not wording("stop").fullmatch(word)


def _short(word: str) -> str:
    """The word without its ending, and no more than its first six letters: `deleting` and `delete` are one."""
    if any(char.isdigit() or char == "_" for char in word):
        return word
    word = word[:_LONGEST]  # an ending is taken off in several steps: a word of thousands of letters is none
    if len(cut := _ENDING.sub("", word)) >= 3:
        word = cut
    before = ""
    while word != before:
        before = word
        for ending in (_ENDING, _LIGHT):
            if len(cut := ending.sub("", word)) >= 4:
                word = cut
    return _DOUBLE.sub(r"\1", word)[:6]


@dataclass(frozen=True)
class Said:
    """A person's turn, or one of its sentences; `question` is what the assistant had asked when this only nods."""

    text: str
    words: frozenset[str]
    question: frozenset[str] = frozenset()

    @cached_property
    def parts(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Its sentences with their content words, at its beginning and its end: what is longer was pasted."""
        text = self.text if len(self.text) <= _READ else f"{self.text[: _READ // 2]}\n{self.text[-_READ // 2 :]}"
        return tuple((sentence, content(sentence)) for sentence in sentences(text))


@dataclass(frozen=True)
class Evidence:
    """What a summary may rest on: people's turns, everybody's words, and what is carried beside it."""

    views: Sequence[View]
    """What went."""
    beside: Sequence[View] = ()
    """What stays in the context."""
    prior: str = ""
    """The prose of the earlier summary: it was checked when it was written."""
    ledger: Ledger | None = None
    """What is carried of all that went before; people's words in it are people's."""
    carried: str = ""
    """The ledger as the summary turn shows it."""
    also: str = ""
    """What else the model may know: system prompt, tools, pins, the host's state."""

    @cached_property
    def people(self) -> tuple[Said, ...]:
        """Every turn of a person's, with the question that it answers, if it answers one."""
        found = list(self._turns(self.views)) + list(self._turns(self.beside))
        for request in self.ledger.requests if self.ledger else ():
            asked = content(request.context) if request.context and _nods(request.text) else frozenset()
            found.append(Said(request.text, content(request.text), asked))
        for rule in self.ledger.rules if self.ledger else ():
            found.append(Said(rule.text, content(rule.text)))
        return tuple(found)

    @staticmethod
    def _turns(views: Iterable[View]) -> Iterator[Said]:
        before = ""
        for view in views:
            if view.is_request and view.text.strip():
                text = own_words(view.text)
                asks = before if _nods(text) and before and asks_back(before, 0) else ""
                yield Said(text, content(text), content(asks[-1_500:]))
            if view.origin == "model" and view.text.strip():
                before = view.text
            elif view.is_request:
                before = ""

    @cached_property
    def language(self) -> str:
        """The language people speak, where that is certain."""
        return sure_language(said.text for said in self.people)

    @cached_property
    def spoken(self) -> tuple[str, ...]:
        """People's turns, squeezed: a quotation must stand in one of them."""
        return tuple(squeezed(said.text) for said in self.people)

    @cached_property
    def earlier(self) -> str:
        """The earlier prose, squeezed."""
        return squeezed(self.prior)

    @cached_property
    def everything(self) -> str:
        """Everybody's words, squeezed."""
        texts = [_whole(view) for view in (*self.views, *self.beside)]
        texts += [said.text for said in self.people]
        return squeezed("\n".join((*texts, self.prior, self.carried, self.also)))

    @cached_property
    def _numbers(self) -> str:
        return _NUMBER.sub("", self.everything)

    @cached_property
    def data(self) -> tuple[str, ...]:
        """What tools, pages, the host and nobody knows who said, line by line, folded."""
        lines: dict[str, None] = {}
        for view in (*self.views, *self.beside):
            texts = [answer.text for answer in view.answers]
            if view.origin in {"tool", "host", "unknown"}:
                texts.append(view.text)
            elif view.is_request:
                texts += [view.text[part.start : part.stop] for part in foreign(view.text)]
            for text in texts:
                lines.update(dict.fromkeys(folded(text).splitlines()))
        return tuple(lines)

    def in_data(self, words: frozenset[str]) -> bool:
        """Whether one line of a tool's answer, a page or the host's text holds all of these content words."""
        return bool(words) and any(all(word in line for word in words) and words <= content(line) for line in self.data)

    def poses_as_approval(self, words: frozenset[str]) -> bool:
        """Whether a line of data claims that a person approved, and holds all of these content words."""
        lines = (line for line in self.data if wording("person").search(line) and wording("approve").search(line))
        return bool(words) and any(words <= content(line) for line in lines)

    def reports_approval(self, words: frozenset[str]) -> bool:
        """Whether a tool's answer tells of an approval, of nobody in the conversation, and has most of these words."""
        for view in (*self.views, *self.beside):
            for text in (folded(answer.text[:_READ]) for answer in view.answers):
                known = sum(word in text for word in words) * 5 >= len(words) * 3
                lines = (line for line in text.splitlines() if known and wording("approve").search(line))
                if any(wording("person").search(line) is None for line in lines):
                    return True
        return False

    @cached_property
    def talk(self) -> frozenset[str]:
        """The content words of all that people and the assistant said, and of the earlier prose."""
        told = [view.text[:_READ] for view in (*self.views, *self.beside) if view.origin == "model"]
        words = (content(text) for text in (*told, self.prior, self.also))
        return frozenset().union(*words, *(said.words for said in self.people))

    def said(self, quotation: str) -> bool:
        """Whether one person's turn holds these squeezed words."""
        return any(quotation in text for text in self.spoken)

    def quotes(self, said: str) -> bool:
        """Whether one person's turn, or the earlier prose, has these words, whatever marks stand around them."""
        return self.said(unmarked(said)) or unmarked(said) in self.earlier

    def holds(self, name: str) -> bool:
        """Whether a path, identifier, number or address stands anywhere, as a whole or put together of two parts."""
        key = squeezed(name)
        if key in self.everything:
            return True
        if key[:1].isdigit() or key[:1] in "$€£¥":
            return _NUMBER.sub("", key).strip("$€£¥% ") in self._numbers
        cuts = [i for i, sign in enumerate(key) if sign == "/" and 0 < i < len(key) - 1]
        return any(key[:i] in self.everything and key[i + 1 :] in self.everything for i in cuts)


def only_forbidden(said: Said, words: frozenset[str]) -> bool:
    """Whether the sentences of the turn that are about these words all forbid or deny them."""
    parts = [(len(words & there), sentence) for sentence, there in said.parts]
    most = max((number for number, _ in parts), default=0)
    best = [sentence for number, sentence in parts if number == most]
    return most > 0 and all(len(words & content(_allowed(sentence))) < most for sentence in best)


def _allowed(sentence: str) -> str:
    """The sentence up to the clause that forbids or denies, and clauses like "don't forget", which do neither."""
    words = folded(sentence)
    kept: list[str] = []
    forbids = False
    for clause in _CLAUSE.split(words):
        plain = wording("undeny").sub(" ", clause)
        forbids = forbids or wording("deny").search(plain) is not None
        if not forbids or (plain != clause and wording("deny").search(plain) is None):
            kept.append(clause)
    return " ".join(kept)


def _nods(text: str) -> bool:
    words = folded(text.strip())
    if len(words) > _A_NOD:
        return False
    start = words.lstrip(" \t\n\"'*_(-")
    return wording("nod").match(start) is not None and wording("no").match(start) is None


def _whole(view: View) -> str:
    """All that the summariser may have been shown of a message, thinking and addresses included."""
    addresses = [media.source for media in view.media if len(media.source) < 400]
    return "\n".join([view.whole_text(), *(block.text for block in view.reasoning), *addresses])
