"""The arguments of LangChain's and Deep Agents' own middleware, as settings of the engine."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypedDict, cast

from langchain.agents.middleware.summarization import DEFAULT_SUMMARY_PROMPT, ContextSize
from langchain_core.language_models import BaseChatModel

from unabridged.errors import SettingsError
from unabridged.settings import Measure, Settings, parse_keep, parse_trigger

log = logging.getLogger("unabridged")

NOT_PASSED: Final = type("Default", (), {"__repr__": lambda _: "DEFAULT", "__deepcopy__": lambda self, _: self})()
"""Stands for an argument that was not passed: it adapts to the model. None is something else: never by itself."""

DEFAULT_KEPT_MESSAGES: Final = 20
"""Messages that LangChain's class keeps when only a trigger is passed."""
DEFAULTS_WITH_WINDOW: dict[str, Any] = {"trigger": ("fraction", 0.85), "keep": ("fraction", 0.10)}
DEFAULTS_WITHOUT_WINDOW: dict[str, Any] = {"trigger": ("tokens", 170_000), "keep": ("messages", 6)}

_DEPRECATED_ARGUMENTS: dict[str, tuple[str, str, Any]] = {
    "max_tokens_before_summary": ("trigger", "tokens", None),
    "messages_to_keep": ("keep", "messages", ("messages", DEFAULT_KEPT_MESSAGES)),
}
"""Former names of LangChain's: the argument that each stands for, its unit, and the value that counts as not passed."""


class SummarizationDefaults(TypedDict):
    """The settings that Deep Agents would choose for a model."""

    trigger: ContextSize
    keep: ContextSize
    truncate_args_settings: dict[str, Any]


def compute_summarization_defaults(model: BaseChatModel) -> SummarizationDefaults:
    """Return Deep Agents' defaults for this model: fractions where its profile has a window, else absolute numbers."""
    profile = getattr(model, "profile", None)
    chosen, clipped = DEFAULTS_WITHOUT_WINDOW, dict.fromkeys(("trigger", "keep"), ("messages", DEFAULT_KEPT_MESSAGES))
    if isinstance(profile, dict) and isinstance(profile.get("max_input_tokens"), int):
        chosen, clipped = DEFAULTS_WITH_WINDOW, dict(DEFAULTS_WITH_WINDOW)
    return cast("SummarizationDefaults", {**chosen, "truncate_args_settings": clipped})


class ChosenSettings(NamedTuple):
    """The settings that the arguments come to; `settings` None means the defaults that fit the model."""

    settings: Settings | None
    trigger: Any
    keep: Any

    def settings_for(self, window: int | None, *, recall: bool) -> Settings:
        """Return the settings for a model with this window; None where nobody knows it."""
        settings = self.settings or Settings(**(DEFAULTS_WITHOUT_WINDOW if window is None else DEFAULTS_WITH_WINDOW))
        if window is None and settings.trigger == Settings().trigger:  # a default: a fraction of what nobody knows
            settings = replace(settings, trigger=DEFAULTS_WITHOUT_WINDOW["trigger"])
        return replace(settings, recall=True) if recall else settings


