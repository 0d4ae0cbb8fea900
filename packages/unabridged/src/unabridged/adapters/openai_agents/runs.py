"""What the parts share: the engine, whose conversation a request belongs to, and compactions in the SDK's tracing."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agents import FunctionTool, ModelSettings
from agents.tracing import custom_span, get_current_trace

from unabridged.adapters.kit import (
    AGENT_MODEL,
    READ,
    SEARCH,
    Agent,
    Engine,
    Newest,
    OwnModel,
    Request,
    current_thread,
    event_data,
    tell_both,
)
from unabridged.adapters.openai_agents.summariser import summariser
from unabridged.events import Compacting, Event
from unabridged.formats import OpenAIResponses
from unabridged.formats.fields import get

log = logging.getLogger("unabridged")

FORMAT = OpenAIResponses()

_KEY = "prompt_cache_key"
_GENERATED = "agents-sdk:"
"""How the keys begin that the runner makes for a provider's cache: of the session's id, the group's, or the run's."""


class Asked(NamedTuple):
    """Who was asked last in a thread, and what stood in the request beside the messages."""

    agent: Agent
    system: Any
    tools: Any
    own: OwnModel | None
    """Asks its model."""


class Runs(Engine):
    """The engine, and what is known of the runs that use it."""

    def __init__(self, **keywords: Any) -> None:
        model = summariser(keywords.get("model", AGENT_MODEL))
        told = tell_both(keywords.get("on_event"), trace)
        super().__init__(FORMAT, **{**keywords, "model": model, "on_event": told})
        self._sessions: Newest[str, str] = Newest()
        self._calls: Newest[int, tuple[Any, str]] = Newest()
        self._asked: Newest[str, Asked] = Newest()
        self._said = False

    def ask(
        self,
        messages: list[Any],
        agent: Agent,
        thread: str | None,
        system: Any,
        tools: list[Any],
        *,
        own: OwnModel | None = None,
    ) -> Request:
        """One request to this model, before it is sent."""
        agent = agent._replace(recall=any(get(tool, "name") == READ for tool in tools))
        if thread is not None:
            self._asked[thread] = Asked(agent, system, tools, own)
        return self.request(messages, agent, thread=thread, system=system, tools=tools, own=own)

    def asked(self, thread: str) -> Asked:
        """Who was asked last in the thread; nobody in particular before its first request."""
        return self._asked.get(thread) or Asked(Agent(), None, None, None)

    def know(self, session_id: str) -> None:
        """From now on, requests of runs with this session belong to the thread of its name."""
        self._sessions[_digest(session_id)] = session_id

    def thread_of(self, settings: ModelSettings) -> str | None:
        """The conversation that a request belongs to: that of its session, of the context, or of the trace's group."""
        kind, _, digest = generated_key(settings).removeprefix(_GENERATED).partition(":")
        if kind == "session":
            return self._sessions.get(digest) or f"session-{digest}"
        return current_thread() or group()

    def say_kept_elsewhere(self) -> None:
        """Say, once, that requests go through as they are whose conversation the provider keeps."""
        if not self._said:
            self._said = True
            log.warning(
                "a run has a conversation_id or previous_response_id: its history is at the provider, so its requests "
                "go through unchanged. To have them compacted, use a session in its place."
            )

    def note_calls(self, items: Iterable[Any], thread: str | None) -> None:
        """Remember whose these calls of recall tools are."""
        for item in items:
            if thread is not None and get(item, "type") == "function_call" and get(item, "name") in {READ, SEARCH}:
                self._calls[id(item)] = (item, thread)

    def thread_of_call(self, call: Any) -> str | None:
        """The conversation in which the model made this very call."""
        noted, thread = self._calls.get(id(call), (None, None))
        return thread if noted is not None and noted is call else current_thread() or group()


def generated_key(settings: ModelSettings) -> str:
    """The key that the runner made for a provider's cache; "" where the caller gave one, or none is there."""
    key = (settings.extra_args or {}).get(_KEY)
    return key if isinstance(key, str) and key.startswith(_GENERATED) else ""


def without_key(settings: ModelSettings) -> ModelSettings:
    """The settings without the key that the runner made."""
    if not generated_key(settings):
        return settings
    rest = {name: value for name, value in (settings.extra_args or {}).items() if name != _KEY}
    return replace(settings, extra_args=rest or None)


def group() -> str | None:
    """The group of the current trace, which a program names after a conversation."""
    found = getattr(get_current_trace(), "group_id", None)
    return found if isinstance(found, str) and found.strip() else None


def schemas_of(tools: Sequence[Any], handoffs: Sequence[Any] = (), output_schema: Any = None) -> list[Any]:
    """What a request tells the model besides instructions and messages: tools, handoffs, the shape of its answer."""
    schemas = [_schema(tool) for tool in tools]
    schemas += [FORMAT.tool_schema(one.tool_name, one.tool_description, one.input_json_schema) for one in handoffs]
    if output_schema is not None and not output_schema.is_plain_text():
        schemas.append({"type": "json_schema", "name": output_schema.name(), "schema": output_schema.json_schema()})
    return schemas


def _schema(tool: Any) -> Any:
    if isinstance(tool, FunctionTool):
        return FORMAT.tool_schema(tool.name, tool.description, tool.params_json_schema)
    return getattr(tool, "tool_config", None) or {"type": tool.name}  # the provider's own


def trace(event: Event) -> None:
    """Make the event a custom span of the trace that it happens in, if there is one; no message is in it."""
    if get_current_trace() is not None and not isinstance(event, Compacting):
        data = event_data(event)
        with custom_span(f"unabridged.{data['event']}", data):
            pass


def _digest(session_id: str) -> str:
    return hashlib.sha256(session_id.strip().encode()).hexdigest()[:32]
