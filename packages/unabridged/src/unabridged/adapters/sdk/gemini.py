"""Clients of the Google Gen AI SDK: `models.generate_content` and its stream, sync and async, each of its rounds.

The SDK calls functions by itself and follows continuations: what it sends each time is fitted, not only the first.
"""

# ruff: noqa: SLF001 - the SDK has no other place where every round passes

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from unabridged.adapters import kit
from unabridged.adapters.sdk.endpoints import PieceStream
from unabridged.adapters.sdk.history import History
from unabridged.adapters.sdk.requests import Function, SdkCall, fit_method, prepare_call
from unabridged.formats import FORMATS, GeminiContents
from unabridged.formats.gemini import get_either_name


def is_google(client: Any) -> bool:
    """Return whether this is a client of the Google Gen AI SDK, or its `aio`."""
    return any(base.__module__ == "google.genai.client" for base in type(client).__mro__)


def wrap_google_client(client: Any, history: History) -> Any:
    """Return a copy of the client, or of its `aio`, whose requests go by way of `history`."""
    wrapped = _copy_without_closing(client)
    wrapped.unabridged = history
    wrapped._models = _copy_fitted_models(client.models, history)
    if hasattr(client, "aio"):
        wrapped._aio = wrap_google_client(client.aio, history)
    return wrapped


def _copy_without_closing(client: Any) -> Any:
    """Return a copy that references the client, and leaves their shared connections open when it is collected."""
    wrapped = copy.copy(client)
    kind = type(client)
    wrapped.__class__ = type(kind.__name__, (kind,), {"__del__": lambda _: None, "__module__": kind.__module__})
    wrapped._original = client
    return wrapped


def _copy_fitted_models(models: Any, history: History) -> Any:
    fitted = copy.copy(models)
    is_async = inspect.iscoroutinefunction(models.generate_content)
    fit_stream = _fit_async_stream if is_async else _fit_stream
    fitted._generate_content = fit_method(models._generate_content, history, CONTENTS_ENDPOINT, is_async=is_async)
    fitted._generate_content_stream = fit_stream(models._generate_content_stream, history)
    return fitted


def _fit_stream(method: Function, history: History) -> Function:
    def fitted(**arguments: Any) -> Iterator[Any]:
        if history.is_sent_unchanged(CONTENTS_ENDPOINT, arguments):
            yield from method(**arguments)
            return
        call: SdkCall = kit.run(prepare_call(history, CONTENTS_ENDPOINT, arguments, lambda shorter: method(**shorter)))
        yield from kit.stream(call.request, call.send, GEMINI_STREAM)

    return fitted


def _fit_async_stream(method: Function, history: History) -> Function:
    async def items(arguments: kit.Body) -> AsyncIterator[Any]:
        steps = prepare_call(history, CONTENTS_ENDPOINT, arguments, lambda shorter: method(**shorter))
        call: SdkCall = await kit.arun(steps)
        async with aclosing(kit.astream(call.request, call.send, GEMINI_STREAM)) as pieces:
            async for piece in pieces:
                yield piece

    async def fitted(**arguments: Any) -> Any:
        is_unchanged = history.is_sent_unchanged(CONTENTS_ENDPOINT, arguments)
        return await method(**arguments) if is_unchanged else items(arguments)

    return fitted


@dataclass(frozen=True, slots=True)
class ContentsEndpoint(kit.Endpoint):
    """Requests with `contents`, and a `config` that has all else."""

    def read_messages(self, body: kit.Body) -> list[Any]:
        """Return the contents: the list itself where it holds turns, else what the SDK makes of it."""
        contents = kit.to_list(body["contents"])
        if isinstance(contents, list) and all(map(self.format.claims, contents)):
            return contents
        from google.genai import _transformers  # noqa: PLC0415 - a client of it is here, so it is loaded

        return list(_transformers.t_contents(contents))

    def with_messages(self, body: kit.Body, messages: list[Any]) -> kit.Body:
        """Return the request with these contents, all of them the SDK's own."""
        from google.genai.types import Content  # noqa: PLC0415 - likewise

        contents = [Content.model_validate(turn) if isinstance(turn, Mapping) else turn for turn in messages]
        return {**body, self.messages: contents}

    def read_system_prompt(self, body: kit.Body) -> Any:
        """Return the system instruction's texts."""
        return "\n".join(_list_texts(_read_config(body, "system_instruction"))) or None

    def read_schemas(self, body: kit.Body) -> Any:
        """Return what the model reads of tools and of the schema of its answer."""
        schemas = [_read_config(body, name) for name in ("response_schema", "response_json_schema")]
        tools = [_to_shown_tool(tool) for tool in _read_config(body, "tools") or ()]
        return [*tools, *(_to_shown_tool(schema) for schema in schemas if schema)] or None

    def max_tokens(self, body: kit.Body) -> int | None:
        """Return the longest answer that the configuration asks for."""
        return kit.find_largest_length([_read_config(body, "max_output_tokens")])

    def with_lists(self, body: kit.Body) -> kit.Body:
        """Return the request with a list in place of contents that can be read only once."""
        return {**body, self.messages: kit.to_list(body[self.messages])}

    def find_keeping_field(self, body: kit.Body) -> str | None:
        """Return the field by which the provider keeps contents; None where it does not."""
        return "cached_content" if _read_config(body, "cached_content") else None


def _read_config(body: kit.Body, name: str) -> Any:
    return get_either_name(body.get("config"), name)


def _list_texts(instruction: Any) -> list[str]:
    """Return the texts of a system instruction: itself, or those of its parts."""
    if not instruction or isinstance(instruction, str):
        return [instruction] if instruction else []
    if isinstance(instruction, Sequence):
        return [text for one in instruction for text in _list_texts(one)]
    inside = instruction if isinstance(instruction, Mapping) else vars(instruction)
    return _list_texts(inside.get("text") or inside.get("parts"))


def _to_shown_tool(tool: Any) -> Any:
    """Return what the model is shown of a tool: a function's name, arguments and description, an object as data."""
    if isinstance(tool, type):
        return kit.to_schema(tool)
    if hasattr(tool, "model_dump"):
        return tool.model_dump(mode="json", exclude_none=True)
    if isinstance(tool, Callable):  # type: ignore[arg-type]  # it is a class for isinstance
        return {"name": getattr(tool, "__name__", ""), "arguments": str(inspect.signature(tool)), "doc": tool.__doc__}
    return tool


CONTENTS_ENDPOINT = ContentsEndpoint(FORMATS[GeminiContents.name], messages="contents")
GEMINI_STREAM = PieceStream("candidates", "usage_metadata")
