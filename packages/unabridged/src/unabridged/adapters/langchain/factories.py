"""`create_agent` and `create_deep_agent` with compaction in its place of the stack, and Deep Agents' own factories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent as langchains_create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from unabridged.adapters.kit import AGENT_MODEL
from unabridged.adapters.langchain.arguments import compute_summarization_defaults
from unabridged.adapters.langchain.middleware import SummarizationMiddleware
from unabridged.adapters.langchain.tools import SummarizationToolMiddleware
from unabridged.errors import NotInstalled, SettingsError
from unabridged.settings import Settings

MIDDLEWARE_NAME = "SummarizationMiddleware"
_KINDS_AFTER_OURS = ("PromptCaching", "PatchToolCalls", "HumanInTheLoop", "SummarizationTool")
_MIDDLEWARE_AFTER_OURS = tuple(f"{kind}Middleware" for kind in _KINDS_AFTER_OURS)
"""Middleware behind compaction: prompt caching, tool-call patching, human-in-the-loop, and the tools that compact."""


def create_agent(
    model: Any, tools: Any = None, *, summarization: Any = None, middleware: Sequence[Any] = (), **options: Any
) -> Any:
    """Make LangChain's `create_agent` with compaction if `summarization` is given: settings, or a middleware of ours.

    It goes behind to-dos, files and sub-agents, and before prompt caching, tool-call patching and human-in-the-loop.
    The agent gets `search_history` and `read_history` with it, so old results are cleared below the trigger too.
    """
    own = _make_middleware(model, summarization, init=init_chat_model)
    stack = list(middleware) if own is None else place_in_stack(own, middleware)
    return langchains_create_agent(model, tools, middleware=_add_recall_tools(stack), **options)


def create_deep_agent(
    model: Any = None,
    tools: Any = None,
    *,
    summarization: Any = Settings(),  # noqa: B008 - frozen, and "on" is the default that a reader should see
    middleware: Sequence[Any] = (),
    subagents: Sequence[Any] | None = None,
    backend: Any = None,
    **options: Any,
) -> Any:
    """Make Deep Agents' `create_deep_agent` with our compaction in the place of its own, in sub-agents too.

    As there, the state stays whole, and what went is in a file of the `backend`. The agent gets `search_history` and
    `read_history` too. `summarization=None` turns it off, Deep Agents' own included; settings tune it. With
    `Settings()` as they are, the defaults adapt to the model. A name stands for the model that Deep Agents makes of it,
    with its provider profile; without a model, Deep Agents chooses one, and that one writes the summaries.
    """
    try:
        from deepagents import create_deep_agent as deep  # noqa: PLC0415 - users of LangChain alone don't have it
        from deepagents.backends import StateBackend  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise NotInstalled("create_deep_agent", "deepagents", error) from error

    backend = backend if backend is not None else StateBackend()
    own = _make_middleware(model, summarization, backend=backend) or NoSummarization()
    specs: list[Any] = [dict(spec) if isinstance(spec, dict) else spec for spec in subagents or ()]
    for spec in specs:
        if isinstance(spec, dict) and "runnable" not in spec and "graph_id" not in spec:
            spec["middleware"] = _place_for_deep_agents(own, spec.get("middleware") or ())
    stack = _place_for_deep_agents(own, middleware)
    return deep(model, tools, middleware=stack, subagents=specs or None, backend=backend, **options)


def create_summarization_middleware(model: Any, backend: Any, **options: Any) -> SummarizationMiddleware:
    """Return ours as Deep Agents' factory of this name: with defaults for the model and the history in the backend.

    Takes all that `SummarizationMiddleware` does.
    """
    if not isinstance(model, BaseChatModel):
        raise TypeError("`create_summarization_middleware` expects `model` to be a `BaseChatModel` instance.")
    clipped = compute_summarization_defaults(model)["truncate_args_settings"]
    return SummarizationMiddleware(model, backend=backend, **{"truncate_args_settings": clipped, **options})


def create_summarization_tool_middleware(
    model: Any, backend: Any, *, system_prompt: str | None = None, **options: Any
) -> SummarizationToolMiddleware:
    """Return the tools alone, as Deep Agents' factory of this name: the middleware behind them is not in the stack."""
    chat = _make_deep_agents_model(model) if isinstance(model, str) else model
    own = create_summarization_middleware(chat, backend, **options)
    return SummarizationToolMiddleware(own, system_prompt=system_prompt)


class NoSummarization(AgentMiddleware[Any, Any, Any]):
    """Takes the place of Deep Agents' own compaction, and does nothing."""

    @property
    def name(self) -> str:
        """Return the name by which Deep Agents replaces its own."""
        return MIDDLEWARE_NAME


def place_in_stack(own: SummarizationMiddleware, middleware: Sequence[Any]) -> list[Any]:
    """Return the stack with ours in front of the first that must come after it; as it is when one of ours is there."""
    stack = list(middleware)
    if any(_is_summarization(one) for one in stack):
        return stack
    at = next((i for i, one in enumerate(stack) if one.name.endswith(_MIDDLEWARE_AFTER_OURS)), len(stack))
    return [*stack[:at], own, *stack[at:]]


def _place_for_deep_agents(own: Any, middleware: Sequence[Any]) -> list[Any]:
    """Return middleware for Deep Agents, which replaces what has its own's name: ours, or nothing beside a subclass."""
    stack = list(middleware)
    if not any(_is_summarization(one) for one in stack):
        stack = [own, *stack]
    elif not any(one.name == MIDDLEWARE_NAME for one in stack):
        stack = [NoSummarization(), *stack]
    return _add_recall_tools(stack)


def _add_recall_tools(stack: list[Any]) -> list[Any]:
    """Return the stack, with the recall tools where one of ours compacts and nobody has brought them."""
    own = next((one for one in stack if isinstance(one, SummarizationMiddleware)), None)
    if own is None or any(isinstance(one, SummarizationToolMiddleware) for one in stack):
        return stack
    return [*stack, SummarizationToolMiddleware(own, compact=False)]


def _is_summarization(middleware: Any) -> bool:
    return middleware.name == MIDDLEWARE_NAME or isinstance(middleware, SummarizationMiddleware)


def _make_deep_agents_model(name: str) -> BaseChatModel:
    """Return the chat model that Deep Agents makes of this name: its provider profile tells address, key and more."""
    from deepagents._models import resolve_model  # noqa: PLC0415 - users of LangChain alone don't have it

    return resolve_model(name)


def _make_middleware(
    model: Any, summarization: Any, init: Callable[[str], BaseChatModel] = _make_deep_agents_model, **more: Any
) -> SummarizationMiddleware | None:
    """Return the middleware for the argument; plain settings ask the agent's own model for summaries.

    `init` makes the model that the framework makes of a name.
    """
    if summarization is None or isinstance(summarization, SummarizationMiddleware):
        return summarization
    if not isinstance(summarization, Settings):
        raise SettingsError(f"summarization must be Settings, a SummarizationMiddleware or None; got {summarization!r}")
    chat = AGENT_MODEL if model is None else init(model) if isinstance(model, str) else model
    settings = None if summarization == Settings() else summarization  # as they are, they adapt to the model
    return SummarizationMiddleware(chat, settings=settings, **more)
