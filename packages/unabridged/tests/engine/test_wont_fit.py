"""`WontFit` is raised only where it is true, and its numbers are those of the conversation."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from toktok import batch_count  # type: ignore[import-untyped]

from unabridged import Compactor, WontFit
from unabridged.engine.cut import find_safe_indices
from unabridged.formats import FORMATS
from unabridged.tokens.meter import Meter

FRAME = 330
"""More than header, end line, acknowledgment and the smallest summary take together."""
ERROR = 1.05
"""By which the estimate may be off, which a budget reserves."""


def anthropic_round(rng: random.Random, i: int) -> list[dict[str, Any]]:
    """A round, perhaps with signed thinking beside arguments of any size, perhaps with a person's remark."""
    called = {"path": f"f{i}.py", "content": f"x{i} = 1\n" * rng.choice((1, 20, 400, 1_500))}
    blocks: list[dict[str, Any]] = [{"type": "tool_use", "id": f"t{i}", "name": "write_file", "input": called}]
    if rng.random() < 0.6:
        blocks.insert(0, {"type": "thinking", "thinking": "Hm. " * rng.choice((1, 300)), "signature": f"s{i}"})
    result = {"type": "tool_result", "tool_use_id": f"t{i}", "content": f"line {i}\n" * rng.choice((1, 30, 3_000))}
    said = [{"type": "text", "text": f"Also update the notes of module {i}, please."}] * (rng.random() < 0.2)
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result, *said]}]


def chat_round(rng: random.Random, i: int) -> list[dict[str, Any]]:
    arguments = json.dumps({"path": f"f{i}.py", "content": "y = 2\n" * rng.choice((1, 20, 1_000))})
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "write_file", "arguments": arguments}}]
    result = f"line {i}\n" * rng.choice((1, 30, 3_000))
    told = [{"role": "user", "content": f"And the tests of module {i}."}] * (rng.random() < 0.15)
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": f"c{i}", "content": result},
        *told,
    ]


def responses_round(rng: random.Random, i: int) -> list[dict[str, Any]]:
    thought = {"type": "reasoning", "id": f"rs{i}", "summary": [], "encrypted_content": "gA" * rng.choice((10, 4_000))}
    arguments = json.dumps({"content": "z = 3\n" * rng.choice((1, 20, 1_000))})
    call = {"type": "function_call", "call_id": f"c{i}", "name": "write", "arguments": arguments}
    output = {"type": "function_call_output", "call_id": f"c{i}", "output": f"line {i}\n" * rng.choice((1, 30, 3_000))}
    return [*([thought] if rng.random() < 0.5 else []), call, output]


ROUNDS = {"anthropic": anthropic_round, "openai-chat": chat_round, "openai-responses": responses_round}


def smallest(messages: list[Any], format_: str, meter: Meter, system: str) -> int:
    """What system prompt, the last round as it is, and the smallest summary take."""
    views = [FORMATS[format_].read(message) for message in messages]
    last = max(i for i in find_safe_indices(views) if i < len(views))
    return meter.overhead(system, None) + sum(map(meter.message, views[last:])) + FRAME


def refusal(engine: Compactor, messages: list[Any], system: str, most: float) -> WontFit | None:
    try:
        assert engine.fit(messages, thread="t", system=system).tokens_after <= most
    except WontFit as error:
        return error
    return None


@pytest.mark.parametrize("format_", ROUNDS)
def test_it_is_raised_only_where_the_smallest_legal_list_is_over_the_budget(format_: str) -> None:
    raised = 0
    for seed in range(30):
        rng = random.Random(seed)  # noqa: S311 - no secret
        messages: list[Any] = [{"role": "user", "content": "Write the modules. " * rng.choice((1, 1, 800))}]
        for i in range(rng.choice((1, 3, 12))):
            messages += ROUNDS[format_](rng, i)
        system = "Be exact. " * rng.choice((1, 100, 1_500))
        window = rng.choice((2_000, 8_000))
        engine = Compactor(window=window, archive="memory:", format=format_, agent="claude-sonnet-4-5")
        true = smallest(messages, format_, Meter(model="claude-sonnet-4-5"), system) * ERROR
        error = refusal(engine, messages, system, max(window, true * 1.15 + 200))
        if error is not None:
            raised += 1
            assert true > error.budget, (seed, error)
            assert error.budget < error.floor <= true + 1, (seed, error)
            assert error.overhead <= error.floor, (seed, error)
    assert raised