def settings_from_arguments(
    given: Mapping[str, Any], *, settings: Settings | None, window: int | None, has_model: bool, old: Mapping[str, Any]
) -> ChosenSettings:
    """Return the settings these arguments come to; raise `SettingsError` for what contradicts itself.

    `window` is what is known now, `has_model` whether there is a model that could have said it, `old` what came under
    names that LangChain and Deep Agents no longer use.
    """
    own = deepcopy(given["trigger"])  # the caller's list may change later
    trigger, keep = _apply_deprecated_arguments(own, given["keep"], old)
    if given["state"] not in {"replaced", "kept"}:
        raise SettingsError(f'state must be "replaced" or "kept"; got {given["state"]!r}')
    if settings is not None:
        if not isinstance(settings, Settings):
            raise SettingsError(f"settings must be Settings(...); got {settings!r}")
        if trigger is not NOT_PASSED or keep is not NOT_PASSED:
            raise SettingsError("trigger and keep stand in the settings already: give either, not both")
        return ChosenSettings(settings, settings.trigger, settings.keep)
    prompt = given["summary_prompt"]
    more = {"instruction": None if is_default_prompt(prompt) else prompt, "max_input": given["trim"]}
    more = {name: value for name, value in more.items() if value is not None}
    defaults = DEFAULTS_WITHOUT_WINDOW if window is None else DEFAULTS_WITH_WINDOW
    if trigger is NOT_PASSED and keep is NOT_PASSED:
        trigger, keep = defaults.values()
        if not more:
            return ChosenSettings(None, trigger, keep)
    elif keep is NOT_PASSED:
        keep = _choose_keep_below(trigger)
    elif trigger is NOT_PASSED:
        trigger = defaults["trigger"]
    trigger, keep = lower_keep_below_trigger(trigger, keep)
    chosen = Settings(trigger=trigger, keep=keep, **more)
    fraction = any("fraction" in condition for condition in (*parse_trigger(trigger), dict(parse_keep(keep))))
    if fraction and window is None and has_model:
        raise SettingsError(
            "a fraction needs the model's window, which neither its profile nor its name tells: give window=…, "
            'profile={"max_input_tokens": …} to the chat model, or absolute tokens'
        )
    return ChosenSettings(chosen, trigger, keep)


def lower_keep_below_trigger(trigger: Any, keep: Any) -> tuple[Any, Any]:
    """Return trigger and keep, with a `keep` that is not below the trigger lowered to a third of it, with a warning."""
    try:
        Settings(trigger=trigger, keep=keep)
    except SettingsError as error:
        # one message or token can't be kept below a trigger of one
        asked = parse_trigger(trigger)
        raised = [{u: size if u == "fraction" else max(2, size) for u, size in one.items()} for one in asked]
        lowest: dict[Measure, float] = {}
        for condition in raised:
            lowest |= {name: min(bound, lowest.get(name, bound)) for name, bound in condition.items()}
        less: list[Any] = [(u, size / 3 if u == "fraction" else max(1, int(size // 3))) for u, size in lowest.items()]
        Settings(trigger=raised, keep=less)  # raises what else is wrong
        kept = " and ".join(f"{bound:,} {name}" for name, bound in less)
        log.warning("%s. Kept instead: %s", error, kept)
        return raised, [*parse_keep(keep), *less]
    return trigger, keep


def is_default_prompt(prompt: str | None) -> bool:
    """Return whether it is LangChain's or Deep Agents' default, spelled out: then ours is used, as without any."""
    own = DEFAULT_SUMMARY_PROMPT.partition("\n<messages>\n")[0]
    return prompt is None or (prompt.startswith(own) and prompt.endswith("{messages}\n</messages>"))


def _apply_deprecated_arguments(trigger: Any, keep: Any, deprecated: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return trigger and keep with the values of LangChain's former names, each with a warning."""
    sizes = {"trigger": trigger, "keep": keep}
    for name, value in deprecated.items():
        if name == "summary_prefix":
            _warn_deprecated("summary_prefix has no meaning here and is ignored: a summary turn says itself what it is")
        elif name in _DEPRECATED_ARGUMENTS:
            size, unit, unset = _DEPRECATED_ARGUMENTS[name]
            _warn_deprecated(f"{name} is deprecated: use {size}=({unit!r}, value)")
            if value is not None and (sizes[size] is NOT_PASSED or sizes[size] == unset):
                sizes[size] = (unit, value)
        else:
            raise TypeError(f"SummarizationMiddleware got an unexpected argument: {name}")
    return sizes["trigger"], sizes["keep"]


def _warn_deprecated(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=5)


def _choose_keep_below(trigger: Any) -> Any:
    """Return LangChain's 20 messages, or fewer where the trigger counts fewer: keep must stay below it."""
    counts = [int(condition["messages"]) for condition in parse_trigger(trigger) if "messages" in condition]
    return ("messages", max(1, min([DEFAULT_KEPT_MESSAGES, *(count // 2 for count in counts)])))
