"""What was done, in words: one action on a line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from unabridged.ledger.entries import Action, Deed, Ledger
from unabridged.ledger.outcomes import NOTHING
from unabridged.text_tools import neutral, one_line, quote, with_line_ends

TIMES = "\u00d7"
_SHELL = frozenset({"shell", "bash", "sh", "terminal", "run_command", "run_shell_command", "execute_bash", "exec"})
_BARE = frozenset({"search", "grep", "glob", "find", "list", "ls", "read", "write", "edit"})
_SEVERAL = re.compile(r"; | && ")


class ActionLines:
    """The actions of one ledger as lines, in the words of its language."""

    def __init__(self, ledger: Ledger, words: Mapping[str, str], root: str) -> None:
        self._words, self._root = words, root
        # What a tool says every time ("File updated. Please review …") tells nothing.
        repeated = Counter(action.outcome for action in ledger.actions if not action.failed)
        self._usual = {outcome for outcome, number in repeated.items() if number > 2 and len(outcome) > 30}

    def _told(self, action: Action) -> str:
        """What came of it; "" where it is what the tool says every time."""
        return "" if action.outcome in self._usual else action.outcome

    def action(self, action: Action, width: int, *, gist: bool = False) -> str:
        """One action on a line: deed, target, what was written, what came of it."""
        line = f"- [{action.turn}] {self._words[deed_of(action)]} {self._target(action, width)}"
        if gist and action.gist:
            line += f": {quote(action.gist, width)}"
        if not action.answered:
            return f"{line} ({self._words['unanswered']})"
        if action.failed:
            why = f": {quote(self._short(action.outcome), width)}" if action.outcome else ""
            return f"{line} → {self._words['failed']}{why}"
        if action.outcome == NOTHING:
            return f"{line} → {self._words['nothing']}"
        told = self._told(action)
        return f"{line} → {quote(self._short(told), width)}" if told else line

    def _target(self, action: Action, width: int) -> str:
        told = f"{_tool(action)}{action.target}"
        if action.paths and action.paths[0].rpartition("/")[2] not in told:
            told += f" ({action.paths[0]})"
        return neutral(one_line(with_line_ends(self._short(told)), width))

    def _short(self, text: str) -> str:
        return text.replace(self._root + "/", "") if self._root else text


def deed_of(action: Action) -> Deed:
    """The deed it is told by: several commands that looked, ran and cleared away are no search and no deletion."""
    several = action.tool.lower() in _SHELL and _SEVERAL.search(action.target)
    return "run" if several and action.deed in {"delete", "search", "list", "read"} else action.deed


def _tool(action: Action) -> str:
    """The tool's own name, where deed and target don't tell it."""
    if action.tool.lower() in _SHELL or action.tool.lower() in _BARE:
        return ""
    plain = action.paths and action.deed not in {"call", "run", "search"}
    return "" if plain else f"{action.tool} " if action.target else action.tool
