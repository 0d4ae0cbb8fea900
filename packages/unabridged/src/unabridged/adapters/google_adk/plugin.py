"""The plugin: each request of each agent is fitted before it is sent, observed after, and sent once more where refused.

ADK builds a request anew from the session's events at every step. So nothing is written back: the compactions that are
on record are found again and applied, which gives the same bytes each time, and the session stays whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from google.genai import types

from unabridged.adapters.google_adk.summariser import model_of, own_model, summariser
from unabridged.adapters.google_adk.tools import RecallTool
from unabridged.adapters.kit import AGENT_MODEL, Agent, Engine, PinMethods, Request, arun, current_values
from unabridged.archive.names import check_name
from unabridged.archive.protocol import Scope
from unabridged.compactor import Compaction
from unabridged.errors import WontFit
from unabridged.formats import GeminiContents, Message
from unabridged.messages import Call
from unabridged.telemetry import otel

log = logging.getLogger("unabridged.google_adk")

_MOST_OPEN = 256
"""Calls of models at once."""

Namespace = str | Callable[[Session], str]
"""Whose conversations these are: one name for all sessions, or a name for each."""


class AdkContents(GeminiContents):
    """Gemini's contents as ADK has them: what is made here is a `Content`, too."""

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """A new turn with just this text."""
        return types.Content.model_validate(super().text(role, text))

    def answer(self, call: Call, message: Message, text: str) -> Message:
        """A user's turn with a response, marked as an error."""
        return types.Content.model_validate(super().answer(call, message, text))


@dataclass(slots=True)
class _Step:
    """One request that was handed to the model."""

    request: Request
    fitted: Compaction
    begun: bool = False
    """Something of the answer came already."""


