"""Break the code on purpose, one small named change at a time, and see the suite fail: `python lab/scripts/mutants.py`.

Each mutant is an exact replacement of text, made in a copy of the tree; `lab/scripts/mutants/*.toml` list them.
Exits with 1 when one survives, when its text does not stand in the code exactly once any more, or when the suite fails
without any change. `--check` only looks whether each can be made: that its text is there, that what it makes compiles,
and that its tests exist.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import workspace

ROOT = Path(__file__).resolve().parents[2]
LISTS = ROOT / "lab" / "scripts" / "mutants"
PROPERTIES = ("packages/unabridged/tests/engine/test_properties.py",)


@dataclass(frozen=True, slots=True)
class Mutant:
    """In `file`, `old` becomes `new`; one of `tests` must then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = PROPERTIES


def read_mutants(folder: Path = LISTS) -> tuple[Mutant, ...]:
    """Return every mutant in the lists, list by list."""
    lists = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))]
    items = (item for listed in lists for item in listed["mutant"])
    return tuple(Mutant(**{**item, "tests": tuple(item.get("tests", PROPERTIES))}) for item in items)


MUTANTS = read_mutants()


def copy_tree(target: Path) -> None:
    """Copy what the tests need of the project, and nothing else."""
    for folder in ("packages", "tests", "examples", "lab/scripts"):
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    for file in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / file, target)


def fails(tree: Path, tests: tuple[str, ...], examples: int) -> tuple[bool, str]:
    """Return whether any of these tests fails in this tree, and the line that says which."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests],
        cwd=tree,
        env={
            **os.environ,
            "PYTHONPATH": workspace.python_path(root=tree),
            "UNABRIDGED_EXAMPLES": str(examples),
            "UNABRIDGED_SHRINK": "0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return ran.returncode != 0, (told or ran.stdout.splitlines()[-1:] or [""])[0]


def stale(mutant: Mutant, root: Path = ROOT) -> str:
    """Return why the mutant cannot be made any more, or "" when it can."""
    text = (root / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        return f"its text stands {text.count(mutant.old)} times in {mutant.file}, not once"
    if missing := [test for test in mutant.tests if not (root / test).is_file()]:
        return f"there is no {', '.join(missing)}"
    try:
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    except SyntaxError as error:
        return f"what it makes does not compile: {error}"
    return ""


def try_mutant(mutant: Mutant, examples: int) -> str:
    """Try the mutant and return `killed`, `survived` or `stale`; print that, the seconds, and the test that failed."""
    start = time.monotonic()
    end, told = end_of(mutant, examples)
    print(f"{end:9} {mutant.name:40} {time.monotonic() - start:5.1f} s  {told[:110]}", flush=True)
    return end


def end_of(mutant: Mutant, examples: int) -> tuple[str, str]:
    """Return `killed`, `survived` or `stale`, and the reason."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        path = tree / mutant.file
        if why := stale(mutant, tree):
            return "stale", why
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        failed, told = fails(tree, mutant.tests, examples)
        return ("killed" if failed else "survived"), told


def main() -> int:
    """Parse the arguments, run the mutants, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200, help="examples a property (default: 200)")
    parser.add_argument("--only", nargs="*", default=None, help="names of the mutants to run (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many at a time (default: processors)")
    parser.add_argument("--check", action="store_true", help="only look whether each mutant can still be made")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only is None or mutant.name in options.only]
    if options.check:
        found = [(mutant.name, why) for mutant in chosen if (why := stale(mutant))]
        print("\n".join(f"stale     {name:40} {why}" for name, why in found) or f"{len(chosen)} mutants can be made")
        return int(bool(found))
    tests = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy_tree(Path(folder))
        failed, told = fails(Path(folder), tests, options.examples)
    if failed or not chosen:
        print(f"without any change: {told}" if chosen else "no such mutant")
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        ends = list(pool.map(lambda mutant: try_mutant(mutant, options.examples), chosen))
    alive = len(ends) - ends.count("killed")
    print(f"{len(chosen) - alive} of {len(chosen)} mutants killed")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
