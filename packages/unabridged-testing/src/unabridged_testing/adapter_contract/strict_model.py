"""The model's side of the contract: it answers by a script, and notes all that no provider would have taken."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from unabridged.formats.base import Family
from unabridged_testing.adapter_contract.interface import ModelReply, Seen, TooLong

Script = Callable[[Seen], ModelReply]
"""What the model says to a request; what it does next it reads from the request alone, as a model does."""

DONE = "All done."
MAX_REQUESTS = 150
"""An agent that is shown nothing new would go on for ever."""

_REPORT_PATTERN = re.compile(r"report (\d+):")


class StrictModel:
    """A `Brain` with a window, which looks at each request as a provider does; `problems` must stay empty.

    With the first problem it is done. A provider counts otherwise than we do: `heavier` times as many tokens, which it
    reports unless it `reports` nothing.
    """

    def __init__(
        self, script: Script, *, window: int, family: Family, heavier: float = 1.0, reports: bool = True
    ) -> None:
        self.script, self.window, self.heavier, self.reports = script, window, heavier, reports
        self.family: Family = family
        self.seen: list[Seen] = []
        """All requests, refused ones too."""
        self.refusals: list[TooLong] = []
        self.problems: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> ModelReply:
        """Return what the model says; raise `TooLong` where the request is."""
        seen = seen.counted(self.family)
        requested = round(seen.tokens * self.heavier)
        with self._lock:
            number = len(self.seen)
            self.seen.append(seen)
            self.problems += [f"request {number}: {fault.rule}: {fault.message}" for fault in seen.faults]
            if requested > self.window:
                self.refusals.append(TooLong(self.window, requested))
                raise self.refusals[-1]
        if number >= MAX_REQUESTS:
            self.problems.append(f"request {number}: the run does not come to its end")
        said = ModelReply(DONE) if self.problems else self.script(seen)
        return replace(said, used=requested if self.reports else 0)


# -- what a script reads, and says ------------------------------------------------------------------------------------


def work(number: int) -> str:
    """Do one piece of work and report on it."""
    return f"report {number}: " + " ".join(f"fact{number}x{j}" for j in range(120))


def make_working_script(steps: int, *, at_once: int = 1, first: int = 0) -> Script:
    """Return a script that uses `work` for so many steps, `at_once` of them together; results say where it is."""

    def script(seen: Seen) -> ModelReply:
        begin = max(find_newest_reports(seen), default=first - 1) + 1
        numbers = range(begin, min(begin + at_once, first + steps))
        calls = tuple(("work", {"number": number}) for number in numbers)
        return ModelReply(calls=calls) if calls else ModelReply(DONE)

    return script


def find_newest_answers(seen: Seen) -> list[str]:
    """Return what tools answered at the end of the request, behind everything else."""
    newest = list(takewhile(lambda view: view.answers, reversed(seen.views)))
    return [answer.text for view in reversed(newest) for answer in view.answers]


def find_newest_reports(seen: Seen) -> list[int]:
    """Return the numbers of the reports among them."""
    return [int(found[1]) for text in find_newest_answers(seen) if (found := _REPORT_PATTERN.search(text))]


def find_newest_words(seen: Seen) -> str:
    """Return what the user said last, where the request ends with that."""
    last = seen.views[-1]
    return "" if last.answers else last.text
