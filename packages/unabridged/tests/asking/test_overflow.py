from __future__ import annotations

import json

from google.genai import errors as google_errors
from pydantic_ai.exceptions import ModelContextWindowExceededError, ModelHTTPError

from provider_errors import anthropic_error, openai_error
from rows import rows
from unabridged.asking.overflow import Overflow, is_overflow

CHAT = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130512 tokens. "
    "Please reduce the length of the messages."
)
TPM = (
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 36278. "
    "The input or output tokens must be reduced in order to run successfully."
)


SHAPES: list[tuple[object, Overflow]] = [
    (openai_error(400, message=CHAT, code="context_length_exceeded"), Overflow(128_000, 130_512)),
    (
        openai_error(
            400,
            message="Your input exceeds the context window of this model. Please adjust your input and try again.",
            type="invalid_request_error",
            code="context_length_exceeded",
        ),
        Overflow(),
    ),
    (
        {"type": "response.failed", "response": {"status": "failed", "error": {"code": "context_length_exceeded"}}},
        Overflow(),
    ),
    (
        {
            "message": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens "
            "(8500 in the messages, 500 in the completion). Please reduce the length of the messages or completion."
        },
        Overflow(8_192, 8_500, 500),
    ),
    (
        anthropic_error(400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
        Overflow(200_000, 208_310),
    ),
    (
        anthropic_error(
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length or "
            "`max_tokens` and try again",
        ),
        Overflow(200_000, 190_000, 21_333),
    ),
    (anthropic_error(413, "request_too_large", "Request exceeds the maximum size"), Overflow()),
    ({"type": "message", "content": [], "stop_reason": "model_context_window_exceeded"}, Overflow()),
    (
        google_errors.ClientError(
            400,
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1200000) exceeds the maximum number of tokens allowed "
                    "(1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            },
        ),
        Overflow(1_048_576, 1_200_000),
    ),
    (
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 14_429,
                "n_ctx": 8_192,
            }
        },
        Overflow(8_192, 14_429),
    ),
    (
        "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        Overflow(4_096, 9_000),
    ),
    (
        {
            "object": "error",
            "message": "This model's maximum context length is 262144 tokens. However, you requested 2048 output "
            "tokens and your prompt contains at least 260097 input tokens, for a total of at least 262145 tokens.",
            "code": 400,
        },
        Overflow(262_144, 260_097, 2_048),
    ),
    (
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 32768 "
            "tokens and your request has 30000 input tokens (4096 > 32768 - 30000)."
        ),
        Overflow(32_768, 30_000, 4_096),
    ),
    (
        "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
        Overflow(4_096, 25_938),
    ),
    ("Input length (265330) exceeds model's maximum context length (262144).", Overflow(262_144, 265_330)),
    ("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", Overflow(131_040, 131_393)),
    ('{"error": "prompt too long; exceeded max context length by 120 tokens"}', Overflow()),
    ('{"error": "the input length exceeds the context length"}', Overflow()),
    (
        (
            "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with "
            "context length of only 7866 tokens, which is not enough."
        ),
        Overflow(7_866, 10_136),
    ),
    ("The number of tokens to keep from the initial prompt is greater than the context length.", Overflow()),
    ("Context size has been exceeded.", Overflow()),
    (
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
            "context length",
            "type": "invalid_request_prompt",
        },
        Overflow(32_768, 40_000),
    ),
    (
        (
            "An error occurred (ValidationException) when calling the Converse operation: Input is too long for "
            "requested model."
        ),
        Overflow(),
    ),
    (
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        Overflow(131_072, 150_000),
    ),
    ("Requested tokens (516) exceed context window of 512", Overflow(512, 516)),
    (ModelContextWindowExceededError("gpt-5", "too much"), Overflow()),
]


@rows(("answer", "overflow"), SHAPES, ids=range(len(SHAPES)))
def test_each_provider_is_understood_in_its_own_shape(answer: object, overflow: Overflow) -> None:
    assert is_overflow(answer) == overflow


class ContextOverflowError(Exception):
    """As LangChain names its own."""


class OpenAIContextOverflowError(ContextOverflowError):
    pass


def test_the_errors_of_frameworks_are_known_by_name() -> None:
    assert is_overflow(OpenAIContextOverflowError("no numbers")) == Overflow()


def test_a_wrapper_is_looked_through() -> None:
    wrapper = RuntimeError("the summariser failed")
    wrapper.__cause__ = openai_error(400, message=CHAT, code="context_length_exceeded")
    assert is_overflow(wrapper) == Overflow(128_000, 130_512)


def test_a_body_given_as_text_or_bytes_is_read() -> None:
    body = {"error": {"message": CHAT, "code": "context_length_exceeded"}}
    assert is_overflow(json.dumps(body)) == is_overflow(json.dumps(body).encode()) == Overflow(128_000, 130_512)
    assert is_overflow(ModelHTTPError(400, "gpt-5", body)) == Overflow(128_000, 130_512)


@rows(
    "answer",
    [
        openai_error(429, message=TPM, type="tokens", code="rate_limit_exceeded"),
        openai_error(413, message=TPM, type="tokens", code="rate_limit_exceeded"),  # Groq's status for it
        TPM,
        anthropic_error(
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit of 20,000 input tokens per minute. Please reduce "
            "the prompt length or the maximum tokens requested, or try again later.",
        ),
        "ThrottlingException: Too many tokens, please wait before trying again.",
        openai_error(429, message="You exceeded your current quota", code="insufficient_quota"),
        openai_error(
            400,
            message="max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you "
            "provided 100000.",
            param="max_tokens",
            code="invalid_value",
        ),
        anthropic_error(
            400,
            "invalid_request_error",
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-x",
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 1000000. This model's maximum context length is "
            "131072 tokens and your request has 35 input tokens (1000000 > 131072 - 35)."
        ),
        "max_tokens must be at least 1, got -186.",
        openai_error(401, message="Incorrect API key provided", code="invalid_api_key"),
        openai_error(500, message="The server had an error"),
        TimeoutError("timed out"),
        None,
        "",
        {"choices": [{"finish_reason": "stop", "message": {"content": "prompt is too long: 9 tokens > 8 maximum"}}]},
        {"type": "message", "stop_reason": "end_turn", "content": [{"type": "text", "text": "prompt is too long"}]},
    ],
)
def test_limits_of_another_kind_and_ordinary_answers_are_no_overflow(answer: object) -> None:
    assert is_overflow(answer) is None
