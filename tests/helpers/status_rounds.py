"""Rounds of one tool that is asked for a status, in three wire formats, with call ids of the caller's choice."""

from __future__ import annotations

import json
from typing import Any

Messages = list[Any]


def chat_round(number: int, call_id: str, answer: str) -> Messages:
    function = {"name": "check_status", "arguments": json.dumps({"job": number % 2})}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": answer},
    ]


def anthropic_round(number: int, call_id: str, answer: str) -> Messages:
    call = {"type": "tool_use", "id": call_id, "name": "check_status", "input": {"job": number % 2}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": answer}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def responses_round(number: int, call_id: str, answer: str) -> Messages:
    arguments = json.dumps({"job": number % 2})
    return [
        {"type": "function_call", "call_id": call_id, "name": "check_status", "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": answer},
    ]


ROUNDS = {"openai-chat": chat_round, "anthropic": anthropic_round, "openai-responses": responses_round}
