"""A model of ADK's as the one who writes the summaries: the agent's own, or another."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from unabridged.adapters.kit import NamedModel, OwnModel
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.replies import read_stop_reason
from unabridged.tokens.calibrate import parse_usage

_PASSED_SETTINGS = ("http_options", "labels", "model_armor_config", "safety_settings", "service_tier", "store")
"""Fields of a request's configuration that hold for its summary too: its routing, and what its provider may do."""


def to_summariser(model: Any) -> Any:
    """Return what `Compactor(model)` takes: the same, unless it is a model of ADK's."""
    return NamedModel(model.model, partial(ask_model, model)) if isinstance(model, BaseLlm) else model


def make_own_model(context: CallbackContext, asked: LlmRequest) -> OwnModel:
    """Return what asks the model that the agent is about to ask."""
    values = {name: getattr(asked.config, name, None) for name in _PASSED_SETTINGS}
    shared = {name: copy(value) for name, value in values.items() if value is not None}  # models change the headers

    async def ask_it(ask: Ask) -> Reply:
        return await ask_model(await find_agent_model(context), ask, asked.model, **shared)

    return ask_it


async def find_agent_model(context: CallbackContext) -> BaseLlm:
    """Return the model of the agent that makes a request; every agent that makes one has a model."""
    agent: Any = context.get_invocation_context().agent
    model: BaseLlm = await agent.canonical_model_async(context)
    return model


async def ask_model(model: BaseLlm, ask: Ask, name: str | None = None, **config: Any) -> Reply:
    """Return the model's reply to the instruction alone: no agent runs, so no callback, no event and no tool."""
    name = name or model.model
    turn = types.Content(role="user", parts=[types.Part(text=ask.instruction)])
    config |= {"system_instruction": ask.system, "max_output_tokens": ask.max_tokens}
    asked = LlmRequest(model=name, contents=[turn], config=types.GenerateContentConfig(**config))
    answer = await ask_unstreamed(model, asked)
    parts = (answer.content.parts or []) if answer is not None and answer.content else []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = sum(part.function_call is not None for part in parts)
    stop = answer.finish_reason.value.lower() if answer is not None and answer.finish_reason else None
    used = parse_usage(answer.usage_metadata) if answer is not None and answer.usage_metadata else None
    return Reply(text, read_stop_reason(stop), used, calls, model=name)


async def ask_unstreamed(model: BaseLlm, asked: LlmRequest) -> LlmResponse | None:
    """Return the model's response in one piece; None where it yields none."""
    answer: LlmResponse | None = None
    async for response in model.generate_content_async(asked, stream=False):
        answer = response
    return answer
