"""`create_agent` and `create_deep_agent` with compaction in its documented place of the stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent as langchains_create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.chat_models import init_chat_model

from unabridged.adapters.langchain.middleware import SummarizationMiddleware
from unabridged.errors import SettingsError
from unabridged.settings import Settings

OURS = "SummarizationMiddleware"
_BEHIND = ("PromptCachingMiddleware", "PatchToolCallsMiddleware", "HumanInTheLoopMiddleware")
"""What stands behind compaction: prompt caching, tool-call patching, human-in-the-loop."""


def create_agent(
    model: Any, tools: Any = None, *, summarization: Any = None, middleware: Sequence[Any] = (), **options: Any
) -> Any:
    """LangChain's `create_agent`, with compaction when `summarization` is given: settings, or a middleware of ours.

    It stands behind to-dos, files and sub-agents, and before prompt caching, tool-call patching and human-in-the-loop.
    """
    own = _middleware(model, summarization)
    stack = list(middleware) if own is None else placed(own, middleware)
    return langchains_create_agent(model, tools, middleware=stack, **options)


def create_deep_agent(
    model: Any,
    tools: Any = None,
    *,
    summarization: Any = Settings(),  # noqa: B008 - frozen, and "on" is the default that a reader should see
    middleware: Sequence[Any] = (),
    subagents: Sequence[Any] | None = None,
    **options: Any,
) -> Any:
    """Deep Agents' `create_deep_agent` with our compaction in the place of its own, in sub-agents too.

    `summarization=None` turns it off, Deep Agents' own included; settings tune it. With `Settings()` as they are, the
    defaults adapt to the model.
    """
    from deepagents import create_deep_agent as deep  # noqa: PLC0415 - users of LangChain alone don't have it

    own = _middleware(model, summarization) or NoSummarization()
    given: list[Any] = [dict(spec) if isinstance(spec, dict) else spec for spec in subagents or ()]
    for spec in given:
        if isinstance(spec, dict) and "runnable" not in spec and "graph_id" not in spec:
            listed = list(spec.get("middleware") or ())
            if not any(one.name == OURS for one in listed):
                spec["middleware"] = [own, *listed]
    listed = [*middleware] if any(one.name == OURS for one in middleware) else [own, *middleware]
    return deep(model, tools, middleware=listed, subagents=given or None, **options)


class NoSummarization(AgentMiddleware[Any, Any, Any]):
    """Stands where Deep Agents' own compaction would, and does nothing."""

    @property
    def name(self) -> str:
        """The name by which Deep Agents replaces its own."""
        return OURS

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The request as it is."""
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The request as it is."""
        return await handler(request)


def placed(own: SummarizationMiddleware, middleware: Sequence[Any]) -> list[Any]:
    """The stack with ours in front of the first that must stand behind it; as it is when one of ours is there."""
    stack = list(middleware)
    if any(one.name == OURS for one in stack):
        return stack
    behind = (i for i, one in enumerate(stack) if one.name.endswith(_BEHIND))
    at = next(behind, len(stack))
    return [*stack[:at], own, *stack[at:]]


def _middleware(model: Any, summarization: Any) -> SummarizationMiddleware | None:
    """What the argument stands for; plain settings ask the agent's own model for summaries."""
    if summarization is None or isinstance(summarization, SummarizationMiddleware):
        return summarization
    if not isinstance(summarization, Settings):
        raise SettingsError(f"summarization must be Settings, a SummarizationMiddleware or None; got {summarization!r}")
    chat = init_chat_model(model) if isinstance(model, str) else model
    if summarization.off:
        return SummarizationMiddleware(chat, settings=summarization)
    plain = summarization == Settings()
    return SummarizationMiddleware(chat) if plain else SummarizationMiddleware(chat, settings=summarization)
