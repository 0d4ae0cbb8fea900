"""Deprecated: `Prices` for code that imports it from here; it is in `unabridged.settings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from warnings import warn

from unabridged import settings

if TYPE_CHECKING:
    from unabridged.settings import Prices

__all__ = ["Prices"]


def __getattr__(name: str) -> Any:
    """The name, from where it is now, with a warning."""
    if name != "Prices":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn("unabridged.clear is deprecated: Prices is in unabridged.settings", DeprecationWarning, stacklevel=2)
    return settings.Prices
