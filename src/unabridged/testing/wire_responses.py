"""Generated conversations as items of the OpenAI Responses API."""

from __future__ import annotations

import json
from typing import Any

from unabridged.testing.script import Again, Observed, Person, Round, Said, Sealed, Step, System, Use
from unabridged.testing.wire import PIXEL, Wire


def write_responses(wire: Wire, steps: list[Step]) -> None:
    """Add every step; one round is several items."""
    for step in steps:
        match step:
            case System(text):
                wire.add(_message(wire, wire.rng.choice(("system", "developer")), text), "system")
            case Person():
                wire.add(_person(wire, step), "person", step.text)
            case Again():
                wire.again()
            case Observed(text):
                wire.add(_message(wire, "user", text), "observation")
            case Said():
                _reasoning(wire, step.thought)
                wire.add(_output(wire, step.text), "answer" if step.final else "action")
            case Round():
                _round(wire, step)
            case Sealed():
                wire.add(_sealed(wire), "sealed")


def _message(wire: Wire, role: str, text: str) -> dict[str, Any]:
    if wire.often(0.5):
        return {"role": role, "content": text}
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _person(wire: Wire, step: Person) -> dict[str, Any]:
    if not step.media:
        return _message(wire, "user", step.text)
    media: dict[str, Any] = {"type": "input_file", "file_id": "file-17", "filename": "plan.pdf"}
    if wire.often(0.6):
        media = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"}
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": step.text}, media]}


def _output(wire: Wire, text: str) -> Any:
    if wire.often(0.2):
        return {"role": "assistant", "content": text}
    item = {
        "type": "message",
        "id": wire.new_id("msg"),
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    return _sdk("ResponseOutputMessage", item) if wire.as_object(text) else item


def _reasoning(wire: Wire, thought: str) -> None:
    if not thought:
        return
    item: dict[str, Any] = {"type": "reasoning", "id": wire.new_id("rs"), "summary": []}
    if wire.often(0.5):
        item["summary"] = [{"type": "summary_text", "text": thought}]
    if wire.often(0.8):
        item["encrypted_content"] = "gAAAA" + thought.encode("utf-8", "replace").hex()
    wire.add(_sdk("ResponseReasoningItem", item) if wire.as_object(thought) else item, "reasoning")


def _round(wire: Wire, step: Round) -> None:
    _reasoning(wire, step.thought)
    if step.text:
        wire.add(_output(wire, step.text), "preamble")
    pairs = [_pair(wire, use) for use in step.uses]
    if wire.odd(0.2):  # each call answered before the next one
        for call, result in pairs:
            wire.add(call, "call")
            wire.add(result, "result")
        return
    for call, _ in pairs:
        wire.add(call, "call")
    for place in step.order:
        wire.add(pairs[place][1], "result")


def _pair(wire: Wire, use: Use) -> tuple[Any, dict[str, Any]]:
    call_id, name = wire.new_id("call"), use.name.replace(".", "_")
    output: Any = use.result
    if use.result and wire.odd(0.2):
        output = [{"type": "input_text", "text": use.result}]
    if wire.odd(0.1):
        call = {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": use.arguments}
        return call, {"type": "custom_tool_call_output", "call_id": call_id, "output": output}
    if wire.odd(0.1):
        action = {"type": "exec", "command": ["cat", use.name], "env": {}}
        call = {"type": "local_shell_call", "id": wire.new_id("lsh"), "call_id": call_id, "status": "completed"}
        shell = json.dumps({"stdout": use.result})
        return {**call, "action": action}, {"type": "local_shell_call_output", "id": call_id, "output": shell}
    call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": use.arguments}
    if wire.often(0.7):
        call["id"] = wire.new_id("fc")
    result = {"type": "function_call_output", "call_id": call_id, "output": output}
    return (_sdk("ResponseFunctionToolCall", call) if wire.as_object(use.arguments) else call), result


def _sealed(wire: Wire) -> dict[str, Any]:
    if wire.often(0.5):
        return {"type": "compaction", "id": wire.new_id("cmp"), "encrypted_content": "gAAAA" + "9a" * 40}
    return {"type": "item_reference", "id": wire.new_id("item")}


def _sdk(name: str, item: dict[str, Any]) -> Any:
    from openai.types import responses  # noqa: PLC0415 - only for who asks for SDK objects

    return getattr(responses, name).model_validate(item)
