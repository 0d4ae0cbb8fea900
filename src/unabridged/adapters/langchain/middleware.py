"""`SummarizationMiddleware`: LangChain's and Deep Agents' place for compaction, with this engine behind it.

The check runs in `wrap_model_call`, where the whole request is known: system message, bound tools, and what middleware
around it did to the messages. The model gets the compacted list at once; the state follows in `after_model`, with the
model's answer behind it, so that whatever other middleware did to that answer survives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, cast

from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from unabridged.adapters.langchain.arguments import DEFAULT, settings_of
from unabridged.adapters.langchain.compactors import Asked, Call, Compactors, Fixed
from unabridged.adapters.langchain.host import HostState, provider_of, todos
from unabridged.adapters.langchain.model import model_name, summariser_of, window_of
from unabridged.adapters.langchain.state import (
    Pending,
    ensure_ids,
    followed,
    pending_of,
    replacing,
    thread_of,
    with_ids,
)
from unabridged.adapters.langchain.telling import Teller
from unabridged.archive.protocol import Archive
from unabridged.engine import Compaction, Compactor
from unabridged.events import Event
from unabridged.recall.tools import READ
from unabridged.settings import Settings

PENDING = "_unabridged_pending"


class SummarizationState(AgentState[Any]):
    """The agent's state, and a compaction that the messages have yet to follow."""

    _unabridged_pending: NotRequired[Annotated[Pending | None, PrivateStateAttr]]


class Sent(NamedTuple):
    """A request as it goes out, and how it came to be."""

    request: ModelRequest[Any]
    fitted: Compaction
    compactor: Compactor
    pending: Pending | None


