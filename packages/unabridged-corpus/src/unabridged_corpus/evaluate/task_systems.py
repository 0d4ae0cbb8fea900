"""Shorten a whole run in a window, for `task_cost`: our compactor, the last messages, LangChain's middleware."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from unabridged.archive.stores.memory import MemoryArchive
from unabridged.compactor import Compactor
from unabridged.errors import WontFit
from unabridged.formats import OpenAIChat
from unabridged.messages import View
from unabridged.recall.tools import SEARCH_TOOL
from unabridged.settings import Settings, resolve_limits
from unabridged_corpus.evaluate.cut_points import AGENT, CountFunction, has_exact_tokenizer
from unabridged_corpus.evaluate.data import EvalConversation
from unabridged_corpus.evaluate.peers import DEFAULT_TRIM_TOKENS, build_peer_in_window
from unabridged_corpus.evaluate.task_cost import (
    MeasuredMessage,
    RecordedTask,
    SentRequest,
    SideAsk,
    TaskRecall,
    TaskSystem,
    measure_messages,
    measure_schemas,
)

_THREAD = "eval"


def choose_task_systems(
    arms: Collection[str], window: int, count: CountFunction, model: Any
) -> dict[str, Callable[[], TaskSystem]]:
    """Return how to begin each of these arms, of those that can live in a window; ours with recall tools as well."""
    known: Mapping[str, Callable[[], TaskSystem]] = {
        "unabridged": lambda: CompactorSystem(window, count),
        "unabridged+recall": lambda: CompactorSystem(window, count, recall=True),
        "model": lambda: CompactorSystem(window, count, model),
        "tail": lambda: TailSystem(window),
        "langchain": lambda: LangChainSystem(window, count, DEFAULT_TRIM_TOKENS),
        "langchain-untrimmed": lambda: LangChainSystem(window, count, None),
    }
    names = {name.partition("+")[0] for name in known if name in arms}
    return {name: begin for name, begin in known.items() if name.partition("+")[0] in names}


def build_task(conversation: EvalConversation, count: CountFunction) -> RecordedTask:
    """Return a conversation of any wire format as a task."""
    return RecordedTask(measure_messages(list(_convert_to_chat(conversation.views)), count), count)


class CompactorSystem:
    """Our `Compactor`, which carries its list from call to call."""

    def __init__(self, window: int, count: CountFunction, model: Any = None, *, recall: bool = False) -> None:
        archive, exact = MemoryArchive(), has_exact_tokenizer()
        where: dict[str, Any] = {"archive": archive, "namespace": _THREAD, "format": OpenAIChat.name}
        self._compactor = Compactor(model, agent=AGENT, exact=exact, window=window, **where)
        self._window, self._count = window, count
        self._tools = self._compactor.tools(thread=_THREAD).schemas(OpenAIChat.name) if recall else None
        self.recall = TaskRecall(measure_schemas(self._tools, count), self._search) if recall else None
        self._messages: list[Any] = []
        self._known: dict[int, MeasuredMessage] = {}

    def send(self, new: Sequence[MeasuredMessage]) -> SentRequest | None:
        """Return what `fit` returns."""
        self._known |= {id(one.message): one for one in new}
        try:
            messages = [*self._messages, *(one.message for one in new)]
            fitted = self._compactor.fit(messages, thread=_THREAD, tools=self._tools)
        except WontFit:
            return None
        self._messages = fitted.messages
        made = [message for message in self._messages if id(message) not in self._known]
        self._known |= {id(one.message): one for one in measure_messages(made, self._count)}
        used = fitted.receipt.cost if fitted.changed and fitted.receipt else {}
        ask = SideAsk(fresh=int(used.get("input", 0)), output=int(used.get("output", 0)))
        request = [self._known[id(message)] for message in self._messages]
        room = self._window - (self.recall.schemas.tokens if self.recall else 0)
        return SentRequest(request, [ask], _fits(request, room))

    def _search(self, query: str) -> str:
        return self._compactor.tools(thread=_THREAD).call(SEARCH_TOOL, {"query": query})


class TailSystem:
    """The system prompt and the last messages, as many as stay below our trigger."""

    recall: TaskRecall | None = None

    def __init__(self, window: int) -> None:
        self._window, self._room = window, resolve_limits(Settings(), window).trigger[0]["tokens"]
        self._messages: list[MeasuredMessage] = []

    def send(self, new: Sequence[MeasuredMessage]) -> SentRequest:
        """Return the request; results whose call is gone go with it."""
        self._messages += new
        system = [one for one in self._messages[:1] if one.view.role == "system"]
        room = self._room - sum(one.tokens for one in system)
        start = len(self._messages)
        while start > len(system) and (room := room - self._messages[start - 1].tokens) >= 0:
            start -= 1
        while start < len(self._messages) and self._messages[start].view.answers:
            start += 1
        request = [*system, *self._messages[start:]]
        return SentRequest(request, (), start < len(self._messages) and _fits(request, self._window))


class LangChainSystem:
    """LangChain's middleware with our trigger, and a summariser as long as our summary in talk."""

    recall: TaskRecall | None = None

    def __init__(self, window: int, count: CountFunction, trim: int | None) -> None:
        self._window, self._count = window, count
        self._given: list[MeasuredMessage] = []
        self._made: dict[str, MeasuredMessage] = {}
        self._peer = build_peer_in_window(window, count, trim)

    def send(self, new: Sequence[MeasuredMessage]) -> SentRequest:
        """Return what is in the middleware's state."""
        for one in new:
            self._given.append(one)
            self._peer.add(one.view)
        asked = len(self._peer.asks)
        self._peer.shorten()
        request = [self._find(place, text) for place, text in self._peer.list_messages()]
        asks = [SideAsk(fresh=shown, output=reply) for shown, reply in self._peer.asks[asked:]]
        return SentRequest(request, asks, _fits(request, self._window))

    def _find(self, place: int | None, text: str) -> MeasuredMessage:
        if place is not None:
            return self._given[place]
        if text not in self._made:
            (self._made[text],) = measure_messages([{"role": "user", "content": text}], self._count)
        return self._made[text]


def _fits(request: Sequence[MeasuredMessage], window: int) -> bool:
    return sum(one.tokens for one in request) <= window


def _convert_to_chat(views: Sequence[View]) -> Iterator[dict[str, Any]]:
    """Yield Chat Completions messages that say the same in texts, calls and results."""
    for view in views:
        for answer in view.answers:
            yield {"role": "tool", "tool_call_id": answer.call_id, "content": answer.text}
        text = "\n".join(filter(None, [view.text, *view.inserted, *view.attached]))
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in view.calls
        ]
        if calls:
            yield {"role": "assistant", "content": text or None, "tool_calls": calls}
        elif text:
            yield {"role": "user" if view.role == "tool" else view.role, "content": text}
