"""The program: `unabridged`, or `python -m unabridged`. Its commands are in `unabridged-cli` and what adds to it.

A hook is run without the command line's machinery: a coding agent waits for it, and must never be stopped by it.
"""

from __future__ import annotations

import sys
from importlib import import_module


def main() -> None:
    """Run the command that the arguments name, or say what to install and end with 2."""
    module = "unabridged_cli.clients.hook" if sys.argv[1:] == ["hook"] else "unabridged_cli.app"
    try:
        program = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "unabridged_cli":
            raise
        print("unabridged: the command line is not installed: pip install 'unabridged[cli]'", file=sys.stderr)  # noqa: T201 - no library here
        raise SystemExit(2) from None
    program.main()


if __name__ == "__main__":
    main()
