"""`CompactingProvider`: every model that it gives is sent what fits.

The runner hands a model the whole request: instructions, items, tools, handoffs and the shape of the answer. It keeps
its own list whole and sends it again each turn; what was compacted of it is found in the archive, so the beginning of
the request stays the same to the byte until the next compaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, cast

from agents import Model, ModelProvider, ModelResponse, ModelSettings, MultiProvider
from agents.models import get_default_model

from unabridged.adapters.kit import Agent, Request, Stream, arun, astream
from unabridged.adapters.openai_agents.runs import Runs, schemas_of, without_key

_BEFORE = frozenset({"response.created", "response.queued", "response.in_progress"})
"""Events that come before the model says anything: a refusal may still follow."""
_ENDS = frozenset({"response.completed", "response.incomplete"})


class Events(Stream):
    """A response of the Responses API, event by event."""

    def says(self, item: Any) -> bool:
        """Whether the model has begun to answer."""
        return item.type not in _BEFORE

    def usage(self, item: Any) -> Any:
        """The usage in the last event."""
        return getattr(item.response, "usage", None) if item.type in _ENDS else None


EVENTS = Events()


def _items_in(event: Any) -> list[Any]:
    """The finished items in an event."""
    if event.type == "response.output_item.done":
        return [event.item]
    return list(event.response.output) if event.type in _ENDS else []


class CompactingProvider(ModelProvider):
    """Gives the models of another provider, each sent what fits; used as `RunConfig(model_provider=...)`.

    Takes the keywords of `Compactor`. The window comes from the model's name unless `window` or `agent` says otherwise.
    Without `provider` the models are those of the SDK's own `MultiProvider`. An agent whose `model` is an object asks
    no provider: give it `provider.wrap(model)`.
    """

    def __init__(self, provider: ModelProvider | None = None, **keywords: Any) -> None:
        self.provider = provider if provider is not None else MultiProvider()
        self.runs = Runs(**keywords)

    def get_model(self, model_name: str | None) -> Model:
        """The model of this name, sent what fits."""
        return self.wrap(self.provider.get_model(model_name), model_name or get_default_model())

    def wrap(self, model: Model, name: str | None = None) -> Model:
        """This model, sent what fits; `name` tells its window where the model does not."""
        return CompactingModel(model, name, self.runs)

    async def aclose(self) -> None:
        """Let go of the other provider, and of the archive if it was opened here."""
        await self.provider.aclose()
        await asyncio.to_thread(self.runs.close)

    def __getattr__(self, name: str) -> Any:
        if name == "provider":  # not there yet
            raise AttributeError(name)
        return getattr(self.provider, name)


class Given(NamedTuple):
    """What the runner hands to a model, in its order."""

    system: str | None
    input: str | list[Any]
    settings: ModelSettings
    tools: list[Any]
    output_schema: Any
    handoffs: list[Any]
    tracing: Any


class Sending(NamedTuple):
    """A request under way: what the engine is asked about, and what sends a list of items to the other model."""

    request: Request | None
    """None where the provider keeps the conversation."""
    send: Callable[[Any], Any]
    thread: str | None = None


class CompactingModel(Model):
    """A model that is sent what fits, and once more, shorter, when its provider says that it is too long."""

    def __init__(self, model: Model, name: str | None, runs: Runs) -> None:
        self.model, self.runs = model, runs
        own = getattr(model, "model", None)
        self.agent = Agent(own if isinstance(own, str) and own else name)

    async def get_response(  # noqa: D102, PLR0917 - the interface's
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the interface's name
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **state: Any,
    ) -> ModelResponse:
        given = Given(system_instructions, input, model_settings, tools, output_schema, handoffs, tracing)
        sending = await self._prepare(self.model.get_response, given, state)
        if sending.request is None:
            return await sending.send(input)  # type: ignore[no-any-return]
        response: ModelResponse = (await arun(sending.request.exchange(sending.send))).response
        self.runs.note_calls(response.output, sending.thread)
        return response

    async def stream_response(  # noqa: D102, PLR0917 - the interface's
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the interface's name
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **state: Any,
    ) -> AsyncIterator[Any]:
        given = Given(system_instructions, input, model_settings, tools, output_schema, handoffs, tracing)
        sending = await self._prepare(self.model.stream_response, given, state)
        if sending.request is None:
            async for event in sending.send(input):
                yield event
            return
        stream = cast("AsyncGenerator[Any, None]", astream(sending.request, sending.send, EVENTS))
        async with aclosing(stream) as events:
            async for event in events:
                self.runs.note_calls(_items_in(event), sending.thread)
                yield event

    async def _prepare(self, method: Callable[..., Any], given: Given, state: Mapping[str, Any]) -> Sending:
        """The request as the engine is asked about it, and how it is sent."""
        own = given if self._takes_key() else given._replace(settings=without_key(given.settings))
        items = [{"role": "user", "content": given.input}] if isinstance(given.input, str) else given.input

        def send(fitted: Any) -> Any:
            return method(*(own if fitted is items else own._replace(input=fitted)), **state)

        if state.get("previous_response_id") or state.get("conversation_id"):
            self.runs.say_kept_elsewhere()
            return Sending(None, send)
        tools = schemas_of(given.tools, given.handoffs, given.output_schema)
        thread = self.runs.thread_of(given.settings)
        ask = partial(self.runs.ask, items, self.agent, thread, given.system, tools)
        return Sending(ask() if self.runs.ready else await asyncio.to_thread(ask), send, thread)

    # -- what the runner asks of a model besides -----------------------------------------------------------------------

    def get_retry_advice(self, request: Any) -> Any:
        """The other model's."""
        return self.model.get_retry_advice(request)

    async def close(self) -> None:
        """Close the other model."""
        await self.model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.model._cleanup_on_run_end(owner)  # noqa: SLF001 - the interface's

    def _supports_default_prompt_cache_key(self) -> bool:
        """Whether the runner should name the run's conversation in the settings: it is how we know the session."""
        return True

    def _takes_key(self) -> bool:
        own = getattr(self.model, "_supports_default_prompt_cache_key", None)
        return bool(own()) if callable(own) else False
