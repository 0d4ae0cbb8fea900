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

from unabridged.adapters import kit
from unabridged.adapters.pydantic_ai.carried_parts import (
    HAS_LOADS,
    carry_on,
    completed,
    follow,
    loads_capability,
    shown_once,
    system_of,
    tools_of,
)
from unabridged.adapters.pydantic_ai.format import FORMAT
from unabridged.adapters.pydantic_ai.summariser import focused, own_model, summariser_of
from unabridged.archive.names import Name, check_name
from unabridged.formats.fields import same_objects
from unabridged.results import Compaction as Fitted

_RETRY: type[Exception] | None = getattr(exceptions, "RetryModelRequest", None)
"""New in 2.66; before, the model is asked once more where the refusal is reported."""


@dataclass(slots=True)
class _StepRequest:
    """The request of the step under way: what was asked of the engine, its result, and what was added since."""

    request: kit.Request
    agent: kit.Agent
    fitted: Fitted
    messages: list[ModelMessage]
    shown: list[ModelMessage]
    """The messages as they were sent."""
    late: list[ModelMessage] = field(default_factory=list)


class Compaction(kit.PinMethods, AbstractCapability[Any]):
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
        self._keywords = {**keywords, "model": summariser_of(keywords.get("model", kit.AGENT_MODEL))}
        if not HAS_LOADS:
            self._keywords["settings"] = kit.with_pins(keywords.get("settings"), loads_capability)
        self.engine = kit.Engine(FORMAT, **self._keywords)
        self._focus = ""
        self._sent: _StepRequest | None = None

    async def for_run(self, ctx: RunContext[Any]) -> Self:  # noqa: ARG002 - the protocol's
        """Return the capability for one run: the same engine, and a memory of its own for the request under way."""
        own = copy(self)
        own._sent = None  # noqa: SLF001 - a copy of itself
        return own

    # -- a request ----------------------------------------------------------------------------------------------------

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request as it should be sent; the run's history follows."""
        self._sent = None
        messages = list(request_context.messages)
        if not messages or not isinstance(messages[-1], ModelRequest):
            return request_context  # a turn that the provider paused goes on from exactly what it had
        agent = self._agent(request_context.model, request_context)
        request = await self._ask(ctx, messages, agent, request_context)
        fitted = await self._run_traced(ctx, request.fit())
        kept = self._follow(ctx, messages, fitted.messages) if fitted.changed else messages
        _check_limits(ctx)
        self._sent = _StepRequest(request, agent, fitted, kept, shown_once(kept))
        return request_context if self._sent.shown is messages else replace(request_context, messages=self._sent.shown)

    async def prepare_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the protocol's
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        """Return the request of this attempt: after a refusal the shorter one, and what was added behind it since."""
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
        """Make another attempt, shorter, where the provider said that it is too long; raise any other error."""
        if (sent := self._sent) is None:
            raise error
        sent.fitted = await self._run_traced(ctx, sent.request.shorten(sent.fitted, error))
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
        """Return the response; what it reports of the request's tokens is learned from."""
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
        agent: kit.Agent,
        request_context: ModelRequestContext | None = None,
        *,
        force: bool = False,
    ) -> kit.Request:
        """Return the request for the engine: these messages, with all that the model will read beside them."""
        if not self.engine.ready:
            await asyncio.to_thread(self.engine.start)
        parameters = request_context.model_request_parameters if request_context is not None else None
        request = self.engine.request(
            messages,
            agent,
            thread=self._thread(ctx),
            system=system_of(messages, parameters),
            tools=tools_of(parameters) if parameters is not None else None,
            values=ctx,
        )
        return replace(request, force=force, own=self._own_model(ctx, request_context))

    def _own_model(self, ctx: RunContext[Any], request_context: ModelRequestContext | None) -> kit.OwnModel | None:
        """Return what asks the model of the request, or of the run where no request is being made."""
        asked = request_context if request_context is not None else ctx
        own = own_model(asked.model, getattr(asked, "model_settings", None))
        return focused(own, self._focus) if own is not None and self._focus else own

    def _agent(self, model: Any, request_context: ModelRequestContext | None = None) -> kit.Agent:
        """Return the model that reads the conversation, as far as the framework knows it."""
        if not isinstance(model, Model):
            return kit.Agent(recall=self.recall)
        tools = request_context.model_request_parameters.function_tools if request_context is not None else ()
        recall = self.recall or any(tool.name == kit.READ for tool in tools)
        return kit.Agent(model.model_name, getattr(model, "context_window", None), recall)

    def _thread(self, ctx: RunContext[Any]) -> str | None:
        own = self.thread(ctx) if self.thread is not None else None
        name = getattr(ctx, "conversation_id", None) if own is None else own
        return kit.current_thread() if name is None else check_name(name)

    async def _run_traced(self, ctx: RunContext[Any], steps: kit.Steps[Fitted]) -> Fitted:
        """Carry out the work; add what the summariser used to the run's usage, and events to the framework's span."""
        span = get_current_span()
        with kit.collected_events() as events:
            try:
                return await kit.arun(steps)
            finally:
                for event in events if span.is_recording() else ():
                    data = kit.event_data(event)
                    span.add_event(f"unabridged.{data['event']}", _flat(data))
                requests, used = kit.summaries_used(events)
                tokens = {f"{name}_tokens": getattr(used, name) for name in used.__slots__}
                ctx.usage.incr(RunUsage(requests=requests, **tokens))

    # -- as one of several strategies ---------------------------------------------------------------------------------

    async def compact(self, messages: list[ModelMessage], ctx: RunContext[Any]) -> list[ModelMessage]:
        """Return the messages, compacted now, whatever their size; the very list when nothing is gained."""
        request = await self._ask(ctx, messages, self._agent(ctx.model), force=True)
        done = await self._run_traced(ctx, request.fit())
        return carry_on(messages, done.messages, ctx) if done.changed else messages

    def with_focus(self, focus: str) -> Self:
        """Return the same, with summaries that are most of all about this; model-free ones know no focus."""
        model = self._keywords["model"]
        if model is None:
            return self
        other = copy(self)
        if model is kit.AGENT_MODEL:
            other._focus = focus  # noqa: SLF001 - a copy of itself
            return other
        keywords = {**self._keywords, "model": focused(model, focus), "archive": self.engine.archive}
        other.engine, other._keywords = kit.Engine(FORMAT, **keywords), keywords  # noqa: SLF001 - likewise
        return other

    # -- what went ----------------------------------------------------------------------------------------------------

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return the tools that search and read what left the context, if the agent is to have them."""
        return self.history_tools() if self.recall else None

    def history_tools(self) -> FunctionToolset[Any]:
        """Return `search_history` and `read_history`: only what left the context of the run's own conversation."""
        tools: list[Any] = [
            Tool.from_schema(
                self._recall_function(name), name, kit.DESCRIPTIONS[name], kit.PARAMETERS[name], takes_ctx=True
            )
            for name in (kit.SEARCH, kit.READ)
        ]
        return FunctionToolset(tools, id="unabridged")

    def _recall_function(self, name: str) -> Callable[..., str]:
        def answer(ctx: RunContext[Any], **arguments: Any) -> str:
            scope = self.engine.scope(self._thread(ctx))
            return kit.look_up(self.engine.archive, scope, name, arguments, FORMAT)

        return answer

    def replay(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """Return the original conversation, exactly: every compaction in the messages is taken back."""
        thread = conversation_of(messages) if thread is None else thread
        return completed(self.engine.for_records().replay(list(messages), thread=thread))

    def undo(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """Return the messages as they were before their newest compaction, and what came since."""
        thread = conversation_of(messages) if thread is None else thread
        return completed(self.engine.for_records().undo(list(messages), thread=thread))

    async def areplay(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """Do as `replay` without blocking the event loop."""
        return await asyncio.to_thread(self.replay, messages, thread=thread)

    async def aundo(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """Do as `undo` without blocking the event loop."""
        return await asyncio.to_thread(self.undo, messages, thread=thread)

    def close(self) -> None:
        """Close the archive, if this capability opened it."""
        self.engine.close()


def conversation_of(messages: Sequence[ModelMessage]) -> str | None:
    """Return the conversation that the messages name, as a run that starts from them takes it."""
    return next((message.conversation_id for message in reversed(messages) if message.conversation_id), None)


def _check_limits(ctx: RunContext[Any]) -> None:
    """Raise the framework's own error where the run's limits leave no room for its request behind the summary's."""
    if ctx.usage_limits is not None:
        ctx.usage_limits.check_before_request(ctx.usage)


def _behind(sent: list[ModelMessage], now: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages behind those that were sent; none where others came between."""
    return now[len(sent) :] if same_objects(now[: len(sent)], sent) else []


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    """Return an event's data as attributes: plain values by their names, the rest in words."""
    receipt = data.pop("receipt", None)
    fields = {**data, **(receipt if isinstance(receipt, dict) else {})}
    return {key: value if isinstance(value, str | int | float) else str(value) for key, value in fields.items()}
