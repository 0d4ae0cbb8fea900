"""Google ADK: our plugin beside its EventsCompactionConfig."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.events.event import Event
from google.adk.flows.llm_flows.context import _compaction as theirs
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from benchmarks.adapter_steps import FAR, Side, Watch, read, rounds, serve, used
from unabridged.adapters.google_adk import CompactionPlugin

AGENT, APP, USER = "reader", "bench", "ada"


class Working(BaseLlm):
    """A model that calls the tool until its run is over."""

    size: int
    watch: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield a tool call, or the final answer."""
        del llm_request, stream
        number = self.watch.answer()
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=used(self.size, self.watch))
        yield LlmResponse(content=_said(f"Step {number}.", f"new{number}" if number else None), usage_metadata=usage)


def _said(text: str, call: str | None = None) -> types.Content:
    parts = [types.Part(text=text)]
    if call:
        parts.append(
            types.Part(function_call=types.FunctionCall(id=call, name="read", args={"path": f"src/{call}.py"}))
        )
    return types.Content(role="model", parts=parts)


def run(make: Any, size: int, watch: Watch) -> None:
    """Run two invocations of an app whose session holds the conversation."""
    asyncio.run(_run(make(), size, watch))


async def _run(options: dict[str, Any], size: int, watch: Watch) -> None:
    service = InMemorySessionService()
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    contents = [("user", _user("Work through all of it."))]
    for said, call, result in rounds(size):
        answer = types.FunctionResponse(id=call, name="read", response={"result": result})
        contents += [
            (AGENT, _said(said, call)),
            (AGENT, types.Content(role="user", parts=[types.Part(function_response=answer)])),
        ]
    for author, content in [*contents, (AGENT, _said("So far."))]:
        await service.append_event(session, Event(author=author, content=content, invocation_id="i"))
    agent = LlmAgent(name=AGENT, model=Working(model="working", size=size, watch=watch), tools=[read])
    runner = Runner(app=App(name=APP, root_agent=agent, **options), session_service=service)
    for text in ("Go on.", "And on."):
        calls = RunConfig(max_llm_calls=10_000)
        async for _ in runner.run_async(user_id=USER, session_id="s", new_message=_user(text), run_config=calls):
            pass
    await runner.close()


def _user(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def with_ours() -> dict[str, Any]:
    """Return the options of an app with our plugin."""
    return {"plugins": [CompactionPlugin(window=FAR, archive="memory:")]}


def with_theirs() -> dict[str, Any]:
    """Return the options of an app with ADK's own compaction."""
    return {"events_compaction_config": EventsCompactionConfig(token_threshold=FAR, event_retention_size=20)}


if __name__ == "__main__":
    callbacks = [(CompactionPlugin, name) for name in ("before_model_callback", "after_model_callback")]
    check = (theirs, "_run_compaction_for_token_threshold_config")
    sides = {"ours": Side(partial(run, with_ours), callbacks)}
    serve({"Google ADK": {**sides, "EventsCompactionConfig": Side(partial(run, with_theirs), [check])}})
