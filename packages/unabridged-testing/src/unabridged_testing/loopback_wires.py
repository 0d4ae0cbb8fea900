"""OpenAI's and Google's wires of `Loopback`: what each takes, how it says "too long", its answers and their events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from unabridged.formats import GeminiContents, OpenAIChat, OpenAIResponses
from unabridged_testing.upstreams import StrictUpstream
from unabridged_testing.wire import sign_text


@dataclass(frozen=True, slots=True)
class LoopbackReply:
    """The answer of a scripted model: words, calls (tool and arguments), and what it thought before."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    thought: str = ""


class ServedAnswer(NamedTuple):
    """An answer over HTTP: a body, a list of events with their names, or the frames of Amazon's event stream."""

    status: int
    content: Any
    done: str = ""

    @property
    def content_type(self) -> str:
        """Return the value of the header."""
        if isinstance(self.content, bytes):
            return "application/vnd.amazon.eventstream"
        return "text/event-stream" if isinstance(self.content, list) else "application/json"

    def as_bytes(self) -> bytes:
        """Return the body."""
        return b"".join(self.pieces())

    def pieces(self) -> list[bytes]:
        """Return the body event by event."""
        if isinstance(self.content, bytes):
            return [self.content]
        if not isinstance(self.content, list):
            return [json.dumps(self.content).encode()]
        named = (("" if name is None else f"event: {name}\n", data) for name, data in self.content)
        events = [f"{name}data: {json.dumps(data)}\n\n".encode() for name, data in named]
        return [*events, self.done.encode()] if self.done else events


Events = list[tuple[str | None, dict[str, Any]]]


class LoopbackWire:
    """One provider's endpoint."""

    format: str
    path: str
    """How the path of a request ends."""
    streamed_path: str = ""
    """How that of a streamed one does, where the path says it."""
    too_long: str
    """What the provider says of a request that is too long."""
    messages_field: str = "messages"
    """The field of the conversation."""
    other_fields: tuple[str, ...] = ("system", "tools")
    """What else the model reads."""

    def __init__(self) -> None:
        self._rules = StrictUpstream(self.format)
        self._numbers = count(1)

    def serves(self, path: str) -> bool:
        """Return whether the path is this wire's."""
        return path.partition("?")[0].endswith((self.path, self.streamed_path or self.path))

    def is_streamed(self, path: str, body: dict[str, Any]) -> bool:
        """Return whether events are asked for."""
        return self.streamed_path in path if self.streamed_path else bool(body.get("stream"))

    def messages(self, body: dict[str, Any]) -> list[Any]:
        """Return the conversation."""
        messages = body[self.messages_field]
        return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages

    def collect_model_input(self, body: dict[str, Any]) -> Any:
        """Return all of the request that takes tokens."""
        return [body.get(name) for name in (*self.other_fields, self.messages_field)]

    def take(self, body: dict[str, Any]) -> None:
        """Take the request, or raise `Refused`."""
        self._rules.take(self.messages(body))

    def build_refusal(self, reasons: str) -> ServedAnswer:
        """Return the refusal of a request whose form is wrong."""
        error = {"message": reasons, "type": "invalid_request_error", "code": "invalid_value"}
        return ServedAnswer(400, {"error": error})

    def build_too_long_answer(self, tokens: int, window: int, *, streamed: bool) -> ServedAnswer:  # noqa: ARG002 - most say it before they stream
        """Return the refusal of a request that is too long, in the provider's own words."""
        return self.build_refusal(self.too_long.format(tokens=tokens, window=window))

    def build_answer(self, body: dict[str, Any], said: LoopbackReply, tokens: int, *, streamed: bool) -> ServedAnswer:
        """Return the model's answer."""
        answer = self.build_whole_answer(body, said, tokens)
        return self.build_stream(answer, body) if streamed else ServedAnswer(200, answer)

    def build_whole_answer(self, body: dict[str, Any], said: LoopbackReply, tokens: int) -> dict[str, Any]:
        """Return the answer in one piece."""
        raise NotImplementedError

    def build_stream(self, answer: dict[str, Any], body: dict[str, Any]) -> ServedAnswer:
        """Return the same as events."""
        raise NotImplementedError

    def new_id(self, prefix: str) -> str:
        """Return an id that nothing else has."""
        return f"{prefix}_{next(self._numbers)}"


