"""Look up what is known about a model by its name: window, prices, the family that it cuts text and sees images with.

The table `models.json` is made by `scripts/generate_models.py`; it is read at the first look-up. What follows from a
name alone (the family) is decided by rule, so that tomorrow's models are not strangers.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from unabridged.formats.anthropic import parse_claude_version
from unabridged.formats.base import Family

log = logging.getLogger("unabridged")

_models_warned_of: set[str | None] = set()
"""The models, by name, of which it was said already that their window is not known; None where none was named."""


class PatchRule(NamedTuple):
    """An image is laid out in squares of `side` pixels, shrunk until `most` of them cover it."""

    side: int
    most: int
    each: float = 1.0
    longest: int = 1_000_000
    """Longer edges are shrunk to this first."""


_MOST_EXPENSIVE_PATCHES = PatchRule(28, 4_784, longest=2_576)
"""The newest rule is also the dearest, so it serves for names not seen before."""


class FamilyInfo(NamedTuple):
    """The traits of one family of models, besides how they cut text."""

    tools: int
    """Tokens that the provider puts into the prompt itself as soon as there are tools. Anthropic states 159 to 530."""
    image: PatchRule | None = _MOST_EXPENSIVE_PATCHES
    """The rule for images; None where that depends on the model."""
    second: int = 32
    """Tokens of a second of sound."""
    vocabulary: str = ""
    """The tokenizer that counts exactly, if there is one."""


FAMILIES: dict[Family, FamilyInfo] = {
    "openai": FamilyInfo(20, image=None, second=10, vocabulary="o200k_base"),
    "gpt-4": FamilyInfo(60, vocabulary="cl100k_base"),
    "claude": FamilyInfo(550),
    "claude-3": FamilyInfo(550, image=PatchRule(28, 1_568, longest=1_568)),
    "other": FamilyInfo(60),
    "unknown": FamilyInfo(550),
}


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One known model. Prices are US dollars per million tokens, as of when the table was made; 0 where not known."""

    name: str
    """As the table has it, without provider, date or region."""
    provider: str
    window: int
    """The most tokens it takes as input."""
    family: Family
    input: float
    cache_read: float
    cache_write: float
    output: float
    exact: bool = True
    """Whether the table knows this version; else the window is the smallest of those of the name."""

    @property
    def answers_apart(self) -> bool:
        """Return whether the window is for input alone: what the model writes does not count towards it."""
        return self.window > _SHARED_WINDOW if _REASONING_MODELS.match(self.name) else self.name.startswith("gemini")

    @property
    def cache_read_share(self) -> float:
        """Return the price of a token read from the cache, relative to an uncached one; 1 when there is no cache."""
        return self.cache_read / self.input if self.cache_read and self.input else 1.0

    @property
    def cache_write_share(self) -> float:
        """Return the price of a token written to the cache, relative to an uncached one."""
        return self.cache_write / self.input if self.cache_write and self.input else 1.0

    @property
    def cache_seconds(self) -> int:
        """Return how long a cached prefix surely lives after its last use; 0 when there is no cache.

        Every provider in the table keeps one for five minutes at least; some for longer, when asked.
        """
        return 300 if self.cache_read else 0


def find_model_info(name: str | None) -> ModelInfo | None:
    """Return the table's entry for a model, however it is spelled; None when it is not there.

    Takes `openai:gpt-5-mini`, `anthropic/claude-sonnet-4.5`, `us.anthropic.claude-opus-4-6-v1:0`, dated names,
    `models/gemini-3.8-flash`, fine-tunes, and names with a suffix that the table does not list. Of a version that the
    table does not list (`claude-haiku-77`), the window is the smallest that a model of that name has.
    """
    known = _find_known_name(name or "")
    if known is None:
        return None
    provider, window, price, read, write, output = _load_models_table()[known]
    exact = not _is_unknown_version(name or "", known)
    window = window if exact else _find_smallest_window(known)
    return ModelInfo(known, provider, window, find_family(name), price, read, write, output, exact)


def _is_unknown_version(name: str, known: str) -> bool:
    """Return whether the name goes on behind a known one with a number: a version that the table does not list."""
    rests = [spelling.removeprefix(known) for spelling in _iterate_spellings(name) if spelling.startswith(known)]
    if not rests or "" in rests:
        return False
    return rests[-1][1:2].isdigit() or not any(letter.isdigit() for letter in known)


def _find_smallest_window(known: str) -> int:
    """Return the smallest window of the models whose names begin so."""
    return min(row[1] for name, row in _load_models_table().items() if f"{name}-".startswith(f"{known}-"))


def choose_window(agent: str | None, window: int | None) -> int | None:
    """Return the given window, else that of the agent's model; None where neither is known."""
    if window is not None:
        return window
    info = find_model_info(agent)
    return None if info is None else info.window


def warn_of_assumed_window(agent: str | None, window: int, info: ModelInfo | None = None) -> None:
    """Log which window is assumed for a model that nobody knows, once in a process for each name.

    `info` is of the model that its name begins with, where only its version is not known.
    """
    if agent in _models_warned_of:
        return
    _models_warned_of.add(agent)
    who = f"the window of {agent!r} is not known" if agent else "neither window= nor agent= was given"
    who += f", and {info.name} has none smaller" if info is not None else ""
    what = "the most tokens that the model takes" + ("" if agent else ", or agent=, its name")
    log.warning("%s: %s tokens are assumed. Give window=, %s", who, f"{window:,}", what)


