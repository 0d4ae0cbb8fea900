"""The story of a conversation: what was said and done, in order, abridged to the room that there is.

People's words and the assistant's stand as they stood, what was done on one line each. What finds no place is told by
numbers where it was, so that a reader sees that something is missing there and can fetch it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf, sqrt
from typing import NamedTuple

from unabridged.ledger.action_lines import TIMES, ActionLines, deed_of
from unabridged.ledger.entries import CHANGES, Action, Ledger, Saying
from unabridged.ledger.outcomes import LIMIT
from unabridged.ledger.sayings import is_talk
from unabridged.text_tools import Count, fenced, head_and_tail, indent, neutral, one_line, quote, sentences, whole_lines

_WEIGHTS = {"create": 4.0, "change": 4.0, "delete": 4.0, "move": 4.0, "run": 1.2, "call": 1.2}
_LOOKED, _FAILED, _ENDED, _WROTE = 0.3, 4.0, 0.8, 8.0
"""What was merely looked at, what failed, how much more it is when it ended with a word on how, and a document."""
_KEPT = "git commit"
"""What makes of a command one that changes something."""
_NEWEST, _LAST = 24, 2
"""Messages at the end whose moments count more, and much more: there the work goes on."""
_LEAST = 1.0
"""The weight of what is worth a line of its own."""
_EVEN = 60
"""Added to every length, so that short remarks do not crowd out what tells something."""
_USUAL = 140
"""Characters of what somebody says: what lasts counts as much however long it is."""
_SAID, _DONE, _REPORTED = (600, 1_000, 2_000), (130, 300, 600), (420, 1_000, 2_000)
"""Characters of what is said, done, and written at length: a little of all, then more of what tells most."""
_STOOD, _FIRST = 3, 2.0
"""The last actions, which like the assistant's last words tell where it stood: a little of them first, the latest."""
_BESIDE, _ENOUGH = (120, 360), 6
"""Characters of a message beside a model's prose; messages that it quotes in part, from which on none is listed."""
_OFFER, _REPLY, _TELLING = 300, 80, 12
"""Characters of what a short message replies to, of such a message, and of a sentence that says something by itself."""
_TOLD_IN_GAPS, _NAMED = CHANGES | {"failed", "retold"}, 4
"""What a gap tells of, and how many files it names."""
_A_GAP = 3
"""Tokens put by for a gap."""


class Moment(NamedTuple):
    """One thing that was said or done, in one or more lengths, and what a gap says of it when it finds no place."""

    turn: int
    worth: float
    """Of its shortest version; each longer one as much less as it is longer."""
    texts: Sequence[str]
    kind: str = "user"
    """The label of the deed, or of who spoke."""
    name: str = ""
    """What it went to, where a gap should name it."""
    reply: str = ""
    """The part of a person's text that quotes what it replies to."""
    last: bool = False
    """Whether it tells where it stood, so that at least a little of it is told first of all."""


def worth(entry: Saying | Action, ledger: Ledger, size: int) -> float:
    """How much a moment matters for its size: its weight, less the longer ago it was, more at the very end.

    What people said and what was decided counts the same however long it is; the first of it, which all else rests on,
    like the last; a decision as long as no other is made, and so a plan or another document that was written.
    """
    lasts = entry.lasts or entry.retold if isinstance(entry, Saying) else len(entry.gist) > LIMIT
    person = isinstance(entry, Saying) and entry.by_person
    age = 0.0 if lasts else min((ledger.end - entry.turn) / max(ledger.end - ledger.first, 1), 1.0)
    edge = ledger.end - entry.turn <= _NEWEST or (person and entry.turn - ledger.first < _NEWEST)
    if person or lasts:
        return weight_of(entry) * (1 - age / 2 + edge) / sqrt(_USUAL + _EVEN)
    last = ledger.end - entry.turn <= _LAST
    return weight_of(entry) * (1 - age / 2 + edge / 2 + last) / sqrt(size + _EVEN)


def weight_of(entry: Saying | Action) -> float:
    """What a moment weighs by what it is."""
    if isinstance(entry, Saying):
        return entry.weight
    if entry.failed:
        return _FAILED if deed_of(entry) not in {"read", "search", "list"} else _LEAST
    weight = _WEIGHTS.get("change" if _KEPT in entry.target else deed_of(entry), _LOOKED)
    weight = _WROTE if len(entry.gist) > LIMIT else _FAILED if len(entry.outcome) > LIMIT else weight
    return weight + _ENDED if entry.outcome else weight


