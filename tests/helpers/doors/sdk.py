"""The door of loops over an SDK: OpenAI's real client, wrapped, against a provider on loopback that asks the brain."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Self

import openai

import unabridged
from unabridged.adapters.sdk import History, history_of
from unabridged.formats import FORMATS
from unabridged_testing import loopback_wires as wires
from unabridged_testing.adapter_contract import RECALL_TOOLS, Brain, Content, Image, Seen, TooLong
from unabridged_testing.loopback import Loopback
from unabridged_testing.loopback_wires import LoopbackReply, ServedAnswer

TYPES = {"int": "integer", "str": "string", int: "integer", str: "string"}


class Provider(Loopback):
    """A provider whose model asks the brain, which is also the one that refuses."""

    def __init__(self, brain: Brain, loop: ResponsesLoop) -> None:
        super().__init__(lambda _: LoopbackReply(), window=0)
        self.brain, self.loop, self.wire = brain, loop, loop.wire()

    def answer(self, path: str, body: dict[str, Any]) -> ServedAnswer:
        streamed = self.wire.is_streamed(path, body)
        seen = Seen.of(self.wire.messages(body), self.wire.format, **self.loop.seen(body))
        try:
            said = self.brain(seen)
        except TooLong as error:
            return self.wire.build_too_long_answer(error.requested, error.limit, streamed=streamed)
        except Exception as error:  # noqa: BLE001 - a server that fails says so
            return ServedAnswer(500, {"error": {"message": str(error)}})
        calls = [(name, dict(arguments)) for name, arguments in said.calls]
        return self.wire.build_answer(body, LoopbackReply(said.text, calls), said.used, streamed=streamed)


class ResponsesLoop:
    """How a caller writes a loop over Responses."""

    wire: type[wires.LoopbackWire] = wires.LoopbackResponses
    read = "openai-responses"
    model = "gpt-5-mini"

    def client(self, url: str) -> Any:
        return openai.OpenAI(base_url=url, api_key="none", max_retries=0)

    def seen(self, body: dict[str, Any]) -> dict[str, Any]:
        """What the model reads beside the messages."""
        system = body.get("system") or body.get("instructions") or ""
        return {"system": system, "tools": body.get("tools") or (), "model": body["model"]}

    def user(self, content: Content) -> Any:
        parts = (content,) if isinstance(content, str) else content
        return {"role": "user", "content": [self.image(p) if isinstance(p, Image) else self.text(p) for p in parts]}

    def text(self, text: str) -> Any:
        return {"type": "input_text", "text": text}

    def image(self, picture: Image) -> Any:
        return {"type": "input_image", "image_url": f"data:{picture.mime};base64,{picture.data}", "detail": "auto"}

    def tool(self, name: str, function: Callable[..., str]) -> Any:
        described = {"name": name, "description": inspect.getdoc(function), "parameters": parameters(function)}
        return {"type": "function", **described, "strict": False}

    def ask(self, client: Any, messages: list[Any], system: str, tools: list[Any]) -> Any:
        """The SDK's context manager of a stream."""
        asked: dict[str, Any] = {"model": self.model, "input": messages, "tools": tools}
        return client.responses.stream(**asked, **({"instructions": system} if system else {}))

    def pieces(self, stream: Any) -> list[str]:
        return [event.delta for event in stream if event.type == "response.output_text.delta" and event.delta]

    def final(self, stream: Any) -> tuple[list[Any], list[tuple[str, str, Any]], str]:
        """What goes into the list, the calls in it, and its text."""
        done = stream.get_final_response()
        calls = [(i.call_id, i.name, json.loads(i.arguments)) for i in done.output if i.type == "function_call"]
        return done.output, calls, done.output_text

    def results(self, answers: list[tuple[str, str]]) -> list[Any]:
        return [{"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text in answers]


class LoopSession:
    """A loop of a caller's own, with its list of messages."""

    def __init__(self, opening: Callable[[], Any], loop: ResponsesLoop, about: Mapping[str, Any], thread: str) -> None:
        self._opening, self._loop, self._about, self._thread = opening, loop, about, thread
        self.client = opening()
        self.messages: list[Any] = []
        self.sent = 0
        self._asked: list[tuple[str, str, Any]] = []
        self.waiting: tuple[str, ...] = ()
        self.pieces: list[str] = []

    def say(self, content: Content) -> str:
        self.messages.append(self._loop.user(content))
        return self._run()

    def approve(self) -> str:
        self._answer()
        return self._run()

    def _run(self) -> str:
        while True:
            with unabridged.thread(self._thread):
                said, text = self._ask()
            self.messages += said
            self.waiting = tuple(name for _, name, _ in self._asked if name in self._about["approve"])
            if self.waiting or not self._asked:
                return "" if self.waiting else text
            self._answer()

    def _ask(self) -> tuple[list[Any], str]:
        tools = [self._loop.tool(name, function) for name, function in self._about["tools"].items()]
        if self._about["recall"]:
            tools += self.history.recall().schemas(self._loop.read)
        with self._loop.ask(self.client, self.messages, self._about["system"], tools) as stream:
            self.pieces = self._loop.pieces(stream)
            said, self._asked, text = self._loop.final(stream)
        self.sent = len(self.messages)
        return said, text

    def _answer(self) -> None:
        self.messages += self._loop.results([(id_, self._call(name, given)) for id_, name, given in self._asked])
        self.waiting = ()

    def _call(self, name: str, given: Any) -> str:
        if name in RECALL_TOOLS:
            return self.history.recall(self._thread).call(name, given)
        return str(self._about["tools"][name](**given))

    @property
    def history(self) -> History:
        return history_of(self.client)

    def stored(self) -> list[Any]:
        return list(self.messages)

    def replay(self) -> list[Any]:
        """The original of what was sent, and what came since."""
        last = self.history.last(self._thread)
        assert last is not None
        return self.history.replay([*last.messages, *self.messages[self.sent :]], thread=self._thread)

    def undo(self) -> None:
        self.history.undo(thread=self._thread)

    def restart(self) -> None:
        self.client.close()
        self.client = self._opening()

    def beside(self, thread: str) -> Self:
        return type(self)(lambda: self.client, self._loop, self._about, thread)

    def close(self) -> None:
        self.client.close()
        self._about["provider"].__exit__(None, None, None)


class SdkDoor:
    """A loop over a client that `unabridged.wrap` made; the caller's list outlives a restart."""

    name = "sdk"
    loop: ResponsesLoop = ResponsesLoop()
    format = FORMATS[ResponsesLoop.read]

    def open(
        self,
        brain: Brain,
        *,
        thread: str,
        tools: Mapping[str, Callable[..., str]],
        approve: Collection[str] = (),
        system: str = "",
        streaming: bool = False,  # noqa: ARG002 - it streams anyway
        recall: bool = False,
        **keywords: Any,
    ) -> LoopSession:
        provider = Provider(brain, self.loop).__enter__()
        about = {"tools": tools, "approve": approve, "system": system, "recall": recall, "provider": provider}

        def opening() -> Any:
            return unabridged.wrap(self.loop.client(provider.url), **keywords)

        return LoopSession(opening, self.loop, about, thread)


def parameters(function: Callable[..., str]) -> dict[str, Any]:
    arguments = inspect.signature(function).parameters
    properties = {name: {"type": TYPES[argument.annotation]} for name, argument in arguments.items()}
    return {"type": "object", "properties": properties, "required": list(arguments)}


DOOR = SdkDoor()
