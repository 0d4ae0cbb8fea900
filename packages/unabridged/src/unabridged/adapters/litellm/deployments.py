"""What a call to LiteLLM says beside its messages: the kind of request, the model's window, the session, the owner."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

import litellm

from unabridged.adapters import kit
from unabridged.archive.names import is_name

_METADATA_FIELDS: Final = ("metadata", "litellm_metadata")
"""A router and the proxy write into one or the other, by the kind of the call."""


class DeploymentEndpoint(kit.Endpoint):
    """A kind of request, whose model's window LiteLLM knows or was configured with."""

    def agent(self, body: kit.Body, tools: Any) -> kit.Agent:
        """Return the model that the request goes to, with its window."""
        found = super().agent(body, tools)
        info = body.get("model_info")
        configured = info.get("max_input_tokens") if isinstance(info, Mapping) else None
        return found._replace(window=kit.find_largest_length([configured]) or _find_window(found.name))


@lru_cache
def _find_window(model: str | None) -> int | None:
    """Return the longest input that LiteLLM's table has for the model; None where it does not know it."""
    with suppress(Exception):  # it raises a plain one for a model that it does not know
        return kit.find_largest_length([litellm.get_model_info(model or "")["max_input_tokens"]])
    return None


def _of(endpoint: kit.Endpoint) -> DeploymentEndpoint:
    return DeploymentEndpoint(**{each.name: getattr(endpoint, each.name) for each in fields(endpoint)})


_CHAT, _RESPONSES, _MESSAGES = map(_of, (kit.CHAT_ENDPOINT, kit.RESPONSES_ENDPOINT, kit.MESSAGES_ENDPOINT))
ENDPOINTS: Final[Mapping[str, DeploymentEndpoint]] = {
    **dict.fromkeys(("completion", "acompletion"), _CHAT),
    **dict.fromkeys(("responses", "aresponses"), _RESPONSES),
    **dict.fromkeys(("anthropic_messages", "aanthropic_messages"), _MESSAGES),
}
"""By the name of the function that is called, which is also LiteLLM's type of the call."""


def find_session(call: kit.Body) -> str | None:
    """Return the session that the caller named, in LiteLLM's own ways; None where it named none."""
    found = _list_metadata(call)
    if any(each.get("litellm_session_id_generated") for each in found):
        return None  # the proxy made one up for this call
    named = (call.get("litellm_session_id"), *(each.get("session_id") for each in found))
    return next(filter(is_name, named), None)


def find_namespace(call: kit.Body) -> str | None:
    """Return the hash of the key that the proxy was called with; None outside of a proxy."""
    return next((key for each in _list_metadata(call) if (key := each.get("user_api_key"))), None)


def _list_metadata(call: kit.Body) -> list[Mapping[str, Any]]:
    return [found for name in _METADATA_FIELDS if isinstance(found := call.get(name), Mapping)]
