"""Read sizes, triggers and tails as a person writes them, in an option or in a file: 32k, 85%, messages=300."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from unabridged.errors import SettingsError
from unabridged.settings import MEASURES

_SIZE_PATTERN = re.compile(r"([\d_,]{0,40}\.?\d{1,40})\s*([kmg]?)b?", re.IGNORECASE)
_UNIT_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def parse_size(text: str, what: str) -> int:
    """Return 32768, 32k, 1.5m or 2g as a number; 1k is 1,000."""
    if (match := _SIZE_PATTERN.fullmatch(text.strip())) is None:
        raise SettingsError(f"can't read {what} of {text!r}: write 32768, 32k or 1m")
    digits, unit = match.groups()
    return int(float(re.sub("[_,]", "", digits)) * _UNIT_FACTORS[unit.lower()])


def trigger_from_texts(texts: Sequence[str]) -> Any:
    """Return a trigger at any of `85%`, `0.85`, `170k`, `messages=300`, `tokens=50k+messages=9` (both), or `never`."""
    if list(texts) == ["never"]:
        return None
    return [dict(condition_from_text("trigger", part) for part in text.split("+")) for text in texts]


def keep_from_texts(texts: Sequence[str]) -> Any:
    """Return a `keep` of the smallest of these: `0.1`, `10%`, `8k`, `messages=20`."""
    return [condition_from_text("keep", text) for text in texts]


def condition_from_text(option: str, text: str) -> tuple[str, float]:
    """Return one measure and its value; a number alone is a share of the window up to 1, tokens above."""
    measure, _, value = (part.strip() for part in text.strip().rpartition("="))
    if measure and measure not in MEASURES:
        raise SettingsError(f"{option} knows {', '.join(f'{name}=' for name in MEASURES)}; got {text!r}")
    if (share := _parse_share(value)) is not None and 0 < share <= 1 and measure in {"", "fraction"}:
        return "fraction", share
    parted = share is not None and not share.is_integer()  # 1.5 is neither a share nor a number of tokens
    if measure == "fraction" or value.endswith("%") or parted or _SIZE_PATTERN.fullmatch(value) is None:
        count = "300" if option == "trigger" else "20"
        raise SettingsError(
            f"can't read a {option} of {text!r}: write a share of the window, at most 100 % (85% or 0.85), tokens "
            f"(170k or 1m) or messages={count}"
        )
    return measure or "tokens", parse_size(value, f"a {option}")


def _parse_share(value: str) -> float | None:
    """Return 85% or 0.85 as a share; None for what is no number."""
    try:
        return float(value[:-1]) / 100 if value.endswith("%") else float(value)
    except ValueError:
        return None
