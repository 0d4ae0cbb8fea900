"""`Compaction`: a capability that keeps an agent's requests inside the window, and its run's history with them.

The check runs in `before_model_request`, once a step, where the whole request is known: instructions, tools, and what
capabilities before it did to the messages. When the provider says that it is too long all the same, the next attempt
(`prepare_model_request`) gets something shorter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from opentelemetry.trace import get_current_span
from pydantic_ai import exceptions
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.tools import RunContext, Tool
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RunUsage

from unabridged.adapters.kit import (
    AGENT_MODEL,
    DESCRIPTIONS,
    PARAMETERS,
    READ,
    SEARCH,
    Agent,
    Engine,
    OwnModel,
    PinMethods,
    Request,
    Steps,
    arun,
    collected_events,
    current_thread,
    event_data,
    look_up,
    summaries_used,
)
from unabridged.adapters.pydantic_ai.focus import focused, own_model, summariser_of
from unabridged.adapters.pydantic_ai.format import FORMAT
from unabridged.adapters.pydantic_ai.state import (
    carry_on,
    completed,
    follow,
    keeping_loads,
    shown_once,
    system_of,
    tools_of,
)
from unabridged.archive.names import Name, optional_name
from unabridged.events import Event
from unabridged.outcome import Compaction as Fitted
from unabridged.settings import Settings

_RETRY: type[Exception] | None = getattr(exceptions, "RetryModelRequest", None)
"""New in 2.66; before, the model is asked once more where the refusal is told."""


@dataclass(slots=True)
class _Sent:
    """The request of the step that goes on: how it was asked for, what was made of it, and what came to it since."""

    request: Request
    agent: Agent
    fitted: Fitted
    messages: list[ModelMessage]
    shown: list[ModelMessage]
    """The same as they were sent."""
    late: list[ModelMessage] = field(default_factory=list)


class Compaction(PinMethods, AbstractCapability[Any]):
    """Keeps an agent inside its model's window and every message in the archive.

    Takes `Compactor`'s keywords; `model`, which writes the summaries, is the run's own unless it is given: a `Model`,
    what `Compactor` takes, or None for summaries without a model. The run's history follows each compaction, so
    `result.all_messages()` is what the next run should be given. `recall` gives the agent tools that search and read
    what left its context. A conversation is known by its `conversation_id`, or by what `thread` makes of the run's
    context (`lambda ctx: ctx.deps.session`).
    """

    def __init__(
        self, *, recall: bool = False, thread: Callable[[RunContext[Any]], Name | None] | None = None, **keywords: Any
    ) -> None:
        self.recall = recall
        self.thread = thread
        self._keywords = {**keywords, "model": summariser_of(keywords.get("model", AGENT_MODEL))}
        if isinstance(settings := keywords.get("settings", Settings()), Settings):
            self._keywords["settings"] = keeping_loads(settings)
        self._engine = Engine(FORMAT, **self._keywords)
        self._focus = ""
        self._sent: _Sent | None = None

    async def for_run(self, ctx: RunContext[Any]) -> Self:  # noqa: ARG002 - the protocol's
        """The capability for one run: the same engine, and a memory of its own for the request under way."""
        own = copy(self)
        own._sent = None  # noqa: SLF001 - a copy of itself
        return own

    # -- a request ----------------------------------------------------------------------------------------------------

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The request as it should be sent; the run's history follows."""
        self._sent = None
        messages = list(request_context.messages)
        if not messages or not isinstance(messages[-1], ModelRequest):
            return request_context  # a turn that the provider paused goes on from exactly what it had
        agent = self._agent(request_context.model, request_context)
        request = await self._ask(ctx, messages, agent, request_context)
        fitted = await self._told(ctx, request.fit())
        kept = self._follow(ctx, messages, fitted.messages) if fitted.changed else messages
        _check_limits(ctx)
        self._sent = _Sent(request, agent, fitted, kept, shown_once(kept))
        return request_context if self._sent.shown is messages else replace(request_context, messages=self._sent.shown)

    async def prepare_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the protocol's
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        """The request of this attempt: behind a refusal the shorter one, and what was put in behind it since."""
        sent = self._sent
        if sent is None:
            return request_context
        if not sent.fitted.refused:
            sent.late = _behind(sent.shown, request_context.messages)
            return request_context
        return replace(request_context, messages=shown_once([*sent.messages, *sent.late]))

    async def on_model_request_error(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        error: Exception,
    ) -> ModelResponse:
        """Another attempt, shorter, where the provider said that it is too long; any other error as it is."""
        if (sent := self._sent) is None:
            raise error
        sent.fitted = await self._told(ctx, sent.request.shorten(sent.fitted, error))
        sent.messages = self._follow(ctx, sent.messages, sent.fitted.messages)
        _check_limits(ctx)
        if _RETRY is not None:
            raise _RETRY from error
        shorter = shown_once([*sent.messages, *_behind(sent.shown, request_context.messages)])
        asked = request_context.model_settings, request_context.model_request_parameters
        return await request_context.model.request(shorter, *asked)

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the protocol's
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        """The response; what it reports of the request's tokens is learned from."""
        sent = self._sent
        if sent is not None and self._agent(request_context.model, request_context)[:2] == sent.agent[:2]:
            sent.request.observe(sent.fitted, {"prompt_tokens": response.usage.input_tokens})
        return response

    def _follow(
        self, ctx: RunContext[Any], before: list[ModelMessage], after: list[ModelMessage]
    ) -> list[ModelMessage]:
        new = carry_on(before, after, ctx)
        follow(ctx.messages, before, new)
        return new

    async def _ask(
        self,
        ctx: RunContext[Any],
        messages: list[ModelMessage],
        agent: Agent,
        request_context: ModelRequestContext | None = None,
        *,
        force: bool = False,
    ) -> Request:
        """What the engine is asked about these messages: with all that the model will read beside them."""
        if not self._engine.ready:
            await asyncio.to_thread(self._engine.start)
        parameters = request_context.model_request_parameters if request_context is not None else None
        request = self._engine.request(
            messages,
            agent,
            thread=self._thread(ctx),
            system=system_of(messages, parameters),
            tools=tools_of(parameters) if parameters is not None else None,
            values=ctx,
        )
        return replace(request, force=force, own=self._own_model(ctx, request_context))

    def _own_model(self, ctx: RunContext[Any], request_context: ModelRequestContext | None) -> OwnModel | None:
        """What asks the model of the request, or of the run where none is being made."""
        asked = request_context if request_context is not None else ctx
        own = own_model(asked.model, getattr(asked, "model_settings", None))
        return focused(own, self._focus) if own is not None and self._focus else own

    def _agent(self, model: Any, request_context: ModelRequestContext | None = None) -> Agent:
        """The model that reads the conversation, as far as the framework knows it."""
        if not isinstance(model, Model):
            return Agent(recall=self.recall)
        tools = request_context.model_request_parameters.function_tools if request_context is not None else ()
        recall = self.recall or any(tool.name == READ for tool in tools)
        return Agent(model.model_name, getattr(model, "context_window", None), recall)

    def _thread(self, ctx: RunContext[Any]) -> str | None:
        own = optional_name(self.thread(ctx)) if self.thread is not None else None
        return own or getattr(ctx, "conversation_id", None) or current_thread()

    async def _told(self, ctx: RunContext[Any], steps: Steps[Fitted]) -> Fitted:
        """Carry out the work; what the summariser used is the run's usage.

        What happened is told in the span that the framework has open, if it traces.
        """
        span = get_current_span()
        with collected_events() as events:
            try:
                done = await arun(steps)
            finally:
                for event in events if span.is_recording() else ():
                    data = event_data(event)
                    span.add_event(f"unabridged.{data['event']}", _flat(data))
                _count(ctx, events)
        return done

    # -- as one of several strategies ---------------------------------------------------------------------------------

    async def compact(self, messages: list[ModelMessage], ctx: RunContext[Any]) -> list[ModelMessage]:
        """The messages, compacted now, whatever their size; the very list when nothing is gained."""
        request = await self._ask(ctx, messages, self._agent(ctx.model), force=True)
        done = await self._told(ctx, request.fit())
        return carry_on(messages, done.messages, ctx) if done.changed else messages

    def with_focus(self, focus: str) -> Self:
        """The same, with summaries that are most of all about this; model-free ones know no focus."""
        model = self._keywords["model"]
        if model is None:
            return self
        other = copy(self)
        if model is AGENT_MODEL:
            other._focus = focus  # noqa: SLF001 - a copy of itself
            return other
        keywords = {**self._keywords, "model": focused(model, focus), "archive": self._engine.archive}
        other._engine, other._keywords = Engine(FORMAT, **keywords), keywords  # noqa: SLF001 - likewise
        return other

    # -- what went ----------------------------------------------------------------------------------------------------

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """The tools that search and read what left the context, if the agent is to have them."""
        return self.history_tools() if self.recall else None

    def history_tools(self) -> FunctionToolset[Any]:
        """`search_history` and `read_history`: only what left the context of the run's own conversation."""
        tools: list[Any] = [
            Tool.from_schema(self._looking_up(name), name, DESCRIPTIONS[name], PARAMETERS[name], takes_ctx=True)
            for name in (SEARCH, READ)
        ]
        return FunctionToolset(tools, id="unabridged")

    def _looking_up(self, name: str) -> Callable[..., str]:
        def answer(ctx: RunContext[Any], **arguments: Any) -> str:
            scope = self._engine.scope(self._thread(ctx))
            return look_up(self._engine.archive, scope, name, arguments, FORMAT)

        return answer

    def replay(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """The original conversation, exactly: every compaction that stands in the messages is taken back."""
        own = self._engine.for_records()
        return completed(own.replay(list(messages), thread=conversation_of(messages) if thread is None else thread))

    def undo(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """The messages as they were before their newest compaction, and what came since."""
        own = self._engine.for_records()
        return completed(own.undo(list(messages), thread=conversation_of(messages) if thread is None else thread))

    async def areplay(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """`replay` without blocking the event loop."""
        return await asyncio.to_thread(self.replay, messages, thread=thread)

    async def aundo(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """`undo` without blocking the event loop."""
        return await asyncio.to_thread(self.undo, messages, thread=thread)

    def _pin_engine(self) -> Engine:
        return self._engine

    def close(self) -> None:
        """Let go of the archive, if this capability opened it."""
        self._engine.close()


def conversation_of(messages: Sequence[ModelMessage]) -> str | None:
    """The conversation that the messages name, as a run that is given them takes it."""
    return next((message.conversation_id for message in reversed(messages) if message.conversation_id), None)


def _count(ctx: RunContext[Any], events: Sequence[Event]) -> None:
    """Add what the summariser used to the run's usage."""
    requests, used = summaries_used(events)
    ctx.usage.incr(
        RunUsage(
            requests=requests,
            input_tokens=used.input,
            cache_read_tokens=used.cache_read,
            cache_write_tokens=used.cache_write,
            output_tokens=used.output,
        )
    )


def _check_limits(ctx: RunContext[Any]) -> None:
    """Raise the framework's own error where the run's limits leave no room for its request behind the summary's."""
    if ctx.usage_limits is not None:
        ctx.usage_limits.check_before_request(ctx.usage)


def _behind(sent: list[ModelMessage], now: list[ModelMessage]) -> list[ModelMessage]:
    """What stands behind the messages that were sent; nothing where others came between."""
    same = len(now) >= len(sent) and all(map(lambda one, other: one is other, sent, now))
    return now[len(sent) :] if same else []


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    """An event's data as attributes: plain values by their names, the rest in words."""
    inner = data.get("receipt")
    fields = {**data, **(inner if isinstance(inner, dict) else {})}
    fields.pop("receipt", None)
    return {key: value if isinstance(value, str | int | float) else str(value) for key, value in fields.items()}
