"""Whether a sentence states a rule, and how strongly. What counts is as much how it speaks as what it says.

"Never" tells of the past as often as it forbids. So the words that make a rule (`strong`, `wish`) count only
where the sentence is no report of somebody else's words, no supposition, no tale of what is the case, and no one-off
task that merely describes what is to be made. All of it is looked up in the phrases of `languages/`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from unabridged.intent.frames import frames
from unabridged.intent.person_words import BLANK
from unabridged.languages import EASTERN, folded, phrases, vocabulary

RULE_LIMIT = 400
"""Characters of one rule."""

Span = tuple[int, int]

_MACHINE = re.compile("|".join(frames()["printed"]))
"""Lines of code and of logs."""
_LINE_OF_CODE = re.compile(r"\blines? \d")
_SPEAKER = re.compile(r"\A(?:\[[^\]\n]{4,40}\]\s*)?(?:\w{1,20}:\s+)?")
_BETWEEN = " \t,.:;!\u3001\uff0c\u2013\u2014-"
_CLAUSE = re.compile(r"[,;\uff0c\u3001:\u2013\u2014-]\Z")
_COLON = re.compile(r"\s?:\s|\uff1a")
_COMMA = re.compile(r"[,\uff0c\u3001]\s*")
_TOPIC = re.compile(r"\A[^,]{3,40},\s*\Z")
_MARKS = (", ", "; ", ": ", " - ", " \u2013 ", " \u2014 ", "(")


@dataclass
class Reading:
    """One sentence, and what can be read off it. What it quotes is blanked already: somebody's words are no order."""

    core: str

    def strength(self, *, listed: bool = False) -> int:
        """3 or 2 for a sentence that states a rule, 0 for one that does not. `listed`: under a heading of rules."""
        short = len(self.core) < 5 and self.core.isascii()
        if short or len(self.core) > 3 * RULE_LIMIT or self._printed:
            return 0
        habits = self._spans("habit")
        strong = [span for span in self._cues("strong") if span not in habits or not self._told(span)]
        polite = phrases("polite").at_start(self._head) > 0
        if self._asks or polite:
            return 2 if strong and polite else 0
        if self._reported or self._has("imagined"):
            return 0
        if self._has("moment") and habits.isdisjoint(strong):  # for this one time, and nothing in it holds for good
            return 0
        if strong:
            return self._strong(strong)
        return 2 if listed or self._conditional else self._wished()

    @property
    def cites_code(self) -> bool:
        """Whether it is a line of code or of a log, or names one: somebody's tool or review speaks so."""
        return self._printed or _LINE_OF_CODE.search(self.core) is not None

    @property
    def is_firm(self) -> bool:
        """Whether it orders something for good, in words that neither tell nor describe."""
        return self.strength() > 2 and not self._subject and not self._narrates

    @property
    def is_order(self) -> bool:
        """Whether it can be meant for the assistant: no question, and nobody else's words, not even supposed ones."""
        return not (self._printed or self._asks or self._has("reports", "imagined") or self._words != self._whole)

    @property
    def imparts(self) -> bool:
        """Whether it may be something to keep in mind: no question, no tale, no task for now, no turn of speech."""
        other = self._printed or self._asks or self._narrates or self._task or self._reported or self._denied
        return not other and not self._has("imagined", "once")

    def _strong(self, strong: Sequence[Span]) -> int:
        """What "always", "must" and "from now on" are worth: the first two may only tell or describe."""
        habits, modal = self._spans("habit"), self._spans("modal")
        if any(span not in habits and span not in modal for span in strong):
            return 3
        if self._task:  # "Add a check that the name must never be empty" describes the check.
            return 3 if any(span in habits and not self._describes(span) for span in strong) else 0
        told = self._narrates and not self._eastern  # "I think it breaks the rule that a line must end" tells of one
        if any(span in modal and not (told and self._describes(span)) for span in strong):
            return 3
        if self._narrates:
            return 2 if self._own("wish") else 0
        if self._subject and not self._has("lift", "addressed"):
            # "The dates, always in ISO": a topic and what holds for it, no tale.
            return 3 if any(_TOPIC.match(self._words[:start]) for start, _ in strong) else 0
        return 3

    def _wished(self) -> int:
        """What is left without a strong word: a wish, a limit, a convention, an order with a negation in it."""
        if self._task or self._has("once") or any(map(phrases("tasks").at_start, _COMMA.split(self._words)[1:])):
            return 0
        if self._narrates:
            return 2 if self._own("wish") else 0
        wishes = {span for span in self._cues("wish") if not self._told(span)}
        if self._subject and not self._has("addressed"):  # "The error shows up only in winter" tells.
            wishes -= self._spans("vague")
        denied = any(start == self._start for start, _ in self._denied)
        begins = not denied and (phrases("begins").at_start(self._head) > 0 or self._begins("conventions"))
        return 2 if self._forbids or ((begins or wishes) and not self._has("passing")) else 0

    # -- what it is ---------------------------------------------------------------------------------------------------

    @cached_property
    def _whole(self) -> str:
        return folded(self.core)

    @cached_property
    def _printed(self) -> bool:
        """Whether it is a line of code or of a log."""
        return _MACHINE.search(self.core) is not None

    @cached_property
    def _words(self) -> str:
        """The sentence without an indirect question and without what a task says after a colon: those order nothing."""
        asked = min((start for start, _ in phrases("wonders").found(self._whole)), default=len(self._whole))
        words = self._whole[:asked]
        colon = _COLON.search(words)
        return words[: colon.start()] if colon and _given(words[: colon.start()]) else words

    @cached_property
    def _head(self) -> str:
        """The sentence from its first word that says something."""
        return _without_openers(self._words)

    @cached_property
    def _eastern(self) -> bool:
        return any(char > EASTERN and char != BLANK for char in self._words[:40])

    @cached_property
    def _denied(self) -> set[Span]:
        return self._spans("not_rules")

    @property
    def _start(self) -> int:
        """Where the head begins in the words."""
        return len(self._words) - len(self._head)

    @cached_property
    def _asks(self) -> bool:
        return self._whole.rstrip(" .!\u3002\uff01)").endswith(("?", "\uff1f", *vocabulary("ending")))

    @cached_property
    def _reported(self) -> bool:
        return self._has("reports") and not self._has("restates")

    @cached_property
    def _narrates(self) -> bool:
        """Whether it tells what is or was the case."""
        return not self._restates and (phrases("narrators").at_start(self._head) > 0 or self._has("telling"))

    @cached_property
    def _subject(self) -> bool:
        """Whether it begins with somebody or something that does the rest: no order does."""
        return phrases("subjects").at_start(self._head) > 0 and not self._restates

    @cached_property
    def _restates(self) -> bool:
        """Whether the person comes back to what they said before: "I said never push"."""
        return phrases("restates").at_start(self._head) > 0

    @cached_property
    def _task(self) -> bool:
        """Whether it orders one thing to be made or done now; what it says of that thing is no rule."""
        if not self._begins("tasks"):
            return False
        return all(self._describes(span) for span in phrases("refused").found(self._words))

    def _own(self, kind: str) -> bool:
        """Whether the person says what they themselves want or can't have."""
        own = phrases("own")
        by_place = self._eastern and own.at_start(self._head) > 0
        return any(by_place or own.at_start(self._words[start:]) for start, _ in self._cues(kind))

    @cached_property
    def _forbids(self) -> bool:
        """An order with a negation in it: "no emojis", "bitte keine Tests anfassen", "no toques esto"."""
        barred = self._cues("barred")
        if self._subject or self._goes_on_telling or len(self._words) > 200:
            return any(self._words[:start].rstrip().endswith((":", ";", "(")) for start, _ in barred)
        return bool(self._cues("negation")) or any(self._leads(span) for span in barred)

    @property
    def _goes_on_telling(self) -> bool:
        """Whether what it says goes on as a tale: "no insurance, and it's an economy ticket"."""
        clauses = (self._words[comma.end() :].partition(" ") for comma in _COMMA.finditer(self._words))
        return any(first in vocabulary("and") and phrases("narrators").at_start(rest) for first, _, rest in clauses)

    @cached_property
    def _conditional(self) -> bool:
        """Whether it names a case that may come again and what to do then: "if you change X, do Y"."""
        found, text = phrases("conditions"), self._head
        reach = found.at_start(text)
        if not reach and self._eastern:
            reach, text = min((stop for _, stop in found.found(self._words)), default=0), self._words
        comma = _COMMA.search(text, max(reach - 1, 0))
        if not reach or self._has("once") or not (comma or self._eastern):
            return False
        then = text[comma.end() if comma else reach :]
        return bool(then) and not phrases("narrators", "subjects").at_start(then)

    # -- how it is looked up ------------------------------------------------------------------------------------------

    def _has(self, *kinds: str) -> bool:
        return phrases(*kinds).inside(self._words)

    def _spans(self, kind: str) -> set[Span]:
        return set(phrases(kind).found(self._words))

    def _begins(self, kind: str) -> bool:
        """At the start; in scripts without spaces, where the verb comes last, anywhere."""
        found = phrases(kind)
        return found.at_start(self._head) > 0 or (self._eastern and found.inside(self._words))

    def _cues(self, kind: str) -> list[Span]:
        """Where these phrases stand, but for those that are part of a turn of speech which says something else.

        A phrase that begins inside the turn of speech and goes on further says more than that: "are only allowed".
        """
        return [
            (start, stop)
            for start, stop in phrases(kind).found(self._words)
            if not any(start < end and begin < stop and (stop <= end or start == begin) for begin, end in self._denied)
        ]

    def _describes(self, span: Span) -> bool:
        """Whether it stands in what a task says of its object: after a comma or a relative pronoun."""
        before = self._words[: span[0]]
        if self._eastern or phrases("relative").inside(before):
            return True
        commas = list(_COMMA.finditer(before))
        # ", and never touch …" is an order of its own.
        return bool(commas) and before[commas[-1].end() :].partition(" ")[0] not in vocabulary("and")

    def _told(self, span: Span) -> bool:
        """Whether it stands in a clause of its own that tells something: "Max is great, he always cheers me up"."""
        before = self._words[: span[0]]
        start = max(before.rfind(mark) for mark in _MARKS)
        clause = _without_openers(before[start:].lstrip(_BETWEEN + "("))
        return start >= 0 and phrases("narrators").at_start(clause) > 0 and not self._has("addressed")

    def _leads(self, span: Span) -> bool:
        """Whether it stands at the beginning of the sentence or of a clause, so that nobody else is said to do it."""
        return span[0] <= self._start or _CLAUSE.search(self._words[: span[0]].rstrip()) is not None


def is_signed(text: str) -> bool:
    """Whether a turn begins with a time and a name, as in the log of a chat: "[9:14 pm, 3 May] Ann: …"."""
    said = _SPEAKER.match(text)
    return said is not None and text.startswith("[") and said[0].rstrip().endswith(":")


def _without_openers(words: str) -> str:
    """The words without those that merely open a sentence: "ok, and please …"."""
    head = _SPEAKER.sub("", words).lstrip()
    for _ in range(4):
        reach = phrases("openers").at_start(head)
        rest = head[reach:].lstrip(_BETWEEN) if reach else ""
        if not rest:
            break
        head = rest
    return head


def _given(before: str) -> bool:
    """Whether these words, before a colon, ask for something to be made of what follows: "translate: …"."""
    head, tasks = _without_openers(before).strip(), phrases("tasks")
    made = tasks.at_start(head) > 0 or head in tasks.by_word or phrases("given").at_start(head) > 0
    return made and not phrases("notes_down").inside(before)
