"""The check below the trigger in a real step of every framework: each adapter beside the framework's own compaction.

    python -m benchmarks.adapter_steps                    # all of them, 200 and 2,000 messages
    python -m benchmarks.adapter_steps --only strands 200

One agent for each side: the framework's own runner, a scripted model, the same tool and the same conversation; nothing
is ever compacted. Processor time of the compaction alone, in milliseconds: `step` is the median of a running agent's
steps, `anew` the first step of a second run, `first` the one in which the conversation was never seen. The model, the
store and the rest of the framework are not in it; `whole` is such a step with all of it but the model.

A framework is one file in `lab/benchmarks/steps/`, which says how its agents are run; one with `# requirements:` runs
in an environment of its own.
"""

from __future__ import annotations

import argparse
import functools
import gc
import inspect
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.driver import PATHS
from benchmarks.environments import python_of
from benchmarks.figures import table

FOLDER = Path(__file__).parent / "steps"
SIZES = (200, 2_000)
STEPS = 25
"""Of each run; the last one ends it."""
FAR = 2 * 10**9
"""A window that nothing fills."""
TEXT = " ".join(f"word{j}" for j in range(40))
_REQUIREMENTS = re.compile(r"^# requirements: (.+)$", re.MULTILINE)
Row = dict[str, Any]
Place = tuple[Any, str]
"""A class or module, and the name of a function of it."""


@dataclass
class Watch:
    """A timer that adds up the watched time of each step; a scripted model says when a step is over."""

    now: Callable[[], float] = time.process_time
    length: int = STEPS
    steps: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    asked: int = 0
    _spent: float = 0.0
    _model: float = 0.0
    _since: list[float] = field(default_factory=list)
    _began: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Add the time spent inside the block, including whatever it calls; a nested block is counted once."""
        if not self._since:
            self._since.append(self.now())
            try:
                yield
            finally:
                self._spent += self.now() - self._since.pop()
        else:
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time spent inside the block."""
        if self._since:
            self._spent += self.now() - self._since[0]
        try:
            yield
        finally:
            if self._since:
                self._since[0] = self.now()

    def answer(self) -> int | None:
        """Return the number of the next call, or None when the run is over; scripted models call this."""
        now = self.now()
        self.steps.append(self._spent)
        if self._began is not None:
            self.whole.append(now - self._began)
        self._spent, self._began = 0.0, now
        self.asked += 1
        return None if self.asked % self.length == 0 else self.asked


@dataclass(frozen=True)
class Side:
    """One way to run agents: `run(size, watch)` runs one twice; with what is timed, and what of that is not."""

    run: Callable[[int, Watch], None]
    timed: Sequence[Place] = ()
    paused: Sequence[Place] = ()
    now: Callable[[], float] = time.process_time
    length: int = STEPS


def measure(side: Side, size: int) -> dict[str, float]:
    """Measure a step, the first step of a second run, the very first step, and a whole step, in milliseconds."""
    watch = Watch(side.now, side.length)
    with ExitStack() as stack:
        for places, manner in ((side.timed, watch.running), (side.paused, watch.paused)):
            for owner, name in places:
                stack.enter_context(patch.object(owner, name, _within(inspect.getattr_static(owner, name), manner)))
        gc.collect()
        gc.disable()
        try:
            side.run(size, watch)
        finally:
            gc.enable()
    again = side.length
    usual = [*watch.steps[1:again], *watch.steps[again + 1 :]]
    whole = [*watch.whole[: again - 1], *watch.whole[again:]]
    found = {"step": statistics.median(usual), "anew": watch.steps[again], "first": watch.steps[0]}
    return {name: 1e3 * value for name, value in {**found, "whole": statistics.median(whole)}.items()}


def _within(function: Any, manner: Callable[[], Any]) -> Any:
    """Wrap the function so that each call runs inside `manner()`; coroutines and async generators stay such."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def generated(*given: Any, **named: Any) -> Any:
            with manner():
                async for item in function(*given, **named):
                    yield item

        return generated
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*given: Any, **named: Any) -> Any:
            with manner():
                return await function(*given, **named)

        return awaited

    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        with manner():
            return function(*given, **named)

    return called


def rounds(size: int) -> list[tuple[str, str, str]]:
    """Return the rounds before the runs, without the first request: the agent's text, the call's id and its result."""
    return [(f"Turn {i}: {TEXT}", f"c{i}", f"src/{i}.py: {TEXT}") for i in range(size // 2)]


def read(path: str) -> str:
    """Read a file."""
    return f"{path}: {TEXT}"


def used(size: int, watch: Watch) -> int:
    """Return the number of tokens that a provider might report."""
    return 75 * (size + 2 * watch.asked)


def serve(frameworks: Mapping[str, Mapping[str, Side]]) -> None:
    """Print a row of JSON for each side of each framework at the sizes on the command line."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints goes to standard error
    for framework, sides in frameworks.items():
        for name, side in sides.items():
            measure(side, 2)  # what is loaded once is loaded
            for size in map(int, sys.argv[1:]):
                row = {"framework": framework, "side": name, "size": size, **measure(side, size)}
                out.write(json.dumps(row) + "\n")
                out.flush()


def frameworks() -> dict[str, list[str]]:
    """Return the files in `steps`, each with the packages that its environment needs; none for the project's own."""
    found = {}
    for path in sorted(FOLDER.glob("[!_]*.py")):
        line = _REQUIREMENTS.search(path.read_text(encoding="utf-8"))
        found[path.stem] = line[1].split() if line else []
    return found


def rows_of(name: str, sizes: Sequence[int] = SIZES) -> list[Row]:
    """Return the rows of one framework, measured in a process of its own."""
    packages = frameworks()[name]
    python = python_of(re.sub(r"\W+", "_", packages[0]), packages) if packages else sys.executable
    paths = [*map(str, PATHS), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore", "OTEL_SDK_DISABLED": "true"}
    command = [python, "-m", f"benchmarks.steps.{name}", *map(str, sizes)]
    done = subprocess.run(command, cwd=PATHS[0], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise RuntimeError(f"benchmarks.steps.{name} ended with {done.returncode}: {last[0]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def format_rows(rows: Sequence[Row]) -> str:
    """Return the rows as a table."""
    sizes = sorted({row["size"] for row in rows})
    by = {(row["framework"], row["side"], row["size"]): row for row in rows}
    pairs = list(dict.fromkeys((row["framework"], row["side"]) for row in rows))
    columns = ("step", "anew", "first", "whole")
    heads = ["framework", "side", *(f"{size:,}: {name}" for size in sizes for name in columns)]
    cells = (
        [framework, side, *(f"{by[framework, side, size][name]:.2f}" for size in sizes for name in columns)]
        for framework, side in pairs
    )
    return table(heads, cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapter_steps", description=(__doc__ or "")[:120])
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES), metavar="size")
    parser.add_argument("--only", action="append", choices=list(frameworks()), help="may be repeated")
    options = parser.parse_args(arguments)
    print(format_rows([row for name in options.only or frameworks() for row in rows_of(name, options.sizes)]))


if __name__ == "__main__":
    main()
