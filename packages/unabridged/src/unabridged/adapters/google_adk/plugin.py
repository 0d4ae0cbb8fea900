"""The plugin: each request of each agent is fitted before it is sent, observed after, and sent once more where refused.

ADK builds a request anew from the session's events at every step. So nothing is written back: the compactions that are
on record are found again and applied, which gives the same bytes each time, and the session stays whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from unabridged.adapters import kit
from unabridged.adapters.google_adk.summariser import ask_unstreamed, find_agent_model, make_own_model, to_summariser
from unabridged.archive.names import check_name
from unabridged.archive.protocol import Scope
from unabridged.compactor import Compaction
from unabridged.errors import WontFit
from unabridged.formats import GeminiContents, Message
from unabridged.messages import Call
from unabridged.telemetry import otel

log = logging.getLogger("unabridged.google_adk")

_MAX_OPEN_REQUESTS = 256
"""Calls of models at once; of more, whose answers never came, only the newest are remembered."""

Contents = list[types.Content]
Namespace = str | Callable[[Session], str]
"""Whose conversations these are: one name for all sessions, or a name for each."""


class AdkContents(GeminiContents):
    """Gemini's contents as ADK has them: new turns are `Content` objects, too."""

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """Return a new turn with just this text."""
        return types.Content.model_validate(super().text(role, text))

    def answer(self, call: Call, message: Message, text: str) -> Message:
        """Return a user's turn with a response, marked as an error."""
        return types.Content.model_validate(super().answer(call, message, text))


@dataclass(slots=True)
class _OpenRequest:
    """One request that the model is answering."""

    request: kit.Request
    fitted: Compaction
    is_answered: bool = False
    """A part of the answer came already."""


class RecallTool(BaseTool):
    """Searches, or reads, what left the context of the agent that calls it."""

    NAMES: ClassVar = (kit.SEARCH_TOOL, kit.READ_TOOL)

    def __init__(self, engine: kit.Engine, name: str, scope_of: Callable[[Any], Scope]) -> None:
        super().__init__(name=name, description=kit.TOOL_DESCRIPTIONS[name])
        self._engine, self._scope_of = engine, scope_of

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = kit.TOOL_PARAMETERS[self.name]
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> str:
        """Return what the archive has for these arguments."""
        scope, engine = self._scope_of(tool_context), self._engine
        return await asyncio.to_thread(lambda: kit.look_up(engine.archive, scope, self.name, args, engine.format))


