"""Keep a long-running agent inside its model's context window, and lose nothing on the way.

    from unabridged import Compactor

    compactor = Compactor(agent="claude-opus-5-5")
    fitted = compactor.fit(messages, thread="t1")      # before every model call
    fitted.messages                                    # the same list, or a shorter one that is legal and fits

`ARCHITECTURE.md` says where to find what. A name is loaded when it is first used: a program that needs one part of this
package (a hook that a coding agent waits for) does not wait for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unabridged.adapters.kit.threads import thread
    from unabridged.adapters.sdk import dump, load, native, wrap
    from unabridged.compactor import Compaction, Compactor, Outlook
    from unabridged.engine.hooks import Hooks
    from unabridged.errors import (
        ArchiveError,
        IllegalConversation,
        SettingsError,
        SummaryFailed,
        UnabridgedError,
        WontFit,
    )
    from unabridged.events import Receipt
    from unabridged.legality import Finding, check, repair
    from unabridged.settings import Settings

__version__ = "0.1.0"

__all__ = ["ArchiveError", "Compaction", "Compactor", "Finding", "Hooks", "IllegalConversation", "Outlook"]
__all__ += ["Receipt", "Settings", "SettingsError", "SummaryFailed", "UnabridgedError", "WontFit"]
__all__ += ["check", "dump", "load", "native", "repair", "thread", "wrap"]

_MODULES = {
    "adapters.kit.threads": ("thread",),
    "adapters.sdk": ("dump", "load", "native", "wrap"),
    "compactor": ("Compaction", "Compactor", "Outlook"),
    "engine.hooks": ("Hooks",),
    "errors": ("ArchiveError", "IllegalConversation", "SettingsError", "SummaryFailed", "UnabridgedError", "WontFit"),
    "events": ("Receipt",),
    "legality": ("Finding", "check", "repair"),
    "settings": ("Settings",),
}
"""The public names of each module."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    from importlib import import_module  # noqa: PLC0415 - a hook needs none of this

    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"unabridged.{module}"), name)
            return value
    raise AttributeError(f"module 'unabridged' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of the package, with the public ones that were not used yet."""
    return sorted({*globals(), *__all__})
