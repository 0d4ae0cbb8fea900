"""Anthropic's Messages on `Loopback`: its own, those of Vertex, and those of Bedrock, which streams binary frames."""

from __future__ import annotations

import base64
import json
from binascii import crc32
from collections.abc import Mapping
from struct import pack
from typing import Any

from unabridged.formats import Anthropic
from unabridged_testing.loopback_wires import LoopbackReply, LoopbackWire, ServedAnswer, split_in_half
from unabridged_testing.upstreams import Refused, SigningUpstream


class LoopbackMessages(LoopbackWire):
    """Messages: thinking is signed together with all that stood before it, and what does not match is refused."""

    format = Anthropic.name
    path = "/v1/messages"
    too_long = "prompt is too long: {tokens} tokens > {window} maximum"

    def __init__(self) -> None:
        super().__init__()
        self._rules: SigningUpstream = SigningUpstream()

    def build_refusal(self, reasons: str) -> ServedAnswer:
        """Return the refusal of a request whose form is wrong."""
        return ServedAnswer(400, {"type": "error", "error": {"type": "invalid_request_error", "message": reasons}})

    def build_whole_answer(self, body: dict[str, Any], said: LoopbackReply, tokens: int) -> dict[str, Any]:
        """Return a message."""
        content: list[dict[str, Any]] = []
        if said.thought:
            content.append({"type": "thinking", "thinking": said.thought, "signature": ""})
        if said.text:
            content.append({"type": "text", "text": said.text})
        for name, arguments in said.calls:
            content.append({"type": "tool_use", "id": self.new_id("toolu"), "name": name, "input": arguments})
        message = {"role": "assistant", "content": content}
        (message,) = self._rules.sign([message], after=body["messages"])
        about = {"id": self.new_id("msg"), "type": "message", "model": body.get("model", "served")}
        stop = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
        usage = {"input_tokens": tokens, "output_tokens": 20, "cache_read_input_tokens": 0}
        return {**about, **message, **stop, "usage": {**usage, "cache_creation_input_tokens": 0}}

    def build_stream(self, answer: dict[str, Any], body: dict[str, Any]) -> ServedAnswer:  # noqa: ARG002 - it tells all by itself
        """Return events."""
        started = {**answer, "content": [], "stop_reason": None}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": started}]
        for index, block in enumerate(answer["content"]):
            empty, deltas = _split_block(block)
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 20}})
        events.append({"type": "message_stop"})
        return ServedAnswer(200, [(event["type"], event) for event in events])


class LoopbackCloudMessages(LoopbackMessages):
    """Messages on a cloud: the path names the model, and the body the version of the API."""

    unknown: tuple[str, ...] = ("model",)
    """Fields of Anthropic's own that are no part of a body here."""

    def take(self, body: dict[str, Any]) -> None:
        """Take the request, or raise `Refused`."""
        for name in self.unknown:
            if name in body:
                raise Refused(f"{name}: Extra inputs are not permitted")
        if not body.get("anthropic_version"):
            raise Refused("anthropic_version: Field required")
        super().take(body)


class LoopbackVertex(LoopbackCloudMessages):
    """Messages on Google's Vertex: the same answers and events."""

    path = ":rawPredict"
    streamed_path = ":streamRawPredict"


class LoopbackBedrock(LoopbackCloudMessages):
    """Messages on Amazon's Bedrock: the same answers, errors in Amazon's form, events in frames.

    A stream that can't be answered ends in a frame that says so, after it was opened.
    """

    path = "/invoke"
    streamed_path = "/invoke-with-response-stream"
    too_long = "Input is too long for requested model."
    unknown = ("model", "stream")

    def build_refusal(self, reasons: str) -> ServedAnswer:
        """Return the refusal of a request whose form is wrong."""
        return ServedAnswer(400, {"message": reasons})

    def build_too_long_answer(self, tokens: int, window: int, *, streamed: bool) -> ServedAnswer:
        """Return the refusal of a request that is too long."""
        refused = super().build_too_long_answer(tokens, window, streamed=streamed)
        headers = {":message-type": "exception", ":exception-type": "validationException"}
        return ServedAnswer(200, build_event_frame(headers, refused.content)) if streamed else refused

    def build_stream(self, answer: dict[str, Any], body: dict[str, Any]) -> ServedAnswer:
        """Return frames, the last of them with what was counted."""
        events = [event for _, event in super().build_stream(answer, body).content]
        usage = answer["usage"]
        counted = {"inputTokenCount": usage["input_tokens"], "outputTokenCount": usage["output_tokens"]}
        events[-1] = {**events[-1], "amazon-bedrock-invocationMetrics": counted}
        return ServedAnswer(200, b"".join(map(_build_chunk_frame, events)))


def build_event_frame(headers: Mapping[str, str], payload: Any) -> bytes:
    """Return a message of Amazon's event stream: lengths and their checksum, headers, JSON, and the checksum of all."""
    headers = {**headers, ":content-type": "application/json"}
    pairs = ((_encode_with_length("!B", name), _encode_with_length("!H", headers[name])) for name in headers)
    named = b"".join(name + b"\x07" + value for name, value in pairs)
    data = json.dumps(payload).encode()
    lengths = pack("!II", 12 + len(named) + len(data) + 4, len(named))
    message = lengths + pack("!I", crc32(lengths)) + named + data
    return message + pack("!I", crc32(message))


def _encode_with_length(length: str, text: str) -> bytes:
    return pack(length, len(text.encode())) + text.encode()


def _build_chunk_frame(event: dict[str, Any]) -> bytes:
    data = base64.b64encode(json.dumps(event).encode()).decode()
    return build_event_frame({":message-type": "event", ":event-type": "chunk"}, {"bytes": data})


def _split_block(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a content block as it begins, and what is added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in split_in_half(block["text"])]
    if block["type"] == "thinking":
        parts = [{"type": "thinking_delta", "thinking": part} for part in split_in_half(block["thinking"])]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*parts, signature]
    written = split_in_half(json.dumps(block["input"]))
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in written]
