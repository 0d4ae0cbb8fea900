"""Generated conversations as OpenAI Chat Completions messages."""

from __future__ import annotations

from typing import Any

from unabridged.testing.script import Again, Observed, Person, Round, Said, Step, System, Use
from unabridged.testing.wire import PIXEL, Wire


def write_chat(wire: Wire, steps: list[Step]) -> None:
    """Add every step; a `Sealed` one does not exist here."""
    for step in steps:
        match step:
            case System(text):
                wire.add({"role": wire.rng.choice(("system", "developer")), "content": text}, "system")
            case Person():
                wire.add(_person(wire, step), "person", step.text)
            case Again():
                wire.again()
            case Observed(text):
                wire.add({"role": "user", "content": text}, "observation")
            case Said():
                wire.add(_said(wire, step), "answer" if step.final else "action")
            case Round():
                _round(wire, step)


def _person(wire: Wire, step: Person) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "user", "content": step.text}
    if step.media:
        parts: list[dict[str, Any]] = [{"type": "text", "text": step.text}]
        kind = wire.rng.randrange(3)
        if kind == 0:
            url = f"data:image/png;base64,{PIXEL}"
            parts.append({"type": "image_url", "image_url": {"url": url, "detail": wire.rng.choice(("low", "auto"))}})
        elif kind == 1:
            parts.append({"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}})
        else:
            data = f"data:application/pdf;base64,{PIXEL}"
            parts.append({"type": "file", "file": {"filename": "plan.pdf", "file_data": data}})
        message["content"] = parts
    elif wire.odd(0.3):
        message["content"] = [{"type": "text", "text": step.text}]
    if wire.odd(0.2):
        message["name"] = "ada"
    return message


def _said(wire: Wire, step: Said) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": step.text}
    if step.thought:
        message["reasoning_content"] = step.thought
    if wire.as_object(step.text, step.thought):
        return _sdk_message(message)
    if wire.odd(0.2):
        message["content"] = [{"type": "text", "text": step.text}]
    elif wire.odd(0.1):
        message["content"], message["refusal"] = None, step.text
    return message


def _round(wire: Wire, step: Round) -> None:
    ids = [wire.new_id("call") for _ in step.uses]
    if wire.odd(0.1):  # servers that count anew in each answer; pairs are found by place
        ids = [f"call_{number}" for number in range(len(step.uses))]
    calls = [_call(wire, use, call_id) for use, call_id in zip(step.uses, ids, strict=True)]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": step.text or wire.rng.choice((None, "")),
        "tool_calls": calls,
    }
    if step.thought:
        message["reasoning_content"] = step.thought
    texts = [step.text, step.thought, *(use.arguments for use in step.uses)]
    wire.add(_sdk_message(message) if wire.as_object(*texts) else message, "call")
    for place in step.order:
        wire.add(_result(wire, step.uses[place], ids[place]), "result")


def _call(wire: Wire, use: Use, call_id: str) -> dict[str, Any]:
    if wire.odd(0.1):
        return {"id": call_id, "type": "custom", "custom": {"name": use.name.replace(".", "_"), "input": use.arguments}}
    function = {"name": use.name.replace(".", "_"), "arguments": use.arguments}
    return {"id": call_id, "type": "function", "function": function}


def _result(wire: Wire, use: Use, call_id: str) -> dict[str, Any]:
    content: Any = use.result
    if use.result and wire.odd(0.2):
        content = [{"type": "text", "text": use.result}]
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _sdk_message(message: dict[str, Any]) -> Any:
    from openai.types.chat import ChatCompletionMessage  # noqa: PLC0415 - only for who asks for SDK objects

    return ChatCompletionMessage.model_validate(message)
