"""Break the code on purpose, one small named change at a time, and see the suite fail: `python lab/scripts/mutants.py`.

Each mutant is an exact replacement of text, made in a copy of the tree; `lab/scripts/mutants/*.toml` list them.
The result of each is kept in build/mutants.jsonl, with a digest of the code, the mutant and its tests: a run goes on
where one before it stopped, and tries again what has changed since; `--again` tries all.

Exits with 1 when one survives, when its text does not stand in the code exactly once any more, or when the suite fails
without any change. `--check` only looks whether each can be made: that its text is there, that what it makes compiles,
and that its tests exist.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import workspace

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "mutants.jsonl"
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


def digest_code() -> str:
    """Return a digest of what every mutant's end may depend on: the code, and what tests share."""
    files = [path for place in ("packages/*/src", "tests/helpers", "lab/scripts") for path in list_files(place)]
    return digest(files)


def list_files(pattern: str) -> list[Path]:
    """Return the files below the folders that match, in order, without what Python compiled."""
    found = (path for folder in ROOT.glob(pattern) for path in folder.rglob("*"))
    return sorted(
        path for path in found if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".toml"
    )


def digest(files: Iterable[Path], *more: str) -> str:
    """Return a digest of these files and texts."""
    made = blake2b(digest_size=16)
    for path in files:
        made.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    for text in more:
        made.update(text.encode() + b"\0")
    return made.hexdigest()


def digest_mutant(mutant: Mutant, code: str, examples: int) -> str:
    """Return under which digest the end of this mutant is kept."""
    tests = [ROOT / test for test in mutant.tests if (ROOT / test).is_file()]
    return digest(tests, code, json.dumps(asdict(mutant)), str(examples))


def read_killed(results: Path = RESULTS) -> set[str]:
    """Return the digests of the mutants that were killed in runs before."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {row["digest"] for row in map(json.loads, lines) if row["end"] == "killed"}


def try_mutant(mutant: Mutant, examples: int, key: str) -> str:
    """Try the mutant, print and keep its end, the seconds, and the test that failed; return the end."""
    start = time.monotonic()
    end, told = end_of(mutant, examples)
    seconds = round(time.monotonic() - start, 1)
    print(f"{end:9} {mutant.name:40} {seconds:5.1f} s  {told[:110]}", flush=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        row = {"name": mutant.name, "digest": key, "end": end, "seconds": seconds, "test": told[:200]}
        file.write(json.dumps(row) + "\n")
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
    parser.add_argument("--again", action="store_true", help="try also what was killed in a run before")
    parser.add_argument("--check", action="store_true", help="only look whether each mutant can still be made")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only is None or mutant.name in options.only]
    if options.check:
        found = [(mutant.name, why) for mutant in chosen if (why := stale(mutant))]
        print("\n".join(f"stale     {name:40} {why}" for name, why in found) or f"{len(chosen)} mutants can be made")
        return int(bool(found))
    code = digest_code()
    keys = {mutant: digest_mutant(mutant, code, options.examples) for mutant in chosen}
    killed = set() if options.again else read_killed()
    waiting = [mutant for mutant in chosen if keys[mutant] not in killed]
    if len(waiting) < len(chosen):
        print(f"{len(chosen) - len(waiting)} of {len(chosen)} mutants were killed before, with the same code and tests")
    if chosen and not waiting:
        return 0
    RESULTS.parent.mkdir(exist_ok=True)
    tests = tuple(dict.fromkeys(test for mutant in waiting for test in mutant.tests))
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy_tree(Path(folder))
        failed, told = fails(Path(folder), tests, options.examples)
    if failed or not chosen:
        print(f"without any change: {told}" if chosen else "no such mutant")
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        ends = list(pool.map(lambda mutant: try_mutant(mutant, options.examples, keys[mutant]), waiting))
    alive = len(ends) - ends.count("killed")
    print(f"{len(chosen) - alive} of {len(chosen)} mutants killed")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
