"""Agent Framework's door: an `Agent` with our middleware; its OpenAI client asks a provider on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import openai
from agent_framework import Agent, AgentSession, ChatContext, ChatMiddleware, Message, tool
from agent_framework import Content as Part
from agent_framework.openai import OpenAIChatCompletionClient

from doors._loop import RunningLoop
from doors.sdk import Provider, ResponsesLoop
from unabridged.adapters.agent_framework import CompactionMiddleware, StoredMessages
from unabridged_testing.adapter_contract import Brain, Content, Image
from unabridged_testing.loopback_wires import LoopbackChat

HISTORY = "in_memory"
"""Where the framework keeps a session's messages in its state."""
MOST = 400
"""Requests that a run may make."""


class ChatWire(LoopbackChat):
    """Chat Completions, whose instructions are the first message."""

    def messages(self, body: dict[str, Any]) -> list[Any]:
        return [message for message in super().messages(body) if message["role"] != "system"]


class ChatLoop(ResponsesLoop):
    """What a provider reads of a request."""

    wire = ChatWire
    model = "asking"

    def seen(self, body: dict[str, Any]) -> dict[str, Any]:
        system = "\n".join(message["content"] for message in body["messages"] if message["role"] == "system")
        return {"system": system, "tools": body.get("tools") or ()}


class Noted(ChatMiddleware):
    """Notes the messages of each session's last request, as they pass."""

    def __init__(self) -> None:
        self.passed: dict[str, list[Message]] = {}

    async def process(self, context: ChatContext, call_next: Any) -> None:
        assert context.session is not None
        self.passed[context.session.session_id] = list(context.messages)
        await call_next()


class Served:
    """The framework's client of a provider on loopback, on an event loop that goes on between the turns."""

    def __init__(self, brain: Brain) -> None:
        self.provider = Provider(brain, ChatLoop()).__enter__()
        self.api = openai.AsyncOpenAI(base_url=self.provider.url, api_key="none", max_retries=0)
        self.client = OpenAIChatCompletionClient(model=ChatLoop.model, async_client=self.api)
        self.client.function_invocation_configuration["max_iterations"] = MOST
        self._loop = RunningLoop()
        self.run = self._loop.run

    def close(self) -> None:
        if not self._loop.is_closed:
            self.run(self.api.close())
            self._loop.close()
            self.provider.__exit__(None, None, None)


class FrameworkSession:
    """A session that an application keeps as JSON between its runs; each turn is a run of its own."""

    def __init__(self, opening: Callable[[], CompactionMiddleware], about: Mapping[str, Any]) -> None:
        self._opening, self._about, self._served = opening, about, about["served"]
        self.compaction = opening()
        self._before, self._sent = Noted(), Noted()
        self._kept = json.dumps(AgentSession(session_id=about["thread"]).to_dict())
        self._asked: list[Part] = []
        self.pieces: list[str] = []

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(str(part.function_call.name) for part in self._asked if part.function_call)

    @property
    def session(self) -> AgentSession:
        return AgentSession.from_dict(json.loads(self._kept))

    def say(self, content: Content) -> str:
        return self._run(_parts(content))

    def approve(self) -> str:
        return self._run([part.to_function_approval_response(approved=True) for part in self._asked])

    def _run(self, parts: list[Any]) -> str:
        session = self.session
        answer = self._served.run(self._ask(Message("user", parts), session))
        self._kept, self._asked = json.dumps(session.to_dict()), answer.user_input_requests
        return "" if self._asked else str(answer.messages[-1].text)

    async def _ask(self, said: Message, session: AgentSession) -> Any:
        held = [*self._about["tools"], *(self.compaction.tools() if self._about["recall"] else ())]
        middleware = [self._before, self.compaction, self._sent]
        agent: Any = Agent(self._served.client, self._about["system"] or None, tools=held, middleware=middleware)
        if not self._about["streaming"]:
            return await agent.run(said, session=session)
        stream = agent.run(said, session=session, stream=True)
        self.pieces = [update.text async for update in stream if update.text]
        return await stream.get_final_response()

    def _messages(self) -> list[Message]:
        return list(self.session.state.get(HISTORY, {}).get("messages", []))

    def stored(self) -> list[Any]:
        return _plain(self._messages())

    def replay(self) -> list[Any]:
        """The original of what was sent last, and what came since."""
        name, messages = self.session.session_id, self._messages()
        since = messages[len(self._before.passed[name]) :]
        return _plain(self.compaction.replay([*self._sent.passed[name], *since], self.session))

    def undo(self) -> None:
        self.compaction.undo(self._messages(), self.session)

    def restart(self) -> None:
        self.compaction.close()
        self.compaction = self._opening()

    def beside(self, thread: str) -> FrameworkSession:
        return FrameworkSession(lambda: self.compaction, {**self._about, "thread": thread})

    def close(self) -> None:
        self.compaction.close()
        self._served.close()


class FrameworkDoor:
    """`Agent(middleware=[CompactionMiddleware(...)])`."""

    name = "agent-framework"
    format = StoredMessages()

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
    ) -> FrameworkSession:
        modes = {name: "always_require" if name in approve else "never_require" for name in tools}
        functions: list[Any] = [tool(run, name=n, approval_mode=modes[n]) for n, run in tools.items()]  # type: ignore[call-overload]

        about = {"thread": thread, "tools": functions, "system": system, "streaming": streaming, "recall": recall}
        return FrameworkSession(lambda: CompactionMiddleware(**keywords), {**about, "served": Served(brain)})


DOOR = FrameworkDoor()


def _parts(content: Content) -> list[Any]:
    pieces = (content,) if isinstance(content, str) else content
    return [
        Part.from_uri(f"data:{piece.mime};base64,{piece.data}", media_type=piece.mime)
        if isinstance(piece, Image)
        else piece
        for piece in pieces
    ]


def _plain(messages: list[Message]) -> list[Any]:
    """The framework's own messages as it writes them: they can't be compared."""
    assert {type(message) for message in messages} <= {Message}
    return [message.to_dict() for message in messages]
