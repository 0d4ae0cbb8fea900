"""`wrap`: a client of the same type whose conversations always fit, next to the one that was passed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from unabridged.adapters.kit import AGENT_MODEL
from unabridged.adapters.sdk import gemini
from unabridged.adapters.sdk.endpoints import RESOURCES
from unabridged.adapters.sdk.gemini import is_google
from unabridged.adapters.sdk.history import History
from unabridged.adapters.sdk.native_model import NativeModel, find_native_format
from unabridged.adapters.sdk.requests import fit_method, fit_post
from unabridged.archive.names import Name
from unabridged.errors import SettingsError

C = TypeVar("C")

_WRAPPED_METHODS = ("post", "copy", "with_options", "close", "unabridged")
"""The attributes that are set on a wrapped client."""
_CLIENT_CLASSES = {"SyncAPIClient", "AsyncAPIClient"}
"""The base classes of these SDKs' clients, Azure's, Bedrock's and Vertex' included."""


def wrap(client: C, *, thread: Name | None = None, summariser: str | None = None, **keywords: Any) -> C:
    """Return a client of the same type that compacts what it sends before it overflows; `client` is not touched.

    Takes the keywords of `Compactor`. Each request is fitted for the model that it names, its usage is learned from,
    and one that is refused as too long is sent once more, shorter. A request belongs to the thread of the context
    (`with unabridged.thread("t1"):`), else to `thread`; without either, a conversation is known by what it says.
    The result's `unabridged` (a `History`) replays, undoes and searches. With `summariser="native"` the provider
    compacts in its own way, where it can.
    """
    if not is_google(client) and not any(base.__name__ in _CLIENT_CLASSES for base in type(client).__mro__):
        raise TypeError(
            f"wrap takes a client of the OpenAI, Anthropic or Google Gen AI SDK, sync or async; got {client!r}. "
            "For any other, call Compactor.fit before each request."
        )
    if summariser is not None:
        keywords["model"] = _choose_native_model(client, summariser, keywords)
    history = History(thread, **keywords)
    if is_google(client):
        wrapped = gemini.wrap_google_client(client, history)
    else:
        wrapped = _wrap_client(copy.copy(client), client, history)
    for name in ("close", "aclose"):
        if hasattr(wrapped, name):
            setattr(wrapped, name, _close_with_history(getattr(wrapped, name), history))
    return wrapped  # type: ignore[no-any-return] # a copy of the client


def _choose_native_model(client: Any, summariser: str, keywords: Mapping[str, Any]) -> Any:
    """Return the summariser of a client whose provider compacts; raise `SettingsError` for any other."""
    if summariser != "native" or keywords.get("model") is not None:
        raise SettingsError('summariser must be "native" and stand alone: any other is named with model=')
    find_native_format(client)
    return AGENT_MODEL


def history_of(client: Any) -> History:
    """Return the `unabridged` of a wrapped client, for those who check types."""
    history = vars(client).get("unabridged")
    if not isinstance(history, History):
        raise TypeError(f"{client!r} is not wrapped: pass what unabridged.wrap returned")
    return history


def _wrap_client(wrapped: Any, original: Any, history: History) -> Any:
    """Return the client, whose requests go by way of `history`; `original` is what it was copied from, or itself."""
    for name in _WRAPPED_METHODS:
        vars(wrapped).pop(name, None)
    is_async = inspect.iscoroutinefunction(wrapped.post)
    plain_post, plain_copy = wrapped.post, wrapped.copy
    native = partial(NativeModel, plain_copy(max_retries=0)) if history.is_native else None

    def copied(**options: Any) -> Any:
        again = plain_copy(**options)
        return _wrap_client(again, again, history)

    wrapped.post = fit_post(plain_post, history, is_async=is_async, native=native)
    wrapped.copy = wrapped.with_options = copied
    wrapped.unabridged = history
    for name, value in list(vars(wrapped).items()):
        if getattr(value, "_client", None) is original:  # a resource, which keeps the `post` of its client
            setattr(wrapped, name, type(value)(wrapped))
    for path, endpoint in RESOURCES.items():
        if hasattr(type(wrapped), path.partition(".")[0]):
            resource = attrgetter(path)(wrapped)
            resource._post = plain_post  # noqa: SLF001 - what its methods send is fitted by then
            for name in ("create", "parse"):
                method = getattr(resource, name)
                setattr(resource, name, fit_method(method, history, endpoint, is_async=is_async, native=native))
    return wrapped


def _close_with_history(plain: Callable[[], Any], history: History) -> Callable[[], Any]:
    """Return the function that closes `history` before the client."""

    def close() -> None:
        history.close()
        plain()

    async def aclose() -> None:
        history.close()
        await plain()

    return aclose if inspect.iscoroutinefunction(plain) else close
