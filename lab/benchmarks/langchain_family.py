"""Code shared by the peers built on LangChain: conversion of messages, and the fake as a chat model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.messages.utils import get_buffer_string
from langchain_core.outputs import ChatGeneration, ChatResult

from benchmarks.harness import Message, Originals


class FakeChat(BaseChatModel):
    """The fake as a LangChain chat model; `profile` holds its window."""

    fake: Any

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(stop, **kwargs), "ls_provider": "openai"}

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        del stop, run_manager
        said = self.fake(messages[0].text if len(messages) == 1 else get_buffer_string(messages))
        calls = [{"name": "bash", "args": {}, "id": f"s{i}"} for i in range(said.calls)]
        reply = AIMessage(said.text, tool_calls=calls, response_metadata={"finish_reason": said.stop})
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Wire:
    """A converter of dicts to LangChain's messages and back; an unchanged message comes back as the same dict."""

    def __init__(self) -> None:
        self._originals = Originals()
        self._count = 0

    def take(self, new: Sequence[Message], usage: int | None) -> list[BaseMessage]:
        """Return the messages with ids, as a graph assigns them, and with the reported usage on the model's own."""
        taken = []
        for message in new:
            given = {key: value for key, value in message.items() if key != "id"}
            own = convert_to_messages([{**given, "content": given.get("content") or ""}])[0]
            own.id, self._count = f"m{self._count}", self._count + 1
            if usage and isinstance(own, AIMessage):
                own.usage_metadata = {"input_tokens": usage, "output_tokens": 0, "total_tokens": usage}
                own.response_metadata = {"model_provider": "openai"}
            taken.append(self._originals.add(own, message))
        return taken

    def give(self, messages: Sequence[BaseMessage]) -> list[Message]:
        """Return the request as messages."""
        return [self._originals.get(message) or _plain(message) for message in messages]


def _plain(message: BaseMessage) -> Message:
    made: Message = json.loads(json.dumps(convert_to_openai_messages(message)))
    return {key: value for key, value in made.items() if key != "id"}
