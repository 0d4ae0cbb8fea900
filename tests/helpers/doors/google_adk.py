"""ADK's door: an `LlmAgent` in an app with our plugin, the in-memory runner's services, and a model that asks."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import Any

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode  # type: ignore[attr-defined]
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from google.genai.errors import ClientError

from unabridged.adapters.google_adk import AdkContents, CompactionPlugin
from unabridged.archive.protocol import DEFAULT_NAMESPACE
from unabridged_testing.adapter_contract import Brain, Content, Image, ModelReply, Seen, TooLong

APP, USER = "contract", "ada"
APPROVAL = "adk_request_confirmation"
IDENTITY = "\n\nYou are an agent. Your internal name is"
"""What ADK adds to every instruction."""


class AskingLlm(BaseLlm):
    """A model that asks the brain."""

    brain: Any
    ids: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        said = self._ask(llm_request)
        calls = [
            types.Part(function_call=types.FunctionCall(id=f"fc_{next(self.ids)}", name=name, args=dict(args)))
            for name, args in said.calls
        ]
        for piece in [said.text[:3], said.text[3:]] if stream and said.text else []:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=piece)]), partial=True)
        parts = [types.Part(text=said.text), *calls] if said.text else calls
        used = types.GenerateContentResponseUsageMetadata(prompt_token_count=said.used, candidates_token_count=1)
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=used)

    def _ask(self, asked: LlmRequest) -> ModelReply:
        declared = [tool.function_declarations for tool in asked.config.tools or () if isinstance(tool, types.Tool)]
        schemas = [one.model_dump(exclude_none=True) for found in declared for one in found or ()]
        wire = [content.model_dump(mode="json", exclude_none=True, by_alias=True) for content in asked.contents]
        system = str(asked.config.system_instruction or "").partition(IDENTITY)[0]
        try:
            return self.brain(Seen.of(wire, "gemini", system=system, tools=schemas))  # type: ignore[no-any-return]
        except TooLong as error:
            numbers = f"({error.requested}) exceeds the maximum number of tokens allowed ({error.limit})"
            said = f"The input token count {numbers}."
            raise ClientError(400, {"error": {"code": 400, "message": said, "status": "INVALID_ARGUMENT"}}) from None


class Noted(BasePlugin):
    """Notes what each session's model was sent last, and how many events there were then."""

    def __init__(self) -> None:
        super().__init__("noted")
        self.sent: dict[str, tuple[LlmRequest, int]] = {}

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        session = callback_context.session
        self.sent[session.id] = (llm_request, len(session.events))


Opening = Callable[[], tuple[Runner, CompactionPlugin]]


class AdkSession:
    """A session of an app."""

    def __init__(self, opening: Opening, noted: Noted, thread: str, *, streaming: bool) -> None:
        self._opening, self._noted, self._thread = opening, noted, thread
        self._config = RunConfig(
            streaming_mode=StreamingMode.SSE if streaming else StreamingMode.NONE, max_llm_calls=1_000
        )
        self.runner, self.plugin = opening()
        self._service: Any = self.runner.session_service
        self.waiting: tuple[str, ...] = ()
        self.pieces: list[str] = []
        self._asked: list[types.FunctionCall] = []

    def say(self, content: Content) -> str:
        return asyncio.run(self._run(types.Content(role="user", parts=_parts(content))))

    def approve(self) -> str:
        parts = [
            types.Part(
                function_response=types.FunctionResponse(id=call.id, name=APPROVAL, response={"confirmed": True})
            )
            for call in self._asked
        ]
        return asyncio.run(self._run(types.Content(role="user", parts=parts)))

    async def _run(self, message: types.Content) -> str:
        if await self._service.get_session(app_name=APP, user_id=USER, session_id=self._thread) is None:
            await self._service.create_session(app_name=APP, user_id=USER, session_id=self._thread)
        self.pieces, self._asked, last = [], [], ""
        async for event in self.runner.run_async(
            user_id=USER, session_id=self._thread, new_message=message, run_config=self._config
        ):
            text = "".join(part.text or "" for part in _parts_of(event))
            if event.partial and text:
                self.pieces.append(text)
            self._asked += [call for call in event.get_function_calls() if call.name == APPROVAL]
            last = text if event.is_final_response() and not event.partial else last
        self.waiting = tuple(call.args["originalFunctionCall"]["name"] for call in self._asked if call.args)
        return "" if self.waiting else last

    def _session(self) -> Any:
        return asyncio.run(self._service.get_session(app_name=APP, user_id=USER, session_id=self._thread))

    def stored(self) -> list[Any]:
        return [event.content for event in self._session().events if event.content]

    def _sent(self) -> list[Any]:
        """What the model was sent last, and what came since."""
        asked, known = self._noted.sent[self._thread]
        return [*asked.contents, *(event.content for event in self._session().events[known:] if event.content)]

    def replay(self) -> list[Any]:
        return asyncio.run(self.plugin.replay(self._sent(), self._session()))

    def undo(self) -> None:
        asyncio.run(self.plugin.undo(self._sent(), self._session()))

    def restart(self) -> None:
        self.close()
        self.runner, self.plugin = self._opening()

    def beside(self, thread: str) -> AdkSession:
        streaming = self._config.streaming_mode == StreamingMode.SSE
        return AdkSession(lambda: (self.runner, self.plugin), self._noted, thread, streaming=streaming)

    def close(self) -> None:
        asyncio.run(self.runner.close())


class AdkDoor:
    """An app whose sessions outlive a restart."""

    name = "google_adk"
    format = AdkContents()

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
    ) -> AdkSession:
        service, ids, noted = InMemorySessionService(), itertools.count(), Noted()

        def opening() -> tuple[Runner, CompactionPlugin]:
            plugin = CompactionPlugin(namespace=DEFAULT_NAMESPACE, **keywords)
            functions: list[Any] = [FunctionTool(tool, require_confirmation=n in approve) for n, tool in tools.items()]
            agent = LlmAgent(
                name="reader",
                model=AskingLlm(model="asking", brain=brain, ids=ids),
                static_instruction=system or None,
                tools=[*functions, *(plugin.tools() if recall else ())],
            )
            app = App(name=APP, root_agent=agent, plugins=[plugin, noted])
            return Runner(app=app, session_service=service), plugin

        return AdkSession(opening, noted, thread, streaming=streaming)


DOOR = AdkDoor()


def _parts_of(event: Event) -> list[types.Part]:
    return (event.content.parts or []) if event.content else []


def _parts(content: Content) -> list[types.Part]:
    pieces = (content,) if isinstance(content, str) else content
    return [
        types.Part.from_bytes(data=base64.b64decode(piece.data), mime_type=piece.mime)
        if isinstance(piece, Image)
        else types.Part(text=piece)
        for piece in pieces
    ]
