"""Gemini contents: generated conversations, and what is refused (written apart from `check`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from unabridged.formats import GeminiContents
from unabridged_testing.wire import PIXEL, MessageKind, Shape, ToolCall, Wire, get_field, sign_text

_CALL_FIELDS = ("functionCall", "functionResponse", "executableCode", "codeExecutionResult")
_DATA_FIELDS = ("text", "inlineData", "fileData", *_CALL_FIELDS)


class GeminiWire(Wire):
    """Writes contents, in the keys of REST or the SDK's; ids of calls are there for all, for the calls, or for none."""

    format = GeminiContents.name
    sdk = "google.genai.types"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._snake = self.draw_bool(0.3)
        self._ids = self.rng.choice(("both", "calls", "none"))
        self._signs = "reasoning" in shape.extras

    def _write_turn(self, role: str, parts: list[dict[str, Any]], what: MessageKind, said: str = "") -> None:
        message: Any = {"role": role, "parts": parts}
        if self.should_be_sdk_object(json.dumps(parts, ensure_ascii=False)):
            message = self.to_sdk_object("Content", message)
        elif self._snake:
            message = _to_snake_case(message)
        self.add(message, what, said)

    def write_person_message(self, text: str, *, media: bool = False, joins: bool = False) -> None:
        """Write what a person says."""
        results = self.messages[-1] if joins and self.what[-1] == "result" else None
        if isinstance(results, dict) and results["role"] == "user":
            self.messages[-1] = {**results, "parts": [*results["parts"], {"text": text}]}
            self.what[-1], self.said[-1] = "mixed", text
            return
        parts: list[dict[str, Any]] = [{"text": text}]
        if media:
            parts.insert(self.rng.randrange(2), self._build_media())
        self._write_turn("user", parts, "person", text)

    def _build_media(self) -> dict[str, Any]:
        kind = self.rng.randrange(3)
        if kind == 0:
            return {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
        if kind == 1:
            return {"inlineData": {"mimeType": "application/pdf", "data": PIXEL}}
        return {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/v1beta/files/a"}}

    def write_observation(self, text: str) -> None:
        """Write a text protocol's observation."""
        self._write_turn("user", [{"text": text}], "observation")

    def _build_thoughts(self, thought: str) -> list[dict[str, Any]]:
        return [{"text": thought, "thought": True}] if thought else []

    def write_model_text(self, text: str, thought: str, what: Any) -> None:
        """Write what the model says."""
        said: dict[str, Any] = {"text": text}
        if self._signs and self.draw_bool(0.3):
            said["thoughtSignature"] = sign_text(text)
        self._write_turn("model", [*self._build_thoughts(thought), said], what)

    def write_tool_round(self, uses: Sequence[ToolCall], order: Sequence[int], text: str, thought: str) -> None:
        """Write calls of functions and their answers; without ids, in the order of the calls."""
        ids = [self.new_id("fc") for _ in uses]
        parts = self._build_thoughts(thought)
        if text:
            parts.append({"text": text})
        if self.draw_bool_if_odd(0.1):
            parts += _build_code_parts()
        for place, use in enumerate(uses):
            call = {"name": use.name.replace(".", "_"), "args": json.loads(use.arguments)}
            part: dict[str, Any] = {"functionCall": call if self._ids == "none" else {"id": ids[place], **call}}
            if self._signs and place == 0:
                part["thoughtSignature"] = sign_text(json.dumps(call, sort_keys=True))
            parts.append(part)
        self._write_turn("model", parts, "call")
        places = order if self._ids == "both" else range(len(uses))
        answers = [self._build_function_response(uses[place], ids[place]) for place in places]
        self._write_turn("function" if self.draw_bool_if_odd(0.3) else "user", answers, "result")

    def _build_function_response(self, use: ToolCall, call_id: str) -> dict[str, Any]:
        key = "error" if use.error and use.result else self.rng.choice(("result", "output"))
        response: dict[str, Any] = {key: use.result}
        if self.draw_bool_if_odd(0.2):
            response = {"status": 200, "body": use.result}
        named = {"name": use.name.replace(".", "_"), "response": response}
        return {"functionResponse": {"id": call_id, **named} if self._ids == "both" else named}

    @classmethod
    def refusals(cls, messages: Sequence[Any]) -> list[str]:
        """Return why Gemini would refuse the list."""
        turns = [_to_rest_turn(message) for message in messages]
        found = [f"{i}: {reason}" for i, turn in enumerate(turns) for reason in _find_shape_problems(turn)]
        if turns[0]["role"] == "model":
            found.append("0: the first turn is the model's")
        waiting: list[Any] = []
        for index, turn in enumerate(turns):
            calls = [part["functionCall"] for part in turn["parts"] if "functionCall" in part]
            responses = [part["functionResponse"] for part in turn["parts"] if "functionResponse" in part]
            if not _are_answered(waiting, responses):
                found.append(f"{index}: the responses {_list_names(responses)} after the calls {_list_names(waiting)}")
            if calls and turns[index - 1]["role"] == "model":
                found.append(f"{index}: a turn with calls that follows neither the user's nor a response's")
            waiting = calls
        found += [f"{len(turns)}: no responses to {_list_names(waiting)} at the end"] if waiting else []
        return found + _find_unsigned_steps(turns)


def _build_code_parts() -> list[dict[str, Any]]:
    return [
        {"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
    ]


def _list_names(entries: Sequence[Any]) -> list[Any]:
    return [one.get("name") for one in entries]


def _are_answered(calls: Sequence[Any], responses: Sequence[Any]) -> bool:
    """Return whether these are the responses to these calls, one each."""
    if sorted(_list_names(calls)) != sorted(_list_names(responses)):
        return False
    ids = [one["id"] for one in responses if one.get("id")]
    return len(ids) == len({*ids}) and {*ids} <= {one.get("id") for one in calls}


def _find_unsigned_steps(turns: Sequence[dict[str, Any]]) -> list[str]:
    """Return the unsigned steps since the user last spoke: where one call is signed, the first of each step must be."""
    steps: list[tuple[int, dict[str, Any]]] = []
    signed = False
    for index, turn in enumerate(turns):
        calls = [part for part in turn["parts"] if "functionCall" in part]
        signed = signed or any("thoughtSignature" in part for part in calls)
        if turn["role"] != "model" and not any("functionResponse" in part for part in turn["parts"]):
            steps = []
        steps += [(index, part) for part in calls[:1]]
    wrong = [i for i, part in steps if part.get("thoughtSignature") != sign_text(_to_signed_json(part["functionCall"]))]
    return [f"{index}: the first call has no signature, or another one's" for index in wrong] if signed else []


def _to_signed_json(call: dict[str, Any]) -> str:
    return json.dumps({key: call[key] for key in ("name", "args")}, sort_keys=True)


def _find_shape_problems(turn: dict[str, Any]) -> list[str]:
    reasons = [] if turn["role"] in {"user", "model", "function"} else [f"unknown role {turn['role']!r}"]
    bare = {"text", "thought", "thoughtSignature"}
    if not any(part.get("text") or not part.keys() <= bare for part in turn["parts"]):
        reasons.append("a turn without content")
    for part in turn["parts"]:
        data = [key for key in _DATA_FIELDS if key in part]
        if len(data) != 1:
            reasons.append(f"a part with {len(data)} kinds of data")
        if "functionCall" in data and turn["role"] != "model":
            reasons.append("a call in a turn that is not the model's")
        if "functionResponse" in data and turn["role"] == "model":
            reasons.append("a response in the model's turn")
    return reasons


def _to_rest_turn(message: Any) -> dict[str, Any]:
    """Return the turn as REST sends it."""
    message = _to_rest_fields(message)
    parts = [_to_rest_fields(part) for part in get_field(message, "parts") or ()]
    named = ({_CAMEL_CASE_NAMES.get(name, name): value for name, value in part.items()} for part in parts)
    return {"role": message.get("role") or "user", "parts": list(named)}


def _to_rest_fields(thing: Any) -> Any:
    return thing if isinstance(thing, dict) else thing.model_dump(mode="json", by_alias=True, exclude_none=True)


_SNAKE_CASE_NAMES = {
    "functionCall": "function_call", "functionResponse": "function_response", "inlineData": "inline_data",
    "fileData": "file_data", "mimeType": "mime_type", "fileUri": "file_uri", "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result", "thoughtSignature": "thought_signature",
}  # fmt: skip
_CAMEL_CASE_NAMES = {snake: camel for camel, snake in _SNAKE_CASE_NAMES.items()}


def _to_snake_case(value: Any) -> Any:
    """Return the value with the SDK's names of fields; arguments and responses stay as they are."""
    if isinstance(value, list):
        return [_to_snake_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        _SNAKE_CASE_NAMES.get(k, k): v if k in {"args", "response"} else _to_snake_case(v) for k, v in value.items()
    }
