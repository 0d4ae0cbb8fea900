"""The shipped fakes do what they say, and the generator draws what the properties need to be worth anything."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import unabridged_testing
from properties_case import WINDOWS
from rows import rows
from unabridged.formats import FORMATS
from unabridged.tokens.meter import Meter
from unabridged_testing import (
    Conversation,
    Refused,
    ScriptedModel,
    Shape,
    SigningUpstream,
    Slow,
    StrictUpstream,
    conversations,
    damage,
    make_conversation,
    refusals,
    shapes,
)
from unabridged_testing.conversations import WIRES

EXAMPLES = 300
quick = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def drawn(format_: str, examples: int = EXAMPLES) -> list[Shape]:
    seen: list[Shape] = []

    @settings(quick, max_examples=examples)
    @given(shapes(format_))
    def draw(shape: Shape) -> None:
        seen.append(shape)

    draw()
    return seen


def most_calls_at_once(conversation: Conversation) -> int:
    """The largest number of calls in one message, or in one run of Responses items."""
    most = run = 0
    for message, what in zip(conversation.messages, conversation.what, strict=True):
        if what != "call":
            run = 0
            continue
        blocks = message.get("content") if isinstance(message, dict) else None
        in_blocks = sum(getattr(b, "type", None) == "tool_use" or _kind(b) == "tool_use" for b in blocks or ())
        in_parts = sum("functionCall" in p or "function_call" in p for p in _parts(message))
        in_field = len((message.get("tool_calls") if isinstance(message, dict) else _calls(message)) or ())
        run += max(1, in_blocks, in_field, in_parts)
        most = max(most, run)
    return most


def _kind(block: Any) -> Any:
    if not isinstance(block, dict):
        return None
    return "tool_use" if "toolUse" in block else block.get("type")


def _parts(message: Any) -> list[Any]:
    return message.get("parts") or [] if isinstance(message, dict) else []


def _calls(message: Any) -> Any:
    return getattr(message, "tool_calls", None)


def longest_turn(conversation: Conversation) -> int:
    """The most rounds that follow one another without a person's word."""
    most = rounds = 0
    for before, what in zip(("", *conversation.what), conversation.what, strict=False):
        if what == "person":
            rounds = 0
        rounds += what in {"call", "action"} and before != "call"
        most = max(most, rounds)
    return most


