"""What was compacted before: the difference of two lists, how it is found again, taken back and derived anew.

Here, whose conversations these are where nobody says: one name for programs and the command line alike.
"""

from __future__ import annotations

from unabridged.archive.protocol import DEFAULT_NAMESPACE

DEFAULT = DEFAULT_NAMESPACE
