"""What was done, in words: one action, neighbours that can be told together, and what came before them all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from unabridged.ledger.entries import Action, Deed, Ledger
from unabridged.ledger.outcomes import NOTHING
from unabridged.ledger.page import Line
from unabridged.text_tools import neutral, one_line, quote, with_line_ends

TIMES = "\u00d7"
DETAILED = 10
"""The newest actions, told one by one; older ones are told in runs."""
_LISTED = 8
"""Targets of a run that are named."""
_BRIEF = 60
"""Characters of each."""
_MANY = 10_000
"""More than a ledger has actions: keeps those of one message in order."""

_SHELL = frozenset({"shell", "bash", "sh", "terminal", "run_command", "run_shell_command", "execute_bash", "exec"})
_BARE = frozenset({"search", "grep", "glob", "find", "list", "ls", "read", "write", "edit"})
_SEVERAL = re.compile(r"; | && ")


class ActionLines:
    """The actions of one ledger as lines, in the words of its language."""

    def __init__(self, ledger: Ledger, words: Mapping[str, str], root: str) -> None:
        self._ledger, self._words, self._root = ledger, words, root
        # What a tool says every time ("File updated. Please review …") tells nothing.
        repeated = Counter(action.outcome for action in ledger.actions if not action.failed)
        self._usual = {outcome for outcome, number in repeated.items() if number > 2 and len(outcome) > 30}
        self._runs = self._together()

    def done(self, width: int) -> Iterator[Line]:
        """Newest first: the newest actions one by one, the older ones in runs of the same deed."""
        newest = self._ledger.actions[-DETAILED:]
        for place, run in reversed([*enumerate(self._runs)]):
            order = run[0].turn + place / _MANY
            if len(run) == 1 and run[0] in newest:
                text = self.action(run[0], width, gist=True)
                yield Line(order, text, shorter=partial(self._action_within, run[0]))
            else:
                yield Line(order, self._run(run))

    def _together(self) -> list[list[Action]]:
        """The actions in order, those together that one line can tell; older failures that are not over stand apart.

        Neighbours with the same deed go together when there is nothing to tell of them but their targets.
        """
        runs: list[list[Action]] = []
        joins = False
        for place, action in enumerate(self._ledger.actions, DETAILED - len(self._ledger.actions)):
            older = place < 0
            if older and action in self._ledger.faults:
                continue
            silent = action.answered and not action.failed and (older or not (action.gist or self._told(action)))
            if silent and joins and _deed(runs[-1][-1]) == _deed(action):
                runs[-1].append(action)
            else:
                runs.append([action])
            joins = silent
        return runs

    def _told(self, action: Action) -> str:
        """What came of it; "" where it is what the tool says every time."""
        return "" if action.outcome in self._usual else action.outcome

    def action(self, action: Action, width: int, *, gist: bool = False) -> str:
        """One action on a line: deed, target, what was written, what came of it."""
        line = f"- [{action.turn}] {self._words[_deed(action)]} {self._target(action, width)}"
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

    def _action_within(self, action: Action, chars: int) -> str:
        return self.action(action, max(chars // 2 - 20, 40))

    def _run(self, run: Sequence[Action], width: int = 100) -> str:
        """A run of actions on a line."""
        if len(run) == 1:
            return self.action(run[0], width)
        targets = list(dict.fromkeys(target for action in run for target in self._brief(action)))
        more = f", {self._words['more'].format(count=len(targets) - _LISTED)}" if len(targets) > _LISTED else ""
        often = f" {TIMES}{len(run)}:" if len(run) > len(targets) or more else ""
        span = self.span(run[0].turn, run[-1].turn)
        return f"- {span} {self._words[_deed(run[0])]}{often} {', '.join(targets[:_LISTED])}{more}"

    def count_actions(self, lines: int) -> str:
        """What the oldest so many lines would tell, in numbers: how much was read, changed and run, and failed."""
        actions = [action for run in self._runs[:lines] for action in run]
        lost = dict(self._ledger.dropped).get("actions", 0)
        if not actions and not lost:
            return ""
        numbers = Counter(_deed(action) for action in actions).most_common()
        told = [f"{self._words[deed]} {TIMES}{number}" for deed, number in numbers]
        told += [self._words["more"].format(count=lost)] * bool(lost)
        failed = sum(action.failed for action in actions)
        also = f" ({self._words['failed']} {TIMES}{failed})" if failed else ""
        turns = [action.turn for action in actions]
        first = self._ledger.first if lost else min(turns)
        span = self.span(first, max(turns, default=first))
        return f"- {span} {self._words['earlier']}: {', '.join(told)}{also}"

    def span(self, first: int, last: int) -> str:
        """The messages from the first to the last, as a mark."""
        return f"[{first}]" if first == last else f"[{first}-{last}]"

    def _brief(self, action: Action) -> list[str]:
        """What an action went to, in a list of several: its files; of a search what was looked for."""
        if action.paths and action.deed != "search":
            return [neutral(self._short(path)) for path in action.paths[:2]]
        return [self._target(action, _BRIEF)]

    def _target(self, action: Action, width: int) -> str:
        told = f"{_tool(action)}{action.target}"
        if action.paths and action.paths[0].rpartition("/")[2] not in told:
            told += f" ({action.paths[0]})"
        return neutral(one_line(with_line_ends(self._short(told)), width))

    def _short(self, text: str) -> str:
        return text.replace(self._root + "/", "") if self._root else text


def _deed(action: Action) -> Deed:
    """The deed it is told by: several commands that looked, ran and cleared away are no search and no deletion."""
    several = action.tool.lower() in _SHELL and _SEVERAL.search(action.target)
    return "run" if several and action.deed in {"delete", "search", "list", "read"} else action.deed


def _tool(action: Action) -> str:
    """The tool's own name, where deed and target don't tell it."""
    if action.tool.lower() in _SHELL or action.tool.lower() in _BARE:
        return ""
    plain = action.paths and action.deed not in {"call", "run", "search"}
    return "" if plain else f"{action.tool} " if action.target else action.tool
