"""Errors of the providers' SDKs, as each SDK makes them from a response."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import openai


def response(status: int, body: Any) -> httpx2.Response:
    request = httpx2.Request("POST", "https://api.example.com/v1/messages")
    return httpx2.Response(status, json=body, request=request)


def openai_error(status: int, **error: Any) -> openai.APIStatusError:
    """As the SDK makes it from a response."""
    client = openai.OpenAI(api_key="none", base_url="http://127.0.0.1:1")
    made = client._make_status_error_from_response(response(status, {"error": error}))  # noqa: SLF001 - the SDK's own way
    client.close()
    return made


def anthropic_error(status: int, kind: str, message: str) -> anthropic.APIStatusError:
    client = anthropic.Anthropic(api_key="none", base_url="http://127.0.0.1:1")
    body = {"type": "error", "error": {"type": kind, "message": message}}
    made = client._make_status_error_from_response(response(status, body))  # noqa: SLF001 - the SDK's own way
    client.close()
    return made
