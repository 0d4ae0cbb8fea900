"""Conversions shared by the peers: chat messages to the forms of agent frameworks and back, as plain values.

A message that was left alone comes back as the very dict it was made from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from benchmarks.fakes import text_of
from benchmarks.harness import Message, Originals


class Numbered:
    """A splitter of messages into numbered pieces; all pieces of one message join to the same message again."""

    def __init__(self) -> None:
        self._given: list[tuple[Message, int]] = []

    def split(self, message: Message) -> tuple[int, list[Message]]:
        """Return the message's number and its pieces: one of text, and one for each call, as far as it has them."""
        calls = message.get("tool_calls") or ()
        pieces: list[Message] = [{**message, "tool_calls": [call], "content": ""} for call in calls]
        if said(message) or not pieces:
            pieces.insert(0, {key: value for key, value in message.items() if key != "tool_calls"})
        self._given.append((message, len(pieces)))
        return len(self._given) - 1, pieces

    def join(self, pieces: Sequence[tuple[int | None, Message]]) -> list[Message]:
        """Return the messages that these pieces make up; a piece whose number is None was made by a peer."""
        joined: list[Message] = []
        for number, group in groupby(pieces, key=lambda piece: piece[0]):
            alike = [message for _, message in group]
            if number is not None and self._given[number][1] == len(alike):
                joined.append(self._given[number][0])
            elif number is None:
                joined += alike
            else:
                joined.append(_together(alike))
        return joined


class Converse:
    """The messages of a Strands agent: the results of one round share a message, the system prompt stands apart."""

    def __init__(self) -> None:
        self._originals = Originals()
        self.system: list[Message] = []

    def take(self, messages: list[Any], new: Sequence[Message], usage: int | None) -> None:
        """Add what is new to an agent's list."""
        for message in new:
            if message["role"] == "assistant":
                own: Any = {"role": "assistant", "content": _blocks(message)}
                if usage:
                    used = {"inputTokens": usage, "outputTokens": 0, "totalTokens": usage}
                    own["metadata"] = {"usage": used}
                messages.append(self._originals.add(own, message))
            elif message["role"] == "system" and not messages:
                self.system.append(message)
            else:
                [block] = _blocks(message)
                self._originals.add(block, message)
                last = messages[-1]["content"] if messages and messages[-1]["role"] == "user" else None
                if last and "toolResult" in last[-1] and "toolResult" in block:
                    last.append(block)
                else:
                    messages.append({"role": "user", "content": [block]})

    def give(self, messages: Sequence[Any]) -> list[Message]:
        """Return the request as messages."""
        return [*self.system, *(given for own in messages for given in self._messages(own))]

    def _messages(self, own: Any) -> list[Message]:
        if own["role"] == "assistant":
            return [self._originals.get(own) or {"role": "assistant", "content": _texts(own)}]
        known = [self._originals.get(block) for block in own["content"]]
        return [one for one in known if one] if all(known) else [{"role": "user", "content": _texts(own)}]


def response_item(piece: Message, number: int) -> dict[str, Any]:
    """Return a piece of a message as an item of the Responses API, whose id holds the message's number."""
    named = {"id": f"m{number}"}
    if piece.get("tool_calls"):
        [call] = piece["tool_calls"]
        return {**named, "type": "function_call", "call_id": call["id"], **call["function"]}
    if piece["role"] == "tool":
        call_id = piece["tool_call_id"]
        return {**named, "type": "function_call_output", "call_id": call_id, "output": said(piece)}
    return {**named, "type": "message", "role": piece["role"], "content": said(piece)}


def response_piece(item: Any) -> tuple[int | None, Message]:
    """Return the piece that an item holds, and the number of its message."""
    number = int(item["id"][1:]) if str(item.get("id", "")).startswith("m") else None
    if item["type"] == "function_call":
        function = {"name": item["name"], "arguments": item["arguments"]}
        call = {"id": item["call_id"], "type": "function", "function": function}
        return number, {"role": "assistant", "content": "", "tool_calls": [call]}
    if item["type"] == "function_call_output":
        return number, {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
    if item["type"] == "compaction":  # opaque to all but the provider, which reads it where it stands
        return None, {"role": "user", "content": item["encrypted_content"]}
    return number, {"role": item["role"], "content": item["content"]}


def said(message: Message) -> str:
    """Return the text of a message; parts that are not text are returned as JSON."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or json.dumps(part) for part in content or ())


def arguments(call: Any) -> Any:
    """Return the arguments of a call as an object, even where the recorded text is not a JSON object."""
    try:
        read = json.loads(call["function"]["arguments"])
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"arguments": call["function"]["arguments"]}


class Meter:
    """An estimate of a provider's token count, from what it reported for the previous request."""

    def __init__(self) -> None:
        self._rate, self._size = 1 / 3.6, 0

    def reported(self, usage: int | None) -> None:
        """Remember how many tokens the last request had."""
        if usage and self._size:
            self._rate = usage / self._size

    def count(self, request: Sequence[Message]) -> int:
        """Return the tokens of a request."""
        self._size = sum(len(text_of(message)) + 15 for message in request)
        return round(self._rate * self._size)


def _together(pieces: Sequence[Message]) -> Message:
    calls = [call for piece in pieces for call in piece.get("tool_calls") or ()]
    made = {**pieces[0], "content": "\n".join(filter(None, map(said, pieces)))}
    return {**made, "tool_calls": calls} if calls else made


def _blocks(message: Message) -> list[Any]:
    if message["role"] == "tool":
        result = {"toolUseId": message["tool_call_id"], "status": "success", "content": [{"text": said(message)}]}
        return [{"toolResult": result}]
    calls = [
        {"toolUse": {"toolUseId": call["id"], "name": call["function"]["name"], "input": arguments(call)}}
        for call in message.get("tool_calls") or ()
    ]
    return [*([{"text": said(message)}] if said(message) or not calls else []), *calls]


def _texts(own: Any) -> str:
    return "\n".join(block["text"] for block in own["content"] if "text" in block)