class LoopbackChat(LoopbackWire):
    """Chat Completions."""

    format = OpenAIChat.name
    path = "/chat/completions"
    other_fields = ("tools", "response_format")
    too_long = (
        "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )

    def build_too_long_answer(self, tokens: int, window: int, *, streamed: bool) -> ServedAnswer:  # noqa: ARG002 - before it streams
        """Return the refusal of a request that is too long."""
        error = {"message": self.too_long.format(tokens=tokens, window=window), "type": "invalid_request_error"}
        return ServedAnswer(400, {"error": {**error, "param": "messages", "code": "context_length_exceeded"}})

    def build_whole_answer(self, body: dict[str, Any], said: LoopbackReply, tokens: int) -> dict[str, Any]:
        """Return a chat completion."""
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None, "refusal": None}
        if said.calls:
            called = [{"name": name, "arguments": _to_json_text(arguments)} for name, arguments in said.calls]
            message["tool_calls"] = [{"id": self.new_id("call"), "type": "function", "function": f} for f in called]
        choice = {"index": 0, "finish_reason": "tool_calls" if said.calls else "stop", "message": message}
        usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
        about = {"id": self.new_id("chatcmpl"), "object": "chat.completion", "created": 1, "model": body.get("model")}
        return {**about, "choices": [choice], "usage": usage}

    def build_stream(self, answer: dict[str, Any], body: dict[str, Any]) -> ServedAnswer:
        """Return chunks; the usage only where it is asked for."""
        choice = answer["choices"][0]
        message = choice["message"]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": part} for part in split_in_half(message["content"] or "")]
        for index, call in enumerate(message.get("tool_calls", ())):
            first, second = split_in_half(call["function"]["arguments"])
            opened = {**call, "function": {**call["function"], "arguments": first}}
            deltas += [{"tool_calls": [{"index": index, **opened}]}]
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": second}}]}]
        about = {**answer, "object": "chat.completion.chunk", "usage": None}
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]})
        events: Events = [(None, {**about, "choices": [choice]}) for choice in choices]
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append((None, {**about, "choices": [], "usage": answer["usage"]}))
        return ServedAnswer(200, events, "data: [DONE]\n\n")


class LoopbackResponses(LoopbackWire):
    """Responses: one that streams is begun before it fails."""

    format = OpenAIResponses.name
    path = "/responses"
    messages_field = "input"
    too_long = "Your input exceeds the context window of this model. Please adjust your input and try again."
    other_fields = ("instructions", "tools", "text")

    def build_too_long_answer(self, tokens: int, window: int, *, streamed: bool) -> ServedAnswer:  # noqa: ARG002 - it tells neither
        """Return the refusal of a request that is too long."""
        error = {"code": "context_length_exceeded", "message": self.too_long}
        if not streamed:
            return ServedAnswer(400, {"error": {**error, "type": "invalid_request_error", "param": "input"}})
        started = self._build_response("in_progress", [], {})
        failed = {**started, "status": "failed", "error": error}
        return ServedAnswer(200, _number_events([("response.created", started), ("response.failed", failed)]))

    def build_whole_answer(self, body: dict[str, Any], said: LoopbackReply, tokens: int) -> dict[str, Any]:
        """Return a response."""
        output: list[dict[str, Any]] = []
        if said.thought:
            sealed = {"summary": [], "encrypted_content": said.thought.encode().hex()}
            output.append({"type": "reasoning", "id": self.new_id("rs"), **sealed})
        if said.text:
            content = [{"type": "output_text", "text": said.text, "annotations": []}]
            about = {"id": self.new_id("msg"), "role": "assistant", "status": "completed"}
            output.append({"type": "message", **about, "content": content})
        for name, arguments in said.calls:
            about = {"id": self.new_id("fc"), "call_id": self.new_id("call"), "status": "completed"}
            output.append({"type": "function_call", **about, "name": name, "arguments": _to_json_text(arguments)})
        usage: dict[str, Any] = {"input_tokens": tokens, "output_tokens": 20, "total_tokens": tokens + 20}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return self._build_response("completed", output, {"usage": usage, "model": body.get("model")})

    def _build_response(self, status: str, output: list[dict[str, Any]], more: dict[str, Any]) -> dict[str, Any]:
        about = {"id": self.new_id("resp"), "object": "response", "created_at": 1, "model": "served", "error": None}
        asked = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": None}
        return {**about, **asked, "status": status, "output": output, **more}

    def build_stream(self, answer: dict[str, Any], body: dict[str, Any]) -> ServedAnswer:  # noqa: ARG002 - it tells all by itself
        """Return events, as the SDK's own helper puts them together again."""
        started = {**answer, "status": "in_progress", "output": [], "usage": None}
        events: list[tuple[str, Any]] = [("response.created", started), ("response.in_progress", started)]
        for index, item in enumerate(answer["output"]):
            at = {"output_index": index, "item_id": item["id"]}
            begins: dict[str, dict[str, Any]] = {"message": {"content": []}, "function_call": {"arguments": ""}}
            empty = begins.get(item["type"], {})
            events.append(("response.output_item.added", {"output_index": index, "item": {**item, **empty}}))
            if item["type"] == "message":
                events += _build_text_events(at, item["content"][0])
            elif item["type"] == "function_call":
                kind = "response.function_call_arguments"
                events += [(f"{kind}.delta", {**at, "delta": part}) for part in split_in_half(item["arguments"])]
                events.append((f"{kind}.done", {**at, "arguments": item["arguments"], "name": item["name"]}))
            events.append(("response.output_item.done", {"output_index": index, "item": item}))
        return ServedAnswer(200, _number_events([*events, ("response.completed", answer)]))


