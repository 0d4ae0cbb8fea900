"""What plain JSON can't say is marked, and what can't be read back anywhere is bounded."""

from __future__ import annotations

from typing import Final

TAG: Final = "$unabridged"
"""The key that marks what plain JSON can't say; a caller's dict that has it is written as pairs."""

DEEPEST: Final = 120
"""Levels of nesting that can be read back from deep inside any caller's stack."""

LARGEST: Final = 1 << 1024
"""Whole numbers from here on are written in hexadecimal: the interpreter limits how many decimal digits it reads."""