class CompactionPlugin(kit.PinMethods, BasePlugin):
    """Keeps what every agent of an app is sent within its model's window. Takes the keywords of `Compactor`.

    Its `model`, which writes the summaries, is that of the agent unless it is given: a model of ADK's, what `Compactor`
    takes, or None for summaries without a model. A thread is a session, for a sub-agent with its name
    and branch behind it; its namespace is `app/user`, since ids of sessions are unique for one user only: `namespace`
    is another one, or a function of the session. `host_state` gets the session's state at each compaction and
    returns a text: what a summary turn should show of it.
    """

    def __init__(
        self,
        name: str = "unabridged",
        *,
        namespace: Namespace | None = None,
        host_state: Callable[[Mapping[str, Any]], str | None] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(name)
        self._namespace = namespace if namespace is not None else _build_namespace
        keywords["model"] = to_summariser(keywords.get("model", kit.AGENT_MODEL))
        keywords["on_event"] = otel(also=keywords.get("on_event"))
        self.engine = kit.Engine(AdkContents(), host_state=host_state, **keywords)
        self._open_requests: kit.BoundedMapping[tuple[str, int], _OpenRequest] = kit.BoundedMapping(_MAX_OPEN_REQUESTS)

    def tools(self) -> list[RecallTool]:
        """Return the recall tools: with them an agent searches and reads what left its context."""
        return [RecallTool(self.engine, name, self._scope_of) for name in RecallTool.NAMES]

    # -- what the runner calls ----------------------------------------------------------------------------------------

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Replace the request's contents by what fits."""
        if llm_request.previous_interaction_id:
            return  # the provider keeps the conversation: this is only what is new of it
        if self.engine.is_ready:
            request = self._make_request(callback_context, llm_request)
        else:  # the first one opens the archive, for which the event loop does not wait
            request = await asyncio.to_thread(self._make_request, callback_context, llm_request)
        fitted = await kit.arun(request.fit())
        if fitted.messages is not request.messages:
            llm_request.contents = list(fitted.messages)
        self._open_requests[_build_call_key(callback_context)] = _OpenRequest(request, fitted)

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Learn from the usage that the model reports."""
        if (sent := self._open_requests.get(_build_call_key(callback_context))) is None:
            return
        sent.is_answered = True
        if not llm_response.partial:
            del self._open_requests[_build_call_key(callback_context)]
            sent.request.observe(sent.fitted, llm_response.usage_metadata)

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Return the answer to something shorter, where the model says that the request is too long; else None.

        It comes in one piece: a callback has no stream. What was answered in part is not asked again.
        """
        sent = self._open_requests.pop(_build_call_key(callback_context), None)
        if sent is None or sent.is_answered:
            return None
        try:
            shorter = await kit.arun(sent.request.shorten(sent.fitted, error))
        except WontFit as wont:
            log.warning("The request of %s is too long, and stays so: %s", callback_context.agent_name, wont)
            return None
        except Exception as other:
            if other is error:
                return None
            raise
        llm_request.contents = list(shorter.messages)
        try:
            callback_context.get_invocation_context().increment_llm_call_count()
            response = await ask_unstreamed(await find_agent_model(callback_context), llm_request)
        except Exception as second:  # noqa: BLE001 - the caller gets the first refusal, with a note of this one
            error.add_note(f"It was sent once more, shorter: {type(second).__name__}: {second}")
            return None
        self._open_requests[_build_call_key(callback_context)] = _OpenRequest(sent.request, shorter)
        return response

    async def close(self) -> None:
        """Close the archive, if it was opened here."""
        await asyncio.to_thread(self.engine.close)

    # -- what a host asks ---------------------------------------------------------------------------------------------

    async def replay(self, contents: Contents, session: Session, agent: str = "", branch: str = "") -> Contents:
        """Return the original turns, exactly, of what a model was sent (`llm_request.contents`, with what came since).

        `agent` and `branch` are those of the sub-agent whose request it was.
        """
        return await self._restore("areplay", contents, self.scope(session, agent, branch))

    async def undo(self, contents: Contents, session: Session, agent: str = "", branch: str = "") -> Contents:
        """Return the turns as they were before the newest compaction in them; the next request is made without it."""
        return await self._restore("aundo", contents, self.scope(session, agent, branch))

    async def _restore(self, method: str, contents: list[Any], scope: Scope) -> list[Any]:
        compactor = await asyncio.to_thread(self.engine.compactor_for, kit.Agent())
        earlier: list[Any] = await getattr(compactor, method)(contents, **scope._asdict())
        return earlier

    def scope(self, session: Session, agent: str = "", branch: str = "") -> Scope:
        """Return where the archive keeps a session, or what a sub-agent saw of it in its branch."""
        namespace = self._namespace(session) if callable(self._namespace) else self._namespace
        thread = "/".join(part for part in (check_name(session.id, "session.id"), agent, branch) if part)
        return Scope(check_name(namespace, "namespace"), check_name(thread))

    # -- a request ----------------------------------------------------------------------------------------------------

    def _scope_of(self, context: CallbackContext) -> Scope:
        agent: Any = context.get_invocation_context().agent
        name = "" if agent.root_agent is agent and "/" not in context.node_path else agent.name
        return self.scope(context.session, name, context.isolation_scope or context.branch or "")

    def _make_request(self, context: CallbackContext, asked: LlmRequest) -> kit.Request:
        scope, config = self._scope_of(context), asked.config
        read = (*(config.tools or ()), config.response_schema, config.response_json_schema)
        recall = any(isinstance(tool, RecallTool) for tool in asked.tools_dict.values())
        beside: Any = {"tools": [_to_plain_data(value) for value in read if value], "values": context.state.to_dict()}
        beside |= {"system": _to_plain_data(config.system_instruction), "own": make_own_model(context, asked)}
        agent = kit.Agent(asked.model, recall=recall)
        return self.engine.request(list(asked.contents), agent, **scope._asdict(), **beside)


def _build_call_key(context: CallbackContext) -> tuple[str, int]:
    """Return the key of one call of a model: its callbacks share the actions of the event that it will become."""
    return context.invocation_id, id(context.actions)


def _build_namespace(session: Session) -> str:
    """Return app and user: session ids are unique for one user of one app only."""
    return f"{quote(session.app_name, safe='')}/{quote(session.user_id, safe='')}"


def _to_plain_data(value: Any) -> Any:
    """Return an instruction, a tool or a schema as it is sent."""
    has_data = hasattr(value, "model_dump") and not isinstance(value, type)
    return value.model_dump(mode="json", exclude_none=True) if has_data else kit.to_schema(value)
