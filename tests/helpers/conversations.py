"""Small builders: a conversation in a line or two, in each wire format."""

from __future__ import annotations

import json
from typing import Any


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def chat_round(name: str, *answers: str, text: str = "", **arguments: Any) -> list[dict[str, Any]]:
    """An assistant message with one call per answer, and the tool messages that answer it."""
    ids = [f"{name}-{i}" for i in range(len(answers))]
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}} for id_ in ids
    ]
    replies = [{"role": "tool", "tool_call_id": id_, "content": a} for id_, a in zip(ids, answers, strict=True)]
    return [{"role": "assistant", "content": text or None, "tool_calls": calls}, *replies]


def anthropic_round(
    name: str, *answers: str, text: str = "", thinking: str = "", **arguments: Any
) -> list[dict[str, Any]]:
    ids = [f"{name}-{i}" for i in range(len(answers))]
    blocks: list[dict[str, Any]] = []
    if thinking:
        blocks.append({"type": "thinking", "thinking": thinking, "signature": f"signed-{name}"})
    if text:
        blocks.append({"type": "text", "text": text})
    blocks += [{"type": "tool_use", "id": id_, "name": name, "input": arguments} for id_ in ids]
    results = [{"type": "tool_result", "tool_use_id": i, "content": a} for i, a in zip(ids, answers, strict=True)]
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


def converse_round(name: str, *answers: str, text: str = "", **arguments: Any) -> list[dict[str, Any]]:
    ids = [f"{name}-{i}" for i in range(len(answers))]
    blocks: list[dict[str, Any]] = [{"text": text}] if text else []
    blocks += [{"toolUse": {"toolUseId": id_, "name": name, "input": arguments}} for id_ in ids]
    results = [{"toolResult": {"toolUseId": i, "content": [{"text": a}]}} for i, a in zip(ids, answers, strict=True)]
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


def responses_round(name: str, *answers: str, reasoning: str = "", **arguments: Any) -> list[dict[str, Any]]:
    ids = [f"{name}-{i}" for i in range(len(answers))]
    items: list[dict[str, Any]] = []
    if reasoning:
        items.append({"type": "reasoning", "id": f"rs-{name}", "summary": [], "encrypted_content": reasoning})
    items += [
        {"type": "function_call", "call_id": id_, "name": name, "arguments": json.dumps(arguments)} for id_ in ids
    ]
    outputs = zip(ids, answers, strict=True)
    items += [{"type": "function_call_output", "call_id": id_, "output": answer} for id_, answer in outputs]
    return items


def said_in(format_: str, *texts: str) -> dict[str, Any]:
    """A person's message with each of these texts in a block of its own."""
    if format_ == "gemini":
        return {"role": "user", "parts": [{"text": text} for text in texts]}
    kind = "input_text" if format_ == "openai-responses" else "text"
    return {"role": "user", "content": [{"type": kind, "text": text} for text in texts]}


def gemini_round(
    name: str, *answers: str, text: str = "", signature: str = "", **arguments: Any
) -> list[dict[str, Any]]:
    """A turn of the model's with one call per answer, none with an id, and the responses in the turn behind it."""
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    parts += [{"functionCall": {"name": name, "args": arguments}} for _ in answers]
    if signature:
        parts[bool(text)]["thoughtSignature"] = signature
    responses = [{"functionResponse": {"name": name, "response": {"output": answer}}} for answer in answers]
    return [{"role": "model", "parts": parts}, {"role": "user", "parts": responses}]


def long_chat(turns: int, words: int = 60) -> list[dict[str, Any]]:
    """Plain turns, each about something else, ending with a person's question."""
    messages: list[dict[str, Any]] = []
    for i in range(turns):
        filler = " ".join(f"detail{i}x{j}" for j in range(words))
        messages += [user(f"Question {i}: what about {filler}?"), assistant(f"Answer {i}: {filler}.")]
    return [*messages, user("And what is the very last thing?")]
