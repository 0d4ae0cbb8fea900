"""Formats: every message reads as what it says, and an edit touches nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import TextBlock, ToolUseBlock, Usage
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

from conversations import anthropic_round, assistant, chat_round, responses_round, system, user
from rows import rows
from unabridged.errors import SettingsError
from unabridged.formats import FORMATS, Slot, detect_message_format, get_format
from unabridged.formats.anthropic import Anthropic
from unabridged.formats.openai_chat import OpenAIChat
from unabridged.formats.openai_responses import OpenAIResponses
from unabridged.messages import Answer, Call

CHAT_OBJECT = ChatCompletionMessage.model_validate(
    {
        "role": "assistant",
        "content": "looking",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}}],
    }
)
ANTHROPIC_OBJECT = AnthropicMessage(
    id="msg_1",
    content=[
        TextBlock(type="text", text="looking"),
        ToolUseBlock(type="tool_use", id="c1", name="read", input={"path": "a"}),
    ],
    model="claude-opus-5-5",
    role="assistant",
    stop_reason="tool_use",
    stop_sequence=None,
    type="message",
    usage=Usage(input_tokens=1, output_tokens=1),
)
CALL_ITEM = ResponseFunctionToolCall(call_id="c1", name="read", arguments='{"path":"a"}', type="function_call")
REASONING_ITEM = ResponseReasoningItem(id="rs_1", summary=[], type="reasoning", encrypted_content="sealed")
MESSAGE_ITEM = ResponseOutputMessage.model_validate(
    {
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "type": "message",
        "content": [{"type": "output_text", "text": "looking", "annotations": []}],
    }
)


@rows(
    ("messages", "name"),
    [
        ([user("a"), assistant("b")], "openai-chat"),
        ([user("a"), *chat_round("x", "1")], "openai-chat"),
        ([user("a"), CHAT_OBJECT], "openai-chat"),
        ([user("a"), *responses_round("x", "1")], "openai-responses"),
        ([user("a"), REASONING_ITEM, MESSAGE_ITEM], "openai-responses"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "a"}]}], "openai-responses"),
        ([user("a"), *anthropic_round("x", "1")], "anthropic"),
        ([user("a"), ANTHROPIC_OBJECT], "anthropic"),
        ([user("a"), {"role": "assistant", "content": ANTHROPIC_OBJECT.content}], "anthropic"),
        ([], "openai-chat"),
    ],
)
def test_the_format_is_detected_from_the_messages(messages: list[Any], name: str) -> None:
    assert detect_message_format(messages).name == name


def test_a_format_can_be_forced_by_name_and_an_unknown_one_is_refused_with_the_choices() -> None:
    assert get_format("anthropic").name == "anthropic"
    with pytest.raises(SettingsError, match=", ".join(sorted(FORMATS))):
        get_format("yaml")


@pytest.mark.parametrize(
    ("format_", "message"),
    [
        (OpenAIChat(), CHAT_OBJECT),
        (Anthropic(), ANTHROPIC_OBJECT),
        (Anthropic(), {"role": "assistant", "content": ANTHROPIC_OBJECT.content}),
    ],
)
def test_sdk_objects_read_like_dicts(format_: Any, message: Any) -> None:
    view = format_.read(message)
    assert (view.role, view.origin, view.text) == ("assistant", "model", "looking")
    assert view.calls == (Call("c1", "read", '{"path":"a"}'),)


def test_responses_items_read_like_dicts() -> None:
    format_ = OpenAIResponses()
    assert format_.read(CALL_ITEM).calls == (Call("c1", "read", '{"path":"a"}'),)
    assert format_.read(MESSAGE_ITEM).text == "looking"
    reasoning = format_.read(REASONING_ITEM)
    assert reasoning.glued
    assert reasoning.reasoning[0].signature == "sealed"


def test_a_tool_result_is_the_tools_wherever_it_sits() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "42"}], "is_error": True}
    view = Anthropic().read({"role": "user", "content": [result]})
    assert view.origin == "tool"
    assert view.answers == (Answer("c", "42", error=True),)
    mixed = Anthropic().read({"role": "user", "content": [result, {"type": "text", "text": "now stop"}]})
    assert (mixed.origin, mixed.text) == ("person", "now stop")


def test_images_and_files_are_media_never_text() -> None:
    data = "data:image/png;base64,AAAA"
    chat = OpenAIChat().read(
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data, "detail": "low"}}]}
    )
    assert (chat.media[0].kind, chat.media[0].mime, chat.media[0].detail, chat.text) == (
        "image",
        "image/png",
        "low",
        "",
    )
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0"}
    anthropic = Anthropic().read({"role": "user", "content": [{"type": "document", "source": source, "title": "bill"}]})
    assert (anthropic.media[0].kind, anthropic.media[0].name) == ("document", "bill")
    item = {
        "role": "user",
        "content": [{"type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}],
    }
    assert OpenAIResponses().read(item).media[0].name == "a.pdf"


@pytest.mark.parametrize("developer", ["system", "developer"])
def test_developer_reads_as_system(developer: str) -> None:
    for name in ("openai-chat", "openai-responses"):
        view = FORMATS[name].read({"role": developer, "content": "rules"})
        assert (view.role, view.origin) == ("system", "host")


EDITABLE: list[tuple[str, Any]] = [
    ("openai-chat", user("secret")),
    (
        "openai-chat",
        {"role": "user", "content": [{"type": "text", "text": "secret"}, {"type": "text", "text": "other"}]},
    ),
    ("openai-chat", chat_round("x", "secret")[1]),
    ("openai-chat", chat_round("x", "y", arg="secret")[0]),
    ("openai-chat", CHAT_OBJECT.model_copy(update={"content": "secret"})),
    ("openai-responses", responses_round("x", "secret")[1]),
    ("openai-responses", responses_round("x", "y", arg="secret")[0]),
    ("openai-responses", {"role": "user", "content": [{"type": "input_text", "text": "secret"}]}),
    ("anthropic", anthropic_round("x", "secret")[1]),
    ("anthropic", anthropic_round("x", "y", arg="secret")[0]),
    ("anthropic", user("secret")),
]


@rows(("name", "message"), EDITABLE)
def test_an_edit_changes_just_what_it_says_and_leaves_the_original_alone(name: str, message: Any) -> None:
    format_ = FORMATS[name]
    before = format_.read(message)
    edited = format_.edit(message, lambda _slot, text: text.replace("secret", "public"))
    assert edited is not message
    assert format_.read(message) == before
    assert "public" in format_.read(edited).whole_text()
    restored = format_.edit(edited, lambda _slot, text: text.replace("public", "secret"))
    assert format_.read(restored) == before


@rows(("name", "message"), EDITABLE)
def test_an_edit_that_changes_nothing_gives_the_same_object(name: str, message: Any) -> None:
    assert FORMATS[name].edit(message, lambda _slot, text: text) is message


def test_an_edited_image_becomes_text() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    message = {"role": "user", "content": [image, {"type": "text", "text": "see"}]}
    edited = Anthropic().edit(message, lambda slot, text: "[an image]" if slot == Slot("media") else text)
    assert edited["content"][0] == {"type": "text", "text": "[an image]"}
    assert edited["content"][1] is message["content"][1]


def test_thinking_can_be_taken_out_and_only_thinking() -> None:
    message = anthropic_round("x", "1", text="so", thinking="hmm")[0]
    bare = Anthropic().without_reasoning(message)
    assert bare is not None
    assert bare["content"] == message["content"][1:]
    assert Anthropic().without_reasoning(bare) is bare
    assert Anthropic().without_reasoning({"role": "assistant", "content": message["content"][:1]}) is None
    assert OpenAIResponses().without_reasoning(REASONING_ITEM) is None


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_what_a_format_makes_it_reads_back(name: str) -> None:
    format_ = FORMATS[name]
    assert format_.read(format_.text("user", "hello")).text == "hello"
    assert format_.read(format_.text("assistant", "hello")).origin == "model"
    made = format_.answer(Call("a", "x", "{}"), {"type": "function_call"}, "none")
    assert [(answer.call_id, answer.text) for answer in format_.read(made).answers] == [("a", "none")]


def test_system_messages_of_anthropic_are_the_hosts() -> None:
    assert Anthropic().read(system("be brief")).origin == "host"