class LoopbackGemini(LoopbackWire):
    """Gemini's `generateContent`; thoughts are signed, and a call without its signature is refused by the rules."""

    format = GeminiContents.name
    path = ":generateContent"
    streamed_path = ":streamGenerateContent"
    too_long = "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
    messages_field = "contents"
    other_fields = ("systemInstruction", "tools")

    def build_refusal(self, reasons: str) -> ServedAnswer:
        """Return the refusal of a request whose form is wrong."""
        return ServedAnswer(400, {"error": {"code": 400, "message": reasons, "status": "INVALID_ARGUMENT"}})

    def build_whole_answer(self, body: dict[str, Any], said: LoopbackReply, tokens: int) -> dict[str, Any]:  # noqa: ARG002 - the path has it
        """Return a response."""
        parts: list[dict[str, Any]] = [{"text": said.text}] if said.text else []
        calls = [{"name": name, "args": arguments} for name, arguments in said.calls]
        signed = {"thoughtSignature": sign_text(json.dumps(calls[0], sort_keys=True))} if said.thought and calls else {}
        parts += [{"functionCall": call, **(signed if call is calls[0] else {})} for call in calls]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": tokens, "candidatesTokenCount": 20, "totalTokenCount": tokens + 20}
        about = {"modelVersion": "served", "responseId": self.new_id("r")}
        return {"candidates": [candidate], "usageMetadata": usage, **about}

    def build_stream(self, answer: dict[str, Any], body: dict[str, Any]) -> ServedAnswer:  # noqa: ARG002 - it tells all by itself
        """Return a piece for each half of a text, and for each call."""
        candidate = answer["candidates"][0]
        pieces: list[dict[str, Any]] = []
        for part in candidate["content"]["parts"]:
            first, second = split_in_half(part["text"]) if "text" in part else ("", "")
            pieces += [{"text": first}, {**part, "text": second}] if "text" in part else [part]
        contents = [{"role": "model", "parts": [piece]} for piece in pieces]
        parted = [{**answer, "candidates": [{"content": content, "index": 0}]} for content in contents]
        parted[-1]["candidates"][0]["finishReason"] = candidate["finishReason"]
        return ServedAnswer(200, [(None, piece) for piece in parted])


def _build_text_events(at: dict[str, Any], part: dict[str, Any]) -> list[tuple[str, Any]]:
    at = {**at, "content_index": 0}
    done = {**at, "text": part["text"], "logprobs": []}
    deltas = [{**at, "delta": half, "logprobs": []} for half in split_in_half(part["text"])]
    return [
        ("response.content_part.added", {**at, "part": {**part, "text": ""}}),
        *(("response.output_text.delta", delta) for delta in deltas),
        ("response.output_text.done", done),
        ("response.content_part.done", {**at, "part": part}),
    ]


def _number_events(events: Sequence[tuple[str, dict[str, Any]]]) -> Events:
    """Return events of Responses: those of a whole response hold it, and all are numbered."""
    whole = ("response.created", "response.in_progress", "response.completed", "response.failed")
    numbered = enumerate((name, {"response": data} if name in whole else data) for name, data in events)
    return [(name, {"type": name, "sequence_number": number, **data}) for number, (name, data) in numbered]


def split_in_half(text: str) -> list[str]:
    """Return the text in two pieces."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _to_json_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
