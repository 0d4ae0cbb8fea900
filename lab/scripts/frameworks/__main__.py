"""Run the examples of `examples/frameworks/` and write the table of docs/frameworks.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import workspace
from frameworks.catalogue import FRAMEWORKS, make_environment, program_of
from frameworks.runs import Program
from frameworks.table import PAGE, lines_of, update


def main() -> int:
    """Run what was asked for; return 1 when something with ours did not hold."""
    parser = argparse.ArgumentParser(prog="make frameworks", description=__doc__)
    parser.add_argument("what", nargs="*", choices=[*FRAMEWORKS, []], help="frameworks; all if none is named")
    folder = workspace.cache_folder("frameworks")
    parser.add_argument("--folder", type=Path, default=folder, help="where their environments are, or go")
    given = parser.parse_args()
    failed = []
    for name in given.what or FRAMEWORKS:
        framework = FRAMEWORKS[name]
        python = make_environment(name, given.folder.resolve())
        found = Program(program_of(name), python, framework.shown).compare(framework.title)
        PAGE.write_text(update(PAGE.read_text(encoding="utf-8"), [found]), encoding="utf-8")
        print(lines_of(PAGE.read_text(encoding="utf-8"))[framework.title], flush=True)
        failed += [] if found.holds else [framework.title]
    print(f"\nwith ours, these did not hold: {', '.join(failed)}" if failed else "\nwith ours, each of these held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
