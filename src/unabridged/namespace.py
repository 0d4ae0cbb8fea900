"""Whose conversations these are, where nobody says: the application's own."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def application() -> str:
    """A namespace of its own for each application: its name and where it lies."""
    path = Path(sys.argv[0] if sys.argv and sys.argv[0] else "python").resolve()
    return f"{path.stem}-{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
