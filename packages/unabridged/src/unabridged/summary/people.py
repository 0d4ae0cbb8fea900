"""Quote what people said, word for word within a budget: every message with its number, in order.

Nothing is said about a message but what the list shows: its number, its speaker, how often it came in a row, and for
one of few words what the assistant had said right before it. Which of them are cut depends on lengths alone, so it is
the same in every language.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from types import MappingProxyType
from typing import NamedTuple

from unabridged.authorship import remove_host_words
from unabridged.authorship.own_words import is_host_text
from unabridged.messages import Media, View
from unabridged.summary.action_lines import TIMES_SIGN
from unabridged.summary.ledger import Action, PersonMessage
from unabridged.text_tools import (
    Count,
    cut_to_head_and_tail,
    cut_to_whole_lines,
    find_common_cap,
    neutralise_markup,
    quote,
    split_sentences,
    to_one_line,
    wrap_in_fence,
)

SHORT_REPLY_TOKENS = 12
"""Tokens of a message that says little without what it answers."""
MIN_QUOTATION_TOKENS = 48
"""Tokens that a message is cut down to before some are dropped: about 30 as models count, for the estimate is high."""
MAX_PEOPLE_CHARACTERS = 240_000
"""Characters of all messages of people that a ledger holds."""
_SHORT_CHARACTERS = 120
"""Characters of a message that is stored with what it answers."""
_REPLY, _SHORT_REPLY = 300, 80
"""Characters of what a short message answers; the same where room is short."""
_REJECTION_CHARACTERS = 120
"""Characters of a call that a person rejected."""
_BRACKET_TABLE = str.maketrans("[]", "()")
"""A name cannot end the brackets that it stands in."""
_FENCE_TOKENS = 4
"""Tokens of the marks around a quotation."""


# -- what people said -------------------------------------------------------------------------------------------------


def collect_people_messages(
    views: Sequence[View], turns: Sequence[int], actions: Iterable[Action], answered: str = ""
) -> tuple[PersonMessage, ...]:
    """Return every message of a person in these views, and what people said when they rejected a call.

    `answered` is what the assistant said right before.
    """
    found, numbered = list[PersonMessage](), list(zip(turns, views, strict=True))
    for turn, view in numbered:
        if view.origin == "model":
            answered = "" if view.calls else cut_to_last_sentences(view.text)
        elif view.origin == "person" and (view.text.strip() or view.media):
            # An image may come with a host's words.
            own = "" if is_host_text(view.text) else remove_host_words(view.text).strip()
            text = "\n".join(filter(None, [own, *(describe_attachment(m, turn) for m in view.media)]))
            reply = answered if len(text) <= _SHORT_CHARACTERS else ""
            found.append(PersonMessage(turn, text, to_one_line(view.speaker, 40), reply))
            answered = ""
    for action in actions:
        if action.rejection:
            call = to_one_line(f"{action.tool} {action.target}", _REJECTION_CHARACTERS)
            said_in = (i for i, view in numbered if i > action.turn and _is_rejection_result(view, action))
            found.append(PersonMessage(next(said_in, action.turn), action.rejection, rejected=call))
    return merge_people_messages((), sorted(found, key=lambda message: message.turn))


def _is_rejection_result(view: View, action: Action) -> bool:
    """Return whether this message is the result with which a person rejected the call."""
    return any(answer.error and action.rejection in answer.text for answer in view.answers)


def merge_people_messages(older: Sequence[PersonMessage], newer: Sequence[PersonMessage]) -> tuple[PersonMessage, ...]:
    """Return the messages of two stretches in order; equal ones in a row become one.

    One that is met again, because it stayed for a while, is as it was first met: whole, and with what it answers.
    """
    known = {(message.turn, message.rejected) for message in older}
    joined = list[PersonMessage]()
    found = (*older, *(message for message in newer if (message.turn, message.rejected) not in known))
    for message in sorted(found, key=lambda message: message.turn):
        before = joined[-1] if joined else None
        if before is not None and _is_repetition(before, message):
            last = max(message.turn, message.last)
            times = before.times + message.times
            joined[-1] = replace(before, times=times, last=last, reply="")
        elif before is None or message.rejected or message.turn > max(before.turn, before.last):
            joined.append(message)
    cap = find_common_cap([len(message.text) for message in joined], MAX_PEOPLE_CHARACTERS)
    return tuple(replace(m, text=cut_to_head_and_tail(m.text, cap)) if len(m.text) > cap else m for m in joined)


def _is_repetition(one: PersonMessage, other: PersonMessage) -> bool:
    same = (one.text, one.speaker, one.rejected) == (other.text, other.speaker, other.rejected)
    return same and other.turn > max(one.turn, one.last)


def cut_to_last_sentences(text: str, limit: int = _REPLY) -> str:
    """Return as many whole sentences from the end of a text as the limit takes; at least the end of the last one."""
    kept = list[str]()
    for sentence in reversed(split_sentences(text[-8 * limit :])):
        if sum(map(len, kept)) + len(kept) + len(sentence) > limit:
            break
        kept.insert(0, sentence)
    return " ".join(kept) or cut_to_head_and_tail(to_one_line(text[-limit:]), limit)


def describe_attachment(media: Media, turn: int) -> str:
    """Return an attachment by its kind and name, with the number of its message: `[image plan.png, message 3]`."""
    name = to_one_line(media.name, 80).translate(_BRACKET_TABLE)
    return f"[{' '.join(filter(None, [media.kind, name]))}, message {turn}]"


# -- what is quoted ---------------------------------------------------------------------------------------------------


class Quotations(NamedTuple):
    """The quotations by the number of their message, how many messages found no place, and a line for each gap."""

    lines: Mapping[int, str]
    dropped: int = 0
    gaps: Mapping[int, str] = MappingProxyType({})

    def render_lines(self) -> str:
        """Return the quotations in order, with a line wherever messages are left out."""
        return "\n".join(
            text for _, text in sorted((*self.gaps.items(), *self.lines.items()), key=lambda line: line[0])
        )


def quote_all_messages(
    people: Sequence[PersonMessage], room: int, count: Count, words: Mapping[str, str]
) -> Quotations:
    """Quote every message within so many tokens.

    The first, the newest and the newest that is not short are whole up to a quarter of the room each, and more where
    the others leave it. The others are cut to one height; below `MIN_QUOTATION_TOKENS` some are dropped, from the
    middle outward.
    """
    if room <= 0:
        return Quotations({}, sum(message.times for message in people))
    lines = _QuotationLines(people, count, words, room)
    chosen = _find_principal_messages(lines)
    quarter = room // 4
    left = room - sum(lines.heads[i] + min(lines.sizes[i], quarter) for i in chosen)
    others = list[int]()
    for i in _alternate_from_ends(range(len(people)), chosen):
        least = lines.heads[i] + min(lines.sizes[i], MIN_QUOTATION_TOKENS)
        if least > left:
            break
        others.append(i)
        left -= least
    spare = left + sum(min(lines.sizes[i], MIN_QUOTATION_TOKENS) for i in others)
    height = find_common_cap([lines.sizes[i] for i in others], spare)
    taken = sum(min(lines.sizes[i], height) for i in others) + sum(lines.heads[i] for i in (*chosen, *others))
    most = max(quarter, find_common_cap([lines.sizes[i] for i in chosen], room - taken))  # what the others leave
    return lines.quote_within({**dict.fromkeys(others, height), **dict.fromkeys(chosen, most)})


def quote_newest_messages(
    people: Sequence[PersonMessage], room: int, count: Count, words: Mapping[str, str]
) -> Quotations:
    """Quote the newest messages whole within so many tokens, and the first one.

    The one that does not fit is shortened to its beginning and its end; the first takes at most a quarter of the room.
    """
    if not people or room <= 0:
        return Quotations({}, sum(message.times for message in people))
    lines = _QuotationLines(people, count, words, room)
    caps = {0: min(lines.sizes[0], room // 4)}
    left = room - lines.heads[0] - caps[0]
    for i in range(len(people) - 1, 0, -1):
        cap = min(lines.sizes[i], left - lines.heads[i])
        if cap < min(lines.sizes[i], MIN_QUOTATION_TOKENS):
            break
        caps[i] = cap
        left -= lines.heads[i] + cap
    if len(caps) == len(people):  # nothing was dropped: what is left is the first one's
        caps[0] += max(left, 0)
    return lines.quote_within(caps)


def _find_principal_messages(lines: _QuotationLines) -> list[int]:
    """Return the places of the first message, the newest, and the newest that is not short."""
    places = range(len(lines.sizes))
    long = [i for i in places if lines.sizes[i] - _FENCE_TOKENS > SHORT_REPLY_TOKENS]
    return sorted({*places[:1], *places[-1:], *long[-1:]})


def _alternate_from_ends(places: Sequence[int], without: Collection[int]) -> Iterator[int]:
    """Yield the places alternately from the end and from the beginning, so that those in the middle come last."""
    alternating = chain.from_iterable(zip(reversed(places), places, strict=True))
    yield from (place for place in dict.fromkeys(alternating) if place not in without)


class _QuotationLines:
    """The messages as lines: what each takes whole, and what stands before it."""

    def __init__(self, people: Sequence[PersonMessage], count: Count, words: Mapping[str, str], room: int) -> None:
        self._people, self._count, self._words = people, count, words
        self.sizes = [count(message.text) + _FENCE_TOKENS for message in people]
        for self._reply in (_REPLY, _SHORT_REPLY, 0):
            self.heads = [count(self._write_line_head(i)) + 1 for i in range(len(people))]
            if sum(self.heads) + sum(self.sizes) <= room:
                break

    def _write_line_head(self, index: int) -> str:
        message = self._people[index]
        number = str(message.turn)
        if message.times > 1:
            number = self._words["times"].format(first=message.turn, last=message.last, times=message.times)
        who = " ".join(filter(None, [self._words["user"], neutralise_markup(message.speaker)]))
        if message.rejected:
            who = self._words["rejecting"].format(user=who, call=quote(message.rejected))
        elif message.reply and self._reply and self.sizes[index] - _FENCE_TOKENS <= SHORT_REPLY_TOKENS:
            said = cut_to_last_sentences(message.reply, self._reply)
            who = f"{who}, {self._words['reply']} {quote(said, self._reply)}"
        return f"- [{number}] {who}:"

    def quote_within(self, caps: Mapping[int, int]) -> Quotations:
        """Quote the messages at these places, each cut down to so many tokens."""
        lines = dict[int, str]()
        for i in sorted(caps):  # several calls of one message may have been rejected
            turn, line = self._people[i].turn, self._write_line(i, caps[i])
            lines[turn] = f"{lines[turn]}\n{line}" if turn in lines else line
        gaps = [list(group) for dropped, group in groupby(range(len(self._people)), lambda i: i not in caps) if dropped]
        dropped = sum(self._people[i].times for gap in gaps for i in gap)
        return Quotations(lines, dropped, {self._people[gap[0]].turn: self._describe_gap(gap) for gap in gaps})

    def _describe_gap(self, places: Sequence[int]) -> str:
        """Return a line that says how many messages are left out here."""
        left_out = [self._people[i] for i in places]
        turns = dict.fromkeys((left_out[0].turn, max(left_out[-1].turn, left_out[-1].last)))
        times = sum(message.times for message in left_out)
        return f"  \u2026 [{'-'.join(map(str, turns))}] {self._words['user']} {TIMES_SIGN}{times}"

    def _write_line(self, index: int, cap: int) -> str:
        text = self._people[index].text
        if self.sizes[index] > cap:
            text = _shorten_to_lines(text, max(cap - _FENCE_TOKENS, 1), self._count)
        head, is_plain = self._write_line_head(index), "\n" not in text and neutralise_markup(text) == text
        return f"{head} \u201c{text}\u201d" if is_plain else f"{head}\n{wrap_in_fence(text)}"


def _shorten_to_lines(text: str, tokens: int, count: Count) -> str:
    """Return the beginning and the end of a text within so many tokens: whole lines of it, where it has several."""
    text = "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
    characters = max(1, len(text) * tokens // max(count(text), 1))
    while characters > 1 and count(short := cut_to_whole_lines(text, characters)) > tokens:
        characters = characters * 9 // 10
    return short if characters > 1 else cut_to_head_and_tail(text, characters)
