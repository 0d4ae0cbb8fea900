"""Scripted chat models for agents: they refuse what a provider would refuse, by rules of their own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import langchain.agents
import psycopg
import psycopg.sql
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from archive_support import postgres_url
from unabridged.adapters.langchain import SummarizationMiddleware


def create_agent(*arguments: Any, **options: Any) -> Any:
    """LangChain's, without its types: a test hands over dicts and reads what comes back."""
    return langchain.agents.create_agent(*arguments, **options)


class Log:
    """What a model was sent, and how often it was called; shared by all copies of the model."""

    def __init__(self) -> None:
        self.requests: list[list[BaseMessage]] = []
        self.sizes: list[int] = []
        self.overflows = 0

    @property
    def calls(self) -> int:
        return len(self.requests)

    @property
    def text(self) -> str:
        """All that was ever sent."""
        return "\n".join(str(m.content) for request in self.requests for m in request)


class ScriptedChat(BaseChatModel):
    """Answers request number `i` (from 0) with `script(i, messages)`: a message, a text, or an exception to raise.

    With `window`, a request of more tokens (four characters each, schemas of bound tools included) is an overflow.
    """

    script: Callable[[int, list[BaseMessage]], Any]
    log: Log = Field(default_factory=Log)
    window: int | None = None
    model_name: str = "scripted"
    schemas: int = 0
    checked: bool = True

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        schemas = sum(len(json.dumps(t if isinstance(t, dict) else convert_to_openai_tool(t))) for t in tools)
        return self.model_copy(update={"schemas": schemas})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[Any]:
        said = self._next(messages)
        fields: dict[str, Any] = {"tool_calls": said.tool_calls, "response_metadata": said.response_metadata}
        yield ChatGenerationChunk(message=AIMessageChunk(content=said.content, **fields))

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        if self.checked:
            refuse_illegal(messages)
        size = (sum(map(characters, messages)) + self.schemas) // 4
        if self.window is not None and size > self.window:
            self.log.overflows += 1
            raise ContextOverflowError(f"prompt is too long: {size} tokens > {self.window} maximum")
        self.log.requests.append(list(messages))
        self.log.sizes.append(size)
        said = self.script(self.log.calls - 1, messages)
        if isinstance(said, BaseException):
            raise said
        return AIMessage(said, response_metadata={"finish_reason": "stop"}) if isinstance(said, str) else said


def characters(message: BaseMessage) -> int:
    calls = json.dumps(message.tool_calls) if isinstance(message, AIMessage) and message.tool_calls else ""
    content = message.content if isinstance(message.content, str) else json.dumps(message.content)
    return len(content) + len(calls)


def refuse_illegal(messages: Sequence[BaseMessage]) -> None:
    """What every provider refuses: calls without results right behind, results without calls, no user at the front."""
    waiting: list[str] = []
    spoken = [message for message in messages if message.type != "system"]
    assert isinstance(spoken[0], HumanMessage), f"the first message is {spoken[0].type}"
    for i, message in enumerate(spoken):
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting, f"message {i} answers {message.tool_call_id}, which nobody called"
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting, f"message {i} comes before results for {waiting}"
        if isinstance(message, AIMessage):
            waiting = [str(call["id"]) for call in message.tool_calls]
    assert not waiting, f"no results for {waiting}"
    assert not isinstance(spoken[-1], AIMessage) or spoken[-1].tool_calls, "the model is asked to answer itself"


def call(name: str, key: object, text: str = "", **arguments: Any) -> AIMessage:
    return AIMessage(text, tool_calls=[{"id": f"call-{key}", "name": name, "args": arguments}])


def working(steps: int, *, size: int = 60) -> Callable[[int, list[BaseMessage]], Any]:
    """A model that uses the tool `work` for so many steps, and then is done."""
    return lambda i, _: call("work", i, f"Step {i}.", number=i, size=size) if i < steps else "All done."


@tool
def work(number: int, size: int = 60) -> str:
    """Do one piece of work and report on it."""
    return f"report {number}: " + " ".join(f"fact{number}x{j}" for j in range(size))


def long_chat(turns: int, words: int = 30) -> list[Any]:
    """Plain turns, each about something else, ending with a person's question."""
    messages: list[BaseMessage] = []
    for i in range(turns):
        filler = " ".join(f"detail{i}x{j}" for j in range(words))
        messages.append(HumanMessage(f"Question {i}: what about {filler}?", id=f"h{i}"))
        messages.append(AIMessage(f"Answer {i}: {filler}.", id=f"a{i}"))
    return [*messages, HumanMessage("And what is the very last thing?", id="last")]


def rounds(count: int, words: int = 40, *, first: str = "Please work through all of it.") -> list[Any]:
    """One person's request and a long chain of tool rounds."""
    messages: list[BaseMessage] = [HumanMessage(first, id="request")]
    for i in range(count):
        messages.append(call("work", i, f"Step {i}.", number=i).model_copy(update={"id": f"a{i}"}))
        text = " ".join(f"fact{i}x{j}" for j in range(words))
        messages.append(ToolMessage(text, tool_call_id=f"call-{i}", id=f"t{i}"))
    return messages


def fresh_database() -> str:
    """The URL of an empty Postgres database."""
    url, name = postgres_url(), f"test_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
    head, _, tail = url.partition("/postgres?")
    return f"{head}/{name}?{tail}" if tail else url.replace("/postgres", f"/{name}")


# -- agents ---------------------------------------------------------------------------------------------------------

START = {"messages": [HumanMessage("Work through all of it, and never touch pump 7.")]}
SECRET = "Zusammenfassungswort"  # noqa: S105 - a word to look for
SAID = f"{SECRET}. Goals: work through all of it. Done so far: many reports were read and noted down."


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name}, "recursion_limit": 5_000}


def agent_model(steps: int, window: int, script: Callable[..., Any] | None = None) -> ScriptedChat:
    return ScriptedChat(script=script or working(steps), window=window, profile={"max_input_tokens": window})


def ours(model: Any = None, **options: Any) -> SummarizationMiddleware:
    return SummarizationMiddleware(model, **{"archive": "memory:", **options})


def summariser(said: Any = SAID) -> ScriptedChat:
    return ScriptedChat(script=lambda i, _: said(i) if callable(said) else said, model_name="writer")


def bare(messages: list[BaseMessage]) -> list[Any]:
    """What was said, without ids."""
    return [(m.type, m.content, getattr(m, "tool_calls", None), getattr(m, "tool_call_id", None)) for m in messages]


def summaries(messages: list[BaseMessage]) -> int:
    return sum(str(m.content).startswith("[unabridged summary") for m in messages)
