"""Long arguments clipped in requests, as Deep Agents' own middleware does.

And the methods that its `compact_conversation` tool calls on the middleware that it works with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain.agents.middleware.summarization import SummarizationMiddleware as LangChainsOwn
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from unabridged.adapters.langchain.format import FORMAT, SOURCE_KEY, SUMMARY_SOURCE
from unabridged.adapters.langchain.graph_state import find_run_thread
from unabridged.errors import SettingsError
from unabridged.formats.base import Slot
from unabridged.formats.fields import are_same_objects
from unabridged.settings import parse_keep, parse_trigger

if TYPE_CHECKING:
    from unabridged.adapters.langchain.compactors import Compactors, LastAskedModels

CLIPPING_KEYS = ("trigger", "keep", "max_length", "truncation_text")
CLIPPED_TOOLS = ("write_file", "edit_file")
"""The tools whose arguments are clipped."""
CLIPPED_TO_CHARACTERS = 20
"""Characters that stay of a clipped argument."""
MessageTokenCounter = Callable[[list[BaseMessage]], int]
"""Counts the tokens of messages, as LangChain's `token_counter` does."""


class Clipping(NamedTuple):
    """`truncate_args_settings`: from `trigger` on, arguments before the newest `keep` that are longer are clipped.

    Only in what the model is sent: state and archive hold them whole.
    """

    trigger: tuple[str, float]
    keep: tuple[str, float] = ("messages", 20)
    max_length: int = 2_000
    text: str = "...(argument truncated)"

    def clip(
        self, messages: list[BaseMessage], tokens: int, window: int, count: MessageTokenCounter
    ) -> list[BaseMessage]:
        """Return the messages as they are sent: the very list when nothing is clipped; `count` counts the newest."""
        by_messages = self.trigger[0] == "messages"
        have = len(messages) if by_messages else tokens
        if have < (self.trigger[1] if by_messages else _size_in_tokens(self.trigger, window)):
            return messages
        older = self._count_older(messages, window, count)
        new = [self._clip_message(m) if i < older else m for i, m in enumerate(messages)]
        return messages if are_same_objects(new, messages) else new

    def _count_older(self, messages: Sequence[BaseMessage], window: int, count: MessageTokenCounter) -> int:
        """Return how many messages are not among the newest that are left alone."""
        if self.keep[0] == "messages":
            return max(0, len(messages) - int(self.keep[1]))
        room = _size_in_tokens(self.keep, window)
        for i in range(len(messages) - 1, -1, -1):
            room -= count([messages[i]])
            if room < 0:
                return i + 1
        return 0

    def _clip_message(self, message: BaseMessage) -> BaseMessage:
        if not isinstance(message, AIMessage) or FORMAT.read(message).reasoning:  # signed thinking covers its calls
            return message
        ids = {call["id"] for call in message.tool_calls if call["name"] in CLIPPED_TOOLS}
        if not ids:
            return message

        def edit(slot: Slot, text: str) -> str:
            return self._shorten_arguments(text) if slot.kind == "call" and slot.id in ids else text

        return FORMAT.edit(message, edit)  # type: ignore[no-any-return] # a format's messages are anybody's

    def _shorten_arguments(self, arguments: str) -> str:
        values = json.loads(arguments)
        long = {key for key, value in values.items() if isinstance(value, str) and len(value) > self.max_length}
        values |= {key: values[key][:CLIPPED_TO_CHARACTERS] + self.text for key in long}
        return json.dumps(values, ensure_ascii=False) if long else arguments


