"""The model's side of the contract: it answers by a script, and notes all that no provider would have taken."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace

from unabridged.messages import View
from unabridged.testing.adapter_contract.interface import Said, Seen, TooLong

Script = Callable[[Seen], Said]
"""What the model says to a request; what it does next it reads from the request alone, as a model does."""

DONE = "All done."
MOST_REQUESTS = 500
"""After so many the model only says that it is done: an agent that is shown nothing new would go on for ever."""

_REPORT = re.compile(r"report (\d+):")


class StrictModel:
    """A `Brain` with a window, which looks at each request as a provider does; `problems` must stay empty.

    A provider counts otherwise than we do: `heavier` times as many tokens. It reports what it counted.
    """

    def __init__(self, script: Script, *, window: int, heavier: float = 1.0) -> None:
        self.script, self.window, self.heavier = script, window, heavier
        self.seen: list[Seen] = []
        """All requests, refused ones too."""
        self.refusals: list[TooLong] = []
        self.problems: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Said:
        """What the model says; `TooLong` where the request is."""
        with self._lock:
            number = len(self.seen)
            self.seen.append(seen)
            self.problems += [f"request {number}: {fault.rule}: {fault.message}" for fault in seen.faults]
            requested = round(seen.tokens * self.heavier)
            if requested > self.window:
                self.refusals.append(TooLong(self.window, requested))
                raise self.refusals[-1]
        if number >= MOST_REQUESTS:
            self.problems.append(f"request {number}: the run does not come to its end")
            return Said(DONE)
        said = self.script(seen)
        return replace(said, used=requested) if said.used is None else said


# -- scripts, and the tools they use ----------------------------------------------------------------------------------


def work(number: int, size: int = 60) -> str:
    """Do one piece of work and report on it."""
    return f"report {number}: " + " ".join(f"fact{number}x{j}" for j in range(size))


def working(steps: int, *, at_once: int = 1, size: int = 60) -> Script:
    """Uses `work` for so many steps, some of them at once, and is done: where it is, the newest results tell."""

    def script(seen: Seen) -> Said:
        begin = max(newest_reports(seen), default=-1) + 1
        numbers = range(begin, min(begin + at_once, steps))
        return Said(calls=tuple(("work", {"number": n, "size": size}) for n in numbers)) if numbers else Said(DONE)

    return script


def newest_reports(seen: Seen) -> list[int]:
    """The numbers of the reports at the end of the request, behind everything else."""
    found: list[int] = []
    for view in reversed(seen.views):
        if not view.answers:
            break
        found += [int(told[1]) for answer in view.answers if (told := _REPORT.match(answer.text))]
    return found


def newest_user(seen: Seen) -> View | None:
    """The last turn of the user's."""
    return next((view for view in reversed(seen.views) if view.role == "user"), None)
