"""A chat client of the framework's as the one who writes the summaries: the agent's own, or another."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from agent_framework import Message, SupportsChatGetResponse

from unabridged.adapters.kit import NamedModel, OwnModel
from unabridged.adapters.kit.context import set_temporarily
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.replies import read_stop_reason
from unabridged.tokens.calibrate import Usage

_PASSED_OPTIONS = ("extra_headers", "metadata", "model", "store", "user")
"""Options of a request that hold for its summary too: its routing, and whether the provider stores it."""
_asks_for_summary: ContextVar[Any] = ContextVar("unabridged_agent_framework_summary", default=False)


def is_summary_request() -> bool:
    """Return whether a summary is being asked for: a client's own middleware sees that request too."""
    return bool(_asks_for_summary.get())


def to_summariser(model: Any) -> Any:
    """Return what `Compactor(model)` takes: the same, unless it is a chat client."""
    is_client = isinstance(model, SupportsChatGetResponse) and not isinstance(model, type)
    return NamedModel(read_model_name(model), partial(ask_client, model)) if is_client else model


def make_own_model(client: Any, options: Mapping[str, Any]) -> OwnModel:
    """Return what asks the model that a request with these options goes to."""
    return partial(ask_client, client, **{name: options[name] for name in _PASSED_OPTIONS if name in options})


def read_model_name(client: Any) -> str | None:
    """Return the name that the client's model has at its provider; None where it has no such attribute."""
    name = getattr(client, "model", None)
    return name if isinstance(name, str) and name else None


def read_usage(reporting: Any) -> Usage | None:
    """Return what a response, or a content of one, says that a model used; None where it says nothing of that.

    Cached tokens are in the input; beside it, as Anthropic's and Bedrock's clients have them, where there is no total,
    or one that has them too.
    """
    details = getattr(reporting, "usage_details", None)
    if not details or not details.get("input_token_count"):
        return None
    names = ("input_token_count", "cache_read_input_token_count", "cache_creation_input_token_count")
    given, read, write = (int(details.get(name) or 0) for name in names)
    output, total = int(details.get("output_token_count") or 0), details.get("total_token_count")
    is_beside = not total or total == given + read + write + output
    return Usage(given + (read + write if is_beside else 0), read, write, output)


async def ask_client(client: Any, ask: Ask, **options: Any) -> Reply:
    """Return the model's reply to the instruction alone: no agent runs, and no tool."""
    options |= {"max_tokens": ask.max_tokens, **({"instructions": ask.system} if isinstance(ask.system, str) else {})}
    with set_temporarily(_asks_for_summary, True):
        response = await client.get_response([Message("user", [ask.instruction])], options=options)
    contents = [content for message in response.messages for content in message.contents]
    calls = sum(content.type == "function_call" for content in contents)
    stop, used = read_stop_reason(response.finish_reason), read_usage(response)
    name = options.get("model") or read_model_name(client)
    return Reply(response.text, stop, used, calls, model=name or response.model or "")
