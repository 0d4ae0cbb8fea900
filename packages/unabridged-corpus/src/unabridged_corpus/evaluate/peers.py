"""Run LangChain's `SummarizationMiddleware` with the same extractive summariser behind it as our own.

The middleware decides what is summarised, what its summariser gets to see (by default the last 4,000 tokens of it) and
what is kept; the text comes from `gather_ledger`. Needs the extra `langchain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from unabridged.messages import View
from unabridged.settings import Settings, resolve_limits
from unabridged.summary.gather import gather_ledger
from unabridged.summary.layout import render_within_budget
from unabridged_corpus.evaluate.cut_points import Arm, ArmFactory, CountFunction, CutPoint

DEFAULT_TRIM_TOKENS = 4_000
"""`trim_tokens_to_summarize` as it comes."""


def is_langchain_installed() -> bool:
    """Return whether LangChain is installed."""
    return find_spec("langchain") is not None and find_spec("langgraph") is not None


def build_langchain_arm(trim: int | None) -> ArmFactory:
    """Return the middleware with its defaults but for `trim_tokens_to_summarize`."""

    def begin(budget: int, count: CountFunction) -> Arm:
        peer = LangChainPeer(budget, count, trigger=("messages", 1), trim=trim)

        def arm(cut_point: CutPoint) -> str:
            for view in cut_point.before[len(peer.views) :]:
                peer.add(view)
            peer.shorten()
            return peer.text()

        return arm

    return begin


def build_peer_in_window(window: int, count: CountFunction, trim: int | None) -> LangChainPeer:
    """Return the middleware with our trigger in this window, and summaries as long as ours in talk."""
    limits = resolve_limits(Settings(), window)
    trigger = ("tokens", limits.trigger[0]["tokens"])
    return LangChainPeer(limits.summary + limits.people, count, trigger=trigger, trim=trim)


class LangChainPeer:
    """One conversation that the middleware shortens."""

    def __init__(self, budget: int, count: CountFunction, *, trigger: tuple[str, int], trim: int | None) -> None:
        from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415 - an extra
        from langchain_core.language_models.fake_chat_models import FakeListChatModel  # noqa: PLC0415 - likewise

        self._budget, self._count = budget, count
        self.views: list[View] = []
        """What was said so far, each in its place."""
        self._messages: list[Any] = []
        self.asks: list[tuple[int, int]] = []
        """Of each call of the summariser the tokens of what it was shown, and of its reply."""
        middleware: Any = SummarizationMiddleware  # its generics are no concern of ours

        def count_tokens(messages: Sequence[Any]) -> int:
            return sum(count(_message_to_text(message)) + 6 for message in messages)

        how = {"trim_tokens_to_summarize": trim, "summarizer": self._summarise, "token_counter": count_tokens}
        self._middleware = middleware(FakeListChatModel(responses=["never asked"]), trigger=trigger, **how)

    def add(self, view: View) -> None:
        """Add the next message."""
        self._messages += _to_langchain_messages(len(self.views), view)
        self.views.append(view)

    def shorten(self) -> bool:
        """Run the middleware as before a model call; return whether it summarised."""
        update = self._middleware.before_model({"messages": self._messages}, None)
        if update is None:
            return False
        self._messages = [message for message in update["messages"] if message.type != "remove"]
        return True

    def text(self) -> str:
        """Return everything that is in the context."""
        return "\n".join(map(_message_to_text, self._messages))

    def list_messages(self) -> list[tuple[int | None, str]]:
        """Return the text of every message in the context, with its index; None for that of a summary."""
        return [(_find_place(message), _message_to_text(message)) for message in self._messages]

    def _summarise(self, messages: Sequence[Any]) -> str:
        views: list[View] = []
        for message in messages:
            view = self._find_view(message)
            if not views or views[-1] is not view:
                views.append(view)
        text = render_within_budget(gather_ledger(views), self._budget, self._count).text()
        self.asks.append((sum(self._count(view.whole_text()) for view in views), self._count(text)))
        return text

    def _find_view(self, message: Any) -> View:
        """Return the view a message was made from; a summary is a user's words, as the middleware has it."""
        place = _find_place(message)
        return View("user", "person", _message_to_text(message)) if place is None else self.views[place]


def _find_place(message: Any) -> int | None:
    place = str(message.id).partition(".")[0].removeprefix("v")
    return int(place) if place.isdecimal() else None


def _to_langchain_messages(index: int, view: View) -> list[Any]:
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


def _message_to_text(message: Any) -> str:
    calls = getattr(message, "tool_calls", None) or ()
    return "\n".join([str(message.content), *(f"{call['name']} {call['args'].get('input')}" for call in calls)])
