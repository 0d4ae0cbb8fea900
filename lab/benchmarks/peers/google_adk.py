"""Google ADK's EventsCompactionConfig with its LLM summariser, run before each model call as its flow runs it."""

# requirements: google-adk

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.compaction import _run_compaction_for_token_threshold_config
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.flows.llm_flows.context._contents import _get_contents
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from benchmarks.adk_family import AGENT, FakeLlm, Wire
from benchmarks.harness import Arm, Fit, Given, Message, serve


def compaction(given: Given) -> Fit:
    """Return a `Fit` that compacts at 85 % of the window by reported usage; 20 events stay unless others are chosen."""
    llm = FakeLlm(model="fake", fake=given.model)
    config = EventsCompactionConfig(
        summarizer=LlmEventSummarizer(llm),
        token_threshold=int(0.85 * given.window),
        event_retention_size=given.settings.get("events", 20),
    )
    wire, service, agent, loop = (
        Wire(),
        InMemorySessionService(),
        LlmAgent(name=AGENT, model=llm),
        asyncio.new_event_loop(),
    )
    session = loop.run_until_complete(service.create_session(app_name="bench", user_id="u"))
    given.originals = lambda: wire.give(event.content for event in session.events if event.content)
    where: dict[str, Any] = {"session": session, "session_service": service, "agent": agent, "agent_name": AGENT}

    def fit(new: list[Message], usage: int | None) -> list[Message]:
        for message in new:
            if (event := wire.take(message, usage)) is not None:
                loop.run_until_complete(service.append_event(session, event))
        with given.clock:
            loop.run_until_complete(_run_compaction_for_token_threshold_config(config=config, **where))
        return wire.give(_get_contents(None, session.events, AGENT, preserve_function_call_ids=True))

    return fit


if __name__ == "__main__":
    serve({"Google ADK": Arm(compaction, grid=({}, {"events": 10}, {"events": 5}))})
