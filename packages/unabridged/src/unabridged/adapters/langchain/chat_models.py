"""Any LangChain chat model as the summariser, and the name and window of a chat model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import coerce_to_runnable
from langgraph.constants import TAG_NOSTREAM

from unabridged.adapters.kit import AgentsModel
from unabridged.adapters.langchain.format import FORMAT, SOURCE_KEY, SUMMARY_SOURCE
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.replies import read_stop_reason
from unabridged.tokens.calibrate import parse_usage
from unabridged.tokens.estimate import estimate
from unabridged.tokens.models import find_model_info

log = logging.getLogger("unabridged")

CUT_FRACTION = 0.9
"""Part of the tokens that a summary may take to which it is cut: the estimate may be off."""
UNBOUNDED_TOKENS = 1 << 30
"""The window, in tokens, of a function that reads messages, not a prompt: it is asked once, with all of them."""
_STOP_FIELDS = ("finish_reason", "stop_reason", "stopReason", "done_reason")


class ChatSummariser:
    """Asks a chat model. Its calls carry LangChain's own marks, so that no stream of the host shows them."""

    live_format = FORMAT.name

    def __init__(self, model: BaseChatModel) -> None:
        self.model = model
        self.name = model_name(model) or type(model).__name__

    def __call__(self, ask: Ask) -> Reply:
        """Return the model's reply, with why it stopped and what it used where the integration says so."""
        model: Runnable[Any, AIMessage] = self.model
        if ask.tools:
            model = self.model.bind_tools(ask.tools)
        return reply_from_message(model.invoke(messages_from_ask(ask), internal_config()), self.name)


class AgentChatSummariser(AgentsModel):
    """Asks the chat model of the request that is being compacted, as `ChatSummariser` asks one that was named."""

    live_format = FORMAT.name
    remedy = (
        "Name a model with SummarizationMiddleware(model), compact after a request of this thread, or say model=None "
        "to have summaries without a model."
    )

    def __call__(self, ask: Ask) -> Reply:  # type: ignore[override] # a chat model has a sync form, asked in a thread
        """Return the reply of the request's model."""
        return ChatSummariser(self.current_model())(ask)


def summariser_of(model: Any, trim: int | None = None) -> Callable[[Any], Any] | None:
    """Return a chat model, its name, a runnable or a function of messages as a summariser; None for model-free.

    What is no chat model gets the messages that go, the newest `trim` tokens of them, and makes a text of them. It
    can't be told what is wrong with its answer: a text that is too long is cut, and nothing is asked for twice.
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
        messages = keep_newest_messages(list(ask.gone), trim) if ask.gone else messages_from_ask(ask)
        answer = _invoke_runnable(runnable, messages)
        if isinstance(answer, BaseMessage):
            reply = reply_from_message(answer, name)
            return replace(reply, text=cut_to_tokens(reply.text, ask.budget))
        if not isinstance(answer, str):
            raise TypeError(f"a summarizer returns a str or a message; got {type(answer).__name__}")
        return Reply(cut_to_tokens(answer, ask.budget), model=name)

    return summarise


def keep_newest_messages(messages: list[BaseMessage], most: int | None) -> list[BaseMessage]:
    """Return the newest messages of at most so many tokens, and at least one; all with None."""
    kept = len(messages)
    while most is not None and kept > 0 and (most := most - count_tokens_approximately([messages[kept - 1]])) >= 0:
        kept -= 1
    return messages if most is None else messages[min(kept, len(messages) - 1) :]


def cut_to_tokens(text: str, tokens: int) -> str:
    """Return as many lines from the beginning as so many tokens hold, or the beginning of the first; all with 0."""
    most = int(tokens * CUT_FRACTION)
    if not tokens or estimate(text) <= most:
        return text
    sizes = accumulate(estimate(line) + 1 for line in text.split("\n"))
    whole = "\n".join(text.split("\n")[: max(1, sum(size <= most for size in sizes))])
    while estimate(whole) > most:
        whole = whole[: len(whole) * 9 // 10]
    log.warning("the summarizer wrote more than the %s tokens there is room for: the end is left out", f"{tokens:,}")
    return whole


def _invoke_runnable(runnable: Runnable[Any, Any], messages: list[BaseMessage]) -> Any:
    """Call `invoke`; a function that is only async has none, and gets an event loop of its own in this thread."""
    if getattr(runnable, "func", True) is True and hasattr(runnable, "afunc"):
        import asyncio  # noqa: PLC0415 - for functions without a sync form only

        return asyncio.run(runnable.ainvoke(messages, internal_config()))
    return runnable.invoke(messages, internal_config())


def internal_config() -> RunnableConfig:
    """Return what keeps a call out of `stream`, `astream_events` and `run.messages`, and names its source."""
    return {"tags": [TAG_NOSTREAM], "metadata": {SOURCE_KEY: SUMMARY_SOURCE, **internal_call_metadata()}}


def messages_from_ask(ask: Ask) -> list[BaseMessage]:
    """Return the ask as messages: in suffix mode the live prompt's own objects, and the instruction last."""
    system: Sequence[BaseMessage] = ()
    if isinstance(ask.system, BaseMessage):
        system = [ask.system]
    elif ask.system:
        system = [SystemMessage(content=ask.system)]
    return [*system, *ask.messages, HumanMessage(content=ask.instruction)]


def reply_from_message(message: BaseMessage, name: str = "") -> Reply:
    """Return what a chat model's message says, why it stopped, and what it used."""
    view = FORMAT.read(message)
    reason = next((message.response_metadata[key] for key in _STOP_FIELDS if message.response_metadata.get(key)), None)
    stop = "tool" if view.calls else read_stop_reason(reason)
    used = parse_usage(getattr(message, "usage_metadata", None))
    thoughts = "\n".join(thought.text for thought in view.reasoning)
    return Reply(view.text, stop, used, len(view.calls), thoughts, name)


def model_name(model: Any) -> str | None:
    """Return the name a chat model has at its provider; None where it has none."""
    for field in ("model_name", "model", "model_id", "deployment_name"):
        value = getattr(model, field, None)
        if isinstance(value, str) and value:
            return value
    return None


def find_window(model: Any) -> int | None:
    """Return the most tokens a chat model takes: by its profile, else by its name; None when neither is known."""
    profile = getattr(model, "profile", None)
    window = profile.get("max_input_tokens") if isinstance(profile, dict) else None
    if isinstance(window, int) and not isinstance(window, bool) and window > 0:
        return window
    info = find_model_info(model_name(model))
    return info.window if info else None


def find_writer_window(writer: Any) -> int | None:
    """Return the most tokens that whoever writes the summaries takes; None where nobody knows."""
    return find_window(writer) if isinstance(writer, BaseChatModel) else UNBOUNDED_TOKENS
