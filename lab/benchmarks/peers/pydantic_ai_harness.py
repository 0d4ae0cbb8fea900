"""pydantic-ai-harness: its summarising and its tiered compaction, driven as an agent's run drives them."""

# requirements: pydantic-ai-harness

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from pydantic_ai import messages as m
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, RunUsage
from pydantic_ai_harness.compaction import ClearToolResults, SummarizingCompaction, TieredCompaction

from benchmarks.harness import KEEPS, Arm, Fit, Given, serve
from benchmarks.pydantic_ai_family import Wire


def strategy(given: Given, *, tiered: bool) -> Fit:
    """Return a `Fit` at 85 % of the window that keeps 20 messages or the chosen share, with the documented tiers."""

    def answer(messages: list[m.ModelMessage], _: Any) -> m.ModelResponse:
        prompts = (part.content for part in messages[-1].parts if isinstance(part, m.UserPromptPart))
        said = given.model("\n".join(map(str, prompts)))
        parts: list[Any] = [m.TextPart(said.text)] if said.text or not said.calls else []
        parts += [m.ToolCallPart("bash", {}) for _ in range(said.calls)]
        stop: Any = {"length": "length", "refusal": "content_filter", "tool": "tool_call"}.get(said.stop, "stop")
        return m.ModelResponse(parts, finish_reason=stop)

    model, loop, wire, history = FunctionModel(answer), asyncio.new_event_loop(), Wire(), list[m.ModelMessage]()
    share = given.settings.get("keep")
    keep = {"keep_tokens": int(share * given.window)} if share else {}
    limits = {"context_window": given.window}
    capability: Any = SummarizingCompaction(max_fraction=0.85, **limits, **keep)
    if tiered:
        tiers = [ClearToolResults(max_tokens=1, keep_pairs=3), SummarizingCompaction(max_messages=1, **keep)]
        capability = TieredCompaction(tiers, target_fraction=0.85, **limits)

    def fit(new: list[dict[str, Any]], usage: int | None) -> list[dict[str, Any]]:
        wire.take(history, new, RequestUsage(input_tokens=usage or 0))
        context = RunContext(deps=None, model=model, usage=RunUsage(), messages=history)
        rest: dict[str, Any] = {"model_settings": None, "model_request_parameters": ModelRequestParameters()}
        request = ModelRequestContext(model=model, messages=list(history), **rest)
        with given.clock:
            loop.run_until_complete(capability.before_model_request(context, request))
        return wire.give(history)

    return fit


if __name__ == "__main__":
    tiers, summaries = (Arm(partial(strategy, tiered=tiered), grid=KEEPS) for tiered in (True, False))
    serve({"pydantic-ai-harness, tiered": tiers, "pydantic-ai-harness, summarizing": summaries})
