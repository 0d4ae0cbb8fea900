"""Sessions that never compact are archived all the same, and two clients in one folder never get each other's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from real_clients.clients import DRIVERS, Driver, Place, unabridged, write_program
from real_clients.faults import OURS
from real_clients.grown import FACT, REQUEST, Check, Model, kept_in, write_depot
from real_clients.loopback import Loopback, Request, serving
from real_clients.recorded import flat
from real_clients.streams import Answer, Call

STEPS = 3
_PATIENCE = 120.0
"""Seconds in which a process of its own must have archived a session."""
_TRUST = "--dangerously-bypass-hook-trust"


@dataclass(slots=True)
class Short:
    """A scripted model for a short session: it reads the depot's script and two stations, or only searches."""

    driver: Driver
    searches: bool = False
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        """Create a model to search with."""
        self.model = Model(self.driver)

    def __call__(self, number: int, request: Request) -> Answer:
        """Return the answer to a turn."""
        if self.searches and number == 0:  # the client starts our server meanwhile
            return Answer("I wait.", Call(self.driver.shell, {self.driver.argument: "sleep 8"}))
        if self.searches:
            call = self.model.recall(request)
            return Answer("I look for the depot's code." if call else "Done.", call)
        if number >= STEPS:
            return Answer("All three are read.")
        command = f"seq -f 'pier {number} level %g cm' 1 9" if number else "sh depot.sh"
        return Answer(f"Reading pier {number}.", Call(self.driver.shell, {self.driver.argument: command}))


def keep_all(driver: Driver, new_place: Callable[[Driver], Place]) -> Iterator[Check]:
    """Run sessions that never compact: one that ends well, and one of whose end no hook is told."""
    place = new_place(driver)
    yield from _run_short(driver, place)
    yield _is_archived("a session that never compacts is archived at its end", place)
    place = new_place(driver)
    unabridged(place, "status")  # which makes the program
    write_program(place, "exit 0")
    yield from _run_short(driver, place)
    yield Check("without its hooks nothing is archived", not kept_in(place.archive))
    write_program(place, f'exec {OURS} "$@"')
    with serving(Loopback("", lambda _number, _request: Answer("Hello."))) as upstream:
        driver.prepare(place, upstream)
        driver.start(place, "Say hello.")
    yield _is_archived("at the next start it is archived", place)
    ended = unabridged(place, "status", driver.name)
    yield Check("status finds nothing wrong", ended.returncode == 0, ended.stderr[-300:])


def share_folder(new_place: Callable[[Driver], Place]) -> Iterator[Check]:
    """Run Claude Code, and then Codex in the same folder: first without trust in our hooks, then with it."""
    claude, codex = DRIVERS["claude-code"], DRIVERS["codex"]
    place = new_place(claude)
    yield from _run_short(claude, place)
    yield _is_archived("the session of Claude Code is archived", place)
    other = replace(place, command=new_place(codex).command)
    for trusted in (False, True):
        said = "with" if trusted else "without"
        with serving(Loopback("", Short(codex, searches=True))) as upstream:
            codex.prepare(other, upstream)
            installed = unabridged(other, "install", "codex")
            words = [
                word for word in codex.ask(other, "Which code does the depot have?", None) if trusted or word != _TRUST
            ]
            done = other.run(*words)
            answered = upstream.requests[-1].text()
            yield Check(
                f"Codex ends well {said} trust", not installed.returncode and not done.returncode, done.stderr[-300:]
            )
            yield Check(f"its search was answered {said} trust", "[recall]" in answered, answered[-300:])
            wrong = FACT in answered
            yield Check(f"{said} trust it gets nothing of Claude Code's session", not wrong, answered[-300:])
        ended = unabridged(other, "status", "codex")
        told = "never ran" in flat(ended.stderr) and "/hooks" in ended.stderr
        right = ended.returncode == 0 if trusted else ended.returncode == 1 and told
        yield Check(f"status is right about its hooks {said} trust", right, ended.stderr[-300:])


def _run_short(driver: Driver, place: Place) -> Iterator[Check]:
    with serving(Loopback("", Short(driver))) as upstream:
        driver.prepare(place, upstream)
        installed = unabridged(place, "install", driver.name)
        write_depot(place)
        done = driver.start(place, REQUEST)
        yield Check("the client ends well", not installed.returncode and not done.returncode, done.stderr[-300:])
        yield Check("it does not compact", not upstream.of("compaction"))


def _is_archived(what: str, place: Place) -> Check:
    """Check that all that was said reaches the archive."""
    wanted = [REQUEST, FACT, *(f"Reading pier {number}." for number in range(STEPS)), "All three are read."]
    until = time.monotonic() + _PATIENCE
    missing = wanted
    while missing and time.monotonic() < until:
        kept = flat(kept_in(place.archive))
        missing = [words for words in wanted if flat(words) not in kept]
        time.sleep(0.2)
    return Check(what, not missing, ", ".join(missing))
