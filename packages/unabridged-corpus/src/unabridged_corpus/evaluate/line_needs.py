"""Find the lines that an agent copies from tool results into its calls, and the result that each one came from.

A need is a line of a call's arguments, of 24 characters or more with white space folded, that stood in a tool result
before it stood anywhere else: that result is its source. A write to the path that the source's call went to ends the
source, because what it shows is out of date; the next result that shows the line takes its place. A source whose call
the recorded run repeats later gives no needs: the run fetches it again in any case. In text protocols the action in the
assistant's text is the call, and the observation after it the result. Plain strings, no judge and no model.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from unabridged.messages import Call, View
from unabridged.summary.actions import ToolUse, find_tool_uses
from unabridged.summary.ledger import CHANGING_DEEDS
from unabridged_corpus.evaluate.score import join_argument_values

MIN_LINE_CHARACTERS = 24
"""Shorter lines, such as `return value`, are written without looking anything up."""
MAX_GAP_CHARACTERS = MIN_LINE_CHARACTERS - 1
"""Between two lines of a passage: a number, or lines that are too short to be needs."""

_LINE_END_PATTERN = re.compile(r"[\n\r\x1f]")


@dataclass(frozen=True, slots=True)
class LineSource:
    """A tool result that lines were copied from, and the call that it answers."""

    place: int
    """Which message holds the result."""
    use: ToolUse
    """What the call did, to which paths."""
    asked: Call | str
    """The call; in a text protocol the assistant's whole text."""
    text: str
    folded: str
    end: float
    """Which message holds the first later call that writes to one of its paths."""
    is_repeated: bool
    """Whether the same call is made again later."""


@dataclass(frozen=True, slots=True)
class LineNeed:
    """A line that the call in message `place` copies from its source."""

    place: int
    line: str
    source: LineSource

    def is_followed_by(self, other: LineNeed) -> bool:
        """Return whether the other line comes after this one in their source, with no third between them."""
        passage = f"{re.escape(self.line)}.{{0,{MAX_GAP_CHARACTERS}}}?{re.escape(other.line)}"
        return re.search(passage, self.source.folded) is not None


def find_line_needs(views: Sequence[View]) -> list[LineNeed]:
    """Return every need of a conversation, in the order of the calls; a line once for each call that copies it."""
    uses = list(find_tool_uses(views, range(len(views))))
    sources = list(_find_sources(views, uses))
    pieces = [(place, *piece) for place, view in enumerate(views) for piece in _split_view(view)]
    starts = list(accumulate((len(text) + 1 for *_, text in pieces), initial=0))
    whole = "\n".join(text for *_, text in pieces)
    needs: list[LineNeed] = []
    for use in uses:
        for line in dict.fromkeys(map(fold_space, _LINE_END_PATTERN.split(use.wrote))):
            if len(line) < MIN_LINE_CHARACTERS:
                continue
            first, is_result, _ = pieces[bisect_right(starts, whole.find(line)) - 1]
            shown = (one for one in sources if one.place < use.place <= one.end and line in one.folded)
            source = next(shown, None) if is_result and first < use.place else None
            if source is not None and not source.is_repeated:
                needs.append(LineNeed(use.place, line, source))
    return needs


def fold_space(text: str) -> str:
    """Return the text on one line, each run of white space as one space."""
    return " ".join(text.split())


def fold_message(view: View) -> str:
    """Return all that can be read in a message, each part on a line: of calls their values as they are, not as JSON."""
    return "\n".join(text for _, text in _split_view(view))


def _split_view(view: View) -> Iterator[tuple[bool, str]]:
    """Yield every part of a message on one line, with whether it is a tool's result."""
    yield view.origin == "tool", fold_space(view.text)
    for text in (*view.inserted, *view.attached):
        yield False, fold_space(text)
    for call in view.calls:
        yield False, fold_space(join_argument_values(call.arguments))
    for answer in view.answers:
        yield True, fold_space(answer.text)


def _find_sources(views: Sequence[View], uses: Sequence[ToolUse]) -> Iterator[LineSource]:
    """Yield every tool result whose call is known, in order."""
    at = {place: list(group) for place, group in groupby(uses, key=lambda use: use.place)}
    last = {_identify_use(use): use.place for use in uses}
    waiting: dict[str, tuple[Call, ToolUse]] = {}

    def build(place: int, use: ToolUse, asked: Call | str, text: str) -> LineSource:
        paths = [path for path, _ in use.touched]
        end = next((one.place for one in uses if one.place > place and _writes_to(one, paths)), float("inf"))
        return LineSource(place, use, asked, text, fold_space(text), end, last[_identify_use(use)] > use.place)

    for place, view in enumerate(views):
        if place and not views[place - 1].calls and place - 1 in at:
            yield build(place, at[place - 1][0], views[place - 1].text, view.text)
        for answer in view.answers:
            if answer.call_id in waiting:
                call, use = waiting[answer.call_id]
                yield build(place, use, call, answer.text)
        if view.calls:
            waiting |= {id_: (call, use) for call, use in zip(view.calls, at[place], strict=True) for id_ in call.ids}


def _identify_use(use: ToolUse) -> tuple[str, str]:
    return use.action.tool, fold_space(use.wrote)


def _writes_to(use: ToolUse, paths: Sequence[str]) -> bool:
    written = [path for path, deed in use.touched if deed in CHANGING_DEEDS]
    return any(_is_same_path(one, other) for one in written for other in paths)


def _is_same_path(one: str, other: str) -> bool:
    """Return whether two paths are the same, where either may leave out the folders that it begins with."""
    first, second = f"/{one.removeprefix('./')}", f"/{other.removeprefix('./')}"
    return first.endswith(second) or second.endswith(first)
