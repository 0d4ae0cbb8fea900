"""Write the sections of a summary turn, each within the room that it gets.

Whose words a line is, is said by the section it stands in: people's words verbatim, everything else on one line between
quotation marks, indented, or as a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest

from unabridged.languages import get_labels
from unabridged.summary.action_lines import TIMES_SIGN, ActionLines, find_checks
from unabridged.summary.bounds import list_standalone_names, rank_file, rank_name
from unabridged.summary.ledger import Action, Deed, File, Ledger
from unabridged.summary.names import abbreviate_root, find_common_root
from unabridged.summary.people import Quotations, quote_all_messages, quote_newest_messages
from unabridged.summary.story import Story
from unabridged.text_tools import Count, indent, neutralise_markup, quote

_MIN_WEIGHT = 0.02
"""The rank of a name not worth its place: it stood once in a list of a thousand."""
_LINE_CHARACTERS = 120
"""Characters of a check, and of how it ended."""
_DEED_ORDER: tuple[Deed, ...] = ("create", "change", "delete", "move", "mention", "attach", "read")
"""What is said of a file, the first of these that happened to it."""
_DEED_TOKENS = 6
"""Tokens of what stands around the files of one kind, the number of those left out too."""
_CHANGING_DEEDS = frozenset({"create", "change", "delete", "move", "attach"})
"""What is listed of files beside a model's prose."""