@pytest.mark.parametrize("format_", FORMATS)
def test_generated_conversations_are_ones_the_provider_takes(format_: str) -> None:
    for shape in drawn(format_):
        conversation = make_conversation(shape)
        assert refusals(format_, conversation.messages) == [], shape
        for stop in conversation.stops[:: 1 + len(conversation.stops) // 4]:
            assert refusals(format_, conversation.messages[:stop]) == [], (shape, stop)


@pytest.mark.parametrize("format_", FORMATS)
def test_enough_of_the_examples_are_hard(format_: str) -> None:
    found: Counter[str] = Counter()
    examples = drawn(format_, 300)
    meter, read = Meter(), FORMATS[format_].read
    for number, shape in enumerate(examples):
        conversation = make_conversation(shape)
        tokens = sum(meter.message(read(message), message) for message in conversation.messages)
        found["over the trigger"] += tokens >= 0.85 * WINDOWS[number % len(WINDOWS)]
        found["parallel"] += most_calls_at_once(conversation) > 1
        written = repr(conversation.messages)
        found["reasoning"] += any(word in written for word in ("thinking", "reasoning", "thought"))
        found["one long turn"] += longest_turn(conversation) >= 20
        found["open"] += bool(conversation.open_requests())
    count = len(examples)
    assert found["over the trigger"] >= count / 2
    assert found["parallel"] >= count / 5
    assert found["reasoning"] >= count / 10
    assert found["one long turn"] >= count / 10
    assert found["open"] >= count / 4


def test_equal_shapes_give_equal_conversations() -> None:
    for shape in drawn("openai-responses", 50):
        assert make_conversation(shape) == make_conversation(shape)


def test_the_same_object_may_stand_twice_in_a_list() -> None:
    lists = [make_conversation(shape).messages for shape in drawn("openai-chat") if "twins" in shape.extras]
    assert any(len({id(message) for message in messages}) < len(messages) for messages in lists)


@pytest.mark.parametrize("format_", [name for name, wire in WIRES.items() if wire.sdk])
def test_sdk_objects_stand_among_the_dicts(format_: str) -> None:
    shape = Shape(format_, seed=7, turns=6, extras=("sdk",))
    messages = make_conversation(shape).messages
    blocks = [block for message in messages if isinstance(message, dict) for block in message.get("content") or ()]
    assert any(not isinstance(thing, dict | str) for thing in [*messages, *blocks])


@pytest.mark.parametrize("format_", FORMATS)
def test_damage_makes_lists_that_are_refused(format_: str) -> None:
    bad = [
        refusals(format_, damage(make_conversation(shape), seed))
        for seed, shape in enumerate(drawn(format_, 100))
        if shape.kind in {"agent", "marathon"}
    ]
    assert sum(map(bool, bad)) > len(bad) / 2


@pytest.mark.parametrize("legal", [True, False])
def test_the_strategy_yields_plain_lists(legal: bool) -> None:
    @settings(quick, max_examples=20)
    @given(conversations("anthropic", legal=legal))
    def holds(messages: list[Any]) -> None:
        assert isinstance(messages, list)

    holds()


def test_without_hypothesis_only_the_strategies_fail_and_say_what_to_install() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None; sys.modules['hypothesis.strategies'] = None\n"
        "from unabridged_testing import Shape, conversations, make_conversation\n"
        "assert make_conversation(Shape('anthropic')).messages\n"
        "try: conversations('anthropic')\n"
        "except ImportError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "unabridged[" in ran.stdout


def test_importing_the_fakes_imports_neither_hypothesis_nor_an_sdk() -> None:
    code = (
        "import sys, unabridged_testing; print([m for m in ('hypothesis', 'openai', 'anthropic') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    assert all(hasattr(unabridged_testing, name) for name in unabridged_testing.__all__)


CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT_CALLS: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [CHAT_CALL, {**CHAT_CALL, "id": "c2"}],
}
CHAT_ANSWERS = [{"role": "tool", "tool_call_id": call_id, "content": ""} for call_id in ("c2", "c1")]
ITEM_CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
ITEM_OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": ""}
REASONING = {"type": "reasoning", "id": "r1", "summary": []}
USES: dict[str, Any] = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
RESULTS: dict[str, Any] = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]}
USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": "hello"}
SYSTEM = {"role": "system", "content": "be kind"}
TEXT = {"type": "text", "text": "and this"}
ASKS: dict[str, Any] = {"role": "user", "parts": [{"text": "hi"}]}
SAYS: dict[str, Any] = {"role": "model", "parts": [{"text": "hello"}]}
CALLS: dict[str, Any] = {"role": "model", "parts": [{"functionCall": {"name": n, "args": {}}} for n in ("f", "f")]}
RESPONSE = {"functionResponse": {"name": "f", "response": {"output": ""}}}
RESPONDS: dict[str, Any] = {"role": "user", "parts": [RESPONSE, RESPONSE]}
SIGNED: dict[str, Any] = {"role": "model", "parts": [{**CALLS["parts"][0], "thoughtSignature": "of something else"}]}


@rows(
    ("format_", "messages"),
    [
        ("openai-chat", [USER, CHAT_CALLS, *CHAT_ANSWERS, ASSISTANT]),
        ("openai-chat", [SYSTEM, USER, SYSTEM, USER, {"role": "assistant", "content": ""}]),
        ("openai-responses", [USER, REASONING, ITEM_CALL, ITEM_OUTPUT, ASSISTANT]),
        ("openai-responses", [USER, REASONING, ASSISTANT, {"type": "item_reference", "id": "i1"}]),
        ("anthropic", [USER, USES, RESULTS, ASSISTANT]),
        ("anthropic", [USER, USES, RESULTS, {"role": "user", "content": [TEXT]}, SYSTEM, ASSISTANT]),
        ("anthropic", [USER, USES, {"role": "user", "content": [*RESULTS["content"], TEXT]}]),
        ("gemini", [ASKS, CALLS, RESPONDS, CALLS, {**RESPONDS, "role": "function"}, ASKS, SAYS]),
    ],
)
def test_a_list_the_provider_takes_has_no_refusals(format_: str, messages: list[Any]) -> None:
    assert refusals(format_, messages) == []


