"""`SummarizationMiddleware`: LangChain's and Deep Agents' place for compaction, with this engine behind it.

The check runs in `wrap_model_call`, where the whole request is known: system message, bound tools, and what middleware
around it did to the messages. The model gets the compacted list at once; the state follows in `after_model`, with the
model's answer behind it, so that whatever other middleware did to that answer survives.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
from langchain.agents.middleware.types import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.runtime import Runtime
from langgraph.types import Command

from unabridged.adapters import kit
from unabridged.adapters.langchain import compactors, graph_state, history_file
from unabridged.adapters.langchain.arguments import NOT_PASSED, settings_from_arguments
from unabridged.adapters.langchain.chat_models import find_window, find_writer_window, model_name, summariser_of
from unabridged.adapters.langchain.compactors import AskedModel, Compactors, GraphValues, to_langchain_error
from unabridged.adapters.langchain.deep_agents import DeepAgentsPartner, has_compaction_event, parse_clipping
from unabridged.adapters.langchain.graph_state import PENDING_KEY, assign_new_ids, find_run_thread, replace_messages
from unabridged.adapters.langchain.message_names import MessageNames, apply_state_change, find_state_change
from unabridged.archive.protocol import Archive
from unabridged.compactor import Compaction
from unabridged.events import Event
from unabridged.recall.tools import READ_TOOL
from unabridged.settings import Settings

Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
"""Sends a request on its way."""
AsyncHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
Response = ModelResponse[Any] | ExtendedModelResponse[Any]


class _MethodWithoutNode:
    """A method for callers that no agent makes a node of: `create_agent` looks at the class, callers at the instance.

    An agent does the work in `wrap_model_call`; a node before each model call would cost a step and find nothing to do.
    A subclass that overrides the method gets its node, and `super()` works there.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return getattr(AgentMiddleware, self.name)
        return self.function.__get__(instance, owner)


