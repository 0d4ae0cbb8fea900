"""The provider's own compaction as a summariser, by way of an SDK's client: `wrap(client, summariser="native")`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from unabridged.adapters.kit.native import BETA_HEADER, Body, add_compaction_beta, compact_natively, get_native_seconds
from unabridged.asking.ask import Ask, Reply
from unabridged.asking.providers import build_client_call
from unabridged.asking.replies import reply_of
from unabridged.errors import SettingsError
from unabridged.formats import Anthropic, OpenAIResponses

_FORMATS = {"anthropic": Anthropic.name, "openai": OpenAIResponses.name}
"""By the package of the SDK, the format in which it compacts."""


def native(client: Any, model: str, **options: Any) -> NativeModel:
    """Return a summariser for `Compactor` that has the provider compact, asked as this model through this client.

    `options` are what the agent's own requests have besides messages, system prompt and tools, such as `thinking`.
    """
    name, betas = find_native_format(client), options.pop("betas", ())
    headers = {BETA_HEADER: ",".join(betas)} if betas else {}
    return NativeModel(client.with_options(max_retries=0), {"model": model, **options}, name, headers)


def find_native_format(client: Any) -> str:
    """Return the format in which the provider of this client compacts; raise `SettingsError` where none does."""
    packages = {base.__module__.partition(".")[0] for base in type(client).__mro__}
    names = [name for package, name in _FORMATS.items() if package in packages]
    if not names:
        raise SettingsError(
            f"the provider of {type(client).__name__} has no compaction of its own: native takes a client of the "
            "Anthropic or OpenAI SDK. Name a model instead, model=, or leave it out"
        )
    return names[0]


class NativeModel:
    """The model that a client's requests go to: it compacts in the provider's own way, and answers a plain prompt."""

    live_format = ""
    """Our own prompt is asked apart."""

    def __init__(self, client: Any, body: Body, format_name: str, headers: Mapping[str, Any]) -> None:
        self._client, self._body, self._format_name, self._headers = client, body, format_name, headers
        self.name = str(body.get("model") or "the model")
        self.native_format = format_name
        self.native_provider = f"{format_name} {client.base_url.host}"
        """Whose blocks it makes, and takes in a list."""

    async def __call__(self, ask: Ask) -> Reply:
        """Return the provider's block for an ask that wants one, else the answer to the instruction."""
        if not ask.native:
            method, arguments = build_client_call(self._format_name, self.name, ask)
            store = {"store": self._body["store"]} if "store" in self._body else {}
            return reply_of(await self._call(method, **arguments, **store))
        system = "instructions" if self._format_name == OpenAIResponses.name else "system"
        fixed = {system: ask.system, "tools": ask.tools}
        body = {**{name: value for name, value in fixed.items() if value}, **self._body}
        compact = partial(self._compact, get_native_seconds(ask))
        return await compact_natively(self._format_name, ask, body, compact, self.name)

    async def _compact(self, seconds: float | None, fields: dict[str, Any]) -> Any:
        if self._format_name == OpenAIResponses.name:
            return await self._call("responses.compact", **fields, timeout=seconds)
        headers = dict(add_compaction_beta(self._headers.items()))
        return await self._call("beta.messages.create", **fields, timeout=seconds, extra_headers=headers)

    async def _call(self, name: str, **arguments: Any) -> Any:
        """Call the method of this name of an async client; that of a sync one in a thread."""
        method, arguments = attrgetter(name)(self._client), {"extra_headers": self._headers, **arguments}
        if inspect.iscoroutinefunction(self._client.post):
            return await method(**arguments)
        return await asyncio.to_thread(method, **arguments)
