"""OpenAI Agents: our provider and session beside its compaction session."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from agents import Agent, RunConfig, Runner, SQLiteSession, Usage, function_tool
from agents.memory import OpenAIResponsesCompactionSession as Theirs
from agents.models.interface import Model, ModelProvider
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

from benchmarks.adapter_steps import FAR, STEPS, Side, Watch, read, rounds, serve, used
from unabridged.adapters.openai_agents import CompactingProvider, CompactingSession
from unabridged.adapters.openai_agents.provider import CompactingModel


class SingleModelProvider(ModelProvider):
    """A provider that returns the same model for every name."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def get_model(self, model_name: str | None) -> Model:
        """Return the model."""
        del model_name
        return self.model


def working(size: int, watch: Watch) -> ScriptedModel:
    """Return a model that calls the tool until its run is over."""

    def answer(_: ModelCall) -> ModelStep:
        number = watch.answer()
        output: list[Any] = [assistant_message(f"Step {number}.", item_id=f"new_msg_{watch.asked}")]
        if number is not None:
            output.append(function_call("read", {"path": f"src/{number}.py"}, call_id=f"new{number}"))
        tokens = used(size, watch)
        return ModelStep(output, Usage(requests=1, input_tokens=tokens, output_tokens=10, total_tokens=tokens + 10))

    return ScriptedModel([ModelStep.respond(answer)] * (2 * STEPS))


def run(make: Any, size: int, watch: Watch) -> None:
    """Run an agent twice, whose session holds the conversation."""
    asyncio.run(_run(make, size, watch))


async def _run(make: Any, size: int, watch: Watch) -> None:
    inner = SQLiteSession("s")
    items: list[Any] = [{"role": "user", "content": "Work through all of it."}]
    for number, (said, call, result) in enumerate(rounds(size)):
        spoken = {"type": "output_text", "text": said, "annotations": []}
        items += [
            {"type": "message", "role": "assistant", "id": f"m{number}", "content": [spoken], "status": "completed"},
            {"type": "function_call", "call_id": call, "name": "read", "arguments": f'{{"path": "src/{number}.py"}}'},
            {"type": "function_call_output", "call_id": call, "output": result},
        ]
    await inner.add_items(items)
    provider, session = make(SingleModelProvider(working(size, watch)), inner)
    config = RunConfig(model_provider=provider, tracing_disabled=True)
    agent = Agent("worker", tools=[function_tool(read)])
    for text in ("Go on.", "And on."):
        await Runner.run(agent, text, session=session, run_config=config, max_turns=2 * STEPS)


def with_ours(models: SingleModelProvider, inner: Any) -> tuple[Any, Any]:
    """Return our provider, for what is sent, and our session, for what is stored."""
    provider = CompactingProvider(models, window=FAR, archive="memory:")
    return provider, CompactingSession(inner, provider)


def with_theirs(models: SingleModelProvider, inner: Any) -> tuple[Any, Any]:
    """Return the SDK's session, whose hook never triggers a compaction."""
    return models, Theirs("s", inner, client=object(), should_trigger_compaction=lambda _: False)  # type: ignore[arg-type]


if __name__ == "__main__":
    ours = [(CompactingModel, "get_response"), (CompactingSession, "get_items"), (CompactingSession, "add_items")]
    theirs = [(Theirs, name) for name in ("get_items", "add_items", "run_compaction", "_defer_compaction")]
    beside = [(ScriptedModel, "get_response"), (SQLiteSession, "get_items"), (SQLiteSession, "add_items")]
    sides = {"ours": Side(partial(run, with_ours), ours, beside)}
    serve(
        {
            "OpenAI Agents": {
                **sides,
                "OpenAIResponsesCompactionSession": Side(partial(run, with_theirs), theirs, beside),
            }
        }
    )
