"""Tell the story of a conversation: what was said and done, in order, abridged to the room that there is.

People's words and the assistant's stand as they stood, what was done on one line each. What finds no place is told by
numbers where it was, so that a reader sees that something is missing there and can fetch it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from unabridged.summary.action_lines import TIMES_SIGN, ActionLines, find_effective_deed
from unabridged.summary.ledger import CHANGING_DEEDS, Action, Ledger, Remark
from unabridged.summary.outcomes import LIMIT
from unabridged.summary.people import cut_to_last_sentences
from unabridged.summary.remarks import is_mere_talk
from unabridged.text_tools import Count, cut_to_whole_lines, indent, neutralise_markup, quote, to_one_line

_DEED_WEIGHTS = {"create": 4.0, "change": 4.0, "delete": 4.0, "move": 4.0, "run": 1.2, "call": 1.2}
_LOOK_WEIGHT, _ERROR_WEIGHT, _RESULT_WEIGHT, _DOCUMENT_WEIGHT = 0.3, 4.0, 0.8, 8.0
"""Weights of what only looked, of an error, what a result adds, and of a document that was written."""
_COMMIT_COMMAND = "git commit"
"""What makes of a command one that changes something."""
_NEWEST_MESSAGES, _LAST_MESSAGES = 24, 2
"""Messages at the end whose moments count more, and much more: there the work goes on."""
_MIN_WORTH = 1.0
"""The weight of what is worth a line of its own."""
_LENGTH_OFFSET = 60
"""Added to every length, so that short remarks do not crowd out what tells something."""
_DOCUMENT_CHARACTERS = 140
"""Characters that a document counts as, however long it is."""
_SAID, _DONE, _REPORTED = (600, 1_000, 2_000), (130, 300, 600), (420, 1_000, 2_000)
"""Characters of what is said, done, and written at length: a little of all, then more of what tells most."""
_CLOSING, _CLOSING_SHARE = 300, 0.4
"""Characters of the assistant's last words before a person speaks, and the share of the room that these have first."""
_FIRST_RANK, _LATER_RANK = -2e9, -1e9
"""Ranks below which a moment tells where it stood, and below which it is a closing word."""
_LAST_ACTIONS = 3
"""The last actions, which like the assistant's last words tell where it stood: a little of them first, the latest."""
_LISTED_IN_GAPS, _NAMES_IN_GAP = CHANGING_DEEDS | {"failed", "retold", "user"}, 4
"""What a gap tells of, and how many files it names."""
_GAP_TOKENS = 3
"""Tokens set aside for a gap."""
_SAME_CHARACTERS = 80
"""Characters at either end by which a quotation is known to stand in the line above."""


class StoryMoment(NamedTuple):
    """One thing that was said or done, in one or more lengths, and what a gap says of it when it finds no place."""

    turn: int
    worth: float
    """Of its shortest version; each longer one as much less as it is longer."""
    texts: Sequence[str]
    kind: str
    """The label of the deed, or of who spoke."""
    name: str = ""
    """What it went to, where a gap should name it."""
    last: bool = False
    """Whether it tells where it stood, so that at least a little of it is told first of all."""
    closes: bool = False
    """Whether it is the assistant's last word before a person speaks: a little of each comes next, the newest first."""


_Choice = tuple[int, str, str, int]
"""The place of a moment that is told, what its text replaces, the text, and what it costs."""


def rate_moment(entry: Remark | Action, ledger: Ledger, size: int) -> float:
    """Return the worth of a moment for its size: its weight, less with age, more at the very end.

    A document that was written, and another system's summary, count the same however long ago and however long.
    """
    lasts = entry.retold if isinstance(entry, Remark) else len(entry.gist) > LIMIT
    since = ledger.end - entry.turn
    age = 0.0 if lasts else min(since / max(ledger.end - ledger.first, 1), 1.0)
    recent = 1 - age / 2 + (since <= _NEWEST_MESSAGES) / 2 + (since <= _LAST_MESSAGES)
    return weigh_moment(entry) * recent / sqrt((_DOCUMENT_CHARACTERS if lasts else size) + _LENGTH_OFFSET)