class Sections:
    """Writes each section. `kept` turns stand in the context anyway; `prose` is what a model wrote about the work."""

    def __init__(self, ledger: Ledger, count: Count, kept: Collection[int] = (), *, prose: str = "") -> None:
        self._ledger, self._count, self._kept = ledger, count, frozenset(kept)
        self.later: Sequence[Action] = ()
        """What was done in messages that stay."""
        self._labels = get_labels(ledger.language)
        self._root = find_common_root(file.path for file in ledger.files)
        self.prose = self._shown = prose
        self._left_out: dict[str, int] = {}
        self.quoted = Quotations({})

    def heading(self, label: str) -> str:
        """Return the heading with this label; that of the files says which folder is written as an ellipsis."""
        folder = f" (… = {neutralise_markup(self._root)})" if label == "files" and self._root else ""
        return self._labels[label] + folder

    def mark_as_shown(self, text: str) -> None:
        """Remember a text that stands elsewhere in the turn, so that its names are not listed again."""
        self._shown += text

    def left_out(self) -> tuple[str, ...]:
        """Return what found no place, by numbers."""
        return tuple(f"{number} {what}" for what, number in self._left_out.items() if number)

    # -- what people said ---------------------------------------------------------------------------------------------

    def quote_people(self, room: int) -> None:
        """Quote people within so many tokens: beside prose the newest whole, else every message; without room none."""
        people = [message for message in self._ledger.people if message.turn not in self._kept]
        choose = quote_newest_messages if self.prose else quote_all_messages
        self.quoted = choose(people, room, self._count, self._labels)
        self._left_out["messages of people"] = self.quoted.dropped

    def people(self, _room: int = 0) -> str:
        """Return people's words, in order."""
        return self.quoted.render_lines()

    def rules(self, room: int) -> str:
        """Return the rules that a model picked out, the newest first in what finds a place."""
        shown = (rule for rule in self._ledger.rules if rule.turn not in self._kept)
        rules = [f"- [{rule.turn}] \u201c{rule.text}\u201d" for rule in shown]
        return self._keep_fitting_lines("rules", rules[::-1], room, in_order=rules.index)

    def write_newest_place(self) -> str:
        """Return a line that says where the newest person's message that stays stands."""
        newest = max(self._kept, default=-1)
        label = "follows" if newest >= self._ledger.end - 1 else "done_for"
        return self._labels[label].format(turn=newest) if newest >= 0 else ""

    # -- what happened ------------------------------------------------------------------------------------------------

    def write_story(self, room: int) -> str:
        """Return what was said and done, in order."""
        story = Story(self._ledger, self._labels, self._root, self.quoted.lines)
        text = story.render_story(room, self._count)
        self._left_out["moments"] = story.left_out
        return text

    def todo(self, room: int) -> str:
        """Return the assistant's own list as it last wrote it; beside prose only what is not marked as completed."""
        lines = self._ledger.todo.splitlines()
        if self.prose:
            lines = [line for line in lines if not line.startswith("- [completed]")]
        text = f"- [{self._ledger.todo_turn}]\n  {indent(chr(10).join(lines))}"
        return text if lines and self._count(text) <= room else ""

    def write_checks(self, room: int) -> str:
        """Return which checks ran since the last edit and their results, and which ran only before it."""
        edit, ran, overdue = find_checks([*self._ledger.actions, *self.later])
        width = _LINE_CHARACTERS
        told = ActionLines(self._ledger, self._labels, self._root)
        lines = [told.write_action(action, width) for action in reversed(ran)]
        places = {line: action.turn for line, action in zip(lines, reversed(ran), strict=True)}
        if overdue:
            due = [f"{quote(command, width // 2)} [{a.turn}]{told.describe_ending(a, width)}" for command, a in overdue]
            lines.insert(0, f"- {self._labels['due'].format(turn=edit)}: {'; '.join(due)}")
        return self._keep_fitting_lines("checks", lines, room, in_order=lambda line: places.get(line, self._ledger.end))

    # -- what is named ------------------------------------------------------------------------------------------------

    def files(self, room: int) -> str:
        """Return the files that calls or people named, by what it was, those first that the next steps need.

        Beside prose only changed ones, and only where it names less than half of them.
        """
        groups, missing, left = dict[Deed, list[str]](), Counter[Deed](), room
        files = sorted(self._ledger.files, key=lambda file: -rank_file(file, self._ledger.end))
        files = [file for file in files if file.deeds]
        if self.prose:
            files = [file for file in files if any(deed in _CHANGING_DEEDS for deed, _ in file.deeds)]
            files = files if sum(_get_file_name(file) in self.prose for file in files) * 2 < len(files) else []
        for file in files:
            deeds = dict(file.deeds)
            deed: Deed = next((deed for deed in _DEED_ORDER if deed in deeds), "read")
            if _get_file_name(file) in self.prose:
                continue
            often = f" {TIMES_SIGN}{deeds[deed]}" if deed == "change" and deeds[deed] > 1 else ""
            text = neutralise_markup(abbreviate_root(file.path, self._root)) + often
            cost = self._count(text) + 1 + (0 if deed in groups else self._count(self._labels[deed]) + _DEED_TOKENS)
            if cost > left:
                missing[deed] += 1
                continue
            groups.setdefault(deed, []).append(text)
            left -= cost
        self._left_out["files"] = missing.total()
        for deed in groups.keys() & missing.keys():
            groups[deed].append(f"+{missing[deed]}")
        return "\n".join(f"- {self._labels[deed]}: {', '.join(groups[deed])}" for deed in _DEED_ORDER if deed in groups)

    def names(self, room: int) -> str:
        """Return names that the next steps may have to spell and that stand nowhere else, on one line.

        After each three that are likely comes an id that stood on its own, however long ago. Beside prose only those,
        and only where it forgets most of them.
        """
        end, found = self._ledger.end, list[str]()
        likely = sorted(self._ledger.names, key=lambda name: (-rank_name(name, end), name.text))
        told = list_standalone_names(likely)
        mixed = zip_longest(likely[::3], likely[1::3], likely[2::3], told)
        listed = [name for names in mixed for name in names if name is not None]
        if self.prose:
            listed = told if sum(name.text in self.prose for name in told) * 3 < len(told) else []
        for name in dict.fromkeys(listed):
            if name.text in self._shown or rank_name(name, end) < _MIN_WEIGHT:
                continue
            if (cost := self._count(f" {name.text}")) > room:
                break
            found.append(neutralise_markup(name.text))
            room -= cost
        return f"- {' '.join(found)}" if found else ""

    def _keep_fitting_lines(self, what: str, lines: Sequence[str], room: int, *, in_order: Callable[[str], int]) -> str:
        """Return as many of the lines as there is room for, most important first; the others are counted."""
        chosen: list[str] = []
        for line in lines:
            if (cost := self._count(line) + 1) <= room:
                chosen.append(line)
                room -= cost
        self._left_out[what] = len(lines) - len(chosen)
        return "\n".join(sorted(chosen, key=in_order))


def _get_file_name(file: File) -> str:
    """Return the name of a file without its folders."""
    return file.path.rstrip("/").rpartition("/")[2]
