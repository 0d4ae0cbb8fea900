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
from unabridged.adapters.pydantic_ai import carried_parts
from unabridged.adapters.pydantic_ai.carried_parts import carry_parts_over, complete_parts, drop_repeated_prompts
from unabridged.adapters.pydantic_ai.format import FORMAT
from unabridged.adapters.pydantic_ai.summariser import add_focus, make_own_model, to_summariser
from unabridged.archive.names import Name, check_name
from unabridged.archive_access import make_async
from unabridged.formats.fields import are_same_objects
from unabridged.results import Compaction as Fitted

_RETRY_ERROR: type[Exception] | None = getattr(exceptions, "RetryModelRequest", None)
"""New in 2.66; before, the model is asked once more where the refusal is reported."""


@dataclass(slots=True)
class _StepRequest:
    """The request of the step under way: what was asked of the engine, its result, and what was added since."""

    request: kit.Request
    agent: kit.Agent
    fitted: Fitted
    messages: list[ModelMessage]
    sent_messages: list[ModelMessage]
    """The messages as they were sent."""
    late_messages: list[ModelMessage] = field(default_factory=list)


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
        self._keywords = {**keywords, "model": to_summariser(keywords.get("model", kit.AGENT_MODEL))}
        if not carried_parts.HAS_LOAD_PARTS:
            self._keywords["settings"] = kit.with_pins(keywords.get("settings"), carried_parts.loads_capability)
        self.engine = kit.Engine(FORMAT, **self._keywords)
        self._focus = ""
        self._step_request: _StepRequest | None = None

    async def for_run(self, ctx: RunContext[Any]) -> Self:  # noqa: ARG002 - the protocol's
        """Return the capability for one run: the same engine, and a memory of its own for the request under way."""
        own = copy(self)
        own._step_request = None  # noqa: SLF001 - a copy of itself
        return own

    # -- a request ----------------------------------------------------------------------------------------------------

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request as it should be sent; the run's history follows."""
        self._step_request = None
        messages = list(request_context.messages)
        if not messages or not isinstance(messages[-1], ModelRequest):
            return request_context  # a turn that the provider paused goes on from exactly what it had
        agent = self._describe_agent(request_context.model, request_context)
        request = await self._make_request(ctx, messages, agent, request_context)
        fitted = await self._run_traced(ctx, request.fit())
        kept = self._update_history(ctx, messages, fitted.messages) if fitted.changed else messages
        _check_limits(ctx)
        sent = drop_repeated_prompts(kept)
        self._step_request = _StepRequest(request, agent, fitted, kept, sent)
        return request_context if sent is messages else replace(request_context, messages=sent)

    async def prepare_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the protocol's
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        """Return the request of this attempt: after a refusal the shorter one, and what was added behind it since."""
        if (sent := self._step_request) is None:
            return request_context
        if not sent.fitted.refused:
            sent.late_messages = _find_added_messages(sent.sent_messages, request_context.messages)
            return request_context
        return replace(request_context, messages=drop_repeated_prompts([*sent.messages, *sent.late_messages]))

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Make another attempt, shorter, where the provider said that it is too long; raise any other error."""
        if (sent := self._step_request) is None:
            raise error
        sent.fitted = await self._run_traced(ctx, sent.request.shorten(sent.fitted, error))
        sent.messages = self._update_history(ctx, sent.messages, sent.fitted.messages)
        _check_limits(ctx)
        if _RETRY_ERROR is not None:
            raise _RETRY_ERROR from error
        added = _find_added_messages(sent.sent_messages, request_context.messages)
        shorter = drop_repeated_prompts([*sent.messages, *added])
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
        sent = self._step_request
        if sent is not None and self._describe_agent(request_context.model, request_context)[:2] == sent.agent[:2]:
            sent.request.observe(sent.fitted, {"prompt_tokens": response.usage.input_tokens})
        return response

    def _update_history(
        self, ctx: RunContext[Any], before: list[ModelMessage], after: list[ModelMessage]
    ) -> list[ModelMessage]:
        new = carry_parts_over(before, after, ctx)
        carried_parts.update_history(ctx.messages, before, new)
        return new

    async def _make_request(
        self,
        ctx: RunContext[Any],
        messages: list[ModelMessage],
        agent: kit.Agent,
        request_context: ModelRequestContext | None = None,
        *,
        force: bool = False,
    ) -> kit.Request:
        """Return the request for the engine: these messages, with all that the model will read beside them."""
        if not self.engine.is_ready:
            await asyncio.to_thread(self.engine.start)
        parameters = request_context.model_request_parameters if request_context is not None else None
        system = carried_parts.collect_system_texts(messages, parameters)
        tools = carried_parts.list_offered_tools(parameters) if parameters is not None else None
        beside: Any = {"system": system, "tools": tools, "values": ctx}
        request = self.engine.request(messages, agent, thread=self._find_thread(ctx), **beside)
        return replace(request, force=force, own=self._own_model(ctx, request_context))

    def _own_model(self, ctx: RunContext[Any], request_context: ModelRequestContext | None) -> kit.OwnModel | None:
        """Return what asks the model of the request, or of the run where no request is being made."""
        asked = request_context if request_context is not None else ctx
        own = make_own_model(asked.model, getattr(asked, "model_settings", None))
        return add_focus(own, self._focus) if own is not None and self._focus else own

    def _describe_agent(self, model: Any, request_context: ModelRequestContext | None = None) -> kit.Agent:
        """Return the model that reads the conversation, as far as the framework knows it."""
        if not isinstance(model, Model):
            return kit.Agent(recall=self.recall)
        tools = request_context.model_request_parameters.function_tools if request_context is not None else ()
        recall = self.recall or any(tool.name == kit.READ_TOOL for tool in tools)
        return kit.Agent(model.model_name, getattr(model, "context_window", None), recall)

    def _find_thread(self, ctx: RunContext[Any]) -> str | None:
        own = self.thread(ctx) if self.thread is not None else None
        name = getattr(ctx, "conversation_id", None) if own is None else own
        return kit.current_thread() if name is None else check_name(name)

    async def _run_traced(self, ctx: RunContext[Any], steps: kit.Steps[Fitted]) -> Fitted:
        """Carry out the work; add what the summariser used to the run's usage, and events to the framework's span."""
        span = get_current_span()
        with kit.collect_events() as events:
            try:
                return await kit.arun(steps)
            finally:
                for event in events if span.is_recording() else ():
                    data = kit.event_data(event)
                    span.add_event(f"unabridged.{data['event']}", _flatten_event_data(data))
                requests, used = kit.sum_summariser_usage(events)
                tokens = {f"{name}_tokens": getattr(used, name) for name in used.__slots__}
                ctx.usage.incr(RunUsage(requests=requests, **tokens))

    # -- as one of several strategies ---------------------------------------------------------------------------------

    async def compact(self, messages: list[ModelMessage], ctx: RunContext[Any]) -> list[ModelMessage]:
        """Return the messages, compacted now, whatever their size; the very list when nothing is gained."""
        request = await self._make_request(ctx, messages, self._describe_agent(ctx.model), force=True)
        done = await self._run_traced(ctx, request.fit())
        return carry_parts_over(messages, done.messages, ctx) if done.changed else messages

    def with_focus(self, focus: str) -> Self:
        """Return the same, with summaries that are most of all about this; model-free ones know no focus."""
        if (model := self._keywords["model"]) is None:
            return self
        other = copy(self)
        if model is kit.AGENT_MODEL:
            other._focus = focus  # noqa: SLF001 - a copy of itself
            return other
        keywords = {**self._keywords, "model": add_focus(model, focus), "archive": self.engine.archive}
        other.engine, other._keywords = kit.Engine(FORMAT, **keywords), keywords  # noqa: SLF001 - likewise
        return other

    # -- what went ----------------------------------------------------------------------------------------------------

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return the tools that search and read what left the context, if the agent is to have them."""
        return self.history_tools() if self.recall else None

    def history_tools(self) -> FunctionToolset[Any]:
        """Return `search_history` and `read_history`: only what left the context of the run's own conversation."""
        tools: list[Any] = [self._recall_tool(name) for name in (kit.SEARCH_TOOL, kit.READ_TOOL)]
        return FunctionToolset(tools, id="unabridged")

    def _recall_tool(self, name: str) -> Tool[Any]:
        def answer(ctx: RunContext[Any], **arguments: Any) -> str:
            scope = self.engine.scope(self._find_thread(ctx))
            return kit.look_up(self.engine.archive, scope, name, arguments, FORMAT)

        return Tool.from_schema(answer, name, kit.TOOL_DESCRIPTIONS[name], kit.TOOL_PARAMETERS[name], takes_ctx=True)

    def replay(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """Return the original conversation, exactly: every compaction in the messages is taken back."""
        thread = find_conversation_id(messages) if thread is None else thread
        return complete_parts(self.engine.compactor_for_records().replay(list(messages), thread=thread))

    def undo(self, messages: Sequence[ModelMessage], *, thread: Name | None = None) -> list[ModelMessage]:
        """Return the messages as they were before their newest compaction, and what came since."""
        thread = find_conversation_id(messages) if thread is None else thread
        return complete_parts(self.engine.compactor_for_records().undo(list(messages), thread=thread))

    areplay, aundo = make_async(replay), make_async(undo)

    def close(self) -> None:
        """Close the archive, if this capability opened it."""
        self.engine.close()


def find_conversation_id(messages: Sequence[ModelMessage]) -> str | None:
    """Return the conversation that the messages name, as a run that starts from them takes it."""
    return next((message.conversation_id for message in reversed(messages) if message.conversation_id), None)


def _check_limits(ctx: RunContext[Any]) -> None:
    """Raise the framework's own error where the run's limits leave no room for its request behind the summary's."""
    if ctx.usage_limits is not None:
        ctx.usage_limits.check_before_request(ctx.usage)


def _find_added_messages(sent: list[ModelMessage], now: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages behind those that were sent; none where others came between."""
    return now[len(sent) :] if are_same_objects(now[: len(sent)], sent) else []


def _flatten_event_data(data: dict[str, Any]) -> dict[str, Any]:
    """Return an event's data as attributes: plain values by their names, the rest in words."""
    receipt = data.pop("receipt", None)
    fields = {**data, **(receipt if isinstance(receipt, dict) else {})}
    return {key: value if isinstance(value, str | int | float) else str(value) for key, value in fields.items()}
