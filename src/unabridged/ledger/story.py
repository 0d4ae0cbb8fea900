"""The story of a conversation: what was said and done, in order, abridged to the room that there is.

People's words and the assistant's stand as they stood, what was done on one line each. What finds no place is told by
numbers where it was, so that a reader sees that something is missing there and can fetch it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf, sqrt
from typing import NamedTuple

from unabridged.ledger.action_lines import TIMES, ActionLines, deed_of
from unabridged.ledger.entries import Action, Ledger, Saying
from unabridged.ledger.sayings import is_talk
from unabridged.text_tools import Count, fenced, head_and_tail, indent, neutral, one_line, quote, sentences, whole_lines

_WEIGHTS = {"create": 3.0, "change": 3.0, "delete": 3.0, "move": 3.0, "run": 1.2, "call": 1.2}
_LOOKED, _FAILED, _ENDED = 0.3, 4.0, 0.8
"""What was merely looked at, what failed, and how much more it is when it ended with a word on how."""
_NEWEST = 12
"""Messages at the end whose moments count double: there the work goes on."""
_LEAST = 1.0
"""The weight of what is worth a line of its own."""
_EVEN = 60
"""Added to every length, so that short remarks do not crowd out what tells something."""
_USUAL = 140
"""Characters of what somebody says: what lasts counts as much however long it is."""
_LONGEST_TOLD = 900
"""Characters of a person's message: what is open stands elsewhere as a whole."""
_SHORTEST_BESIDE, _LONGEST_BESIDE, _A_LINE = 60, 360, 24
"""The same beside a model's prose, which says what it was about, at least and at most; tokens of the least."""
_OFFER = 300
"""Characters of what a short message replies to."""
_REPORT = 800
"""Characters of a report of the assistant's that people have answered more than `_LATE` times since."""
_LATE = 3
_ENOUGH = 6
"""Messages of people that prose quotes at least in part, so that they need not be listed beside it."""
_REPLY = 80
"""Characters of a reply that is told with what it replies to."""
_TELLING = 12
"""Characters of a sentence that says something by itself."""
_NAMED, _NAMED_AT_MOST = 4, 60
"""Files that a gap names, and where there is room."""
_A_GAP = 6
"""Tokens put by for each gap."""


class Moment(NamedTuple):
    """One thing that was said or done: its line, and what a gap says of it when it finds no place."""

    turn: int
    text: str
    worth: float
    kind: str
    """The label of the deed, or of who spoke."""
    name: str = ""
    """What it went to, where a gap should name it."""
    excerpt: bool = False
    """Whether it is a sentence of a longer message, which may have a place of its own."""


def worth(entry: Saying | Action, ledger: Ledger, size: int) -> float:
    """How much a moment matters for its size: its weight, less the longer ago it was, twice at the very end.

    What people said and what was decided counts the same however long it is; the first of it, which all else rests on,
    like the last, and a decision as long as no other is made.
    """
    age = min((ledger.end - entry.turn) / max(ledger.end - ledger.first, 1), 1.0)
    newest = ledger.end - entry.turn <= _NEWEST
    if isinstance(entry, Saying) and entry.by_person:
        first = entry.turn - ledger.first < _NEWEST
        return weight_of(entry) * (1 - age / 2 + (newest or first)) / sqrt(_USUAL + _EVEN)
    if isinstance(entry, Saying) and (entry.lasts or entry.retold):
        return weight_of(entry) * (1 + newest) / sqrt(_USUAL + _EVEN)
    return weight_of(entry) * (1 - age / 2 + newest) / sqrt(size + _EVEN)


def weight_of(entry: Saying | Action) -> float:
    """What a moment weighs by what it is."""
    if isinstance(entry, Saying):
        return entry.weight
    if entry.failed:
        return _FAILED if deed_of(entry) not in {"read", "search", "list"} else _LEAST
    weight = _WEIGHTS.get(entry.deed, _LOOKED)
    return weight + _ENDED if entry.outcome else weight


