"""Generated conversations as Anthropic Messages."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from unabridged.testing.script import Again, Observed, Person, Round, Said, Step, System, Use
from unabridged.testing.wire import PIXEL, Wire


def write_anthropic(wire: Wire, steps: list[Step]) -> None:
    """Add every step; tool results ride in user messages, and a `Sealed` one does not exist here."""
    for index, step in enumerate(steps):
        match step:
            case System(text):
                if index + 1 < len(steps) and not isinstance(steps[index + 1], Round | Said):
                    continue  # taken only after a user message, and before an assistant's or at the end
                wire.add({"role": "system", "content": text}, "system")
            case Person():
                _person(wire, step)
            case Again():
                wire.again()
            case Observed(text):
                wire.add({"role": "user", "content": text}, "observation")
            case Said():
                content = [*_thinking(wire, step.thought), {"type": "text", "text": step.text}]
                _assistant(wire, content, step.text, "answer" if step.final else "action")
            case Round():
                _round(wire, step)


def _person(wire: Wire, step: Person) -> None:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": step.text}]
    if step.joins and wire.what and wire.what[-1] == "result":
        results = wire.messages[-1]
        wire.messages[-1] = {"role": "user", "content": [*results["content"], *blocks]}
        wire.what[-1], wire.said[-1] = "mixed", step.text
        return
    if step.media:
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        media = {"type": "image", "source": source}
        if wire.often(0.3):
            source = {"type": "base64", "media_type": "application/pdf", "data": PIXEL}
            media = {"type": "document", "source": source, "title": "plan.pdf"}
        blocks.insert(wire.rng.randrange(2), media)
    elif wire.often(0.7):
        wire.add({"role": "user", "content": step.text}, "person", step.text)
        return
    _mark(wire, blocks[-1], 0.2)
    wire.add({"role": "user", "content": blocks}, "person", step.text)


def _mark(wire: Wire, block: dict[str, Any], share: float) -> None:
    """Some blocks carry a cache mark; a request may have four, and its system prompt and tools want one each."""
    if wire.cache_marks < 2 and wire.often(share):
        wire.cache_marks += 1
        block["cache_control"] = {"type": "ephemeral"}


def _thinking(wire: Wire, thought: str) -> list[dict[str, Any]]:
    if not thought:
        return []
    if wire.odd(0.2):
        return [{"type": "redacted_thinking", "data": sign(thought)}]
    return [{"type": "thinking", "thinking": thought, "signature": sign(thought)}]


def sign(thought: str) -> str:
    """A signature that depends on the block alone, as older models' do."""
    return hashlib.sha256(thought.encode("utf-8", "surrogatepass")).hexdigest()


def _assistant(wire: Wire, content: list[dict[str, Any]], text: str, what: Any) -> None:
    if wire.as_object(json.dumps(content)):
        wire.add({"role": "assistant", "content": [_sdk_block(block) for block in content]}, what)
    elif len(content) == 1 and content[0]["type"] == "text" and wire.often(0.7):
        wire.add({"role": "assistant", "content": text}, what)
    else:
        wire.add({"role": "assistant", "content": content}, what)


def _round(wire: Wire, step: Round) -> None:
    ids = [wire.new_id("toolu") for _ in step.uses]
    content = _thinking(wire, step.thought)
    if step.text:
        content.append({"type": "text", "text": step.text})
    if wire.odd(0.1):
        content += _server_tool(wire)
    for use, call_id in zip(step.uses, ids, strict=True):
        name = use.name.replace(".", "_")
        content.append({"type": "tool_use", "id": call_id, "name": name, "input": json.loads(use.arguments)})
    _assistant(wire, content, step.text, "call")
    results = [_result(wire, step.uses[place], ids[place]) for place in step.order]
    wire.add({"role": "user", "content": results}, "result")


def _server_tool(wire: Wire) -> list[dict[str, Any]]:
    call_id = wire.new_id("srvtoolu")
    found = {"type": "web_search_result", "url": "https://example.com", "title": "t", "encrypted_content": "Eo8B"}
    return [
        {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "invoice"}},
        {"type": "web_search_tool_result", "tool_use_id": call_id, "content": [found]},
    ]


def _result(wire: Wire, use: Use, call_id: str) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if use.result.strip() and wire.often(0.4):
        block["content"] = [{"type": "text", "text": use.result}]
    elif use.result or wire.often(0.5):
        block["content"] = use.result
    if use.error:
        block["is_error"] = True
    _mark(wire, block, 0.05)
    return block


def _sdk_block(block: dict[str, Any]) -> Any:
    from anthropic import types  # noqa: PLC0415 - only for who asks for SDK objects

    names = {
        "text": "TextBlock",
        "tool_use": "ToolUseBlock",
        "thinking": "ThinkingBlock",
        "redacted_thinking": "RedactedThinkingBlock",
    }
    name = names.get(block["type"])
    return getattr(types, name).model_validate(block) if name else block
