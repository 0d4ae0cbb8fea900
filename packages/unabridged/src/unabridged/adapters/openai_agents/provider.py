"""`CompactingProvider`: every model that it gives is sent what fits.

The runner hands a model the whole request: instructions, items, tools, handoffs and the shape of the answer. It keeps
its own list whole and sends it again each turn; what was compacted of it is found in the archive, so the beginning of
the request stays the same to the byte until the next compaction.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from agents import Model, ModelProvider, ModelResponse, MultiProvider
from agents.models import get_default_model

from unabridged.adapters.kit import Agent, PinMethods, Request, ResponseEventStream, arun, astream
from unabridged.adapters.openai_agents.runs import LastRequest, RunEngine, build_schemas, without_generated_key
from unabridged.adapters.openai_agents.summariser import make_own_model, read_model_name

_GET_RESPONSE_SIGNATURE = inspect.signature(Model.get_response)
_RESPONSE_STREAM = ResponseEventStream()

Sender = Callable[..., Any]


def _find_finished_items(event: Any) -> list[Any]:
    """Return the finished items in an event."""
    if event.type == "response.output_item.done":
        return [event.item]
    return list(event.response.output) if event.type in {"response.completed", "response.incomplete"} else []


class CompactingProvider(PinMethods, ModelProvider):
    """Gives the models of another provider, each sent what fits; used as `RunConfig(model_provider=...)`.

    Takes the keywords of `Compactor`; its `model`, which writes the summaries, is the one that a request goes to unless
    it is given: a model of the SDK's, what `Compactor` takes, or None for summaries without a model. The window comes
    from the model's name unless `window` or `agent` says otherwise. Without `provider` the models are those of the
    SDK's own `MultiProvider`. An agent whose `model` is an object asks no provider: give it `provider.wrap(model)`.
    """

    def __init__(self, provider: ModelProvider | None = None, **keywords: Any) -> None:
        self.provider = provider if provider is not None else MultiProvider()
        self.engine = self.runs = RunEngine(**keywords)

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of this name, sent what fits."""
        return self.wrap(self.provider.get_model(model_name), model_name or get_default_model())

    def wrap(self, model: Model, name: str | None = None) -> Model:
        """Return this model, sent what fits; `name` gives its window where the model does not."""
        return CompactingModel(model, name, self.runs)

    async def aclose(self) -> None:
        """Close the other provider, and the archive if it was opened here."""
        await self.provider.aclose()
        await asyncio.to_thread(self.runs.close)

    def __getattr__(self, name: str) -> Any:
        if name == "provider":  # not there yet
            raise AttributeError(name)
        return getattr(self.provider, name)


class CompactingModel(Model):
    """A model that is sent what fits, and once more, shorter, when its provider says that it is too long."""

    def __init__(self, model: Model, name: str | None, runs: RunEngine) -> None:
        self.model, self.runs = model, runs
        self.agent = Agent(read_model_name(model) or name)

    async def get_response(self, *arguments: Any, **keywords: Any) -> ModelResponse:
        """Return the model's response; takes what the interface's method takes."""
        bound = _GET_RESPONSE_SIGNATURE.bind(self, *arguments, **keywords)
        request, send = await self._prepare_request(self.model.get_response, bound)
        if request is None:
            return await send()  # type: ignore[no-any-return]
        response: ModelResponse = (await arun(request.exchange(send))).response
        self.runs.remember_call_threads(response.output, request.thread)
        return response

    async def stream_response(self, *arguments: Any, **keywords: Any) -> AsyncIterator[Any]:
        """Yield the events of the model's response, as they come; takes what the interface's method takes."""
        bound = _GET_RESPONSE_SIGNATURE.bind(self, *arguments, **keywords)
        request, send = await self._prepare_request(self.model.stream_response, bound)
        if request is None:
            async for event in send():
                yield event
            return
        async with aclosing(astream(request, send, _RESPONSE_STREAM)) as events:
            async for event in events:
                self.runs.remember_call_threads(_find_finished_items(event), request.thread)
                yield event

    async def _prepare_request(self, method: Sender, bound: inspect.BoundArguments) -> tuple[Request | None, Sender]:
        """Return the request for the engine, None where the provider keeps the history, and what sends it."""
        system, text, settings, tools, output_schema, handoffs = bound.args[1:7]
        items = [{"role": "user", "content": text}] if isinstance(text, str) else text
        takes_key = getattr(self.model, "_supports_default_prompt_cache_key", None)
        if not (callable(takes_key) and takes_key()):
            bound.arguments["model_settings"] = without_generated_key(settings)

        def send(fitted: Any = items) -> Any:
            bound.arguments["input"] = text if fitted is items else fitted
            return method(*bound.args[1:], **bound.kwargs)

        if bound.kwargs.get("previous_response_id") or bound.kwargs.get("conversation_id"):
            self.runs.warn_kept_elsewhere()
            return None, send
        schemas, thread = build_schemas(tools, handoffs, output_schema), self.runs.find_thread(settings)
        asked = LastRequest(self.agent, system, schemas, make_own_model(self.model, settings))
        ask = partial(self.runs.make_request, items, thread, asked)
        return ask() if self.runs.is_ready else await asyncio.to_thread(ask), send

    # -- what the runner asks of a model besides -----------------------------------------------------------------------

    def get_retry_advice(self, request: Any) -> Any:
        """Return the other model's advice."""
        return self.model.get_retry_advice(request)

    async def close(self) -> None:
        """Close the other model."""
        await self.model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.model._cleanup_on_run_end(owner)  # noqa: SLF001 - the interface's

    def _supports_default_prompt_cache_key(self) -> bool:
        """Return whether the runner should name the run's conversation in the settings: we find the session by it."""
        return True