class Story:
    """The moments of a ledger, and as many of them as there is room for."""

    def __init__(
        self, ledger: Ledger, words: Mapping[str, str], root: str, shown: Collection[Saying] = (), people: float = inf
    ) -> None:
        """`shown` is what stands elsewhere anyway; `people` is what people's words may take, in tokens."""
        self._ledger, self._words, self._people = ledger, words, people
        self._sayings = [saying for saying in ledger.sayings if saying not in shown]
        self._requests = {request.turn: request for request in ledger.requests}
        self._lines = ActionLines(ledger, words, root)
        self._talk = is_talk(ledger.actions, len(ledger.requests))
        self.left_out = 0

    def tell(self, room: int, count: Count) -> str:
        """The story within so many tokens; "" where there is no room for any of it."""
        moments = sorted(self._moments(), key=lambda moment: moment.turn)
        chosen = self._choose(moments, room, count)
        told, text = {i: version for i, _, version, _ in chosen}, ""
        while chosen and (over := count(text := self._lay_out(moments, told)) - room) > 0:
            while chosen and over > 0:
                i, before, _, cost = chosen.pop()
                told[i], over = before, over - cost
        self.left_out = sum(moment.worth > 0 for moment in moments) - sum(map(bool, told.values()))
        return text if chosen else ""

    def own_words(self, room: int, count: Count, shown: str = "") -> str:
        """People's messages in order, where what is `shown` quotes only few of them, and decisions that it lacks.

        Long ones are shortened so that all find a place; should not all fit, the first and the newest of them.
        """
        said = [saying for saying in self._sayings if not saying.retold and (saying.by_person or saying.lasts)]
        people = [saying for saying in said if saying.by_person]
        if sum(_quoted(saying.text, shown, 0) for saying in people) >= min(len(people) / 4, _ENOUGH):
            return ""
        moments = []
        for saying in (saying for saying in said if not _quoted(saying.text, shown)):
            widths = _BESIDE[1:] if saying in people[:2] else _BESIDE  # who set the scene is quoted at length
            texts = [f"{self._whose(saying, n)} {quote(head_and_tail(one_line(saying.text), n))}" for n in widths]
            moments.append(Moment(saying.turn, worth(saying, self._ledger, 0), texts))
        chosen = {i: text for i, _, text, _ in self._choose(moments, room, count)}
        return "\n".join(chosen[i] for i in sorted(chosen, key=lambda i: moments[i].turn))

    def _choose(self, moments: Sequence[Moment], room: float, count: Count) -> list[tuple[int, str, str, int]]:
        """Which moments are told: first a little of all, then more of those that matter most.

        Of each choice the place, what it replaces, its text, and what it costs.
        """
        told, chosen, people = dict[int, str](), list[tuple[int, str, str, int]](), self._people
        ranked = (
            (-_FIRST - i if m.last and text == m.texts[0] else -m.worth * len(m.texts[0]) / len(text), i, text)
            for i, m in enumerate(moments)
            for text in m.texts
        )
        for rank, i, text in sorted(ranked):
            before, by_person = told.get(i, ""), moments[i].kind == "user"
            cost = count(text) - count(before) if before else count(text) + _A_GAP
            if rank < 0 and cost <= (min(room, people) if by_person else room):
                chosen.append((i, before, text, cost))
                told[i], room, people = text, room - cost, people - cost * by_person
        return chosen

    def _moments(self) -> Iterator[Moment]:
        ledger = self._ledger
        newest = max((saying.turn for saying in ledger.sayings if not saying.by_person), default=-1)
        for saying in self._sayings:
            texts = [self._saying(saying, width) for width in _SAID[: bisect_left(_SAID, len(saying.text)) + 1]]
            rank = worth(saying, ledger, len(texts[0]))
            if self._talk:  # nothing fades, but where it stood is told
                rank, texts = saying.weight * (2 if saying.turn == ledger.sayings[-1].turn else 1), texts[-1:]
            kind = "user" if saying.by_person else "excerpt" if saying.lasts else _speaker(saying)
            told = {"reply": self.reply(saying.turn)} if saying.by_person else {"last": saying.turn == newest}
            yield Moment(saying.turn, rank, texts, kind, **told)
        for i, action in enumerate(ledger.actions, _STOOD - len(ledger.actions)):
            if action.rejection:  # told by the person's words
                continue
            shown = i >= 0 or weight_of(action) >= _LEAST
            texts = [self._lines.action(action, width, gist=True) for width in _widths(action) if shown]
            rank = worth(action, ledger, len(texts[0])) if shown else 0.0
            name = "".join(action.paths[:1]).rstrip("/").rpartition("/")[2] if not action.failed else ""
            yield Moment(action.turn, rank, texts, "failed" if action.failed else deed_of(action), name, last=i >= 0)

    def _saying(self, saying: Saying, longest: int) -> str:
        """What somebody said: people exactly, between fences where a line of theirs could pose as another's."""
        whose = self._whose(saying, _OFFER)
        text = whole_lines(saying.text, longest)
        if saying.by_person:
            plain = "\n" not in text and neutral(text) == text
            return f"{whose} \u201c{text}\u201d" if plain else f"{whose}\n{fenced(text)}"
        text = "\n".join(line for line in text.splitlines() if line.strip())
        return f"{whose} {indent(text)}" if "\n" in text else f"{whose} {quote(text)}"

    def _whose(self, saying: Saying, width: int) -> str:
        """The number of a message and who says it; of a person's what became of it, and what a short one replies to."""
        who = self._words[_speaker(saying)].replace("{call}", quote(saying.rejected, width))
        request = self._requests.get(saying.turn) if saying.by_person else None
        if request and request.state in {"withdrawn", "interrupted", "left"}:
            who += f" ({self._words[request.state]})"
        reply = self.reply(saying.turn, width) if request else ""
        return f"- [{saying.turn}] {who}, {reply}:" if reply else f"- [{saying.turn}] {who}:"

    def reply(self, turn: int, width: int = _OFFER, said: str = "") -> str:
        """What a short message, which is all that was `said`, replies to; "" where it is long or replies to nothing."""
        request = self._requests.get(turn)
        if request is None or not request.context or said not in {"", request.text.strip()}:
            return ""
        if len(request.text) > _REPLY:
            return ""
        return f"{self._words['reply']} {quote(request.context, width)}"

    def _lay_out(self, moments: Sequence[Moment], told: Mapping[int, str]) -> str:
        whole = {moments[i].turn for i, text in told.items() if text and moments[i].kind == "assistant"}
        lines, gap, spoke = list[str](), list[Moment](), False
        for i, moment in enumerate(moments):
            if not (text := told.get(i, "")) or (moment.kind == "excerpt" and moment.turn in whole):
                gap.append(moment)
                continue
            lines += self._gap(gap, moment.turn)
            offer = moment.reply.partition("\u201c")[2].rstrip("\u201d")
            before = one_line(lines[-1]) if spoke and offer else ""
            stands = before and (offer[:_REPLY] in before or offer[-_REPLY:] in before)
            lines.append(text.replace(f", {moment.reply}", "", 1) if stands else text)
            gap, spoke = [], moment.kind == "assistant"
        return "\n".join([*lines, *self._gap(gap, self._ledger.end)])

    def _gap(self, gap: Sequence[Moment], end: int) -> list[str]:
        """What is left out here, up to what is told next: changed files by name, failures by their number."""
        told = []
        for kind, number in Counter(moment.kind for moment in gap if moment.kind in _TOLD_IN_GAPS).items():
            names = list(dict.fromkeys(moment.name for moment in gap if moment.kind == kind and moment.name))
            more = f" +{len(names) - _NAMED}" if len(names) > _NAMED else ""
            told.append(f"{self._words[kind]} {', '.join(map(neutral, names[:_NAMED])) or f'{TIMES}{number}'}{more}")
        acted = any(moment.kind not in {"assistant", "excerpt"} for moment in gap)
        turns = sorted({gap[0].turn, max(gap[-1].turn, end - 1)}) if gap else []
        return [f"  \u2026 [{'-'.join(map(str, turns))}] {one_line('; '.join(told))}".rstrip()] if acted else []


def _widths(action: Action) -> Sequence[int]:
    """The lengths in which an action is told: no more of them than it takes to tell it whole."""
    longest = max(len(action.target), len(action.gist), len(action.outcome))
    widths = _REPORTED if longest > LIMIT else _DONE
    return widths[: bisect_left(widths, longest) + 1]


def _speaker(saying: Saying) -> str:
    """The label of who speaks."""
    if saying.retold:
        return "doubtful" if saying.by_person else "retold"
    return "rejecting" if saying.rejected else "user" if saying.by_person else "assistant"


def _quoted(text: str, shown: str, least: float = 0.5) -> bool:
    """Whether the text, or of a long one more than this share of its sentences, stands in what is shown."""
    said = [sentence for sentence in sentences(text) if len(sentence) >= _TELLING] or [text]
    return sum(sentence in shown for sentence in said) > len(said) * least
