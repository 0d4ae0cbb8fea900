"""Any LangChain chat model as the summariser, and what a chat model tells about itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import coerce_to_runnable
from langgraph.constants import TAG_NOSTREAM

from unabridged.adapters.langchain.format import FORMAT, SOURCE, SUMMARIZATION
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.model_calls import LateModel
from unabridged.asking.replies import stop_of
from unabridged.errors import SummaryFailed
from unabridged.measure.calibrate import usage_of
from unabridged.measure.estimate import estimate
from unabridged.measure.models import model_info

log = logging.getLogger("unabridged")

ROOM = 0.9
"""Of the tokens that a summary may take: the estimate may be off."""
UNBOUNDED = 1 << 30
"""The window of what reads messages, not a prompt: it is asked once, with all of them."""
_AGENTS: ContextVar[Any] = ContextVar("unabridged_agents_chat", default=None)
_UNKNOWN: Final = "the agent's own model is not known here, it comes with each request of the agent"
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")


class ChatSummariser:
    """Asks a chat model. Its calls carry LangChain's own marks, so that no stream of the host shows them."""

    live_format = FORMAT.name

    def __init__(self, model: BaseChatModel) -> None:
        self.model = model
        self.name = model_name(model) or type(model).__name__

    def __call__(self, ask: Ask) -> Reply:
        """The model's reply, with why it stopped and what it used where the integration says so."""
        model: Runnable[Any, AIMessage] = self.model
        if ask.tools:
            model = self.model.bind_tools(ask.tools)
        return reply_of(model.invoke(messages_of(ask), internal_config()), self.name)


class AgentsChat(LateModel):
    """Asks the chat model of the request that is being compacted, as `ChatSummariser` asks one that was named."""

    live_format = FORMAT.name
    remedy = (
        "Name a model with SummarizationMiddleware(model), compact after a request of this thread, or say model=None "
        "to have summaries without a model."
    )

    def __init__(self, name: str | None) -> None:
        self.name = name or "the agent's model"

    def missing(self) -> str:
        """Return why there is no model to ask now; "" where there is one."""
        return _UNKNOWN if _AGENTS.get() is None else ""

    def __call__(self, ask: Ask) -> Reply:
        """Return the reply of the request's model."""
        model = _AGENTS.get()
        if model is None:
            raise SummaryFailed(_UNKNOWN)
        return ChatSummariser(model)(ask)


@contextmanager
def agents_model(model: Any) -> Iterator[None]:
    """Within, this is the agent's own model; None where it is not known."""
    token = _AGENTS.set(model)
    try:
        yield
    finally:
        _AGENTS.reset(token)


def summariser_of(model: Any, trim: int | None = None) -> Callable[[Any], Any] | None:
    """A chat model, its name, a runnable or a function of messages, as a summariser; None for model-free.

    What is no chat model gets the messages that go, the newest `trim` tokens of them, and makes a text of them. It
    can't be told what is wrong with that: what is longer than its place is cut, and nothing is asked for twice.
    """
    if model is None:
        return None
    if isinstance(model, str):
        model = init_chat_model(model)
    if isinstance(model, BaseChatModel):
        return ChatSummariser(model)
    runnable = coerce_to_runnable(model)
    name = getattr(model, "__name__", type(model).__name__)

    def summarise(ask: Ask) -> Reply:
        if ask.again:
            return Reply("", model=name)
        said = _run(runnable, newest(list(ask.gone), trim) if ask.gone else messages_of(ask))
        if isinstance(said, BaseMessage):
            reply = reply_of(said, name)
            return replace(reply, text=cut(reply.text, ask.budget))
        return Reply(cut(_text_of(said), ask.budget), model=name)

    return summarise


def newest(messages: list[BaseMessage], most: int | None) -> list[BaseMessage]:
    """The newest messages of at most so many tokens, and at least one; all with None."""
    kept = len(messages)
    while most is not None and kept > 0 and (most := most - count_tokens_approximately([messages[kept - 1]])) >= 0:
        kept -= 1
    return messages if most is None else messages[min(kept, len(messages) - 1) :]


def cut(text: str, tokens: int) -> str:
    """As many lines from the beginning as so many tokens hold, or the beginning of the only one; all with 0."""
    most = int(tokens * ROOM)
    if not tokens or estimate(text) <= most:
        return text
    sizes = accumulate(estimate(line) + 1 for line in text.split("\n"))
    whole = "\n".join(text.split("\n")[: max(1, sum(size <= most for size in sizes))])
    while estimate(whole) > most:
        whole = whole[: len(whole) * 9 // 10]
    log.warning("the summarizer wrote more than the %s tokens there is room for: the end is left out", f"{tokens:,}")
    return whole


def _run(runnable: Runnable[Any, Any], messages: list[BaseMessage]) -> Any:
    """Through `invoke`; a function that is only async has none, and gets an event loop of its own in this thread."""
    if getattr(runnable, "func", True) is True and hasattr(runnable, "afunc"):
        import asyncio  # noqa: PLC0415 - for functions without a sync form only

        return asyncio.run(runnable.ainvoke(messages, internal_config()))
    return runnable.invoke(messages, internal_config())


def _text_of(said: Any) -> str:
    if not isinstance(said, str):
        raise TypeError(f"a summarizer returns a str or a message; got {type(said).__name__}")
    return said


def internal_config() -> RunnableConfig:
    """What keeps a call out of `stream`, `astream_events` and `run.messages`, and names its source."""
    return {"tags": [TAG_NOSTREAM], "metadata": {SOURCE: SUMMARIZATION, **internal_call_metadata()}}


def messages_of(ask: Ask) -> list[BaseMessage]:
    """The ask as messages: in suffix mode the live prompt's own objects, and the instruction last."""
    system: Sequence[BaseMessage] = ()
    if isinstance(ask.system, BaseMessage):
        system = [ask.system]
    elif ask.system:
        system = [SystemMessage(content=ask.system)]
    return [*system, *ask.messages, HumanMessage(content=ask.instruction)]


def reply_of(message: BaseMessage, name: str = "") -> Reply:
    """What a chat model's message says, why it stopped, and what it used."""
    view = FORMAT.read(message)
    told = next((message.response_metadata[key] for key in _REASONS if message.response_metadata.get(key)), None)
    stop = stop_of(told)
    return Reply(
        view.text,
        "tool" if view.calls else stop,
        usage_of(getattr(message, "usage_metadata", None)),
        len(view.calls),
        "\n".join(thought.text for thought in view.reasoning),
        name,
    )


def model_name(model: Any) -> str | None:
    """The name a chat model has at its provider."""
    for field in ("model_name", "model", "model_id", "deployment_name"):
        value = getattr(model, field, None)
        if isinstance(value, str) and value:
            return value
    return None


def window_of(model: Any) -> int | None:
    """The most tokens a chat model takes: by its profile, else by its name; None when neither tells."""
    profile = getattr(model, "profile", None)
    told = profile.get("max_input_tokens") if isinstance(profile, dict) else None
    if isinstance(told, int) and not isinstance(told, bool) and told > 0:
        return told
    info = model_info(model_name(model))
    return info.window if info else None


def window_of_writer(writer: Any) -> int | None:
    """The most tokens that whoever writes the summaries takes; None where nobody knows."""
    return window_of(writer) if isinstance(writer, BaseChatModel) else UNBOUNDED
