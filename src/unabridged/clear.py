"""`Prices`, for those who import it from here."""

from unabridged.settings import Prices

__all__ = ["Prices"]
