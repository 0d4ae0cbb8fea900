"""Pydantic AI's models as summarisers, and summarisers that are told what matters most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic_ai.models import Model

from unabridged.asking.ask import Ask, Reply
from unabridged.asking.model_calls import speaker_of
from unabridged.asking.providers import Provided


def summariser_of(model: Any) -> Any:
    """A `Model` as a summariser; all else as `Compactor` takes it."""
    return Provided(model.model_name, model, {}) if isinstance(model, Model) else model


def focused(model: Any, focus: str) -> Callable[[Ask], Any]:
    """The summariser, told with each question what its summary is most of all about."""
    speaker = speaker_of(model)
    told = f"\n\nWhat matters most for the one who goes on from this summary: {focus}"

    def call(ask: Ask) -> Reply | str | Any:
        asked = replace(ask, instruction=f"{ask.instruction}{told}")
        return speaker.call(asked if speaker.takes_ask else asked.instruction)

    call.__qualname__ = speaker.name
    return call