def find_family(model: str | None, unnamed: Family = "unknown") -> Family:
    """Return how the model cuts text into tokens; `unnamed` (the format's guess) when the name tells nothing."""
    for spelling in _iterate_spellings(model or ""):
        if "claude" in spelling:
            version = parse_claude_version(spelling)
            return "claude" if version is None or version >= (4, 7) else "claude-3"
        if _O200K_MODELS.match(spelling):
            return "openai"
        if _CL100K_MODELS.match(spelling):
            return "gpt-4"
        if _OTHER_MODELS.match(spelling):
            return "other"
    return "other" if _find_known_name(model or "") else unnamed


# o200k: GPT-4o, GPT-4.1, GPT-4.5, GPT-5 and later, o1 and later, gpt-oss. GPT-4 and GPT-3.5 cut text more finely.
_O200K_MODELS = re.compile(r"gpt-4o|gpt-4\.[1-9]|gpt-[5-9]|gpt-[1-9]\d|gpt-oss|chatgpt|codex|computer-use|o[1-9]\b")
_CL100K_MODELS = re.compile(r"gpt-4(?!\d)|gpt-3\.5")
_OTHER_MODELS = re.compile(
    r"gpt-|gemini|gemma|llama|qwen|qwq|[a-z]*stral|mixtral|deepseek|kimi|moonshot|glm|grok|command|nova|phi|minimax|"
    r"sonar|jamba|granite|hermes|nemotron|ernie|doubao|step|yi-|olmo|mimo"
)

_REASONING_MODELS = re.compile(r"gpt-(?:[5-9]|\d\d)")
_SHARED_WINDOW = 128_000
"""The window of those of OpenAI's since GPT-5 that answer within it, which are named `-chat`."""

_REGION_AND_VENDOR = re.compile(
    r"^(?:(?:us|eu|apac|jp|au|ca|global|regional|us-gov)\.)?"
    r"(?:anthropic|openai|amazon|meta|mistral|cohere|deepseek|qwen|google|nvidia|writer|moonshot|minimax|zai|ai21)\."
)
_DATE_OR_VERSION = re.compile(
    r"(?:-v\d+|@.*|-20\d{6}|-20\d\d-\d\d-\d\d|-latest|-preview(?:-\d\d-\d\d(?:-20\d\d)?|-\d\d-20\d\d)?)$"
)
_CLAUDE_VERSION_FIRST = re.compile(r"^claude-([4-9]|\d\d)(?:-(\d{1,2}))?-([a-z]+)$")


def _find_known_name(name: str) -> str | None:
    """Return the table's name for a model: one of its spellings, else the longest known name that it begins with.

    Else the one that the table has only as a preview or with a date: `grok-4` is `grok-4-0709` there.
    """
    table, spellings = _load_models_table(), list(_iterate_spellings(name))
    beginnings = (beginning for spelling in spellings for beginning in _iterate_beginnings(spelling))
    known = next((name for name in (*spellings, *beginnings) if name in table), None)
    if known is not None:
        return known
    dated = (re.compile(re.escape(spelling) + r"-(?:preview|\d{4,8})") for spelling in spellings)
    return next((listed for pattern in dated for listed in table if pattern.fullmatch(listed)), None)


def _iterate_spellings(name: str) -> Iterator[str]:
    """Yield the spellings of a name in the table, likeliest first: as it is, then without region, version and date."""
    bare = name.strip().lower().rsplit("/", 1)[-1].removeprefix("~").removeprefix("ft:")
    head, colon, tail = bare.partition(":")
    # `openai:gpt-5` names the provider first, `claude-…-v1:0` and `glm-5.3:free` put a variant last.
    for part in (tail, head) if colon else (bare,):
        plain = _REGION_AND_VENDOR.sub("", part)
        if plain.startswith("claude"):
            plain = plain.replace(".", "-")
        plain = plain.replace("gpt-35-", "gpt-3.5-")  # Azure's names have no dots
        while plain:
            yield plain
            yield from _iterate_claude_spellings(plain)
            shorter = _DATE_OR_VERSION.sub("", plain)
            plain = shorter if shorter != plain else ""


def _iterate_claude_spellings(plain: str) -> Iterator[str]:
    """Yield other spellings of a Claude: `claude-4-5-opus`, `claude-sonnet-4` for 4.0; Mythos has Fable's numbers."""
    if turned := _CLAUDE_VERSION_FIRST.match(plain):
        plain = "-".join(filter(None, ("claude", turned[3], turned[1], turned[2])))
        yield plain
    if re.fullmatch(r"claude-[a-z]+-\d", plain):
        yield f"{plain}-0"
    if "claude-mythos" in plain:
        yield plain.replace("mythos", "fable")


def _iterate_beginnings(spelling: str) -> Iterator[str]:
    """Yield the beginnings of a longer name that may be a known one, longest first."""
    return (spelling[:end] for end in range(len(spelling) - 1, 3, -1) if spelling[end] in "-:@")


@cache
def _load_models_table() -> dict[str, tuple[str, int, float, float, float, float]]:
    """Return the table, read once: name -> provider, window, and the four prices."""
    return dict(json.loads(Path(__file__).with_name("models.json").read_text(encoding="utf-8")))
