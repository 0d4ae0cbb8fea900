"""Shared by the parts: the engine, the conversation that a request belongs to, and compactions in the SDK's tracing."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agents import FunctionTool, ModelSettings
from agents.tracing import custom_span, get_current_trace

from unabridged.adapters import kit
from unabridged.adapters.openai_agents.summariser import to_summariser
from unabridged.events import Compacting, Event
from unabridged.formats import OpenAIResponses
from unabridged.formats.fields import get

log = logging.getLogger("unabridged")

FORMAT = OpenAIResponses()

_CACHE_KEY_FIELD = "prompt_cache_key"
_GENERATED_KEY_PREFIX = "agents-sdk:"
"""How the keys begin that the runner makes for a provider's cache: of the session's id, the group's, or the run's."""


class LastRequest(NamedTuple):
    """The model that was asked last in a thread, and what the request had beside the messages."""

    agent: kit.Agent = kit.Agent()
    system: Any = None
    tools: Any = None
    own: kit.OwnModel | None = None
    """Asks this model."""


class RunEngine(kit.Engine):
    """The engine, and the sessions, calls and last requests of the runs that use it."""

    def __init__(self, **keywords: Any) -> None:
        model = to_summariser(keywords.get("model", kit.AGENT_MODEL))
        on_event = kit.combine_listeners(keywords.get("on_event"), trace_event)
        super().__init__(FORMAT, **{**keywords, "model": model, "on_event": on_event})
        self._sessions: kit.BoundedMapping[str, str] = kit.BoundedMapping()
        self._calls: kit.BoundedMapping[int, tuple[Any, str]] = kit.BoundedMapping()
        self._last_requests: kit.BoundedMapping[str, LastRequest] = kit.BoundedMapping()
        self._warned_kept = False

    def make_request(self, messages: list[Any], thread: str | None, asked: LastRequest) -> kit.Request:
        """Return one request to this model, before it is sent."""
        recall = any(get(tool, "name") == kit.READ_TOOL for tool in asked.tools)
        asked = asked._replace(agent=asked.agent._replace(recall=recall))
        if thread is not None:
            self._last_requests[thread] = asked
        return self.request(messages, thread=thread, **asked._asdict())

    def find_last_request(self, thread: str) -> LastRequest:
        """Return what was asked last in the thread; before its first request, of no model in particular."""
        return self._last_requests.get(thread) or LastRequest()

    def register_session(self, session_id: str) -> None:
        """Assign requests of runs with this session to the thread of its name from now on."""
        self._sessions[hashlib.sha256(session_id.strip().encode()).hexdigest()[:32]] = session_id

    def find_thread(self, settings: ModelSettings) -> str | None:
        """Return the conversation of a request: that of its session, of the context, or of the trace's group."""
        kind, _, digest = read_generated_key(settings).removeprefix(_GENERATED_KEY_PREFIX).partition(":")
        if kind == "session":
            return self._sessions.get(digest) or f"session-{digest}"
        return find_context_thread()

    def warn_kept_elsewhere(self) -> None:
        """Warn, once, that requests go through as they are whose conversation the provider keeps."""
        if not self._warned_kept:
            self._warned_kept = True
            log.warning(
                "a run has a conversation_id or previous_response_id: its history is at the provider, so its requests "
                "go through unchanged. To have them compacted, use a session in its place."
            )

    def remember_call_threads(self, items: Iterable[Any], thread: str | None) -> None:
        """Remember the thread of each call of a recall tool among these items."""
        recall = {kit.READ_TOOL, kit.SEARCH_TOOL}
        for item in items:
            if thread is not None and get(item, "type") == "function_call" and get(item, "name") in recall:
                self._calls[id(item)] = (item, thread)

    def find_call_thread(self, call: Any) -> str | None:
        """Return the conversation in which the model made this very call."""
        noted, thread = self._calls.get(id(call), (None, None))
        return thread if noted is not None and noted is call else find_context_thread()


def find_context_thread() -> str | None:
    """Return the thread of the context, else the group of the trace, which a program names after a conversation."""
    group = getattr(get_current_trace(), "group_id", None)
    return kit.current_thread() or (group if isinstance(group, str) and group.strip() else None)


def read_generated_key(settings: ModelSettings) -> str:
    """Return the key that the runner made for a provider's cache; "" where the caller chose one, or there is none."""
    key = (settings.extra_args or {}).get(_CACHE_KEY_FIELD)
    return key if isinstance(key, str) and key.startswith(_GENERATED_KEY_PREFIX) else ""


def without_generated_key(settings: ModelSettings) -> ModelSettings:
    """Return the settings without the key that the runner made."""
    if not read_generated_key(settings):
        return settings
    others = {name: value for name, value in (settings.extra_args or {}).items() if name != _CACHE_KEY_FIELD}
    return replace(settings, extra_args=others or None)


def build_schemas(tools: Sequence[Any], handoffs: Sequence[Any] = (), output_schema: Any = None) -> list[Any]:
    """Return what a request has for the model besides messages: tools, handoffs, the schema of its answer."""
    schemas = [_build_tool_schema(tool) for tool in tools]
    schemas += [FORMAT.tool_schema(one.tool_name, one.tool_description, one.input_json_schema) for one in handoffs]
    if output_schema is not None and not output_schema.is_plain_text():
        schemas.append({"type": "json_schema", "name": output_schema.name(), "schema": output_schema.json_schema()})
    return schemas


def _build_tool_schema(tool: Any) -> Any:
    if isinstance(tool, FunctionTool):
        return FORMAT.tool_schema(tool.name, tool.description, tool.params_json_schema)
    return getattr(tool, "tool_config", None) or {"type": tool.name}  # the provider's own


def trace_event(event: Event) -> None:
    """Make the event a custom span of the trace that it happens in, if there is one; no message is in it."""
    if get_current_trace() is not None and not isinstance(event, Compacting):
        data = kit.event_data(event)
        with custom_span(f"unabridged.{data['event']}", data):
            pass