def test_words_beside_a_result_are_quoted_and_keep_no_round() -> None:
    rng = random.Random(7)  # noqa: S311 - no secret
    messages: list[Any] = [{"role": "user", "content": "Write the modules."}]
    for i in range(30):
        messages += anthropic_round(rng, i)
        messages[-1]["content"] = messages[-1]["content"][:1]
    remark = {"type": "text", "text": "Also update the README."}
    messages[20]["content"] = [*messages[20]["content"], remark]
    for window in (8_000, 20_000, 60_000):
        engine = Compactor(agent="claude-sonnet-4-5", window=window, archive="memory:")
        fitted = engine.compact(messages, thread="t")
        assert fitted is not None
        (summary,) = [m["content"] for m in fitted.messages if str(m["content"]).startswith("[unabridged summary")]
        assert "- [20] user: \u201cAlso update the README.\u201d" in summary
        assert str(fitted.messages).count("Also update the README.") == 1, "only there"
        assert not any(message is messages[20] or message is messages[19] for message in fitted.messages)


def test_words_beside_a_result_are_quoted_where_their_round_is_too_large_to_stay() -> None:
    rng = random.Random(7)  # noqa: S311 - no secret
    messages: list[Any] = [{"role": "user", "content": "Write the modules."}]
    for i in range(30):
        messages += anthropic_round(rng, i)
    messages[1]["content"] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "tool_use", "id": "t0", "name": "write_file", "input": {"content": "x = 1\n" * 3_000}},
    ]
    remark = {"type": "text", "text": "Also update the README."}
    messages[2]["content"] = [{"type": "tool_result", "tool_use_id": "t0", "content": "written"}, remark]
    messages[-1]["content"] = messages[-1]["content"][:1]
    for window in (8_000, 20_000):  # its round can't stay, and can't be shortened beside signed thinking
        fitted = Compactor(agent="claude-sonnet-4-5", window=window, archive="memory:").fit(messages, thread="t")
        (summary,) = [m["content"] for m in fitted.messages if str(m["content"]).startswith("[unabridged summary")]
        assert "Also update the README." in summary


# --- where nothing but the estimate says no ---------------------------------------------------------------------------

PROMPT = "def add(first: int, second: int) -> int:\n    return first + second\n\n" * 400
"""Counts a half more where nobody knows the tokenizer."""


def true_count(*texts: str) -> int:
    return int(sum(batch_count(list(texts), "o200k_base", threads=1)))


def asked(history: int) -> list[Any]:
    turns = [("user", "Go on with the pump. " * 20), ("assistant", "The pump is steady. " * 20)] * history
    return [{"role": role, "content": text} for role, text in [*turns, ("user", "Please go on.")]]


@pytest.mark.parametrize("history", [0, 60])
def test_what_only_the_estimate_calls_too_long_is_sent_as_small_as_can_be(history: int) -> None:
    engine = Compactor(agent="my-local-model", window=9_000, archive="memory:")
    planned = engine.plan(asked(history), thread="t", system=PROMPT)
    fitted = engine.fit(asked(history), thread="t", system=PROMPT)
    assert bool(planned.plan) == fitted.changed, planned.why
    true = true_count(PROMPT, *(str(message["content"]) for message in fitted.messages))
    assert fitted.tokens_after > engine.limits.budget
    assert true < engine.limits.budget
    assert len(fitted.messages) <= 4
    assert engine.replay(fitted.messages, thread="t") == asked(history)
    messages = fitted.messages
    for n in range(4):  # the provider answers and reports, and goes on being asked
        engine.observe(fitted, {"prompt_tokens": true, "prompt_tokens_details": {"cached_tokens": 0}})
        messages = [*messages, {"role": "assistant", "content": f"Done {n}."}, {"role": "user", "content": "On."}]
        fitted = engine.fit(messages, thread="t", system=PROMPT)
    assert fitted.tokens_after < engine.limits.budget


@pytest.mark.parametrize("told", ["prompt is too long", "prompt is too long: 12000 tokens > 9000 maximum"])
def test_a_provider_that_refuses_it_ends_the_doubt(told: str) -> None:
    engine = Compactor(agent="my-local-model", window=9_000, archive="memory:")
    fitted = engine.fit(asked(60), thread="t", system=PROMPT)
    refused = ValueError(told)
    with pytest.raises(WontFit) as raised:
        engine.overflowed(fitted, refused)
    assert raised.value.floor > raised.value.budget
    with pytest.raises(WontFit):
        engine.fit(asked(60), thread="t", system=PROMPT)


@pytest.mark.parametrize(
    "exactly", [{"agent": "gpt-4.1", "exact": True}, {"counter": lambda messages, _: len(str(messages)) // 4}]
)
def test_an_exact_count_leaves_no_doubt(exactly: dict[str, Any]) -> None:
    engine = Compactor(window=4_000, archive="memory:", **exactly)
    with pytest.raises(WontFit):
        engine.fit(asked(0), thread="t", system=PROMPT)


def test_what_no_error_of_the_estimate_explains_is_refused_at_once() -> None:
    engine = Compactor(agent="my-local-model", window=4_000, archive="memory:")
    with pytest.raises(WontFit):
        engine.fit(asked(0), thread="t", system=PROMPT)
