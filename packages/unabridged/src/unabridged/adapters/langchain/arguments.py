"""The arguments of LangChain's and Deep Agents' own middleware, as settings of the engine."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypedDict

from langchain.agents.middleware.summarization import DEFAULT_SUMMARY_PROMPT, ContextSize
from langchain_core.language_models import BaseChatModel

from unabridged.errors import SettingsError
from unabridged.settings import Measure, Settings, keeps, triggers

log = logging.getLogger("unabridged")

DEFAULT: Final = type("Default", (), {"__repr__": lambda _: "DEFAULT", "__deepcopy__": lambda self, _: self})()
"""Not given: the defaults adapt to the model. None is something else: never by itself."""

MESSAGES_KEPT: Final = 20
"""What LangChain's class keeps when only a trigger is given."""
KNOWN: dict[str, Any] = {"trigger": ("fraction", 0.85), "keep": ("fraction", 0.10)}
UNKNOWN: dict[str, Any] = {"trigger": ("tokens", 170_000), "keep": ("messages", 6)}

_FORMER: dict[str, tuple[str, str, Any]] = {
    "max_tokens_before_summary": ("trigger", "tokens", None),
    "messages_to_keep": ("keep", "messages", ("messages", MESSAGES_KEPT)),
}
"""Names that LangChain has given up: what each stands for, its unit, and what else counts as not given."""


class SummarizationDefaults(TypedDict):
    """What Deep Agents would choose for a model."""

    trigger: ContextSize
    keep: ContextSize
    truncate_args_settings: dict[str, Any]


def compute_summarization_defaults(model: BaseChatModel) -> SummarizationDefaults:
    """Deep Agents' defaults for this model: fractions where its profile tells the window, else absolute numbers."""
    profile = getattr(model, "profile", None)
    if isinstance(profile, dict) and isinstance(profile.get("max_input_tokens"), int):
        return {"trigger": ("fraction", 0.85), "keep": ("fraction", 0.10), "truncate_args_settings": dict(KNOWN)}
    arguments = {"trigger": ("messages", MESSAGES_KEPT), "keep": ("messages", MESSAGES_KEPT)}
    return {"trigger": ("tokens", 170_000), "keep": ("messages", 6), "truncate_args_settings": arguments}


class Chosen(NamedTuple):
    """What the arguments come to; `settings` None means the defaults that fit the model."""

    settings: Settings | None
    trigger: Any
    keep: Any

    def settings_for(self, window: int | None, *, recall: bool) -> Settings:
        """Return the settings for a model with this window; None where nobody knows it."""
        settings = self.settings or Settings(**(UNKNOWN if window is None else KNOWN))
        if window is None and settings.trigger == Settings().trigger:  # a default: a fraction of what nobody knows
            settings = replace(settings, trigger=UNKNOWN["trigger"])
        return replace(settings, recall=True) if recall else settings


def settings_of(
    given: Mapping[str, Any], *, settings: Settings | None, window: int | None, judged: bool, old: Mapping[str, Any]
) -> Chosen:
    """The settings these arguments stand for; what contradicts itself is refused here.

    `window` is what is known now, `judged` whether a model was given that could have told it, `old` what came under
    names that LangChain and Deep Agents have given up.
    """
    own = deepcopy(given["trigger"])  # the caller's list may change later
    trigger, keep = _take_old_names(own, given["keep"], old)
    if given["state"] not in {"replaced", "kept"}:
        raise SettingsError(f'state must be "replaced" or "kept"; got {given["state"]!r}')
    if settings is not None:
        if not isinstance(settings, Settings):
            raise SettingsError(f"settings must be Settings(...); got {settings!r}")
        if trigger is not DEFAULT or keep is not DEFAULT:
            raise SettingsError("trigger and keep stand in the settings already: give either, not both")
        return Chosen(settings, settings.trigger, settings.keep)
    prompt = given["summary_prompt"]
    more = {"instruction": None if is_default_prompt(prompt) else prompt, "max_input": given["trim"]}
    more = {name: value for name, value in more.items() if value is not None}
    known = window is not None
    if trigger is DEFAULT and keep is DEFAULT:
        trigger, keep = (KNOWN if known else UNKNOWN).values()
        if not more:
            return Chosen(None, trigger, keep)
    elif keep is DEFAULT:
        keep = _below(trigger)
    elif trigger is DEFAULT:
        trigger = (KNOWN if known else UNKNOWN)["trigger"]
    trigger, keep = make_workable(trigger, keep)
    chosen = Settings(trigger=trigger, keep=keep, **more)
    fraction = any("fraction" in condition for condition in triggers(trigger)) or "fraction" in dict(keeps(keep))
    if fraction and window is None and judged:
        raise SettingsError(
            "a fraction needs the model's window, which neither its profile nor its name tells: give window=…, "
            'profile={"max_input_tokens": …} to the chat model, or absolute tokens'
        )
    return Chosen(chosen, trigger, keep)


def make_workable(trigger: Any, keep: Any) -> tuple[Any, Any]:
    """Return trigger and keep, with a `keep` that is not below the trigger lowered to a third of it, with a warning."""
    try:
        Settings(trigger=trigger, keep=keep)
    except SettingsError as error:
        raised = [
            {name: value if name == "fraction" else max(2, value) for name, value in one.items()}
            for one in triggers(trigger)
        ]  # one message or token can't be kept below a trigger of one
        lowest: dict[Measure, float] = {}
        for condition in raised:
            lowest |= {name: min(bound, lowest.get(name, bound)) for name, bound in condition.items()}
        less: list[Any] = [
            (name, bound / 3 if name == "fraction" else max(1, int(bound // 3))) for name, bound in lowest.items()
        ]
        Settings(trigger=raised, keep=less)  # what else is wrong is not ours to put right
        kept = " and ".join(f"{bound:,} {name}" for name, bound in less)
        log.warning("%s. Kept instead: %s", error, kept)
        return raised, [*keeps(keep), *less]
    return trigger, keep


def is_default_prompt(prompt: str | None) -> bool:
    """Whether it is LangChain's or Deep Agents' default, spelled out: then ours takes its place, as without any."""
    own = DEFAULT_SUMMARY_PROMPT.partition("\n<messages>\n")[0]
    return prompt is None or (prompt.startswith(own) and prompt.endswith("{messages}\n</messages>"))


def _take_old_names(trigger: Any, keep: Any, deprecated: Mapping[str, Any]) -> tuple[Any, Any]:
    """Trigger and keep with LangChain's former names taken in, each with a warning."""
    sizes = {"trigger": trigger, "keep": keep}
    for name, value in deprecated.items():
        if name == "summary_prefix":
            _warn("summary_prefix has no meaning here and is ignored: a summary turn says itself what it is")
        elif name in _FORMER:
            size, unit, unset = _FORMER[name]
            _warn(f"{name} is deprecated: use {size}=({unit!r}, value)")
            if value is not None and (sizes[size] is DEFAULT or sizes[size] == unset):
                sizes[size] = (unit, value)
        else:
            raise TypeError(f"SummarizationMiddleware got an unexpected argument: {name}")
    return sizes["trigger"], sizes["keep"]


def _warn(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=5)


def _below(trigger: Any) -> Any:
    """LangChain's 20 messages, or fewer where the trigger counts fewer: keep must stay below it."""
    counts = [int(condition["messages"]) for condition in triggers(trigger) if "messages" in condition]
    return ("messages", max(1, min([MESSAGES_KEPT, *(count // 2 for count in counts)])))
