"""The LLM: each request is fitted before it is sent, observed after, and sent once more where it is refused.

CrewAI's hook before a call sees neither the tools nor a refusal, and what it changes is gone from the executor's list.
An LLM of the same class sees all of it: the executor keeps its list whole, and the compactions on record are found
again and applied, which gives the same bytes each time.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from crewai import BaseLLM
from crewai.context import get_current_task_id
from crewai.tools import BaseTool
from crewai.types.usage_metrics import UsageMetrics
from crewai.utilities.pydantic_schema_utils import create_model_from_schema
from pydantic import PrivateAttr

from unabridged.adapters import kit
from unabridged.adapters.crewai.format import FORMAT
from unabridged.adapters.kit.context import set_temporarily
from unabridged.adapters.sdk import History
from unabridged.archive.names import Name
from unabridged.asking.overflow import is_overflow
from unabridged.errors import UnabridgedError
from unabridged.tokens.calibrate import Usage

L = TypeVar("L", bound=BaseLLM)

_ENDPOINT = replace(
    kit.CHAT_ENDPOINT, format=FORMAT, max_tokens_fields=("max_tokens", "max_completion_tokens", "max_output_tokens")
)
_usages: ContextVar[list[Mapping[str, Any]] | None] = ContextVar("unabridged_crewai_usages", default=None)
"""What the requests of one call used, as its provider reported it."""


class RequestTooLong(UnabridgedError):  # noqa: N818 - says what it is
    """The model refused a request as too long, and it can't be made shorter; what the provider said is the cause.

    Its words are none by which CrewAI recognises a refusal: it would replace its whole list by a summary, or exit.
    """


class CrewHistory(History):
    """The record of the conversations. A task's belongs to a thread of its own, inside that of the context if any."""

    @property
    def thread(self) -> str | None:
        """Return the thread that a request made here and now belongs to; None for one that has no name."""
        name, task = super().thread, get_current_task_id()
        return name if task is None else task if name is None else kit.name_sub_thread(name, task)

    def look_up(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return what a recall tool answers in the conversation that it is called in."""
        return kit.look_up(self.archive, self._first_engine.scope(self.thread), name, arguments, FORMAT)


class LLMCompaction:
    """What LLMs share that keep their requests within their models' windows. Takes the keywords of `Compactor`.

    A task's conversation is kept in the thread of its id; inside `with unabridged.thread("t1"):` that is `t1/<id>`. A
    call outside of a task (`Agent.kickoff`, `LLM.call`) belongs to the thread of the context, else to `thread`. Without
    either, a conversation is known by what it says. `history` replays, undoes and searches.
    """

    def __init__(self, thread: Name | None = None, **keywords: Any) -> None:
        self.history = CrewHistory(thread, format_=FORMAT, **keywords)

    def around(self, llm: L) -> L:
        """Return an LLM of the same class whose requests fit; `llm` is not touched."""
        if not isinstance(llm, BaseLLM):
            raise TypeError(f"around takes an LLM of CrewAI's, such as LLM(model=…), not {llm!r}")
        fitted = copy.copy(llm)
        object.__setattr__(fitted, "__class__", _make_fitted_class(type(llm), self.history))
        return fitted

    def tools(self) -> list[BaseTool]:
        """Return the recall tools: with them an agent searches and reads what left its context."""
        return [_RecallTool.make(name, self.history) for name in (kit.SEARCH_TOOL, kit.READ_TOOL)]

    def close(self) -> None:
        """Close the archive, if it was opened here."""
        self.history.close()


def _make_fitted_class(kind: Any, history: CrewHistory) -> Any:
    about = {"__module__": __name__, "__annotations__": {"unabridged": ClassVar[Any]}, "unabridged": history}
    return type(kind)(kind.__name__, (_FittedCalls, kind), about)


class _FittedCalls:
    """The calls of an LLM, in front of those of its class."""

    unabridged: ClassVar[Any]

    def call(self, messages: Any, tools: Any = None, *rest: Any, **options: Any) -> Any:
        """Return the model's answer to what fits."""
        plain, answers = super().call, []  # type: ignore[misc] # the LLM's own

        def send(fitted: list[Any]) -> Usage | None:
            reports: list[Any] = []
            with set_temporarily(_usages, reports):
                answers.append(plain(fitted, tools, *rest, **options))
            return _read_usage(reports)

        if not isinstance(messages, list):
            return plain(messages, tools, *rest, **options)
        kit.run(self._exchange(messages, tools, options, send))
        return answers[-1]

    async def acall(self, messages: Any, tools: Any = None, *rest: Any, **options: Any) -> Any:
        """Return the model's answer to what fits."""
        plain, answers = super().acall, []  # type: ignore[misc] # the LLM's own

        async def send(fitted: list[Any]) -> Usage | None:
            reports: list[Any] = []
            with set_temporarily(_usages, reports):
                answers.append(await plain(fitted, tools, *rest, **options))
            return _read_usage(reports)

        if not isinstance(messages, list):
            return await plain(messages, tools, *rest, **options)
        await kit.arun(self._exchange(messages, tools, options, send))
        return answers[-1]

    def is_context_window_overflowing_threshold(self, *_: Any, **__: Any) -> bool:
        """Return False: else CrewAI would replace its whole list by a summary in front of a long request."""
        return False

    def _exchange(self, messages: list[Any], tools: Any, options: Mapping[str, Any], send: Any) -> kit.Steps[None]:
        limits = {name: getattr(self, name, None) for name in _ENDPOINT.max_tokens_fields}
        body = {"model": self.model, "messages": list(messages), "tools": tools, **limits}  # type: ignore[attr-defined]
        body["response_format"] = options.get("response_model")
        request = yield kit.call_in_thread(self.unabridged.request, _ENDPOINT, body)
        try:
            yield from replace(request, as_host_error=None).exchange(send)
        except Exception as error:
            if is_overflow(error) is None:
                raise
            raise RequestTooLong(f"{self.model} refuses the request, and it can't be made shorter") from error  # type: ignore[attr-defined]

    def _track_token_usage_internal(self, usage_data: dict[str, Any]) -> None:
        """Note what the provider reports; every LLM of CrewAI's counts it here."""
        if (reports := _usages.get()) is not None:
            reports.append(usage_data)
        super()._track_token_usage_internal(usage_data)  # type: ignore[misc] # the LLM's own


def _read_usage(reports: list[Mapping[str, Any]]) -> Usage | None:
    """Return the usage of the call's first request: a second one has the results of tools that the LLM ran itself."""
    used = UsageMetrics.from_provider_dict(dict(reports[0])) if reports else None
    if used is None:
        return None
    return Usage(used.prompt_tokens, used.cached_prompt_tokens, used.cache_creation_tokens, used.completion_tokens)


class _RecallTool(BaseTool):
    """One of the recall tools, for the conversation in which it is called."""

    _history: Any = PrivateAttr()

    @classmethod
    def make(cls, name: str, history: CrewHistory) -> _RecallTool:
        """Return the tool of this name."""
        arguments = create_model_from_schema(kit.TOOL_PARAMETERS[name], model_name=name)
        tool = cls(name=name, description=kit.TOOL_DESCRIPTIONS[name], args_schema=arguments)
        tool._history = history
        return tool

    def _run(self, **arguments: Any) -> str:
        said = {key: value for key, value in arguments.items() if value is not None}
        return str(self._history.look_up(self.name, said))
