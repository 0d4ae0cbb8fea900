"""A loop over LiteLLM: pip install unabridged litellm mcp."""

import json
from typing import Any

import litellm
from openai import OpenAI

import unabridged


def read_report(number: int) -> str:
    """Read one of the reports 1 to 60."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS = [{"type": "function", "function": {"name": "read_report", "parameters": NUMBER}}]

client = unabridged.wrap(OpenAI(), thread="reports")
messages: list[Any] = [{"role": "user", "content": "Read the reports 1 to 60, one after the other. Which pump leaks?"}]
while True:
    answer = litellm.completion(model="openai/gpt-5-mini", messages=messages, tools=TOOLS, client=client)
    message = answer.choices[0].message
    messages.append(message)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        report = read_report(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": report})
print(message.content)
