"""What the people, models and tools of generated conversations say: short, in several scripts, cheap to repeat."""

from __future__ import annotations

import json
from importlib.resources import files
from random import Random

_PHRASES: dict[str, tuple[str, ...]] = {
    name: tuple(phrases)
    for name, phrases in json.loads(files("unabridged_testing").joinpath("words.json").read_bytes()).items()
}


PEOPLE = _PHRASES["people"]
ODD_PEOPLE = _PHRASES["odd_people"]
ANSWERS = _PHRASES["answers"]
THOUGHTS = _PHRASES["thoughts"]
OUTPUTS = _PHRASES["outputs"]
PLANTED_ATTACKS = _PHRASES["planted_attacks"]
"""What a hostile tool says, so that it may come back in somebody else's voice."""
ODD_OUTPUTS = _PHRASES["odd_outputs"]
TOOLS = _PHRASES["tools"]
RULES = _PHRASES["rules"]


def draw_phrase(rng: Random, phrases: tuple[str, ...]) -> str:
    """Return one phrase with a number in it."""
    return rng.choice(phrases).format(n=rng.randrange(10_000))


def draw_long_text(rng: Random, phrases: tuple[str, ...], size: int) -> str:
    """Return about `size` characters, made by repeating one phrase: long, and cheap to make."""
    seed = draw_phrase(rng, phrases) or "."
    return (seed * (size // len(seed) + 1))[: max(size, 1)]
