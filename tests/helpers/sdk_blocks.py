"""Every kind of block that the SDKs let into a request, filled in from their own types: one for each way to fill it.

A field is filled by what it is: a text gets the text that was asked for, an id, a name or an address a short one, a
seal or an image's data some base64. Where a field may be of several types, each of them is taken in turn.
"""

from __future__ import annotations

import base64
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import typing_extensions
from anthropic.types import content_block_param, tool_result_block_param
from anthropic.types.beta import beta_content_block_param, beta_tool_result_block_param
from langchain_core.messages import content as langchain_content
from openai.types.chat import chat_completion_content_part_param
from openai.types.responses import (
    response_function_call_output_item_list_param,
    response_input_item_param,
    response_input_message_content_list_param,
)

BASE64 = base64.b64encode(bytes(range(256)) * 8).decode()
_SHORT = (
    "id", "_ids", "url", "uri", "name", "signature", "fingerprint", "path", "label", "source", "type",
)  # fmt: skip
_ENCODED = frozenset({"data", "result", "base64", "file_data", "image_url"})
_TEXTUAL = ("PlainText", "Program")
"""Holders whose encoded-looking fields are text: a plain document, a program's output."""
_NOT_CHARGED = frozenset({"citations", "annotations", "logprobs", "cache_control", "caller", "index", "extras"})
"""What no provider charges for, and what is no part of the content."""
_DEEPEST = 7


class Block(NamedTuple):
    """A block, and the texts that were put into it, by the path of their field."""

    kind: str
    raw: dict[str, Any]
    texts: dict[str, str]


def members(union: Any) -> list[type]:
    """The TypedDicts of a union, at any depth of it."""
    if typing_extensions.is_typeddict(union):
        return [union]
    return list(dict.fromkeys(found for part in typing.get_args(union) for found in members(part)))


ANTHROPIC = members(content_block_param.ContentBlockParam) + members(beta_content_block_param.BetaContentBlockParam)
ANTHROPIC_RESULTS = members(tool_result_block_param.Content) + members(beta_tool_result_block_param.Content)
CHAT = members(chat_completion_content_part_param.ChatCompletionContentPartParam)
RESPONSES_PARTS = members(response_input_message_content_list_param.ResponseInputContentParam)
RESPONSES_RESULTS = members(response_function_call_output_item_list_param.ResponseFunctionCallOutputItemParam)
RESPONSES = members(response_input_item_param.ResponseInputItemParam)
LANGCHAIN = members(langchain_content.ContentBlock)


def filled(kind: type, text: Callable[[str], str]) -> Iterator[Block]:
    """The block in as many fillings as its most varied field has types; `text` makes the text for a path."""
    turn, more = 0, True
    while more:
        filler = _Filler(text, turn)
        raw = filler.fields(kind, "", 0)
        yield Block(kind.__name__, raw, filler.texts)
        turn += 1
        more = turn < filler.widest


class _Filler:
    def __init__(self, text: Callable[[str], str], turn: int) -> None:
        self.texts: dict[str, str] = {}
        self.widest = 1
        self._text, self._turn, self._holder = text, turn, ""

    def fields(self, kind: type, path: str, depth: int) -> dict[str, Any]:
        raw: dict[str, Any] = {}
        for key, hint in typing_extensions.get_type_hints(kind).items():
            if key in _NOT_CHARGED:
                continue
            self._holder = kind.__name__.removeprefix("Beta")
            value = self.value(hint, f"{path}.{key}".lstrip("."), key, depth)
            if value is not None:
                raw[key] = value
        return raw

    def value(self, hint: Any, path: str, key: str, depth: int) -> Any:  # noqa: PLR0911 - one for each kind of hint
        origin, parts = typing.get_origin(hint), typing.get_args(hint)
        if origin in {typing_extensions.Required, typing_extensions.NotRequired, typing.Annotated}:
            return self.value(parts[0], path, key, depth)
        if origin is Literal:
            return parts[0]
        if origin in {typing.Union, types.UnionType}:
            kinds = [part for part in parts if part is not type(None)]
            self.widest = max(self.widest, len(kinds))
            return self.value(kinds[self._turn % len(kinds)], path, key, depth)
        if typing_extensions.is_typeddict(hint):
            return None if depth > _DEEPEST else self.fields(hint, path, depth + 1)
        if origin is dict or hint is dict:
            return {"key": self.string(path, key)}
        if origin is not None and parts:  # Iterable, List, SequenceNotStr
            value = self.value(parts[-1], path, key, depth)
            return None if value is None else [value]
        return self.scalar(hint, path, key)

    def scalar(self, hint: Any, path: str, key: str) -> Any:
        if hint in (int, float):
            return 1
        if hint is bool:
            return True
        if hint in (str, object) or hint is Any:
            return self.string(path, key)
        return None  # files and other things that are uploaded

    def string(self, path: str, key: str) -> str:
        encoded = key in _ENCODED and not self._holder.startswith(_TEXTUAL)
        if encoded or key.startswith("encrypted_"):
            return BASE64
        if key.endswith(_SHORT):
            return f"short_{len(path)}"
        self.texts[path] = self._text(path)
        return self.texts[path]
