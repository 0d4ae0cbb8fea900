"""CrewAI's door: `Agent.kickoff` with our LLM, whose OpenAI client asks a provider on loopback."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Callable, Collection, Mapping
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}

from crewai import LLM, Agent
from crewai.events import crewai_event_bus
from crewai.events.types.llm_events import LLMStreamChunkEvent
from crewai.tools import BaseTool
from crewai.utilities.pydantic_schema_utils import create_model_from_schema
from crewai_files import ImageFile

import unabridged
from doors.sdk import Provider, ResponsesLoop, parameters
from unabridged.adapters.crewai import CrewMessages, LLMCompaction
from unabridged.formats import FORMATS
from unabridged_testing.adapter_contract import Brain, Content, Image
from unabridged_testing.loopback_wires import LoopbackChat

ROLE, GOAL = "Reader", "Read what there is."
MOST = 400
"""Requests that a run may make."""
WAITS = "This call waits for a person."
MARK = "cache_breakpoint"
"""What an executor's own list has beside a message, and what CrewAI gives out has not."""


class ChatWire(LoopbackChat):
    """Chat Completions, whose system prompt is read apart."""

    def messages(self, body: dict[str, Any]) -> list[Any]:
        return [message for message in super().messages(body) if message["role"] != "system"]


class ChatLoop(ResponsesLoop):
    """What a provider reads of a request."""

    wire = ChatWire
    model = "gpt-4o-asking"  # CrewAI sends pictures only to models of which it knows that they see

    def seen(self, body: dict[str, Any]) -> dict[str, Any]:
        system = "\n".join(message["content"] for message in body["messages"] if message["role"] == "system")
        before, after = f"You are {ROLE}. ", f"\nYour personal goal is: {GOAL}"
        assert system.startswith(before)
        assert system.endswith(after)
        own = system.removeprefix(before).removesuffix(after)
        return {"system": own, "tools": body.get("tools") or (), "model": body["model"]}


class ServedMessages(CrewMessages):
    """Messages for the model behind this door."""

    family = FORMATS["openai-responses"].family  # type: ignore[assignment] # that of its model


class OwnTool(BaseTool):  # type: ignore[misc] # without the framework it has no type
    """A function of the contract's."""

    function: Any

    def _run(self, **arguments: Any) -> str:
        return str(self.function(**arguments))


class CrewSession:
    """Runs of an agent whose messages an application keeps between them."""

    def __init__(self, opening: Callable[[], LLMCompaction], about: Mapping[str, Any], thread: str) -> None:
        self._opening, self._about, self._thread = opening, about, thread
        self.compaction = opening()
        self.messages: list[Any] = []
        self.sent = 0
        self._request: dict[str, Any] = {}
        self._asked: list[tuple[str, Mapping[str, Any]]] = []
        self.pieces: list[str] = []

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._asked)

    def say(self, content: Content) -> str:
        parts = (content,) if isinstance(content, str) else content
        self._request = {"role": "user", "content": "\n".join(part for part in parts if isinstance(part, str))}
        pictures = [part for part in parts if isinstance(part, Image)]
        files = {f"picture{i}": ImageFile(source=base64.b64decode(one.data)) for i, one in enumerate(pictures)}
        return self._run([*self.messages, {**self._request, **({"files": files} if files else {})}])

    def approve(self) -> str:
        """Put the results where the calls wait for them, and go on behind them with the same request."""
        waiting = [message for message in self.messages if message.get("content") == WAITS]
        for message, (name, arguments) in zip(waiting, self._asked, strict=True):
            message["content"] = self._about["tools"][name](**arguments)
        self._asked = []
        asked = max(i for i, message in enumerate(self.messages) if message["role"] == "user")
        return self._run([*self.messages[:asked], self._request, *self.messages[asked + 1 :]])

    def _run(self, messages: list[Any]) -> str:
        self.pieces = []
        with crewai_event_bus.scoped_handlers(), unabridged.thread(self._thread):
            llm = self._make_llm()

            @crewai_event_bus.on(LLMStreamChunkEvent)  # type: ignore[untyped-decorator]
            def note(source: Any, event: Any) -> None:
                if source is llm and event.tool_call is None:
                    self.pieces.append(event.chunk)

            done = self._kickoff(self._make_agent(llm), messages)
        self.messages = [message for message in done.messages if message["role"] != "system"]
        self.sent = max(i for i, message in enumerate(self.messages) if message["role"] == "assistant")
        return "" if self._asked else str(done.raw)

    def _kickoff(self, agent: Agent, messages: list[Any]) -> Any:
        return agent.kickoff(messages)

    def _make_llm(self) -> Any:
        where = {"base_url": self._about["provider"].url, "api_key": "none", "max_retries": 0, "api": "completions"}
        return self.compaction.around(LLM(model=f"openai/{ChatLoop.model}", **where, stream=self._about["streaming"]))

    def _make_agent(self, llm: Any) -> Agent:
        tools = [self._make_tool(name, function) for name, function in self._about["tools"].items()]
        tools += self.compaction.tools() if self._about["recall"] else []
        about = {"role": ROLE, "goal": GOAL, "backstory": self._about["system"], "max_iter": MOST}
        return Agent(**about, llm=llm, tools=tools, use_better_compaction=False)

    def _make_tool(self, name: str, function: Callable[..., str]) -> BaseTool:
        def wait(**arguments: Any) -> str:
            self._asked.append((name, arguments))
            return WAITS

        waits = name in self._about["approve"]  # its result is the answer: so the run ends there
        schema = create_model_from_schema(parameters(function), model_name=name)
        about = {"name": name, "description": function.__doc__ or "", "args_schema": schema, "result_as_answer": waits}
        return OwnTool(**about, function=wait if waits else function)

    def stored(self) -> list[Any]:
        return list(self.messages)

    def replay(self) -> list[Any]:
        """The original of what was sent, and what came since."""
        last = self.compaction.history.last(self._thread)
        assert last is not None
        original = self.compaction.history.replay([*last.messages, *self.messages[self.sent :]], thread=self._thread)
        plain = [{key: value for key, value in message.items() if key != MARK} for message in original]
        return [message for message in plain if message["role"] != "system"]

    def undo(self) -> None:
        self.compaction.history.undo(thread=self._thread)

    def restart(self) -> None:
        self.messages = pickle.loads(pickle.dumps(self.messages))  # noqa: S301 - written here
        self.compaction.close()
        self.compaction = self._opening()

    def beside(self, thread: str) -> CrewSession:
        return type(self)(lambda: self.compaction, self._about, thread)

    def close(self) -> None:
        self.compaction.close()
        self._about["provider"].__exit__(None, None, None)


class CrewDoor:
    """`Agent(llm=compaction.around(LLM(...)))`; the list of messages outlives a restart."""

    name = "crewai"
    format = ServedMessages()
    session = CrewSession

    def open(
        self,
        brain: Brain,
        *,
        thread: str,
        tools: Mapping[str, Callable[..., str]],
        approve: Collection[str] = (),
        system: str = "",
        streaming: bool = False,
        recall: bool = False,
        **keywords: Any,
    ) -> CrewSession:
        provider = Provider(brain, ChatLoop()).__enter__()
        about = {"tools": tools, "approve": approve, "system": system, "streaming": streaming, "recall": recall}
        return self.session(lambda: LLMCompaction(**keywords), {**about, "provider": provider}, thread)


DOOR = CrewDoor()
