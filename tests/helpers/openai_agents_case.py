"""Agents of OpenAI's SDK with a scripted model that works through numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agents import (
    Agent,
    RunConfig,
    Runner,
    function_tool,
)
from agents.models.interface import Model
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseReasoningItem

from doors.openai_agents import OneModel
from unabridged.adapters.openai_agents import (
    CompactingProvider,
)

WINDOW = 8_000
FACTS = "the readings were steady and nothing else came up. "
QUIET = {"tracing_disabled": True}


@function_tool
def work(number: int) -> str:
    """Work on one number."""
    return f"Number {number}: {FACTS * 80}"


def working(steps: int, *, thinks: bool = False) -> Callable[[Any], ModelStep]:
    """A model that calls `work` so many times in a run, and then is done."""
    made = 0

    def answer(_: ModelCall) -> ModelStep:
        nonlocal made
        made += 1
        if made % (steps + 1) == 0:
            return ModelStep([assistant_message("All done.", item_id=f"msg_{made}")])
        thought = ResponseReasoningItem(
            id=f"rs_{made}", summary=[], type="reasoning", encrypted_content=f"sealed{made}"
        )
        call = function_call("work", {"number": made}, call_id=f"call_{made}", item_id=f"fc_{made}")
        return ModelStep([thought, call] if thinks else [call])

    return answer


def scripted(answer: Callable[[Any], Any]) -> ScriptedModel:
    return ScriptedModel([ModelStep.respond(answer)] * 300)


def provider_for(model: Model, **keywords: Any) -> CompactingProvider:
    return CompactingProvider(OneModel(model), **{"window": WINDOW, "archive": "memory:", "model": None, **keywords})


def run(agent: Agent[Any], given: Any, provider: CompactingProvider, config: Any = None, **options: Any) -> Any:
    settings: Any = {"model_provider": provider, **(config or QUIET)}
    return asyncio.run(Runner.run(agent, given, run_config=RunConfig(**settings), max_turns=300, **options))


def threads(provider: CompactingProvider) -> list[str]:
    return list(provider.runs.archive.threads(provider.runs.namespace))
