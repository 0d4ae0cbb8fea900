"""The providers' own compaction: what each is asked, how its answer is read, and the errors after which it has failed.

Nothing here sends a request: an SDK's client does (`adapters/sdk/native_model.py`), or the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from unabridged.asking.ask import Ask, AskFailed, Reply
from unabridged.asking.failures import classify_failure, describe_error_kind, quote_error
from unabridged.formats.anthropic import Anthropic, is_provider_compaction
from unabridged.formats.fields import get, to_plain_dict
from unabridged.formats.openai_responses import OpenAIResponses
from unabridged.tokens.calibrate import parse_usage

BETA_HEADER, COMPACTION_BETA = "anthropic-beta", "compact-2026-09-04"
"""The header, and its value, without which Anthropic takes neither the request nor the block."""
RETRIED_ERROR_CODE = "compaction_unavailable"
"""The only error of a compaction after which the same request is sent again."""
MAX_TRIES, FIRST_PAUSE_SECONDS = 3, 0.5
DEADLINE_SHARE = 0.6
"""The share of the time left that it may take: the rest is for our own prompt, where it fails."""

_REPLY_FIELDS = frozenset({"context_management", "stop_sequences", "output_format", "stream", "messages"})
"""Fields that only shape an answer: a request to compact is refused with them."""
_KEPT_RESPONSES_FIELDS = ("instructions", "prompt_cache_key", "service_tier")
"""Fields of an agent's request to the Responses API that its compaction takes too."""

Body = Mapping[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[Any]]
"""Sends the fields of a request to compact, and returns the provider's answer."""


async def compact_natively(format_name: str, ask: Ask, body: Body, send: Send, name: str) -> Reply:
    """Return the reply whose `native` is the provider's own block; where that failed, it is the error that says why."""
    try:
        if format_name not in COMPACTIONS:
            raise NoCompaction("this API has none; the Messages and the Responses API have")  # noqa: TRY301 - one way out
        build_request, read_answer = COMPACTIONS[format_name]
        async with asyncio.timeout(get_native_seconds(ask)):
            answer = await _send_with_retries(send, build_request(ask, body))
        return read_answer(answer)
    except Exception as error:  # noqa: BLE001 - whatever it is, our own prompt stands in
        code = getattr(error, "error_code", None)
        kind = describe_error_kind(error) + (f", {code}" if code else "")
        why = f"the provider's own compaction failed: {error if isinstance(error, NoCompaction) else kind}"
        failed = AskFailed(classify_failure(error), f"{name} did not compact: {quote_error(error)}", reason=why)
        failed.__cause__ = error
        return Reply("", native=failed, model=name, usage=getattr(error, "usage", None))


def add_compaction_beta(headers: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the headers of a request to Anthropic that asks for its own compaction, or holds a block of it."""
    rows = list(headers)
    values = [value for name, value in rows if name.lower() == BETA_HEADER and isinstance(value, str)]
    others = [row for row in rows if row[0].lower() != BETA_HEADER]
    names = filter(None, (beta.strip() for beta in [*",".join(values).split(","), COMPACTION_BETA]))
    return [*others, (BETA_HEADER, ",".join(dict.fromkeys(names)))]


def get_native_seconds(ask: Ask) -> float | None:
    """Return the seconds that a compaction may take; None for as long as it likes."""
    return None if ask.deadline is None else ask.deadline * DEADLINE_SHARE


async def _send_with_retries(send: Send, fields: dict[str, Any]) -> Any:
    for number in range(1, MAX_TRIES):
        try:
            return await send(fields)
        except Exception as error:
            if getattr(error, "error_code", None) != RETRIED_ERROR_CODE:
                raise
        await asyncio.sleep(FIRST_PAUSE_SECONDS * number)
    return await send(fields)


class NoCompaction(ValueError):  # noqa: N818 - what the answer holds
    """A provider that made no compaction; `usage` is what it took all the same."""

    def __init__(self, why: str, usage: Any = None) -> None:
        self.usage = parse_usage(usage)
        super().__init__(why)


def _build_messages_request(ask: Ask, body: Body) -> dict[str, Any]:
    """Return the agent's own request up to the cut, without what shapes an answer."""
    fields = {key: value for key, value in body.items() if key not in _REPLY_FIELDS}
    if get(fields.get("tool_choice"), "type") in {"any", "tool"}:
        del fields["tool_choice"]
    if isinstance(output := fields.get("output_config"), Mapping):
        fields["output_config"] = {key: value for key, value in output.items() if key != "format"}
    most = max(ask.max_tokens, fields.get("max_tokens") or 0)
    compaction = {"type": "summarize", **({"instructions": ask.instruction} if ask.instruction.strip() else {})}
    return {**fields, "max_tokens": most, "messages": list(ask.messages), "compaction": compaction}


def _read_message(answer: Any) -> Reply:
    """Return the block of a message that holds nothing else; its text may be null, which is a failure."""
    passes = get(get(answer, "usage"), "iterations") or ()
    usage = next((entry for entry in passes if get(entry, "type") == "compaction"), None)
    blocks = get(answer, "content")
    is_alone = get(answer, "stop_reason") == "compaction" and isinstance(blocks, list) and len(blocks) == 1
    if not (is_alone and is_provider_compaction(blocks[0])):
        raise NoCompaction("the answer has no compaction with text", usage)
    message = {"role": "assistant", "content": [to_plain_dict(blocks[0])]}
    return Reply(get(blocks[0], "content"), usage=parse_usage(usage), native=message, model=get(answer, "model") or "")


def _build_responses_request(ask: Ask, body: Body) -> dict[str, Any]:
    kept = {key: body[key] for key in _KEPT_RESPONSES_FIELDS if body.get(key) is not None}
    return {"model": body["model"], **kept, "input": list(ask.messages)}


def _read_compacted_response(answer: Any) -> Reply:
    """Return the item, which only the provider reads; people's messages beside it stand in the summary turn."""
    items = [item for item in get(answer, "output") or () if get(item, "type") == "compaction"]
    if len(items) != 1 or not get(items[0], "encrypted_content"):
        raise NoCompaction("the answer has no compaction item with content, or several", get(answer, "usage"))
    item = {name: value for name, value in to_plain_dict(items[0]).items() if name != "created_by"}  # no input's field
    return Reply("", usage=parse_usage(get(answer, "usage")), native=item)


COMPACTIONS = {
    Anthropic.name: (_build_messages_request, _read_message),
    OpenAIResponses.name: (_build_responses_request, _read_compacted_response),
}
"""By the name of the format: what makes the fields of a request, of the ask and the agent's own body; what reads the
answer."""
