"""Projects that are kept out of the archive: those in a folder with a file `.unabridged-ignore`, or below one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

IGNORE_FILE_NAME: Final = ".unabridged-ignore"
"""The file; what is in it does not matter."""


def find_ignore_file(folder: str | Path) -> Path | None:
    """Return the file that keeps this folder out of the archive; None where none does."""
    if not str(folder):
        return None
    try:
        here = Path(folder).expanduser().resolve()
        return next((up / IGNORE_FILE_NAME for up in (here, *here.parents) if (up / IGNORE_FILE_NAME).exists()), None)
    except (OSError, ValueError, RuntimeError):  # a name that no system takes
        return None
