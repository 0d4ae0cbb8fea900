"""A model of Strands' as the one who writes the summaries: the agent's own, or another."""

from __future__ import annotations

from functools import partial
from typing import Any

from strands.models import Model

from unabridged.adapters.kit import NamedModel, OwnModel
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.replies import read_stop_reason
from unabridged.tokens.calibrate import Usage


def to_summariser(model: Any) -> Any:
    """Return what `Compactor(model)` takes: the same, unless it is a model of Strands'."""
    return NamedModel(model_name(model), partial(ask_model, model)) if isinstance(model, Model) else model


def make_own_model(model: Any) -> OwnModel | None:
    """Return what asks the agent's own model."""
    return partial(ask_model, model) if isinstance(model, Model) else None


def model_name(model: Model) -> str | None:
    """Return the name that the model has at its provider; None where its configuration has none."""
    config = model.get_config()
    name = config.get("model_id") if isinstance(config, dict) else getattr(config, "model_id", None)
    return name if isinstance(name, str) else None


def read_usage(report: Any) -> Usage | None:
    """Return what a model used; cached tokens are beside the input, or in it where the total says so."""
    if not report or not report.get("inputTokens"):
        return None
    read, write = report.get("cacheReadInputTokens") or 0, report.get("cacheWriteInputTokens") or 0
    inside = report["inputTokens"] + report.get("outputTokens", 0) == report.get("totalTokens")
    total = report["inputTokens"] + (0 if inside else read + write)
    return Usage(total, read, write, report.get("outputTokens", 0))


async def ask_model(model: Model, ask: Ask) -> Reply:
    """Return the model's reply to the instruction alone: no agent runs, so no hook, no callback and no tool."""
    texts: list[str] = []
    stop, used, calls = None, None, 0
    messages: Any = [{"role": "user", "content": [{"text": ask.instruction}]}]
    async for event in model.stream(messages, system_prompt=ask.system if isinstance(ask.system, str) else None):
        texts.append(event.get("contentBlockDelta", {}).get("delta", {}).get("text") or "")
        calls += "toolUse" in (event.get("contentBlockStart", {}).get("start") or {})
        stop = event.get("messageStop", {}).get("stopReason") or stop
        used = event.get("metadata", {}).get("usage") or used
    return Reply("".join(texts), read_stop_reason(stop), read_usage(used), calls, model=model_name(model) or "")
