"""Pydantic AI's models as summarisers, the agent's own among them, and summaries with a focus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic_ai.models import Model

from unabridged.adapters.kit import OwnModel
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.model_calls import wrap_model
from unabridged.asking.providers import ProviderModel, ask_standalone

_PASSED_SETTINGS = ("extra_headers", "extra_body", "service_tier", "openai_store", "openai_user")
"""Settings of a request that hold for its summary too: how it is routed, and whether the provider stores it."""


def to_summariser(model: Any) -> Any:
    """Return a `Model` as a summariser; all else as `Compactor` takes it."""
    return ProviderModel(model.model_name, model, {}) if isinstance(model, Model) else model


def make_own_model(model: Any, settings: Mapping[str, Any] | None = None) -> OwnModel | None:
    """Return what asks the agent's own model, with those settings of the request that hold for a summary too."""
    if not isinstance(model, Model):
        return None
    shared = {name: value for name, value in (settings or {}).items() if name in _PASSED_SETTINGS}

    async def ask_it(ask: Ask) -> Reply:
        return replace(await ask_standalone(model, ask, shared), model=model.model_name)

    return ask_it


def add_focus(model: Any, focus: str) -> Callable[[Ask], Any]:
    """Return the summariser, asked each time for a summary that is most of all about this."""
    model = wrap_model(model)
    addition = f"\n\nWhat matters most for the one who goes on from this summary: {focus}"

    def call(ask: Ask) -> Reply | str | Any:
        asked = replace(ask, instruction=f"{ask.instruction}{addition}")
        return model.call(asked if model.takes_ask else asked.instruction)

    call.__qualname__ = model.name
    return call
