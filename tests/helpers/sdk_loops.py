"""Loops over the SDKs' own clients, as their users write them: ask, run the tools, ask again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import anthropic
import openai
from google import genai

from unabridged_testing.loopback import LoopbackReply

TASK = "Work through all of the numbers, one by one. Never skip a prime number."
SYSTEM = "You are a patient worker."
RESULT = "Number {} was worked on; the readings were steady and nothing else came up. "
PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}

AMAZON = {"aws_access_key": "a", "aws_secret_key": "s", "aws_region": "us-east-1"}
OPTIONS: dict[str, dict[str, Any]] = {
    "OpenAI": {"api_key": "k"},
    "AzureOpenAI": {"api_key": "k", "api_version": "2025-01-01", "azure_deployment": "mine"},
    "BedrockOpenAI": {"api_key": "k", "aws_region": "us-east-1"},
    "Anthropic": {"api_key": "k"},
    "AnthropicBedrock": AMAZON,
    "AnthropicBedrockMantle": AMAZON,
    "AnthropicAWS": {**AMAZON, "workspace_id": "w"},
    "AnthropicFoundry": {"api_key": "k"},
    "AnthropicGoogleCloud": {"project": "p", "workspace_id": "w", "skip_auth": True},
    "AnthropicVertex": {"region": "us-east1", "project_id": "p", "access_token": "t"},
}
"""What the clients of OpenAI's and Anthropic's SDKs must be told."""


def client_of(name: str, url: str, *, asynchronous: bool = False) -> Any:
    """The SDK's own client of this name, for a provider at `url`."""
    if name == "genai":
        given = genai.Client(api_key="none", http_options={"base_url": url})
        return given.aio if asynchronous else given
    sdk: Any = anthropic if "Anthropic" in name else openai
    made = getattr(sdk, f"Async{name}" if asynchronous else name)
    return made(base_url=url, max_retries=0, **OPTIONS[name])


def working(steps: int, *, thinks: bool = False) -> Callable[[Sequence[Any]], LoopbackReply]:
    """A model that calls a tool so many times, and then is done."""
    numbers = itertools.count(1)

    def answer(_: Sequence[Any]) -> LoopbackReply:
        number = next(numbers)
        if number > steps:
            return LoopbackReply("All done.")
        thought = f"Number {number} comes next." if thinks else ""
        return LoopbackReply("", [("work", {"number": number})], thought)

    return answer


def work(number: int) -> str:
    return RESULT.format(number) * 60


class Chat:
    """Chat Completions."""

    tools: Any = ({"type": "function", "function": {"name": "work", "parameters": PARAMETERS}},)

    def first(self) -> list[Any]:
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]

    def asked(self, messages: list[Any]) -> dict[str, Any]:
        return {"model": "gpt-5-mini", "messages": messages, "tools": list(self.tools)}

    def plain(self, client: Any, asked: dict[str, Any]) -> Any:
        return client.chat.completions.create(**asked)

    def streaming(self, client: Any, asked: dict[str, Any]) -> Any:
        return client.chat.completions.stream(**asked, stream_options={"include_usage": True})

    def final(self, stream: Any) -> Any:
        return stream.get_final_completion()

    def turn(self, answer: Any) -> tuple[list[Any], str]:
        """What the caller adds to its list, and the last words, if the model called nothing."""
        message = answer.choices[0].message
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": work(_number(call.function.arguments))}
            for call in message.tool_calls or ()
        ]
        return [message, *results], "" if results else message.content


class Responses:
    """Responses."""

    tools: Any = ({"type": "function", "name": "work", "parameters": PARAMETERS, "strict": False},)

    def first(self) -> list[Any]:
        return [{"role": "user", "content": TASK}]

    def asked(self, messages: list[Any]) -> dict[str, Any]:
        return {"model": "gpt-5-mini", "input": messages, "instructions": SYSTEM, "tools": list(self.tools)}

    def plain(self, client: Any, asked: dict[str, Any]) -> Any:
        return client.responses.create(**asked)

    def streaming(self, client: Any, asked: dict[str, Any]) -> Any:
        return client.responses.stream(**asked)

    def final(self, stream: Any) -> Any:
        return stream.get_final_response()

    def turn(self, answer: Any) -> tuple[list[Any], str]:
        results = [
            {"type": "function_call_output", "call_id": item.call_id, "output": work(_number(item.arguments))}
            for item in answer.output
            if item.type == "function_call"
        ]
        return [*answer.output, *results], "" if results else answer.output_text


