"""Put what was done into words: one action on a line. And find the checks since the last edit, and those due."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from unabridged.summary.ledger import CHANGING_DEEDS, Action, Deed, Ledger
from unabridged.summary.names import abbreviate_root
from unabridged.summary.outcomes import NO_MATCH
from unabridged.summary.shell import load_words
from unabridged.text_tools import cut_to_head_and_tail, mark_line_ends, neutralise_markup, quote, to_one_line

TIMES_SIGN = "\u00d7"
_SHELL_TOOLS, _SELF_EXPLANATORY_TOOLS = map(load_words, ("shell_tools", "self_explanatory_tools"))
_COMMAND_SEPARATOR_PATTERN = re.compile(r"; | && ")
_CHECK_COMMANDS, _OTHER_COMMANDS = map(load_words, ("checks", "no_checks"))
"""The words by which a command that checks the work is known, among its first four; words of commands that check
nothing, whatever they name."""
_MAX_OPEN_CHECKS = 5
_MAX_TARGET_CHARACTERS = 180
"""Characters of a command: what it was for and what came of it tell more."""


class ActionLines:
    """The actions of one ledger as lines, in the words of its language."""

    def __init__(self, ledger: Ledger, words: Mapping[str, str], root: str) -> None:
        self._words, self._root = words, root
        # What a tool says every time ("File updated. Please review …") tells nothing.
        changes = (action for action in ledger.actions if action.deed in CHANGING_DEEDS and not action.failed)
        repeated = Counter(action.outcome for action in changes)
        self._usual = {outcome for outcome, number in repeated.items() if number > 2 and len(outcome) > 30}

    def write_action(self, action: Action, width: int, *, gist: bool = False) -> str:
        """Return one action on a line: deed, target, what was written, what came of it."""
        line = f"- [{action.turn}] {self._words[_choose_label(action)]} {self._write_target(action, width)}"
        if gist and action.gist:
            line += f": {quote(action.gist, width)}"
        return line + self.describe_ending(action, width)

    def describe_ending(self, action: Action, width: int) -> str:
        """Return how an action ended, as the end of its line; "" where the result says no more than the deed."""
        if not action.answered:
            return f" ({self._words['unanswered']})"
        outcome = quote(cut_to_head_and_tail(abbreviate_root(action.outcome, self._root), width))
        if action.status:
            status = self._words["failed"] if action.status == "error" else action.status
            return f" → {status}" + (f": {outcome}" if action.outcome else "")
        if action.outcome == NO_MATCH:
            return f" → {self._words['nothing']}"
        return f" → {outcome}" if action.outcome and action.outcome not in self._usual else ""

    def _write_target(self, action: Action, width: int) -> str:
        told = f"{_describe_tool(action)}{action.target}"
        if action.paths and action.paths[0].rpartition("/")[2] not in told:
            told += f" ({action.paths[0]})"
        shown = mark_line_ends(abbreviate_root(told, self._root))
        return neutralise_markup(to_one_line(shown, min(width, _MAX_TARGET_CHARACTERS)))


def find_effective_deed(action: Action) -> Deed:
    """Return the deed that an action counts as: a line of several commands is a `run`."""
    several = action.tool.lower() in _SHELL_TOOLS and _COMMAND_SEPARATOR_PATTERN.search(action.target)
    return "run" if several and action.deed in {"create", "delete", "search", "list", "read"} else action.deed


def _choose_label(action: Action) -> Deed:
    """Return the deed that an action's line shows: a shell command as it was written is a `run`."""
    is_command = action.tool.lower() in _SHELL_TOOLS and " " in action.target
    return "run" if is_command else find_effective_deed(action)


def _describe_tool(action: Action) -> str:
    """Return the tool's own name, where deed and target don't show it."""
    if action.tool.lower() in _SHELL_TOOLS or action.tool.lower() in _SELF_EXPLANATORY_TOOLS:
        return ""
    plain = action.paths and action.deed not in {"call", "run", "search"}
    return "" if plain else f"{action.tool} " if action.target else action.tool


def find_checks(actions: Sequence[Action]) -> tuple[int, list[Action], list[tuple[str, Action]]]:
    """Return the turn of the last edit, the newest run of each check since, and the checks that are overdue.

    Overdue are those that ran after an earlier edit only, each with its command. Nothing is due where nothing was
    edited, or checked after it.
    """
    edits = [i for i, one in enumerate(actions) if one.deed in CHANGING_DEEDS and one.paths and not one.failed]
    earlier, since = dict[str, tuple[str, Action]](), dict[str, Action]()
    for i, action in enumerate(actions):
        if action.deed in {"run", "call"} and action.answered and edits and i > edits[0]:
            for kind, command in _find_checks_in_command(action):
                if i < edits[-1]:
                    earlier[kind] = (command, action)
                else:
                    since[kind] = action
    due = [earlier[kind] for kind in earlier if kind not in since][-_MAX_OPEN_CHECKS:]
    return actions[edits[-1]].turn if edits else -1, list(dict.fromkeys(since.values())), due


def _find_checks_in_command(action: Action) -> Iterator[tuple[str, str]]:
    """Yield the checks in a command, each by its program and as it was written, without where its output went."""
    for part in _COMMAND_SEPARATOR_PATTERN.split(action.target):
        command = part.partition(" | ")[0].partition(" 2>")[0].strip()
        words = command.split()[:4]
        known = [i for i, word in enumerate(words) if word.rpartition("/")[2].partition(":")[0] in _CHECK_COMMANDS]
        if known and not _OTHER_COMMANDS & {*words}:
            yield " ".join(words[: known[0] + 1]), command
