"""Keep a long-running agent inside its model's context window, and lose nothing on the way.

    from unabridged import Compactor

    compactor = Compactor(agent="claude-opus-5-5")
    fitted = compactor.fit(messages, thread="t1")      # before every model call
    fitted.messages                                    # the same list, or a shorter one that is legal and fits

`ARCHITECTURE.md` says where to find what.
"""

from __future__ import annotations

from unabridged.compactor import Compaction, Compactor, Outlook
from unabridged.errors import (
    ArchiveError,
    IllegalConversation,
    SettingsError,
    SummaryFailed,
    UnabridgedError,
    WontFit,
)
from unabridged.events import Receipt
from unabridged.legal import Finding, check, repair
from unabridged.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "ArchiveError",
    "Compaction",
    "Compactor",
    "Finding",
    "IllegalConversation",
    "Outlook",
    "Receipt",
    "Settings",
    "SettingsError",
    "SummaryFailed",
    "UnabridgedError",
    "WontFit",
    "check",
    "repair",
]
