"""Tools for the agent itself: compact now, and search or read what left the context. Bound to the thread of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command

from unabridged.adapters import kit
from unabridged.adapters.langchain import graph_state
from unabridged.adapters.langchain.compactors import Compactors, GraphValues, make_forced_request
from unabridged.adapters.langchain.format import FORMAT
from unabridged.adapters.langchain.graph_state import PENDING_KEY, assign_new_ids, find_run_thread
from unabridged.adapters.langchain.history_file import find_evicted
from unabridged.adapters.langchain.message_names import apply_state_change, find_state_change
from unabridged.adapters.langchain.middleware import AsyncHandler, Handler, SummarizationMiddleware
from unabridged.archive.protocol import Scope
from unabridged.errors import SettingsError

COMPACT_TOOL = "compact_conversation"
_COMPACT_DESCRIPTION = (
    "Compact this conversation now: older messages are replaced by a summary and stay readable word for word in the "
    "record. Call it when a piece of work is finished and the next one needs little of what was said, not in the "
    "middle of a task."
)


class SummarizationToolMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives the agent `compact_conversation`, `search_history` and `read_history`.

    `summarization` is the agent's `SummarizationMiddleware`, or one made only for this where the agent has none of
    ours: the requests are then made shorter here. `system_prompt` is added to the system message, to tell the model
    when to use them; the tools' own descriptions do without it.
    """

    state_schema = graph_state.SummarizationState

    def __init__(
        self,
        summarization: SummarizationMiddleware,
        *,
        system_prompt: str | None = None,
        compact: bool = True,
        recall: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(summarization, SummarizationMiddleware):
            raise SettingsError(
                "this tool works with unabridged.adapters.langchain.SummarizationMiddleware: "
                f"give it one in the place of {type(summarization).__module__}.{type(summarization).__qualname__}"
            )
        if system_prompt is not None and not isinstance(system_prompt, str):
            raise TypeError(f"system_prompt must be a str or None; got {type(system_prompt).__name__}")
        self.summarization, self.system_prompt = summarization, system_prompt
        tools = history_tools(summarization) if recall else []
        self.tools: Sequence[BaseTool] = [compaction_tool(summarization), *tools] if compact else tools

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Send the request with the hint, if there is one, and shorter where a compaction was asked for."""
        return handler(self._prepare(request))

    async def awrap_model_call(self, request: ModelRequest[Any], handler: AsyncHandler) -> ModelResponse[Any]:
        """Send the request with the hint, if there is one, and shorter where a compaction was asked for."""
        return await handler(self._prepare(request))

    def _prepare(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        pending: Any = request.state.get(PENDING_KEY)
        if pending:  # our middleware around this one has followed it already, and then it is not pending here
            messages: list[Any] = [*apply_state_change(request.state["messages"], request.messages, pending)]
            request = request.override(messages=messages)
        if self.system_prompt is None:
            return request
        system = request.system_message
        blocks: list[Any] = [] if system is None else system.content_blocks
        return request.override(system_message=SystemMessage([*blocks, {"type": "text", "text": self.system_prompt}]))


def compaction_tool(summarization: SummarizationMiddleware) -> BaseTool:
    """Return `compact_conversation`: it compacts the agent's conversation, but for the turn that asks for it."""

    def compact(runtime: ToolRuntime) -> kit.Steps[Command[Any]]:
        return _compact_run(summarization, runtime)

    forms = kit.make_sync_and_async(compact)
    return StructuredTool.from_function(*forms, name=COMPACT_TOOL, description=_COMPACT_DESCRIPTION)


def history_tools(summarization: SummarizationMiddleware) -> list[BaseTool]:
    """Return `search_history` and `read_history`: only what left the context of the run's own conversation."""
    return [_history_tool(summarization.compactors, name) for name in (kit.SEARCH_TOOL, kit.READ_TOOL)]


def _history_tool(pool: Compactors, name: str) -> BaseTool:
    def answer(runtime: ToolRuntime, **arguments: Any) -> str:
        stored: list[BaseMessage] = list(runtime.state["messages"])
        thread, pending = find_run_thread(stored), runtime.state.get(PENDING_KEY)
        if thread is None:
            return kit.look_up(pool.archive, None, name, arguments, FORMAT)
        scope = Scope(pool.namespace, thread)
        messages = apply_state_change(stored, stored, pending) if pending else stored
        sent = runtime.state.get(graph_state.SENT_KEY)
        own = kit.limit_to_removed_messages(pool.archive, scope, messages, FORMAT, also=[sent] if sent else [])
        return kit.look_up(own, scope, name, arguments, FORMAT)

    description, parameters = kit.TOOL_DESCRIPTIONS[name], kit.TOOL_PARAMETERS[name]
    return StructuredTool(name=name, description=description, args_schema=parameters, func=answer)


def _compact_run(summarization: SummarizationMiddleware, runtime: ToolRuntime) -> kit.Steps[Command[Any]]:
    """Return the tool's message and the compaction, which the next request follows, and a state that is replaced."""
    stored: list[BaseMessage] = list(runtime.state["messages"])
    pending = runtime.state.get(PENDING_KEY)
    messages = apply_state_change(stored, stored, pending) if pending else stored
    thread = find_run_thread(messages)
    agent, model = summarization.last_asked.find(thread)
    compactor = summarization.compactors.get(*agent)
    values = GraphValues(runtime.state, has_file=summarization.backend is not None)
    call = make_forced_request(compactor, messages, thread, values, model)
    with kit.collect_events() as events:
        done = yield from call.fit()
    in_file = yield from summarization.offload.write(done.thread, find_evicted(stored, messages, done.messages))
    update: dict[str, Any] = {} if in_file is None else {graph_state.FILE_KEY: in_file}
    if done.changed:
        text = f"Compacted: {done.tokens_before:,} tokens of conversation became {done.tokens_after:,}."
        update[PENDING_KEY] = find_state_change(stored, stored, assign_new_ids(messages, done.messages, call.thread))
    else:
        text = kit.explain_no_compaction(events)
    answer = ToolMessage(text, tool_call_id=str(runtime.tool_call_id), name=COMPACT_TOOL)
    return Command(update={"messages": [answer], **update})