@rows(
    ("format_", "messages"),
    [
        ("openai-chat", []),
        ("openai-chat", [USER, CHAT_CALLS, CHAT_ANSWERS[0], ASSISTANT]),
        ("openai-chat", [USER, CHAT_CALLS, CHAT_ANSWERS[0]]),
        ("openai-chat", [USER, CHAT_CALLS, USER, *CHAT_ANSWERS]),
        ("openai-chat", [USER, *CHAT_ANSWERS]),
        ("openai-chat", [USER, CHAT_CALLS, *CHAT_ANSWERS, CHAT_ANSWERS[0]]),
        ("openai-chat", [USER, {"role": "assistant", "content": None}]),
        ("openai-responses", [USER, ITEM_CALL]),
        ("openai-responses", [USER, ITEM_OUTPUT, ITEM_CALL]),
        ("openai-responses", [USER, ITEM_CALL, {**ITEM_OUTPUT, "type": "custom_tool_call_output"}]),
        ("openai-responses", [USER, REASONING]),
        ("openai-responses", [USER, REASONING, USER]),
        ("openai-responses", [USER, ITEM_CALL, ITEM_OUTPUT, ITEM_OUTPUT]),
        ("anthropic", [ASSISTANT, USER]),
        ("anthropic", [SYSTEM, USER]),
        ("anthropic", [USER, SYSTEM, USER]),
        ("anthropic", [USER, USES, USER]),
        ("anthropic", [USER, USES]),
        ("anthropic", [USER, USES, ASSISTANT, RESULTS]),
        ("anthropic", [USER, RESULTS]),
        ("anthropic", [USER, USES, {"role": "user", "content": [TEXT, *RESULTS["content"]]}]),
        ("anthropic", [USER, USES, RESULTS, USES, RESULTS]),
        ("anthropic", [USER, {"role": "assistant", "content": "done "}]),
        ("anthropic", [{"role": "user", "content": " "}]),
        (
            "anthropic",
            [USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "s"}]}],
        ),
        ("gemini", [SAYS, ASKS]),
        ("gemini", [ASKS, CALLS]),
        ("gemini", [ASKS, CALLS, ASKS]),
        ("gemini", [ASKS, CALLS, {**RESPONDS, "parts": [RESPONSE]}]),
        ("gemini", [ASKS, CALLS, *({**RESPONDS, "parts": [RESPONSE]} for _ in range(2))]),
        ("gemini", [ASKS, RESPONDS]),
        ("gemini", [ASKS, SAYS, CALLS, RESPONDS]),
        ("gemini", [ASKS, {"role": "model", "parts": []}]),
        ("gemini", [ASKS, SIGNED, {**RESPONDS, "parts": [RESPONSE]}]),
    ],
)
def test_a_list_the_provider_refuses_is_refused(format_: str, messages: list[Any]) -> None:
    assert refusals(format_, messages)
    with pytest.raises(Refused):
        StrictUpstream(format_).take(messages)


def thinking_turns(upstream: SigningUpstream) -> list[Any]:
    shape = Shape("anthropic", seed=3, kind="marathon", rounds=4, extras=("reasoning",))
    return upstream.sign(make_conversation(shape).messages)


def test_a_signature_over_the_prefix_holds_only_while_nothing_before_it_changes() -> None:
    upstream = SigningUpstream(binds="prefix")
    messages = thinking_turns(upstream)
    upstream.take(messages)
    with pytest.raises(Refused, match="signature"):
        upstream.take([{"role": "user", "content": "something else"}, *messages[1:]])


def test_a_signature_over_the_block_alone_survives_a_change_before_it() -> None:
    upstream = SigningUpstream(binds="block")
    messages = thinking_turns(upstream)
    upstream.take([{"role": "user", "content": "something else"}, *messages[1:]])
    thinking = next(m for m in messages if m["role"] == "assistant" and m["content"][0]["type"] == "thinking")
    thinking["content"][0]["thinking"] += "!"
    with pytest.raises(Refused, match="signature"):
        upstream.take(messages)


def test_new_messages_are_signed_for_the_request_they_answer() -> None:
    upstream = SigningUpstream(binds="prefix")
    messages = thinking_turns(upstream)
    other = [{"role": "user", "content": "something else"}, ASSISTANT]
    request = [*other, *upstream.sign(messages, after=other)]
    upstream.take(request)
    assert upstream.requests == [request]


def test_an_upstream_may_demand_thinking_before_the_last_calls() -> None:
    upstream = SigningUpstream(binds="block", demands_thinking=True)
    with pytest.raises(Refused, match="not with thinking"):
        upstream.take([USER, USES, RESULTS])
    upstream.take([USER, USES, RESULTS, ASSISTANT])


def test_a_scripted_model_says_its_lines_in_order_and_remembers_the_asks() -> None:
    model = ScriptedModel(["one", ValueError("busy"), lambda ask: f"echo {ask}", Slow(0, "late")])
    assert model("a") == "one"
    with pytest.raises(ValueError, match="busy"):
        model("b")
    assert [model("c"), model("d")] == ["echo c", "late"]
    assert model.asks == ["a", "b", "c", "d"]
    with pytest.raises(AssertionError, match="ask number 5"):
        model("e")


def test_a_scripted_model_may_say_its_last_line_forever() -> None:
    model = ScriptedModel(["one", "two"], forever=True)
    assert [model("x") for _ in range(4)] == ["one", "two", "two", "two"]
    assert model.calls == 4


def test_a_scripted_model_answers_async_and_a_slow_line_can_be_cancelled() -> None:
    model = ScriptedModel(["one", Slow(3600, "never")])

    async def talk() -> str:
        first: str = await model.acall("a")
        waiting = asyncio.create_task(model.acall("b"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return first

    assert asyncio.run(talk()) == "one"
