"""A model for agents of Google's ADK that answers by a function."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from unabridged import check


class Scripted(BaseLlm):
    """A model that answers by a function: a text, calls of `read`, several responses, or an error that it raises."""

    answering: Any
    asked: list[Any]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        del stream
        self.asked.append([content.model_dump() for content in llm_request.contents])
        assert check(llm_request.contents) == []
        answer = self.answering(llm_request)
        for one in answer if isinstance(answer, list) else [answer]:
            if isinstance(one, Exception):
                raise one
            yield one if isinstance(one, LlmResponse) else says(one)


def says(text: str, *, partial: bool = False) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=partial or None)


def calls(number: int) -> LlmResponse:
    """A call without an id, as Vertex sends it: ADK gives it one of its own, and takes that out of each request."""
    call = types.Part(function_call=types.FunctionCall(name="read", args={"number": number}))
    return LlmResponse(content=types.Content(role="model", parts=[call]))