class SummarizationMiddleware(kit.PinMethods, DeepAgentsPartner, AgentMiddleware[Any, Any, Any]):
    """Keeps an agent inside its model's window and every message in the archive.

    Takes the arguments of LangChain's class and of Deep Agents', and ours: `settings` in place of trigger and keep,
    `archive`, `namespace`, `window`, `on_event`, `stream_events` (compactions as custom stream events), and `state`:
    `"replaced"`, or `"kept"` to leave the state whole and compact only what the model is sent, which is the default
    beside a `backend`, as in Deep Agents. `host_state` gets the graph's state at each compaction and returns a text:
    what every summary turn should show of it, the to-dos unless it is another function, nothing with None. `model`
    or `summarizer` writes the summaries; without both the agent's own model does, as each request brings it. With
    `model=None` they are model-free.
    """

    state_schema = graph_state.SummarizationState
    transformers = (InternalCallTransformer,)

    def __init__(
        self,
        model: Any = kit.AGENT_MODEL,
        *,
        trigger: Any = NOT_PASSED,
        keep: Any = NOT_PASSED,
        token_counter: Callable[..., int] | None = None,
        summary_prompt: str | None = None,
        trim_tokens_to_summarize: int | None = None,
        summarizer: Any = None,
        backend: Any = None,
        truncate_args_settings: Any = None,
        settings: Settings | None = None,
        state: Literal["replaced", "kept"] | None = None,
        host_state: graph_state.HostState | None = graph_state.todos,
        window: int | None = None,
        archive: str | Archive | None = None,
        namespace: str | None = None,
        on_event: Callable[[Event], object] | None = None,
        stream_events: bool = False,
        options: dict[str, Any] | None = None,
        **deprecated: Any,
    ) -> None:
        super().__init__()
        named = None if model is kit.AGENT_MODEL else model
        self.model = init_chat_model(named) if isinstance(named, str) else named
        self.summarizer = init_chat_model(summarizer) if isinstance(summarizer, str) else summarizer
        self.state_mode = state or ("replaced" if backend is None else "kept")
        self.summary_prompt, self.trim_tokens_to_summarize = summary_prompt, trim_tokens_to_summarize
        arguments = {"trigger": trigger, "keep": keep, "state": self.state_mode}
        arguments |= {"summary_prompt": summary_prompt, "trim": trim_tokens_to_summarize}
        known_window = window or find_window(self.model)
        chosen = settings_from_arguments(
            arguments, settings=settings, window=known_window, has_model=self.model is not None, old=deprecated
        )
        self.trigger, self.keep = chosen.trigger, chosen.keep
        self.backend, self.truncate_args_settings = backend, truncate_args_settings
        self.clipping = parse_clipping(truncate_args_settings)
        self.offload = history_file.HistoryFileWriter(backend)
        self.host_state = host_state
        self.last_asked = compactors.LastAskedModels(kit.Agent(model_name(self.model), find_window(self.model)))
        self._token_counter = token_counter
        writer = self.summarizer if self.summarizer is not None else self.model
        more: dict[str, Any] = {"on_event": compactors.make_event_listener(on_event, stream=stream_events)}
        if writer is None and model is kit.AGENT_MODEL:
            more["model"] = kit.AGENT_MODEL
        elif writer is not None:
            more["model"] = summariser_of(writer, trim_tokens_to_summarize)
            more["model_window"] = find_writer_window(writer)
        if host_state or backend is not None:
            more["state"] = self._describe_host_state
        own: dict[str, Any] = {"archive": archive, "namespace": namespace, "in_backend": backend is not None}
        own |= {"window": window, "known_window": known_window, "counter": token_counter}
        self.engine = self.compactors = Compactors(chosen, **own, **{**more, **(options or {})})

    @property
    def name(self) -> str:
        """Return the name by which Deep Agents replaces its own; a subclass has its own, as theirs have."""
        own = type(self) is SummarizationMiddleware
        return "SummarizationMiddleware" if own else type(self).__name__

    @property
    def token_counter(self) -> Callable[..., int]:
        """Return the function that counts tokens, as LangChain's class has it; another may be set at any time."""
        return self._token_counter or count_tokens_approximately

    @token_counter.setter
    def token_counter(self, counter: Callable[..., int] | None) -> None:
        self._token_counter = counter
        self.compactors.set_token_counter(counter)

    # -- in an agent --------------------------------------------------------------------------------------------------

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> Response:
        """Send what fits; when the provider says it is too long all the same, once more, shorter."""
        return kit.run(self._call_model(request, handler))

    async def awrap_model_call(self, request: ModelRequest[Any], handler: AsyncHandler) -> Response:
        """Run `wrap_model_call` without blocking the event loop."""
        return await kit.arun(self._call_model(request, handler))

    def _call_model(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> kit.Steps[Response]:
        ask: kit.Request = yield from self._run_when_ready(self._read_request, request)
        is_asked_for = has_compaction_event(request.state, request.messages)
        forced = (yield from replace(ask, force=True).fit()) if is_asked_for else None
        fitted = forced if forced and forced.changed else (yield from ask.fit())
        sent, update = yield from self._prepare_request(request, ask, fitted)
        try:
            response = yield kit.call_host(handler, sent)
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            fitted = yield from ask.shorten(fitted, error)
            sent, update = yield from self._prepare_request(request, ask, fitted)
            response = yield kit.call_host(handler, sent)
        used = next((m.usage_metadata for m in reversed(response.result) if isinstance(m, AIMessage)), None)
        ask.observe(fitted, used or None)
        update |= {graph_state.EVENT_KEY: None} if is_asked_for else {}
        if not update:
            return response  # type: ignore[no-any-return] # the handler's
        return ExtendedModelResponse(model_response=response, command=Command(update=update))

    def after_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol's
        """Return the update by which the state follows what the model was sent; in a sub-graph it stays whole."""
        pending = state.get(PENDING_KEY)
        if not pending or self.state_mode == "kept" or graph_state.is_in_subgraph():
            return None
        messages = state["messages"]
        return {**replace_messages(apply_state_change(messages, messages, pending)), PENDING_KEY: None}

    def _run_when_ready(self, make: Callable[[Any], kit.Request], value: Any) -> kit.Steps[kit.Request]:
        """Return the request that is made of the value; the first one opens the archive, apart from an event loop."""
        return make(value) if self.compactors.is_ready else (yield kit.call_in_thread(make, value))

    def _read_request(self, request: ModelRequest[Any]) -> kit.Request:
        """Return the request for the engine, with all that the model will read."""
        system = request.system_message.content if request.system_message is not None else None
        tools = self.compactors.tool_schemas(request.tools, request.response_format)
        messages = cast("list[BaseMessage]", request.messages)
        if pending := request.state.get(PENDING_KEY):
            stored = cast("list[BaseMessage]", request.state["messages"])
            messages = apply_state_change(stored, messages, cast("kit.PendingChange", pending))
        agent = kit.Agent(model_name(request.model), find_window(request.model), _has_recall_tools(request.tools))
        asked, thread = AskedModel(agent, request.model), find_run_thread(messages)
        self.last_asked.remember(thread, asked)
        values = GraphValues(request.state, has_file=self.backend is not None)
        return self._make_request(asked, messages, thread, values, system=system, tools=tools)

    def _make_request(
        self, asked: AskedModel, messages: list[BaseMessage], thread: str | None, values: GraphValues, **options: Any
    ) -> kit.Request:
        compactor, own = self.compactors.get(*asked.agent), asked.model
        options |= {"values": values, "own": own, "as_host_error": to_langchain_error}
        request = kit.Request(compactor, messages, thread, **options)
        self.compactors.teach_new_compactor(request, asked.agent.name)
        return request

    def _prepare_request(
        self, request: ModelRequest[Any], ask: kit.Request, fitted: Compaction
    ) -> kit.Steps[tuple[ModelRequest[Any], dict[str, Any]]]:
        """Return the request as it goes out and the state's update; what went is then in the backend's file."""
        original = cast("list[BaseMessage]", request.messages)
        result = assign_new_ids(original, fitted.messages, ask.thread) if fitted.changed else ask.messages
        update: dict[str, Any] = {}
        if fitted.changed and _can_state_follow(request.state, original):
            stored, earlier = cast("Any", request.state["messages"]), cast("Any", request.state).get(PENDING_KEY)
            if (pending := find_state_change(stored, original, result, earlier)) is not None:
                update[PENDING_KEY] = pending
        if fitted.changed and fitted.receipt is not None:
            update[graph_state.SENT_KEY] = fitted.receipt.id
        gone: list[BaseMessage] = []
        if self.backend is not None and fitted.changed:
            gone = history_file.find_evicted(original, ask.messages, result)
        in_file = yield from self.offload.write(fitted.thread, gone)
        update |= {} if in_file is None else {graph_state.FILE_KEY: in_file}
        if (request.state.get(graph_state.FILE_KEY) if in_file is None else in_file) is False:
            result = history_file.remove_file_line(result)
        if self.clipping is not None:
            result = self.clipping.clip(result, fitted.tokens_after, ask.compactor.limits.window, self.token_counter)
        if result is original:
            return request, update
        state: Any = request.state  # what is pending is followed in this request
        state = {**state, PENDING_KEY: None} if state.get(PENDING_KEY) else state
        return request.override(messages=cast("list[Any]", result), state=state), update

    def _describe_host_state(self, thread: str) -> Any:
        """Return what a summary turn shows of the host: a text of the graph's state, and where the history is."""
        values: GraphValues = kit.current_host_values() or GraphValues(None)
        text = self.host_state(values.state) if self.host_state is not None and values.state is not None else None
        if self.backend is None or not values.has_file:
            return text
        line = history_file.format_file_line(self.offload.path(thread))
        return _join_when_ready(text, line) if inspect.isawaitable(text) else "\n\n".join(filter(None, (text, line)))

    # -- on a bare state ----------------------------------------------------------------------------------------------

    def _before_model(self, state: Any, runtime: Any = None) -> kit.Steps[dict[str, Any] | None]:  # noqa: ARG002 - the protocol's
        """Return the state update that replaces the messages by summary and tail; None when they fit."""
        ask = yield from self._run_when_ready(self._make_stateless_request, state)
        fitted = yield from ask.fit()
        return replace_messages(assign_new_ids(ask.messages, fitted.messages, ask.thread)) if fitted.changed else None

    def _make_stateless_request(self, state: Any) -> kit.Request:
        messages: list[BaseMessage] = state["messages"]
        graph_state.ensure_ids(messages)
        thread = find_run_thread(messages)
        return self._make_request(self.last_asked.find(thread), messages, thread, GraphValues(state))

    _sync_form, _async_form = kit.make_sync_and_async(_before_model)
    before_model, abefore_model = _MethodWithoutNode(_sync_form), _MethodWithoutNode(_async_form)

    def close(self) -> None:
        """Close the archive, if this middleware opened it."""
        self.compactors.close()


async def _join_when_ready(text: Awaitable[Any], line: str) -> str:
    return "\n\n".join(filter(None, (await text, line)))


def _has_recall_tools(tools: Sequence[Any]) -> bool:
    """Return whether the agent can follow a reference."""
    return any((tool.get("name") if isinstance(tool, dict) else tool.name) == READ_TOOL for tool in tools)


def _can_state_follow(state: Any, messages: Sequence[BaseMessage]) -> bool:
    """Return whether every message of the request is in the state, so that the state can follow a compaction."""
    stored: Sequence[BaseMessage] = state["messages"]
    names = MessageNames(stored, messages)
    there, sent = names.names_of(stored), names.names_of(messages)
    results = (message for message in messages if message.type == "tool")
    return names.names_of(results) <= there and all(names(message) in sent for message in stored if not message.id)
