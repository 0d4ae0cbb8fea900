"""The SDKs' clients in a loop of one's own, on loopback: a wrapped client beside the bare one, which checks nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anthropic
import openai

import unabridged
from benchmarks.adapter_steps import FAR, Side, Watch, read, rounds, serve
from unabridged.adapters.sdk import requests
from unabridged_testing.loopback import Loopback, LoopbackReply

LENGTH = 8
"""Steps of each run: the OpenAI client takes a second for one of 2,000 messages, in its own checks of the arguments."""


def chat(client: Any, size: int, watch: Watch) -> None:
    """Run two turns of a loop over Chat Completions."""
    messages: list[Any] = [{"role": "user", "content": "Work through all of it."}]
    for said, call, result in rounds(size):
        messages += [
            {"role": "assistant", "content": said, "tool_calls": [_call(call)]},
            {"role": "tool", "tool_call_id": call, "content": result},
        ]
    for text in ("Go on.", "And on."):
        messages += [{"role": "assistant", "content": "So far."}, {"role": "user", "content": text}]
        while True:
            said = client.chat.completions.create(model="gpt-5", messages=messages).choices[0].message
            number = watch.answer()
            if number is None:
                break
            call = f"new{number}"
            messages.append({"role": "assistant", "content": said.content, "tool_calls": [_call(call)]})
            messages.append({"role": "tool", "tool_call_id": call, "content": read(call)})


def _call(name: str) -> Any:
    return {"id": name, "type": "function", "function": {"name": "read", "arguments": f'{{"path": "{name}"}}'}}


def messages_api(client: Any, size: int, watch: Watch) -> None:
    """Run two turns of a loop over the Messages API."""
    messages: list[Any] = [{"role": "user", "content": "Work through all of it."}]

    def add(said: str, call: str, result: str) -> None:
        use = {"type": "tool_use", "id": call, "name": "read", "input": {"path": call}}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": said}, use]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": result}]})

    for one in rounds(size):
        add(*one)
    for text in ("Go on.", "And on."):
        messages += [{"role": "assistant", "content": "So far."}, {"role": "user", "content": text}]
        while True:
            said = client.messages.create(model="claude-sonnet-4-5", max_tokens=100, messages=messages).content[0].text
            number = watch.answer()
            if number is None:
                break
            add(said, f"new{number}", read(f"new{number}"))


def run(loop: Callable[..., None], make: Callable[..., Any], size: int, watch: Watch, *, wrapped: bool) -> None:
    """Run the loop with a client of this kind."""
    with Loopback(lambda _: LoopbackReply("A step."), window=FAR) as provider:
        client = make(base_url=provider.url, api_key="none", max_retries=0)
        if wrapped:
            client = unabridged.wrap(client, thread="t", window=FAR, archive="memory:")
        loop(client, size, watch)


def sides(loop: Callable[..., None], make: Any) -> dict[str, Side]:
    """Return the wrapped and the bare client as sides; the caller's thread is timed, the server's is not."""
    fitted, posted = [(requests, "_send_fitted")], [(requests.SdkCall, "send")]
    return {
        "ours": Side(partial(run, loop, make, wrapped=True), fitted, posted, time.thread_time, LENGTH),
        "bare client": Side(partial(run, loop, make, wrapped=False), now=time.thread_time, length=LENGTH),
    }


if __name__ == "__main__":
    serve({"OpenAI SDK": sides(chat, openai.OpenAI), "Anthropic SDK": sides(messages_api, anthropic.Anthropic)})