class _NotANode:
    """A method for callers that no agent makes a node of: `create_agent` asks the class, callers ask the instance.

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


class SummarizationMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps an agent inside its model's window and every message in the archive.

    Takes the arguments of LangChain's class and of Deep Agents', and ours: `settings` in place of trigger and keep,
    `archive`, `namespace`, `window`, `on_event`, `stream_events` (compactions as custom stream events), and `state`:
    `"replaced"`, or `"kept"` to leave the state whole and compact only what the model is sent. `host_state` gets the
    graph's state at each compaction and tells in a text what every summary turn should show of it: the to-dos unless
    another function is given, nothing with None. `model` and `summarizer` write the summaries; without both they are
    model-free.
    """

    state_schema = SummarizationState
    transformers = (InternalCallTransformer,)

    def __init__(
        self,
        model: Any = None,
        *,
        trigger: Any = DEFAULT,
        keep: Any = DEFAULT,
        token_counter: Callable[..., int] | None = None,
        summary_prompt: str | None = None,
        trim_tokens_to_summarize: int | None = None,
        summarizer: Any = None,
        backend: Any = None,
        truncate_args_settings: Any = None,
        settings: Settings | None = None,
        state: Literal["replaced", "kept"] = "replaced",
        host_state: HostState | None = todos,
        window: int | None = None,
        archive: str | Archive | None = None,
        namespace: str | None = None,
        on_event: Callable[[Event], object] | None = None,
        stream_events: bool = False,
        options: dict[str, Any] | None = None,
        **deprecated: Any,
    ) -> None:
        super().__init__()
        self.model = init_chat_model(model) if isinstance(model, str) else model
        chosen = settings_of(
            {"trigger": trigger, "keep": keep, "summary_prompt": summary_prompt, "state": state},
            trim=trim_tokens_to_summarize,
            settings=settings,
            window=window or window_of(self.model),
            judged=self.model is not None,
            deprecated=deprecated,
        )
        self.trigger, self.keep = chosen.trigger, chosen.keep
        self.token_counter, self.summary_prompt = token_counter, summary_prompt
        self.trim_tokens_to_summarize, self.summarizer = trim_tokens_to_summarize, summarizer
        self.backend, self.truncate_args_settings = backend, truncate_args_settings
        self.state_mode = state
        self.last_agent = Asked(model_name(self.model), window_of(self.model))
        """The model that was asked last: what manual compactions go by."""
        self.compactors = Compactors(
            summariser=summariser_of(summarizer if summarizer is not None else self.model),
            settings=chosen.settings,
            window=window,
            archive=archive,
            namespace=namespace,
            counter=token_counter,
            on_event=Teller(on_event, stream=stream_events),
            options={**({"state": provider_of(host_state)} if host_state is not None else {}), **(options or {})},
        )

    @property
    def name(self) -> str:
        """The name by which Deep Agents replaces its own, whatever a subclass is called."""
        return "SummarizationMiddleware"

    # -- in an agent --------------------------------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Send what fits; when the provider says it is too long all the same, once more, shorter."""
        ask = self._ask(request)
        sent = self._sent(request, ask, ask())
        try:
            response = handler(sent.request)
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            sent = self._sent(request, ask, ask.shorter(sent.fitted, error))
            response = handler(sent.request)
        return self._answered(sent, response)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """`wrap_model_call` without blocking the event loop."""
        ask = self._ask(request)
        sent = self._sent(request, ask, await ask.later())
        try:
            response = await handler(sent.request)
        except Exception as error:  # noqa: BLE001 - what is no overflow is raised again
            sent = self._sent(request, ask, await ask.shorter_later(sent.fitted, error))
            response = await handler(sent.request)
        return self._answered(sent, response)

    def after_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol's
        """Let the state follow what the model was sent."""
        pending = state.get(PENDING)
        if not pending or self.state_mode == "kept":
            return None
        return {**replacing(followed(state["messages"], pending)), PENDING: None}

    def _ask(self, request: ModelRequest[Any]) -> Call:
        """What the engine is asked about this request: all of it that the model will read."""
        system = request.system_message.content if request.system_message is not None else None
        fixed = Fixed(system, self.compactors.schemas(request.tools, request.response_format))
        messages = cast("list[BaseMessage]", request.messages)
        if pending := request.state.get(PENDING):
            messages = followed(messages, cast("Pending", pending))
        self.last_agent = Asked(model_name(request.model), window_of(request.model), _can_recall(request.tools))
        return Call(self.compactors.get(*self.last_agent), messages, thread_of(messages), fixed, values=request.state)

    def _sent(self, request: ModelRequest[Any], ask: Call, fitted: Compaction) -> Sent:
        given = cast("list[BaseMessage]", request.messages)
        after = with_ids(given, fitted.messages, ask.thread) if fitted.changed else ask.messages
        if after is given:
            return Sent(request, fitted, ask.compactor, None)
        can_follow = fitted.changed and _known_to(request.state, given)
        pending = pending_of(given, after) if can_follow else None
        return Sent(request.override(messages=cast("list[Any]", after)), fitted, ask.compactor, pending)

    def _answered(self, sent: Sent, response: ModelResponse[Any]) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        used = next((m.usage_metadata for m in reversed(response.result) if isinstance(m, AIMessage)), None)
        if used:
            sent.compactor.observe(sent.fitted, used)
        if sent.pending is None:
            return response
        return ExtendedModelResponse(model_response=response, command=Command(update={PENDING: sent.pending}))

    # -- on a bare state ----------------------------------------------------------------------------------------------

    def _before_model(self, state: Any, runtime: Any = None) -> dict[str, Any] | None:  # noqa: ARG002 - the protocol's
        """The state update that replaces the messages by summary and tail; None when they fit."""
        ask = self._ask_bare(state)
        return self._update(ask, ask())

    async def _abefore_model(self, state: Any, runtime: Any = None) -> dict[str, Any] | None:  # noqa: ARG002 - likewise
        """`before_model` without blocking the event loop."""
        ask = self._ask_bare(state)
        return self._update(ask, await ask.later())

    def _ask_bare(self, state: Any) -> Call:
        messages: list[BaseMessage] = state["messages"]
        ensure_ids(messages)
        return Call(self.compactors.get(*self.last_agent), messages, thread_of(messages), values=state)

    def _update(self, ask: Call, fitted: Compaction) -> dict[str, Any] | None:
        return replacing(with_ids(ask.messages, fitted.messages, ask.thread)) if fitted.changed else None

    before_model = _NotANode(_before_model)
    abefore_model = _NotANode(_abefore_model)

    def close(self) -> None:
        """Let go of the archive, if this middleware opened it."""
        self.compactors.close()


def _can_recall(tools: Sequence[Any]) -> bool:
    """Whether the agent can follow a reference."""
    return any((tool.get("name") if isinstance(tool, dict) else tool.name) == READ for tool in tools)


def _known_to(state: Any, messages: Sequence[BaseMessage]) -> bool:
    """Whether the state can follow: it knows every message by an id.

    A result that is being put into the state with this very answer is not there yet; the next call catches up.
    """
    ids = {message.id for message in state["messages"]}
    return all(message.id in ids for message in messages if message.type == "tool") and None not in ids
