"""Deprecated: `Prices` for code that imports it from here; it is in `unabridged.settings`."""

from unabridged.settings import Prices

__all__ = ["Prices"]