def parse_clipping(settings: Any) -> Clipping | None:
    """Return Deep Agents' `truncate_args_settings`, checked; None where it clips nothing."""
    if settings is None:
        return None
    is_mapping = isinstance(settings, Mapping)
    if not is_mapping or not set(settings) <= set(CLIPPING_KEYS):
        unknown = sorted(map(str, set(settings) - set(CLIPPING_KEYS))) if is_mapping else repr(settings)
        raise SettingsError(f"truncate_args_settings takes {', '.join(CLIPPING_KEYS)}; got {unknown}")
    most = settings.get("max_length", 2_000)
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise SettingsError(f"truncate_args_settings max_length must be a whole number of at least 0; got {most!r}")
    if settings.get("trigger") is None:
        return None
    conditions = [pair for condition in parse_trigger(settings["trigger"]) for pair in condition.items()]
    if len(conditions) != 1:
        raise SettingsError(f"truncate_args_settings takes one condition as its trigger; got {settings['trigger']!r}")
    (keep,) = parse_keep(settings.get("keep", ("messages", 20)))[:1]
    return Clipping(conditions[0], keep, most, str(settings.get("truncation_text", Clipping._field_defaults["text"])))


def _size_in_tokens(size: tuple[str, float], window: int) -> int:
    return max(1, int(size[1] * window if size[0] == "fraction" else size[1]))


# -- Deep Agents' own tool beside our middleware ----------------------------------------------------------------------


def has_compaction_event(state: Any, messages: Sequence[BaseMessage]) -> bool:
    """Return whether Deep Agents' own tool (or its middleware, before this one replaced it) has left a compaction.

    One that its owner has applied to the request already is its owner's.
    """
    event = state.get("_summarization_event")
    if not isinstance(event, Mapping):
        return False
    summary = event.get("summary_message")
    return summary is not None and not any(message is summary or message == summary for message in messages[:2])


class DeepAgentsPartner:
    """The methods that Deep Agents' own `SummarizationToolMiddleware` calls on its middleware.

    It decides by the same trigger as with its own, and leaves its event in the state. The summary is written by the
    engine at the next request, so none is paid for here.
    """

    model: Any
    compactors: Compactors
    last_asked: LastAskedModels
    backend: Any

    @property
    def _backend(self) -> Any:
        return self.backend

    @property
    def _lc_helper(self) -> LangChainsOwn[Any, Any]:
        agent, asked = self.last_asked.find(find_run_thread([]))
        model = next((one for one in (self.model, asked, self.last_asked.newest_model) if one is not None), None)
        if model is None:
            raise SettingsError(
                "Deep Agents' own SummarizationToolMiddleware needs a middleware with a model: give it one, or take "
                "SummarizationToolMiddleware from unabridged.adapters.langchain"
            )
        limits = self.compactors.get(*agent).limits
        by_tokens = limits.keep_messages is None
        keep: Any = ("tokens", limits.keep_tokens) if by_tokens else ("messages", limits.keep_messages)
        trigger: Any = [dict(condition) for condition in limits.trigger]
        return LangChainsOwn(model, trigger=trigger, keep=keep)

    def _determine_cutoff_index(self, messages: list[AnyMessage]) -> int:
        return self._lc_helper._determine_cutoff_index(messages)  # noqa: SLF001 - what its tool does with its own

    @staticmethod
    def _apply_event_to_messages(messages: Sequence[BaseMessage], _event: Any) -> list[BaseMessage]:
        return list(messages)

    @staticmethod
    def _partition_messages(messages: list[BaseMessage], cutoff: int) -> tuple[list[BaseMessage], list[BaseMessage]]:
        return messages[:cutoff], messages[cutoff:]

    @staticmethod
    def _get_session_id(_state: Any) -> str:
        return "unabridged"

    @staticmethod
    def _create_summary(_messages: Any) -> str:
        return "The summary is made with the next request."

    async def _acreate_summary(self, messages: Any) -> str:
        return self._create_summary(messages)

    @staticmethod
    def _offload_to_backend(*_: Any) -> None:
        return None

    async def _aoffload_to_backend(self, *_: Any) -> None:
        return None

    @staticmethod
    def _build_new_messages_with_path(summary: str, _path: Any) -> list[BaseMessage]:
        return [HumanMessage(summary, additional_kwargs={SOURCE_KEY: SUMMARY_SOURCE})]

    @staticmethod
    def _compute_state_cutoff(_event: Any, cutoff: int) -> int:
        return cutoff
