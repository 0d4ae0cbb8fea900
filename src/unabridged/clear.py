"""`Prices`, for those who import it from here."""

from unabridged.compaction.clear import Prices

__all__ = ["Prices"]
