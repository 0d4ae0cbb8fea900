"""Tokens: of a text, an image, a message, a whole request; what providers report; windows and prices of models.

In reading order: `meter` (the whole request), `estimate` (text, without a tokenizer), `media`, `calibrate` (what the
provider says it took), `models` (what is known by a model's name; the table is `models.json`).
"""

from __future__ import annotations

from unabridged.tokens.meter import Meter

__all__ = ["Meter"]
