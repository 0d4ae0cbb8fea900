"""The program: `unabridged`, or `python -m unabridged`.

A hook is run without the command line's machinery: a coding agent waits for it, and must never be stopped by it.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the arguments name."""
    if sys.argv[1:] == ["hook"]:
        from unabridged.clients.hook import main as answer_hook  # noqa: PLC0415 - the one that is called, and no other

        answer_hook()
    else:
        from unabridged.cli import main as run_command  # noqa: PLC0415 - likewise

        run_command()


if __name__ == "__main__":
    main()