class Messages:
    """Messages of Anthropic's."""

    tools: Any = ({"name": "work", "input_schema": PARAMETERS},)

    def __init__(self, model: str = "claude-opus-5-5") -> None:
        self.model = model

    def first(self) -> list[Any]:
        return [{"role": "user", "content": TASK}]

    def asked(self, messages: list[Any]) -> dict[str, Any]:
        fixed = {"model": self.model, "max_tokens": 500, "system": SYSTEM, "tools": list(self.tools)}
        return {**fixed, "messages": messages}

    def resource(self, client: Any) -> Any:
        return client.messages

    def plain(self, client: Any, asked: dict[str, Any]) -> Any:
        return self.resource(client).create(**asked)

    def streaming(self, client: Any, asked: dict[str, Any]) -> Any:
        return self.resource(client).stream(**asked)

    def final(self, stream: Any) -> Any:
        return stream.get_final_message()

    def turn(self, answer: Any) -> tuple[list[Any], str]:
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": work(block.input["number"])}
            for block in answer.content
            if block.type == "tool_use"
        ]
        said = {"role": "assistant", "content": answer.content}
        if results:
            return [said, {"role": "user", "content": results}], ""
        return [said], answer.content[-1].text


class BetaMessages(Messages):
    """The same, of `beta.messages`."""

    def resource(self, client: Any) -> Any:
        return client.beta.messages


class Contents:
    """Contents of Google's, with functions that the caller runs."""

    tools: Any = ({"function_declarations": [{"name": "work", "parameters_json_schema": PARAMETERS}]},)

    def first(self) -> list[Any]:
        return [{"role": "user", "parts": [{"text": TASK}]}]

    def asked(self, messages: list[Any]) -> dict[str, Any]:
        config = {"system_instruction": SYSTEM, "tools": list(self.tools)}
        return {"model": "gemini-2.5-flash", "contents": messages, "config": config}

    def plain(self, client: Any, asked: dict[str, Any]) -> Any:
        return client.models.generate_content(**asked)

    def pieces(self, client: Any, asked: dict[str, Any]) -> Any:
        return client.models.generate_content_stream(**asked)

    def turn(self, answer: Any) -> tuple[list[Any], str]:
        """The answer is a response, or the pieces of one."""
        from google.genai import types

        every = answer if isinstance(answer, list) else [answer]
        parts = [part for one in every for part in one.candidates[0].content.parts]
        said = types.Content(role="model", parts=[part for part in parts if part.function_call or part.text])
        calls = [part.function_call for part in parts if part.function_call]
        results = [
            types.Part.from_function_response(name=call.name, response={"result": work(call.args["number"])})
            for call in calls
        ]
        if results:
            return [said, types.Content(role="user", parts=results)], ""
        return [said], "".join(part.text or "" for part in parts)


def run(api: Any, client: Any, *, streaming: bool = False, most: int = 1_000) -> list[Any]:
    """The whole conversation, once the model is done."""
    messages: list[Any] = api.first()
    for _ in range(most):
        if streaming and hasattr(api, "pieces"):
            answer = list(api.pieces(client, api.asked(messages)))
        elif streaming:
            with api.streaming(client, api.asked(messages)) as stream:
                answer = api.final(stream)
        else:
            answer = api.plain(client, api.asked(messages))
        new, ended = api.turn(answer)
        messages = [*messages, *new]
        if ended:
            assert ended == "All done."
            break
    return messages


async def arun(api: Any, client: Any, *, streaming: bool = False, most: int = 1_000) -> list[Any]:
    """`run` in an event loop."""
    messages: list[Any] = api.first()
    for _ in range(most):
        if streaming and hasattr(api, "pieces"):
            answer = [piece async for piece in await api.pieces(client, api.asked(messages))]
        elif streaming:
            async with api.streaming(client, api.asked(messages)) as stream:
                answer = await api.final(stream)
        else:
            answer = await api.plain(client, api.asked(messages))
        new, ended = api.turn(answer)
        messages = [*messages, *new]
        if ended:
            assert ended == "All done."
            break
    return messages


def _number(arguments: str) -> int:
    return int(json.loads(arguments)["number"])
