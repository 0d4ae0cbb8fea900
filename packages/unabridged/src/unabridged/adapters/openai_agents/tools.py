"""Recall as function tools, and the light way: a filter on the model's input."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agents import FunctionTool, Model, Tool
from agents.run import CallModelData, ModelInputData
from agents.tool_context import ToolContext

from unabridged.adapters import kit
from unabridged.adapters.openai_agents.provider import CompactingModel, CompactingProvider
from unabridged.adapters.openai_agents.runs import FORMAT, LastRequest, RunEngine, build_schemas, find_context_thread
from unabridged.adapters.openai_agents.summariser import make_own_model, read_model_name

InputFilter = Callable[[CallModelData[Any]], Awaitable[ModelInputData]]


def recall_tools(provider: CompactingProvider) -> list[Tool]:
    """Return `search_history` and `read_history`: only what left the context of the run's own conversation."""
    return [_recall_tool(provider.runs, name) for name in (kit.SEARCH_TOOL, kit.READ_TOOL)]


def _recall_tool(runs: RunEngine, name: str) -> Tool:
    async def answer(context: ToolContext[Any], arguments: str) -> str:
        scope = runs.scope(runs.find_call_thread(context.tool_call))
        return await asyncio.to_thread(lambda: kit.look_up(runs.archive, scope, name, arguments, FORMAT))

    return FunctionTool(name, kit.TOOL_DESCRIPTIONS[name], kit.TOOL_PARAMETERS[name], answer, strict_json_schema=False)


def input_filter(provider: CompactingProvider | None = None, **keywords: Any) -> InputFilter:
    """Return a filter for `RunConfig.call_model_input_filter`: what is sent is fitted, whichever model the agent has.

    It takes the keywords of `Compactor`, or the provider whose archive and settings it shares. No response comes by
    here: nothing is learned from usage, and a refusal as too long is the caller's. A filter is not told which provider
    serves the name of a model: without `model`, summaries are model-free unless the agent's model is an object.
    """
    runs = provider.runs if provider is not None else RunEngine(**keywords)

    async def fit(data: CallModelData[Any]) -> ModelInputData:
        sent, agent = data.model_data, data.agent
        model = agent.model.model if isinstance(agent.model, CompactingModel) else agent.model
        reader = kit.Agent(model if isinstance(model, str) else read_model_name(model))
        own = make_own_model(model, agent.model_settings) if isinstance(model, Model) else None
        asked = LastRequest(reader, sent.instructions, build_schemas(agent.tools), own)
        request = await asyncio.to_thread(runs.make_request, sent.input, find_context_thread(), asked)
        fitted = await kit.arun(request.fit())
        return ModelInputData(fitted.messages, sent.instructions)

    return fit