class CompactionPlugin(PinMethods, BasePlugin):
    """Keeps what every agent of an app is sent within its model's window. Takes the keywords of `Compactor`.

    Its `model`, which writes the summaries, is that of the agent unless it is given: a model of ADK's, what `Compactor`
    takes, or None for summaries without a model. A thread is a session, for a sub-agent with its name
    and branch behind it; its namespace is `app/user`, since ids of sessions are unique for one user only: `namespace`
    is another one, or a function of the session. `host_state` gets the session's state at each compaction and tells in
    a text what a summary turn should show of it.
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
        self._namespace = namespace if namespace is not None else _tenant
        if host_state is not None:
            keywords["state"] = lambda _: host_state(current_values() or {})
        keywords["model"] = summariser(keywords.get("model", AGENT_MODEL))
        keywords["on_event"] = otel(also=keywords.get("on_event"))
        self.engine = Engine(AdkContents(), **keywords)
        self._steps: dict[tuple[str, int], _Step] = {}

    def tools(self) -> list[RecallTool]:
        """The recall tools: with them an agent searches and reads what left its context."""
        return [RecallTool(self.engine, name, self._scope_of) for name in RecallTool.NAMES]

    # -- what the runner calls ----------------------------------------------------------------------------------------

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Let the model be sent what fits."""
        if llm_request.previous_interaction_id:
            return  # the provider keeps the conversation: this is only what is new of it
        request = await self._asked(callback_context, llm_request)
        fitted = await arun(request.fit())
        if fitted.messages is not request.messages:
            llm_request.contents = list(fitted.messages)
        self._open(callback_context, _Step(request, fitted))

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Learn from the usage that the model reports."""
        step = self._steps.get(_key(callback_context))
        if step is None:
            return
        step.begun = True
        if not llm_response.partial:
            del self._steps[_key(callback_context)]
            step.request.observe(step.fitted, llm_response.usage_metadata)

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """The answer to something shorter, where the model says that the request is too long; else None, as before.

        It comes in one piece: a callback has no stream. What was answered in part is not asked again.
        """
        step = self._steps.pop(_key(callback_context), None)
        if step is None or step.begun:
            return None
        try:
            again = await arun(step.request.shorten(step.fitted, error))
        except WontFit as wont:
            log.warning("The request of %s is too long, and stays so: %s", callback_context.agent_name, wont)
            return None
        except Exception as other:
            if other is error:
                return None
            raise
        llm_request.contents = list(again.messages)
        try:
            response = await _ask(callback_context, llm_request)
        except Exception as second:  # noqa: BLE001 - the caller gets the first refusal, and is told of this one
            error.add_note(f"It was sent once more, shorter: {type(second).__name__}: {second}")
            return None
        self._open(callback_context, _Step(step.request, again))
        return response

    def _pin_engine(self) -> Engine:
        return self.engine

    async def close(self) -> None:
        """Let go of the archive, if it was opened here."""
        await asyncio.to_thread(self.engine.close)

    # -- what a host asks ---------------------------------------------------------------------------------------------

    async def replay(
        self, contents: list[types.Content], session: Session, agent: str = "", branch: str = ""
    ) -> list[types.Content]:
        """The original turns, exactly, of what a model was sent (`llm_request.contents`, with what came since).

        `agent` and `branch` are those of the sub-agent whose request it was.
        """
        return await self._taken_back("areplay", contents, self.scope(session, agent, branch))

    async def undo(
        self, contents: list[types.Content], session: Session, agent: str = "", branch: str = ""
    ) -> list[types.Content]:
        """The turns as they were before the newest compaction in them; the next request is made without it."""
        return await self._taken_back("aundo", contents, self.scope(session, agent, branch))

    async def _taken_back(self, how: str, contents: list[Any], scope: Scope) -> list[Any]:
        compactor = await asyncio.to_thread(self.engine.compactor_for, Agent())
        back: list[Any] = await getattr(compactor, how)(contents, thread=scope.thread, namespace=scope.namespace)
        return back

    def scope(self, session: Session, agent: str = "", branch: str = "") -> Scope:
        """Where the archive keeps a session, or what a sub-agent saw of it in its branch."""
        namespace = self._namespace(session) if callable(self._namespace) else self._namespace
        thread = "/".join(part for part in (session.id, agent, branch) if part)
        return Scope(check_name(namespace, "namespace"), check_name(thread))

    def _open(self, context: CallbackContext, step: _Step) -> None:
        """Keep the step until its answer is there; of runs that were given up, only the newest."""
        self._steps[_key(context)] = step
        while len(self._steps) > _MOST_OPEN:
            del self._steps[next(iter(self._steps))]

    # -- a request ----------------------------------------------------------------------------------------------------

    def _scope_of(self, context: CallbackContext) -> Scope:
        agent: Any = context.get_invocation_context().agent
        is_root = agent.root_agent is agent and "/" not in context.node_path
        return self.scope(
            context.session, "" if is_root else agent.name, context.isolation_scope or context.branch or ""
        )

    async def _asked(self, context: CallbackContext, asked: LlmRequest) -> Request:
        """The request; the first one opens the archive, for which the event loop does not wait."""
        if self.engine.ready:
            return self._request(context, asked)
        return await asyncio.to_thread(self._request, context, asked)

    def _request(self, context: CallbackContext, asked: LlmRequest) -> Request:
        scope, config = self._scope_of(context), asked.config
        read = (*(config.tools or ()), config.response_schema, config.response_json_schema)
        recall = any(isinstance(tool, RecallTool) for tool in asked.tools_dict.values())
        return self.engine.request(
            list(asked.contents),
            Agent(asked.model, recall=recall),
            thread=scope.thread,
            namespace=scope.namespace,
            system=_plain(config.system_instruction),
            tools=[_plain(held) for held in read if held],
            values=context.state.to_dict(),
            own=own_model(context, asked),
        )


def _key(context: CallbackContext) -> tuple[str, int]:
    """One call of a model: its callbacks share the actions of the event that it will become."""
    return context.invocation_id, id(context.actions)


def _tenant(session: Session) -> str:
    """Session ids are unique for one user of one app only."""
    return f"{quote(session.app_name, safe='')}/{quote(session.user_id, safe='')}"


def _plain(held: Any) -> Any:
    """An instruction, a tool or a schema as it is sent."""
    if isinstance(held, type) and hasattr(held, "model_json_schema"):
        return held.model_json_schema()
    return held.model_dump(mode="json", exclude_none=True) if hasattr(held, "model_dump") else held


async def _ask(context: CallbackContext, asked: LlmRequest) -> LlmResponse | None:
    """What the agent's model answers, in one piece; it counts as a call of the run's."""
    context.get_invocation_context().increment_llm_call_count()
    model = await model_of(context)
    answer: LlmResponse | None = None
    async for response in model.generate_content_async(asked, stream=False):
        answer = response
    return answer
