"""A model of the SDK's as the one who writes the summaries: the agent's own, or another."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from agents import Model, ModelSettings
from agents.models.interface import ModelTracing

from unabridged.adapters.kit import NamedModel, OwnModel
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.replies import reply_of

_PASSED_SETTINGS = ("extra_body", "extra_headers", "extra_query", "store")
"""Settings of a request that hold for its summary too: how it is routed, and whether the provider stores it."""


def to_summariser(model: Any) -> Any:
    """Return what `Compactor(model)` takes: the same, unless it is a model of the SDK's."""
    return NamedModel(read_model_name(model), partial(ask_model, model)) if isinstance(model, Model) else model


def make_own_model(model: Model, settings: ModelSettings) -> OwnModel:
    """Return what asks the model that a request with these settings goes to."""
    shared = {name: getattr(settings, name) for name in _PASSED_SETTINGS}
    return partial(ask_model, model, settings=ModelSettings(**shared))


def read_model_name(model: Any) -> str | None:
    """Return the name that the model has at its provider; None where it has no such attribute."""
    name = getattr(model, "model", None)
    return name if isinstance(name, str) and name else None


async def ask_model(model: Model, ask: Ask, settings: ModelSettings | None = None) -> Reply:
    """Return the model's reply to the instruction alone: outside of any run, so no event, no span and no tool."""
    system, settings = ask.system if isinstance(ask.system, str) else None, settings or ModelSettings()
    items: Any = [{"role": "user", "content": ask.instruction}]
    apart: Any = {"tools": [], "handoffs": [], "tracing": ModelTracing.DISABLED}
    apart |= dict.fromkeys(("output_schema", "previous_response_id", "conversation_id", "prompt"))
    response = await model.get_response(system, items, replace(settings, max_tokens=ask.max_tokens), **apart)
    return replace(reply_of(response), model=read_model_name(model) or "")