class Story:
    """The moments of a ledger, and as many of them as there is room for."""

    def __init__(
        self, ledger: Ledger, words: Mapping[str, str], root: str, kept: Collection[int] = (), people: float = inf
    ) -> None:
        """`kept` turns stand in the context anyway; `people` is what people's words may take, in tokens."""
        self._ledger, self._words, self._kept, self._people = ledger, words, frozenset(kept), people
        self._late = ([0] * _LATE + [saying.turn for saying in ledger.sayings if saying.by_person])[-_LATE]
        self._requests = {request.turn: request for request in ledger.requests}
        self._lines = ActionLines(ledger, words, root)
        self._talk = is_talk(ledger.actions, len(ledger.requests))
        self.left_out = 0

    def tell(self, room: int, count: Count) -> str:
        """The story within so many tokens; "" where there is no room for any of it."""
        moments = sorted(self._moments(room), key=lambda moment: moment.turn)
        ranked = sorted(range(len(moments)), key=lambda i: (-moments[i].worth, i))
        chosen, text = list[int](), ""
        left, people = room, self._people
        for i in ranked:
            cost = count(moments[i].text) + _A_GAP
            if moments[i].worth > 0 and cost <= (min(left, people) if moments[i].kind == "user" else left):
                chosen.append(i)
                left -= cost
                people -= cost * (moments[i].kind == "user")
        whole = {moments[i].turn for i in chosen if moments[i].kind == "assistant" and not moments[i].excerpt}
        chosen = [i for i in chosen if not (moments[i].excerpt and moments[i].turn in whole)]
        while chosen and count(text := self._lay_out(moments, set(chosen))) > room:
            chosen.pop()
        more = self._lay_out(moments, set(chosen), _NAMED_AT_MOST)
        text = more if count(more) <= room else text
        self.left_out = sum(moment.worth > 0 for moment in moments) - len(chosen)
        return text

    def own_words(self, room: int, count: Count, shown: str = "") -> str:
        """People's messages in order, where what is `shown` quotes only few of them, and decisions that it lacks.

        Long ones are shortened so that all find a place; should not all fit, the first and the newest of them.
        """
        ledger, chosen, room = self._ledger, list[tuple[int, str]](), int(min(room, self._people))
        said = [
            saying for saying in ledger.sayings if saying.turn not in self._kept and (saying.by_person or saying.lasts)
        ]
        people = [_quoted(saying.text, shown, 0) for saying in said if saying.by_person]
        if sum(people) >= min(len(people) / 4, _ENOUGH):
            return ""
        said = [saying for saying in said if not _quoted(saying.text, shown)]
        said.sort(key=lambda saying: -worth(saying, ledger, 0))
        least = _A_LINE if 2 * _A_LINE * len(said) <= room else 0  # room for all of them, if that leaves some
        for i, saying in enumerate(said, 1):
            for width, others in ((_LONGEST_BESIDE, (len(said) - i) * least), (_SHORTEST_BESIDE, 0)):
                line = f"{self._whose(saying, width)} {quote(head_and_tail(one_line(saying.text), width))}"
                if (cost := count(line) + 1) + others <= room:
                    chosen.append((saying.turn, line))
                    room -= cost
                    break
        return "\n".join(line for _, line in sorted(chosen))

    def _moments(self, room: int) -> Iterator[Moment]:
        ledger = self._ledger
        for saying in ledger.sayings:
            if saying.turn not in self._kept:
                text = self._saying(saying, 2 * room)
                rank = worth(saying, ledger, len(text))
                if self._talk:  # nothing fades, but where it stood is told
                    rank = saying.weight * (2 if saying.turn == ledger.sayings[-1].turn else 1)
                kind = "user" if saying.by_person else _speaker(saying)
                yield Moment(saying.turn, text, rank, kind, excerpt=saying.lasts)
        width = min(max(room // 8, 70), 320)
        for action in ledger.actions:
            if action.rejection:  # told by the person's words
                continue
            text = self._lines.action(action, width, gist=True)
            deed = deed_of(action)
            named = action.paths[:1] if deed in {"read", "change", "create"} and not action.failed else ()
            name = "".join(named).rstrip("/").rpartition("/")[2]
            shown = weight_of(action) >= _LEAST
            kind = "failed" if action.failed else deed
            yield Moment(action.turn, text, worth(action, ledger, len(text)) if shown else 0.0, kind, name)

    def _saying(self, saying: Saying, most: int) -> str:
        """What somebody said: people exactly, between fences where a line of theirs could pose as another's."""
        whose = self._whose(saying, _OFFER)
        longest = _LONGEST_TOLD if saying.by_person else _REPORT if saying.turn < self._late else most
        longest = most if saying.retold else longest
        text = whole_lines(saying.text, max(min(most, longest), 200))
        if saying.by_person:
            plain = "\n" not in text and neutral(text) == text
            return f"{whose} \u201c{text}\u201d" if plain else f"{whose}\n{fenced(text)}"
        return f"{whose} {indent(text)}" if "\n" in text else f"{whose} {quote(text)}"

    def _whose(self, saying: Saying, width: int) -> str:
        """The number of a message and who says it; of a person's what became of it, and what a short one replies to."""
        who = self._words[_speaker(saying)].replace("{call}", quote(saying.rejected, width))
        return f"- [{saying.turn}] {who}{self._beside(saying.turn, width) if saying.by_person else ''}:"

    def _beside(self, turn: int, width: int) -> str:
        request = self._requests.get(turn)
        if request is None:
            return ""
        told = f" ({self._words[request.state]})" if request.state in {"withdrawn", "interrupted", "left"} else ""
        reply = self.reply(turn, width)
        return f"{told}, {reply}" if reply else told

    def reply(self, turn: int, width: int = _OFFER, said: str = "") -> str:
        """What a short message, which is all that was `said`, replies to; "" where it is long or replies to nothing."""
        request = self._requests.get(turn)
        if request is None or not request.context or said not in {"", request.text.strip()}:
            return ""
        if len(request.text) > _REPLY:
            return ""
        return f"{self._words['reply']} {quote(request.context, width)}"

    def _lay_out(self, moments: Sequence[Moment], chosen: Collection[int], named: int = _NAMED) -> str:
        lines: list[str] = []
        gap: list[Moment] = []
        for i, moment in enumerate(moments):
            if i not in chosen:
                gap.append(moment)
                continue
            lines += [self._gap(gap, moment.turn, named), moment.text] if gap else [moment.text]
            gap = []
        lines += [self._gap(gap, self._ledger.end, named)] if gap else []
        return "\n".join(lines)

    def _gap(self, gap: Sequence[Moment], end: int, named: int) -> str:
        """What is left out here, up to what is told next, in numbers; of files the names of a few."""
        told = []
        for kind, number in Counter(moment.kind for moment in gap).items():
            names = list(dict.fromkeys(moment.name for moment in gap if moment.kind == kind and moment.name))
            if names:
                more = f" +{len(names) - named}" if len(names) > named else ""
                told.append(f"{self._words[kind]} {', '.join(map(neutral, names[:named]))}{more}")
            else:
                told.append(f"{self._words[kind]} {TIMES}{number}")
        turns = sorted({gap[0].turn, max(gap[-1].turn, end - 1)})
        return f"  \u2026 [{'-'.join(map(str, turns))}] {one_line('; '.join(told))}"


def _speaker(saying: Saying) -> str:
    """The label of who speaks."""
    if saying.retold:
        return "retold"
    return "rejecting" if saying.rejected else "user" if saying.by_person else "assistant"


def _quoted(text: str, shown: str, least: float = 0.5) -> bool:
    """Whether the text, or of a long one more than this share of its sentences, stands in what is shown."""
    said = [sentence for sentence in sentences(text) if len(sentence) >= _TELLING] or [text]
    return sum(sentence in shown for sentence in said) > len(said) * least
