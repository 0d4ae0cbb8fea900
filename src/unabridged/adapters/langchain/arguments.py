"""The arguments of LangChain's and Deep Agents' own middleware, as settings of the engine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

from unabridged.errors import SettingsError
from unabridged.settings import Settings, keeps, triggers

DEFAULT: Final = type("Default", (), {"__repr__": lambda _: "DEFAULT"})()
"""Not given: the defaults adapt to the model. None is something else: never by itself."""

MESSAGES_KEPT: Final = 20
"""What LangChain's class keeps when only a trigger is given."""


class Chosen(NamedTuple):
    """What the arguments come to; `settings` None means the defaults that fit the model."""

    settings: Settings | None
    trigger: Any
    keep: Any


def settings_of(
    given: Mapping[str, Any],
    *,
    trim: int | None,
    settings: Settings | None,
    window: int | None,
    judged: bool,
    deprecated: Mapping[str, Any],
) -> Chosen:
    """The settings these arguments stand for; what contradicts itself is refused here.

    `window` is what is known now, `judged` whether a model was given that could have told it.
    """
    trigger, keep = _renamed(given["trigger"], given["keep"], deprecated)
    if given["state"] not in {"replaced", "kept"}:
        raise SettingsError(f'state must be "replaced" or "kept"; got {given["state"]!r}')
    if settings is not None:
        if trigger is not DEFAULT or keep is not DEFAULT:
            raise SettingsError("trigger and keep stand in the settings already: give either, not both")
        return Chosen(settings, settings.trigger, settings.keep)
    more = _supported({"instruction": given["summary_prompt"], "max_input": trim})
    if trigger is DEFAULT and keep is DEFAULT:
        known = window is not None
        trigger, keep = (("fraction", 0.85), ("fraction", 0.10)) if known else (("tokens", 170_000), ("messages", 6))
        if not more:
            return Chosen(None, trigger, keep)
    elif keep is DEFAULT:
        keep = _below(trigger)
    elif trigger is DEFAULT:
        trigger = ("fraction", 0.85) if window is not None else ("tokens", 170_000)
    chosen = Settings(trigger=trigger, keep=keep, **more)
    fraction = any("fraction" in condition for condition in triggers(trigger)) or "fraction" in dict(keeps(keep))
    if fraction and window is None and judged:
        raise SettingsError(
            "a fraction needs the model's window, which neither its profile nor its name tells: give window=…, "
            'profile={"max_input_tokens": …} to the chat model, or absolute tokens'
        )
    return Chosen(chosen, trigger, keep)


def _renamed(trigger: Any, keep: Any, deprecated: Mapping[str, Any]) -> tuple[Any, Any]:
    """Trigger and keep with LangChain's former names taken in, each with a warning."""
    old = dict(deprecated)
    if "max_tokens_before_summary" in old:
        value = old.pop("max_tokens_before_summary")
        _warn("max_tokens_before_summary is deprecated: use trigger=('tokens', value)")
        if trigger is DEFAULT and value is not None:
            trigger = ("tokens", value)
    if "messages_to_keep" in old:
        value = old.pop("messages_to_keep")
        _warn("messages_to_keep is deprecated: use keep=('messages', value)")
        if keep is DEFAULT:
            keep = ("messages", value)
    for name in ("summary_prefix", "history_path_prefix"):
        if name in old:
            del old[name]
            _warn(f"{name} has no meaning here and is ignored: a summary turn says itself what it is")
    if old:
        raise TypeError(f"SummarizationMiddleware got unexpected arguments: {', '.join(sorted(old))}")
    return trigger, keep


def _warn(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=5)


def _below(trigger: Any) -> Any:
    """LangChain's 20 messages, or fewer where the trigger counts fewer: keep must stay below it."""
    counts = [int(condition["messages"]) for condition in triggers(trigger) if "messages" in condition]
    return ("messages", max(1, min([MESSAGES_KEPT, *(count // 2 for count in counts)])))


def _supported(more: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(Settings)}
    return {name: value for name, value in more.items() if value is not None and name in known}


def tuned(settings: Settings | None, **changes: Any) -> Settings:
    """The settings with some exchanged."""
    return replace(settings or Settings(), **changes)
