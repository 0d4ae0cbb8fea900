"""When to compact and how much to keep, in the tuple grammar; everything that could fail later is refused here.

trigger=("fraction", 0.85)                         at 85 % of the window
trigger=[("tokens", 170_000), ("messages", 300)]   at either
trigger=[{"tokens": 50_000, "messages": 100}]      at both together
trigger=None                                       never by itself, clearing included; `compact` still works
keep=("messages", 20)                              at least so many, moved outward to whole rounds
keep=[("fraction", 0.10), ("messages", 20)]        whichever keeps fewer
target=("fraction", 0.5)                           half full after a compaction, in the place of keep
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from unabridged.errors import SettingsError

Measure = Literal["tokens", "fraction", "messages"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Condition = tuple[Measure, float]
Trigger = Condition | Sequence[Condition | Mapping[Measure, float]] | Mapping[Measure, float] | None
Keep = Condition | Sequence[Condition]

log = logging.getLogger("unabridged")

_WHOLE_NUMBER_TEXT = "a whole number of at least 1"
_FRACTION_TEXT = "a number above 0 and at most 1"
_RANGE_TEXTS = {"tokens": _WHOLE_NUMBER_TEXT, "messages": _WHOLE_NUMBER_TEXT, "fraction": _FRACTION_TEXT}

OPTIONAL_SECTIONS = ("done", "todo", "checks", "files", "names")
"""The sections of a summary turn that `Settings.without` can name."""
_REQUIRED_SECTIONS = frozenset({"people", "rules", "pins", "prose"})
"""Sections of a summary turn that can't be left out."""

MODEL_SUMMARY_TOKENS = 4_096
"""The most that a summary by a model takes, where the settings don't say."""
FALLBACK_WINDOW = 32_768
"""Tokens of an unknown window, where the trigger is a fraction of it or there is none."""
PEOPLE_DIVISOR = 8
"""People's words may take the trigger divided by this, where a summary takes half of the trigger."""


def _is_whole_number(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(text, str) and text.strip() for text in value)


def _is_transcript_path(value: Any) -> bool:
    """Return whether this is the path of a file on one line, with no other fields than those that are filled in."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        return False
    fixed = value.replace("{thread}", "t").replace("{namespace}", "n")
    return not set(fixed) & set("{}") and re.split(r"[/\\]", fixed)[-1] not in {"", ".", ".."}


def _allow_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


FieldChecks = Mapping[str, tuple[Callable[[Any], bool], str]]
"""By the names of fields, separated by spaces: the check of their values, and what they must be in words."""


def _check_fields(owner: object, prefix: str, checks: FieldChecks) -> None:
    for names, (fits, what) in checks.items():
        for name in names.split():
            if not fits(value := getattr(owner, name)):
                raise SettingsError(f"{prefix}{name} must be {what}; got {value!r}")


@dataclass(frozen=True, slots=True)
class Prices:
    """What one token costs: read from the provider's cache, written to it, fresh without it, and as output.

    Only their ratios matter. `lifetime` is for how many seconds the cache keeps a prefix that nobody reads. Where
    `read` is not below `fresh`, nothing is cached.
    """

    read: float = 0.1
    """A token that the provider reads from its cache."""
    write: float = 1.25
    """A token that it writes to its cache."""
    fresh: float = 1.0
    """A token of input that is not cached."""
    output: float = 5.0
    """A token that the model writes."""
    lifetime: float = 300.0
    """Seconds for which the cache keeps a prefix that nobody reads."""

    def __post_init__(self) -> None:
        names = "read write fresh output lifetime"
        _check_fields(self, "Prices.", {names: (_is_number, "a finite number of 0 or more")})

    @property
    def has_cheap_reads(self) -> bool:
        """Return whether a token read again is cheaper than a fresh one."""
        return self.read < self.fresh

    def rewrite_cost(self, idle: float = 0.0) -> float:
        """Return what a token after a change costs on top: nothing without a cache, or when it has expired anyway."""
        return max(0.0, self.write - self.read) if self.has_cheap_reads and idle < self.lifetime else 0.0


@dataclass(frozen=True, slots=True)
class Clear:
    """How bulky old tool results and arguments are cleared; see `docs/clearing.md`."""

    keep_rounds: int = 3
    """The newest rounds that are never touched."""
    minimum: int = 50
    """Tokens that clearing a piece must free."""
    include: tuple[str, ...] | None = None
    """Only these tools; None for all."""
    exclude: tuple[str, ...] = ()
    """Tools whose results are never cleared."""
    payback: bool = False
    """Also below the trigger, as soon as it pays for itself; needs an agent whose prices are known, and one that can
    read again what was cleared (`Settings.recall`)."""
    remaining_turns: float | None = None
    """Model calls still to come; by default as many as there were."""
    prices: Prices | None = None
    """What the agent's provider charges, where the model table does not know it or a longer cache is paid for."""

    def __post_init__(self) -> None:
        _check_fields(self, "Clear.", _CLEAR_CHECKS)