def weigh_moment(entry: Remark | Action) -> float:
    """Return what a moment weighs by what it is."""
    if isinstance(entry, Remark):
        return entry.weight
    if entry.failed:
        return _ERROR_WEIGHT if find_effective_deed(entry) not in {"read", "search", "list"} else _MIN_WORTH
    deed = "change" if _COMMIT_COMMAND in entry.target else find_effective_deed(entry)
    weight = _DEED_WEIGHTS.get(deed, _LOOK_WEIGHT)
    weight = _DOCUMENT_WEIGHT if len(entry.gist) > LIMIT else _ERROR_WEIGHT if len(entry.outcome) > LIMIT else weight
    return weight + _RESULT_WEIGHT if entry.outcome else weight


class Story:
    """The moments of a ledger, and as many of them as there is room for; people's words are given as they are told."""

    def __init__(self, ledger: Ledger, words: Mapping[str, str], root: str, people: Mapping[int, str]) -> None:
        self._ledger, self._words, self._people = ledger, words, people
        self._lines = ActionLines(ledger, words, root)
        self._talk = is_mere_talk(ledger.actions, len(ledger.people))
        self.left_out = 0

    def render_story(self, room: int, count: Count) -> str:
        """Return people's words, and as much else as so many tokens take."""
        moments = sorted(self._build_moments(), key=lambda moment: (moment.turn, moment.kind == "user"))
        told = {i: moment.texts[0] for i, moment in enumerate(moments) if moment.kind == "user"}
        spoken = sum(count(text) + 1 for text in told.values())
        chosen = self._choose_moments(moments, room, count)
        told |= {i: version for i, _, version, _ in chosen}
        text = self._render_lines(moments, told)
        while chosen and (over := count(text) - room - spoken) > 0:
            while chosen and over > 0:
                i, before, _, cost = chosen.pop()
                told[i], over = before, over - cost
            text = self._render_lines(moments, told)
        self.left_out = sum(moment.worth > 0 for moment in moments) - sum(map(bool, told.values()))
        return text if chosen else "\n".join(filter(None, told.values()))

    def _choose_moments(self, moments: Sequence[StoryMoment], room: float, count: Count) -> list[_Choice]:
        """Return which moments are told: first a little of all, then more of those that matter most."""
        told, chosen = dict[int, str](), list[_Choice]()
        for_closing = room * _CLOSING_SHARE
        for rank, i, text in sorted(_rank_versions(moments)):
            before, first = told.get(i, ""), _FIRST_RANK < rank < _LATER_RANK
            cost = count(text) - count(before) if before else count(text) + _GAP_TOKENS
            if text != before and cost <= (min(room, for_closing) if first else room):
                chosen.append((i, before, text, cost))
                told[i], room, for_closing = text, room - cost, for_closing - cost * first
        return chosen

    def _build_moments(self) -> Iterator[StoryMoment]:
        ledger = self._ledger
        for message in ledger.people:  # one that is not quoted leaves a gap
            text = self._people.get(message.turn, "")
            yield StoryMoment(message.turn, float(bool(text)), [text], "user")
        newest = max((remark.turn for remark in ledger.remarks), default=-1)
        for remark in ledger.remarks:
            texts = [self._render_remark(remark, width) for width in _SAID[: bisect_left(_SAID, len(remark.text)) + 1]]
            rank = rate_moment(remark, ledger, len(texts[0]))
            closes = remark.closing and not self._talk
            if closes and len(remark.text) > _CLOSING:
                end = f"\u2026 {cut_to_last_sentences(remark.text, _CLOSING)}"
                texts.insert(0, f"- [{remark.turn}] {self._words['assistant']}: {quote(end)}")
            if self._talk:  # nothing fades, but where it stood is told
                rank, texts = remark.weight * (2 if remark.turn == newest else 1), texts[-1:]
            who, is_newest = _choose_speaker_label(remark), remark.turn == newest
            yield StoryMoment(remark.turn, rank, texts, who, last=is_newest, closes=closes)
        documents = [action for action in ledger.actions if len(action.gist) > LIMIT]
        newest_document = {path: action for action in documents for path in action.paths}
        for i, action in enumerate(ledger.actions, _LAST_ACTIONS - len(ledger.actions)):
            if action.rejection:  # told by the person's words
                continue
            shown = i >= 0 or weigh_moment(action) >= _MIN_WORTH
            widths = _choose_widths(action)
            if action in documents and any(newest_document[path] != action for path in action.paths):
                widths = _DONE[:1]  # it was written anew since
            texts = [self._lines.write_action(action, width, gist=True) for width in widths if shown]
            rank = rate_moment(action, ledger, len(texts[0])) if shown else 0.0
            name = "".join(action.paths[:1]).rstrip("/").rpartition("/")[2] if not action.failed else ""
            kind = "failed" if action.failed else find_effective_deed(action)
            yield StoryMoment(action.turn, rank, texts, kind, name, last=i >= 0)

    def _render_remark(self, remark: Remark, longest: int) -> str:
        """Return what the assistant said, none of whose lines can pose as one of ours."""
        text = "\n".join(line for line in cut_to_whole_lines(remark.text, longest).splitlines() if line.strip())
        who = f"- [{remark.turn}] {self._words[_choose_speaker_label(remark)]}:"
        return f"{who} {indent(text)}" if "\n" in text else f"{who} {quote(text)}"

    def _render_lines(self, moments: Sequence[StoryMoment], told: Mapping[int, str]) -> str:
        lines, gap = list[str](), list[StoryMoment]()
        for i, moment in enumerate(moments):
            if not (text := told.get(i, "")):
                gap.append(moment)
                continue
            lines += self._describe_gap(gap, moment.turn)
            lines.append(self._remove_repeated_reply(text, lines) if moment.kind == "user" else text)
            gap = []
        return "\n".join([*lines, *self._describe_gap(gap, self._ledger.end)])

    def _remove_repeated_reply(self, text: str, lines: Sequence[str]) -> str:
        """Return a person's line without the words of the assistant that it answers, where they stand right above."""
        head, reply, rest = text.partition(f", {self._words['reply']} \u201c")
        offer, end, said = rest.partition("\u201d:")
        above = to_one_line(lines[-1]) if lines and reply and end else ""
        repeats = above and (offer[:_SAME_CHARACTERS] in above or offer[-_SAME_CHARACTERS:] in above)
        return f"{head}:{said}" if repeats else text

    def _describe_gap(self, gap: Sequence[StoryMoment], end: int) -> list[str]:
        """Return what is left out here, up to what is told next: changed files by name, errors by their number."""
        told = []
        for kind, number in Counter(moment.kind for moment in gap if moment.kind in _LISTED_IN_GAPS).items():
            names = list(dict.fromkeys(moment.name for moment in gap if moment.kind == kind and moment.name))
            more = f" +{len(names) - _NAMES_IN_GAP}" if len(names) > _NAMES_IN_GAP else ""
            what = ", ".join(map(neutralise_markup, names[:_NAMES_IN_GAP])) or f"{TIMES_SIGN}{number}"
            told.append(f"{self._words[kind]} {what}{more}")
        acted = any(moment.kind != "assistant" for moment in gap)
        turns = sorted({gap[0].turn, max(gap[-1].turn, end - 1)}) if gap else []
        return [f"  \u2026 [{'-'.join(map(str, turns))}] {to_one_line('; '.join(told))}".rstrip()] if acted else []


def _rank_versions(moments: Sequence[StoryMoment]) -> Iterator[tuple[float, int, str]]:
    """Yield each version of each moment with its rank, lowest first: last moments, closing words, the rest."""
    for i, moment in enumerate(moments):
        for text in moment.texts if moment.kind != "user" and moment.worth > 0 else ():
            if text == moment.texts[0] and moment.last:
                yield _FIRST_RANK - i, i, text
            if text == moment.texts[0] and moment.closes:
                yield _LATER_RANK - 1 - i, i, text
            yield -moment.worth * len(moment.texts[0]) / len(text), i, text


def _choose_widths(action: Action) -> Sequence[int]:
    """Return the lengths in which an action is told: no more of them than it takes to tell it whole."""
    longest = max(len(action.target), len(action.gist), len(action.outcome))
    widths = _REPORTED if longest > LIMIT else _DONE
    return widths[: bisect_left(widths, longest) + 1]


def _choose_speaker_label(remark: Remark) -> str:
    """Return the label of who speaks."""
    return "retold" if remark.retold else "assistant"
