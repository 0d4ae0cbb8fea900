"""LangChain's `SummarizationMiddleware`, with the same extractive summariser behind it as our own.

The middleware decides what is summarised, what its summariser gets to see (by default the last 4,000 tokens of it) and
what is kept; the text comes from `extract`. Needs the extra `langchain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from unabridged.ledger.gather import gather
from unabridged.ledger.summary_turn import render
from unabridged.messages import View
from unabridged_corpus.evaluate.moments import Arm, Begin, Count, Moment

DEFAULT_TRIM = 4_000
"""`trim_tokens_to_summarize` as it comes."""


def installed() -> bool:
    """Whether LangChain is there."""
    return find_spec("langchain") is not None and find_spec("langgraph") is not None


def langchain(trim: int | None) -> Begin:
    """The middleware with its defaults but for `trim_tokens_to_summarize`."""

    def begin(budget: int, count: Count) -> Arm:
        peer: Peer | None = None
        start = 0

        def arm(moment: Moment) -> str:
            nonlocal peer, start
            if peer is None:
                peer = Peer(moment.conversation.views, budget, count, trigger=("messages", 1), trim=trim)
            for i in range(start, moment.place):
                peer.add(i)
            start = moment.place
            peer.shorten()
            return peer.text()

        return arm

    return begin


class Peer:
    """One conversation in the middleware's hands."""

    def __init__(
        self, views: Sequence[View], budget: int, count: Count, *, trigger: tuple[str, int], trim: int | None
    ) -> None:
        from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415 - an extra
        from langchain_core.language_models.fake_chat_models import FakeListChatModel  # noqa: PLC0415 - likewise

        self._views, self._budget, self._count = views, budget, count
        self._messages: list[Any] = []
        made: Any = SummarizationMiddleware  # its generics are no concern of ours
        self._middleware = made(
            FakeListChatModel(responses=["never asked"]),
            trigger=trigger,
            trim_tokens_to_summarize=trim,
            summarizer=self._summarise,
            token_counter=lambda messages: sum(count(_text(message)) + 6 for message in messages),
        )

    def add(self, index: int) -> None:
        """The next message of the conversation."""
        self._messages += _convert(index, self._views[index])

    def shorten(self) -> bool:
        """Let the middleware look at the conversation, as before a model call; whether it summarised."""
        done = self._middleware.before_model({"messages": self._messages}, None)
        if done is None:
            return False
        self._messages = [message for message in done["messages"] if message.type != "remove"]
        return True

    def text(self) -> str:
        """Everything that stands in the context."""
        return "\n".join(map(_text, self._messages))

    def _summarise(self, messages: Sequence[Any]) -> str:
        views: list[View] = []
        for message in messages:
            found = self._view(message)
            if not views or views[-1] is not found:
                views.append(found)
        return render(gather(views), self._budget, self._count).text()

    def _view(self, message: Any) -> View:
        """The view a message was made from; its own summaries are what the middleware makes of them: a user's words."""
        place = str(message.id).partition(".")[0].removeprefix("v")
        return self._views[int(place)] if place.isdecimal() else View("user", "person", _text(message))


def _convert(index: int, view: View) -> list[Any]:
    from langchain_core import messages  # noqa: PLC0415 - an extra

    name = f"v{index}"
    if view.role == "system":
        return [messages.SystemMessage(view.text, id=name)]
    if view.role == "assistant":
        calls = [{"name": call.name or "tool", "args": {"input": call.arguments}, "id": call.id} for call in view.calls]
        return [messages.AIMessage(view.text, tool_calls=calls, id=name)]
    answers: list[Any] = [
        messages.ToolMessage(answer.text, tool_call_id=answer.call_id, id=f"{name}.{place}")
        for place, answer in enumerate(view.answers)
    ]
    return [*answers, *([messages.HumanMessage(view.text, id=f"{name}.h")] if view.text or not answers else [])]


def _text(message: Any) -> str:
    calls = getattr(message, "tool_calls", None) or ()
    return "\n".join([str(message.content), *(f"{call['name']} {call['args'].get('input')}" for call in calls)])