_CLEAR_CHECKS: FieldChecks = {
    "keep_rounds minimum": (_is_whole_number, _WHOLE_NUMBER_TEXT),
    "include exclude": (lambda value: not isinstance(value, str), "a tuple of tool names"),
    "remaining_turns": (_allow_none(lambda value: value >= 0), "0 or more, or None"),
}
_SETTINGS_CHECKS: FieldChecks = {
    "form": (lambda value: value in ("user", "pair", "alternate"), "'user', 'pair' or 'alternate'"),
    "background": (
        _allow_none(lambda value: _is_number(value) and 0 < value < 1),
        "a number above 0 and below 1, or None",
    ),
    "clear": (_allow_none(lambda value: isinstance(value, Clear)), "Clear(...) or None"),
    "preserve": (_allow_none(lambda value: _is_whole_number(value, 0)), "a whole number of at least 0, or None"),
    "reserve summary summary_reserve max_input": (_allow_none(_is_whole_number), f"{_WHOLE_NUMBER_TEXT}, or None"),
    "deadline cool_down": (_is_number, "a number of seconds"),
    "retries": (lambda value: _is_whole_number(value, 0), "a whole number of at least 0"),
    "instruction": (_allow_none(lambda value: isinstance(value, str)), "a text, or None"),
    "suffix": (_allow_none(lambda value: isinstance(value, bool)), "True, False or None"),
    "pin": (_allow_none(callable), "a function of a message, or None"),
    "pins": (_are_texts, 'a tuple of texts such as ("never use tabs",)'),
    "transcript": (
        _allow_none(lambda value: value is False or _is_transcript_path(value)),
        'the path of a file such as "logs/{thread}.md", where {thread} and {namespace} are filled in, False or None',
    ),
    "off recall keep_at_most": (lambda value: isinstance(value, bool), "True or False"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a conversation is kept inside the window. Immutable; wrong values are refused at construction."""

    trigger: Trigger = ("fraction", 0.85)
    """When to compact: at this share of the window, at so many tokens or messages; a list for any of several, a
    mapping for all of its conditions together, None for never."""
    keep: Keep | None = None
    """How much recent conversation stays verbatim. Messages: at least so many, with the whole of their first round.
    Tokens or a fraction of the window: at most so many, and the whole of the round that this parts. Of a list, the one
    that keeps fewer. None: a tenth of the window, or a third of the trigger if that is less. It holds while the request
    then takes at most two thirds of the trigger; else fewer rounds stay, and the receipt says so."""
    keep_at_most: bool = False
    """Whether `keep` is a ceiling in each measure, and the tail begins with a message of a person where it can."""
    target: Condition | None = None
    """How large a request is left by a compaction, `("fraction", 0.5)` of the window or `("tokens", 60_000)`: the tail
    fills what it leaves beside the summary and what can't go, in the place of `keep`. None: as much as `keep` says."""
    reserve: int | None = None
    """Tokens left free for the model's answer; by default min(4,096, window / 10)."""
    summary: int | None = None
    """The most tokens of a summary turn besides people's words; by default a third of the window or of a
    lower trigger, at most 4,096; without a model, in a large window an eighth of it, at most 6,144."""
    summary_reserve: int | None = None
    """Tokens for the summariser's reply: its output limit, left free in its window. At most half of that window; by
    default 4,096 or what `summary` needs, at most a quarter of it."""
    pin: Callable[[Any], bool] | None = None
    """Says of a message whether it must never leave."""
    without: tuple[str, ...] = ()
    """Sections that a summary turn leaves out, by their names (`docs/summaries.md`). People's words, rules, pins and a
    model's prose are no such sections; `preserve=0` leaves people's words out."""
    pins: tuple[str, ...] = ()
    """Texts that stand in every summary turn, byte for byte."""
    off: bool = False
    """Nothing is ever changed, on any path; what is too long is left to the provider to refuse."""
    clear: Clear | None = field(default_factory=Clear)
    """Clearing of old tool results, before anything is summarised; None turns it off."""
    preserve: int | None = None
    """The most tokens for people's own words beside a summary; by default a third of the trigger, 0 for none. Summary
    and people's words together take at most half of the trigger: people's words give way first."""
    form: Literal["user", "pair", "alternate"] = "user"
    """The summary as a user's turn; as the assistant's answer to a user's turn that asks for it (`pair`); or as a
    user's turn with an acknowledgment of the assistant's behind it where two user turns would meet (`alternate`)."""
    instruction: str | None = None
    """A prompt for the summariser in the place of the built-in one. The conversation goes where it says `{messages}`,
    else behind it; other braces stay as they are, and nothing else is added."""
    max_input: int | None = None
    """Show the summariser at most so many tokens, the newest; by default everything that goes, in chunks if need be."""
    suffix: bool | None = None
    """Ask in the continuation of the live prompt, so that the provider's cache pays; by default where that is known
    to work: the summariser is the agent's own model, and `instruction` is the built-in one."""
    background: float | None = None
    """The share of the trigger at which a summary by a model is begun in the background, so that no turn waits for it
    before the budget is reached; None for never."""
    recall: bool = False
    """The agent has `search_history` and `read_history`: summaries and stubs say where the whole text is. Without the
    tools a reference leads nowhere."""
    transcript: str | Literal[False] | None = None
    """A file with everything that left the context, as text, for an agent that reads files: `"logs/{thread}.md"`. It is
    brought up to date at each compaction, and the summary turn names it. None: with a directory archive its own
    transcript is named. False: no file is."""
    deadline: float = 120.0
    """Seconds a compaction may wait for its summariser."""
    retries: int = 2
    """How often a summariser is asked again after a rate limit, a server's error or a broken connection."""
    cool_down: float = 60.0
    """Seconds a summariser that failed is left alone."""

    def __post_init__(self) -> None:
        parse_trigger(self.trigger)
        if self.keep is not None:
            lowest = dict(sorted(parse_keep(self.keep), reverse=True))  # the condition that keeps fewer counts
            _refuse_keep_above_trigger(lowest, parse_trigger(self.trigger))
        parse_target(self.target)
        if self.target is not None and self.keep is not None:
            raise SettingsError(f"give keep or target, not both: the tail fills what target leaves; got {self.keep!r}")
        _check_sections(self.without)
        _check_fields(self, "", _SETTINGS_CHECKS)
        if self.suffix and self.instruction is not None and "{messages}" in self.instruction:
            raise SettingsError(
                "with suffix=True the conversation stands above the instruction, so it can't stand at {messages}: take "
                "{messages} out of the instruction, or leave suffix out"
            )


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings in tokens and messages, for one window."""

    window: int
    reserve: int
    trigger: tuple[Mapping[Measure, int], ...]
    """Any of these; in each, all of its tokens and messages."""
    keep_tokens: int | None
    keep_messages: int | None
    summary: int
    model_summary: int
    """The tokens of `summary` that are used where a model writes it: a longer one takes longer and says little more."""
    people: int
    """The tokens that people's words may take besides."""
    target_tokens: int | None = None
    """The size of a request after a compaction; None where only the tail is bounded."""
    keep_at_most: bool = False
    assumed: bool = False
    """Whether the window is unknown, so that the trigger takes its place."""
    note: str = ""
    """Which setting could not be kept in this window, in words."""

    @property
    def budget(self) -> int:
        """Return what a request may take: window less reserve; of an unknown window a quarter more than the trigger."""
        return self.window * 5 // 4 if self.assumed else self.window - self.reserve

    @property
    def lowest_token_bound(self) -> int:
        """Return the lowest number of tokens in any condition of the trigger, or the budget where that is lower."""
        return min([self.budget, *(condition["tokens"] for condition in self.trigger if "tokens" in condition)])

    @property
    def third_of_trigger(self) -> int:
        """Return a third of the trigger: the most that people's own words may take."""
        return self.lowest_token_bound // 3

    @property
    def tokens_below_trigger(self) -> int:
        """Return what a compacted request should stay below: else the next message pulls the trigger again."""
        bounds = [condition["tokens"] for condition in self.trigger if set(condition) == {"tokens"}]
        return min([self.budget, *(bound - 1 for bound in bounds)])


def resolve_limits(settings: Settings, window: int | None) -> Limits:
    """Return what the settings mean for this window; None for an unknown window.

    A `keep` that this window puts at or above the trigger is lowered, with a warning; a `target` is refused.
    """
    assumed = window is None
    if window is None:
        window = assume_window(settings)
        assumed = window != FALLBACK_WINDOW
    if not _is_whole_number(window) or window < (1 if assumed else 64):
        raise SettingsError(f"window must be a whole number of at least 64 tokens; got {window!r}")
    reserve = settings.reserve if settings.reserve is not None else min(4_096, window // 10)
    reserve = 0 if assumed else reserve
    if reserve >= window:
        raise SettingsError(f"reserve {reserve:,} leaves nothing of the {window:,}-token window: make it smaller")
    budget = window - reserve
    conditions = parse_trigger(settings.trigger)
    trigger = tuple(_resolve_conditions(condition.items(), window, budget, max) for condition in conditions)
    summary = settings.summary if settings.summary is not None else _choose_summary_size(window, trigger)
    model_summary = summary if settings.summary is not None else min(summary, MODEL_SUMMARY_TOKENS)
    limits = Limits(window, reserve, trigger, None, None, summary, model_summary, people=0)
    limits = replace(limits, keep_at_most=settings.keep_at_most, assumed=assumed)
    if (target := parse_target(settings.target)) is not None:
        tokens = _resolve_conditions([target], window, budget, min)["tokens"]
        if tokens >= (lowest := limits.lowest_token_bound):
            raise SettingsError(
                f"target must be below the trigger, or every turn would compact again: {tokens:,} tokens wanted, "
                f"trigger at {lowest:,}"
            )
        limits = replace(limits, target_tokens=tokens, summary=min(summary, max(64, tokens // 2)))
    elif settings.keep is None:
        limits = replace(limits, keep_tokens=min(window // 10, limits.third_of_trigger))
    else:
        limits = _with_keep(limits, _resolve_conditions(parse_keep(settings.keep), window, budget, min))
    people = limits.third_of_trigger if settings.preserve is None else settings.preserve
    half = (limits.tokens_below_trigger if limits.target_tokens is None else limits.target_tokens) // 2
    return replace(limits, people=min(people, max(half - limits.summary, half * 2 // PEOPLE_DIVISOR)))


def assume_window(settings: Settings) -> int:
    """Return the window to work with where it is unknown: the lowest trigger in tokens, else a small one."""
    conditions = parse_trigger(settings.trigger)
    alone = [int(condition["tokens"]) for condition in conditions if set(condition) == {"tokens"}]
    joined = [int(condition["tokens"]) for condition in conditions if "tokens" in condition]
    if any("fraction" in condition for condition in conditions) or not joined:
        return FALLBACK_WINDOW
    return min(alone) if alone else max(joined)


def _with_keep(limits: Limits, keep: Mapping[Measure, int]) -> Limits:
    """Return the limits with this `keep`: lowered to a third of a trigger that it does not stay below."""
    tokens, messages, note = keep.get("tokens"), keep.get("messages"), ""
    if tokens is not None and tokens >= (lowest := limits.lowest_token_bound):
        third = lowest // 3
        note = f"keep is {tokens:,} tokens in this window and the trigger {lowest:,}: {third:,} are kept"
        warn_once(f"{note}. Set a keep below the trigger.")
        tokens = third
    counts = [one["messages"] for one in limits.trigger if "messages" in one]
    if counts and messages is not None and 3 * messages > 2 * min(counts):
        warn_once(
            f"keep={messages} messages is above two thirds of the trigger of {min(counts)} messages: fewer are kept, "
            "or nearly every call would compact. Lower keep or raise the trigger."
        )
    return replace(limits, keep_tokens=tokens, keep_messages=messages, note=note)


_warned_texts: set[str] = set()


def warn_once(text: str) -> None:
    """Log a warning, once in a process."""
    if text not in _warned_texts:
        _warned_texts.add(text)
        log.warning(text)


def _resolve_conditions(
    conditions: Iterable[Condition], window: int, budget: int, pick: Callable[[int, int], int]
) -> dict[Measure, int]:
    """Return the conditions as numbers, a fraction as tokens; where tokens and a fraction meet, `pick` chooses one."""
    sizes: dict[Measure, int] = {}
    for measure, value in conditions:
        unit: Measure = "tokens" if measure == "fraction" else measure
        size = min(int(value * window), budget) if measure == "fraction" else int(value)
        sizes[unit] = pick(size, sizes.get(unit, size))
    return sizes


def _choose_summary_size(window: int, trigger: Sequence[Mapping[Measure, int]]) -> int:
    """Return a third of the window or of a lower trigger, up to 4,096; of a large window an eighth, up to 6,144."""
    thirds = [max(256, condition["tokens"] // 3) for condition in trigger if set(condition) == {"tokens"}]
    return min([6_144, max(min(window // 3, 4_096), window // 8), *thirds])


def parse_trigger(trigger: Any) -> tuple[dict[Measure, float], ...]:
    """Return the trigger as a list of conjunctions; raise `SettingsError` for a wrong one."""
    if trigger is None:
        return ()
    if _is_pair(trigger) or isinstance(trigger, Mapping):
        trigger = [trigger]
    if isinstance(trigger, str) or not isinstance(trigger, Sequence):
        raise SettingsError(f'trigger must be a pair such as ("fraction", 0.85), a list, or None; got {trigger!r}')
    if {} in trigger:
        raise SettingsError("a mapping in trigger needs at least one condition; leave it out instead")
    listed = (item.items() if isinstance(item, Mapping) else [item] for item in trigger)
    return tuple(dict(_parse_condition("trigger", pair) for pair in pairs) for pairs in listed)


def parse_keep(keep: Any) -> tuple[Condition, ...]:
    """Return the ceilings on the tail; raise `SettingsError` for a wrong one."""
    if _is_pair(keep):
        keep = [keep]
    if isinstance(keep, str) or not isinstance(keep, Sequence) or not keep:
        raise SettingsError(f'keep must be a pair such as ("messages", 20), or a list of pairs; got {keep!r}')
    return tuple(_parse_condition("keep", item) for item in keep)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], str)


def parse_target(target: Any) -> Condition | None:
    """Return the size after a compaction; raise `SettingsError` for a wrong one."""
    if target is None:
        return None
    measure, value = _parse_condition("target", target)
    if measure == "messages":
        remedy = 'keep=("messages", 20) counts them'
        raise SettingsError(f'target is a size, ("fraction", 0.5) or ("tokens", 60_000); {remedy}')
    return measure, value


def _parse_condition(field: str, pair: Any) -> Condition:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise SettingsError(f'{field} takes pairs such as ("tokens", 100_000); got {pair!r}')
    measure, value = pair
    if measure not in _RANGE_TEXTS:
        raise SettingsError(f"{field} knows {', '.join(sorted(_RANGE_TEXTS))}; got {measure!r}")
    if not (_is_number(value) and 0 < value <= 1 if measure == "fraction" else _is_whole_number(value)):
        raise SettingsError(f"{field} {measure} must be {_RANGE_TEXTS[measure]}; got {value!r}")
    return measure, value


def _check_sections(without: Any) -> None:
    if not isinstance(without, tuple):
        raise SettingsError(f'without must be a tuple of sections such as ("files", "names"); got {without!r}')
    for name in without:
        if name in _REQUIRED_SECTIONS:
            raise SettingsError(f"without can't name {name!r}: it always stands in a summary turn")
        if name not in OPTIONAL_SECTIONS:
            raise SettingsError(f"without knows {', '.join(OPTIONAL_SECTIONS)}; got {name!r}")


def _refuse_keep_above_trigger(keep: Mapping[Measure, float], trigger: Sequence[Mapping[Measure, float]]) -> None:
    """Refuse a `keep` that no window puts below the trigger."""
    for condition in trigger:
        shared = [measure for measure in condition if measure in keep]
        if shared and all(keep[measure] >= condition[measure] for measure in shared) and set(keep) <= set(shared):
            sizes = " and ".join(f"{keep[m]:,} {m} kept, trigger at {condition[m]:,}" for m in shared)
            raise SettingsError(f"keep must be below the trigger, or every turn would compact again: {sizes}")
