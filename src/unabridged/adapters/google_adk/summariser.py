"""A model of ADK's as the one who writes the summaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from unabridged.asking.ask import Ask, Reply
from unabridged.asking.replies import stop_of
from unabridged.measure.calibrate import usage_of


def summariser(model: Any) -> Any:
    """What `Compactor(model)` takes: the same, unless it is a model of ADK's."""
    return _asking(model) if isinstance(model, BaseLlm) else model


def _asking(model: BaseLlm) -> Callable[[Ask], Awaitable[Reply]]:
    async def summarise(ask: Ask) -> Reply:
        asked = LlmRequest(
            model=model.model,
            contents=[types.Content(role="user", parts=[types.Part(text=ask.instruction)])],
            config=types.GenerateContentConfig(system_instruction=ask.system, max_output_tokens=ask.max_tokens),
        )
        said: Any = None
        async for response in model.generate_content_async(asked, stream=False):
            said = response
        parts = (said.content.parts or []) if said is not None and said.content else []
        text = "".join(part.text for part in parts if part.text and not part.thought)
        calls = sum(part.function_call is not None for part in parts)
        stop = said.finish_reason.value.lower() if said is not None and said.finish_reason else None
        used = usage_of(said.usage_metadata) if said is not None and said.usage_metadata else None
        return Reply(text, stop_of(stop), used, calls, model=model.model)

    return summarise
