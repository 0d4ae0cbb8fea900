"""Answers as providers stream them: Anthropic's Messages and OpenAI's Responses, as server-sent events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the model wants to be run."""

    name: str
    arguments: dict[str, Any]
    namespace: str = ""
    """OpenAI's: the group that the tool stands in."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply of the model: a text, and perhaps a call."""

    text: str
    call: Call | None = None


def anthropic_message(answer: Answer, tokens: int, model: str) -> Event:
    """Return the answer as one message of Anthropic's; its usage reports this many tokens for the request."""
    content: list[Event] = [{"type": "text", "text": answer.text}] if answer.text else []
    if answer.call:
        name = f"toolu_{uuid.uuid4().hex[:24]}"
        content.append({"type": "tool_use", "id": name, "name": answer.call.name, "input": answer.call.arguments})
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if answer.call else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "output_tokens": 1 + len(answer.text) // 4,
        },
    }


def anthropic_events(message: Event) -> Iterator[Event]:
    """Yield the same message as events, block by block."""
    yield {"type": "message_start", "message": message | {"content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def response(answer: Answer, tokens: int, model: str) -> Event:
    """Return the answer as one response of OpenAI's."""
    output: list[Event] = []
    if answer.text:
        said = {"type": "output_text", "text": answer.text, "annotations": []}
        message = {"type": "message", "role": "assistant", "status": "completed", "content": [said]}
        output.append(message | {"id": f"msg_{uuid.uuid4().hex}"})
    if answer.call:
        output.append(_item(answer.call))
    spent = 1 + len(answer.text) // 4
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": "completed",
        "output": output,
        "usage": {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": spent,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + spent,
        },
    }


def _item(call: Call) -> Event:
    """Return a call as an item; a search for deferred tools has an item type of its own."""
    ids = {"id": f"fc_{uuid.uuid4().hex}", "call_id": f"call_{uuid.uuid4().hex[:24]}", "status": "completed"}
    if call.name == "tool_search":
        return {"type": "tool_search_call", "execution": "client", "arguments": call.arguments} | ids
    named = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"type": "function_call"} | ids | named | ({"namespace": call.namespace} if call.namespace else {})


def response_events(whole: Event) -> Iterator[Event]:
    """Yield the same response as events, item by item."""
    yield {"type": "response.created", "response": whole | {"output": [], "status": "in_progress", "usage": None}}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


def as_bytes(events: Iterator[Event]) -> bytes:
    """Return the events as they go over the wire."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
