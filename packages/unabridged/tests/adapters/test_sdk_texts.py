"""`unabridged.dump` and `unabridged.load`: a conversation as text and back, exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem

import unabridged
from rows import rows
from unabridged import IllegalConversation
from unabridged.formats import FORMATS
from unabridged_testing import conversations

SDK_OBJECTS: list[Any] = [
    {"role": "user", "content": "Hello, ünïcode \ud83d"},
    ChatCompletionMessage(role="assistant", content="Hi."),
    ResponseReasoningItem(id="rs_1", type="reasoning", summary=[], encrypted_content="sealed"),
    ResponseFunctionToolCall(arguments="{}", call_id="c", name="work", type="function_call"),
    {"role": "assistant", "content": [TextBlock(type="text", text="x")]},
    {"role": "assistant", "content": [ToolUseBlock(id="t", input={"a": 1}, name="n", type="tool_use")]},
    {"role": "user", "content": (b"\x00bytes", {1, 2})},
]  # fmt: skip


def test_a_conversation_with_objects_of_the_sdks_comes_back_exactly() -> None:
    again = unabridged.load(unabridged.dump(SDK_OBJECTS))
    assert again == SDK_OBJECTS
    assert [type(message) for message in again] == [type(message) for message in SDK_OBJECTS]
    assert again[1].model_fields_set == SDK_OBJECTS[1].model_fields_set


@given(st.sampled_from(sorted(FORMATS)).flatmap(conversations))
def test_every_conversation_comes_back_exactly(messages: list[Any]) -> None:
    assert unabridged.load(unabridged.dump(messages)) == messages


def test_plain_messages_are_plain_json_a_message_a_line() -> None:
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    assert json.loads(unabridged.dump(messages)) == messages
    assert unabridged.dump(messages).count("\n") == 1
    assert unabridged.load("[]") == []


def test_another_process_makes_the_sdks_classes_again_and_no_others() -> None:
    text = unabridged.dump([SDK_OBJECTS[1], Foreign("secret")])
    code = (
        "import sys, unabridged\n"
        "first, second = unabridged.load(sys.stdin.read())\n"
        "print(type(first).__module__, type(second).__name__, second)"
    )
    run = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert run.stdout.split(maxsplit=1) == [
        "openai.types.chat.chat_completion_message",
        "dict {'name': 'secret'}\n",
    ]


@dataclass
class Foreign:
    """A class that no other process knows."""

    name: str


@rows("text", ["", "no JSON", "[1", '{"role": "user"}', "3", '[{"$unabridged": "object"}]', "\ud800"])
def test_what_dump_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(IllegalConversation, match="dump"):
        unabridged.load(text)


def test_what_is_no_conversation_is_refused() -> None:
    given: Any = "messages"
    with pytest.raises(IllegalConversation, match="a list of messages"):
        unabridged.dump(given)
    with pytest.raises(IllegalConversation, match="message 1 can't be dumped"):
        unabridged.dump([{}, {"role": print}])
    with pytest.raises(IllegalConversation, match="load takes the text"):
        unabridged.load(given.encode())
