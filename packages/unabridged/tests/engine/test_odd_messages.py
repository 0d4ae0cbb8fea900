"""What no provider takes as a message: an error of ours that names the place, or a result; never a bare `TypeError`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversations import user
from effort import examples
from engine_case import compactor, rounds
from odd_values import ODD, places, put
from rows import rows
from unabridged import IllegalConversation, UnabridgedError, check, repair
from unabridged.formats import FORMATS, get_format
from unabridged_testing import Shape, make_conversation, shapes

EXAMPLES = max(60, examples(600, 2_000) // 10)
ASKED = ("fit", "afit", "compact", "plan", "replay", "undo")


def ask(what: str, format_: str | None, messages: list[Any], window: int) -> None:
    """Any of the ways to hand a conversation over; what is ours to raise is fine."""
    before = repr(messages)
    with compactor(window, format=format_) as engine:
        try:
            asked = getattr(engine, what)(messages, thread="t")
            if what == "afit":
                asyncio.run(asked)
        except UnabridgedError:
            pass
    assert repr(messages) == before


@pytest.mark.parametrize("format_", FORMATS)
def test_an_odd_value_anywhere_gives_a_result_or_an_error_of_ours(format_: str) -> None:
    how = st.tuples(st.sampled_from(ASKED), st.sampled_from((500, 2_000, 99_999)), st.sampled_from((format_, None)))

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(shapes(format_), st.integers(0, 10**6), st.sampled_from(ODD), how)
    def holds(shape: Shape, at: int, odd: Any, how: tuple[str, int, str | None]) -> None:
        messages = make_conversation(shape).messages
        found = list(places(messages))
        what, window, told = how
        ask(what, told, put(messages, found[at % len(found)], odd), window)

    holds()


CALL = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": 3, "arguments": ""}}]}
OTHERS = [name for name in FORMATS if name != "gemini"]
REFUSED: list[tuple[str, Any, str]] = [
    *((name, {"role": "user", "content": 0}, r"message 1 .* content is 0 \(int\), where a text") for name in OTHERS),
    *((name, {"role": "user", "content": {"a": "b"}}, r"content is \{'a': 'b'\} \(dict\)") for name in OTHERS),
    *((name, {"role": [], "content": "a"}, r"role is \[\] \(list\), where a text") for name in OTHERS),
    *((name, odd, r"message 1 .* it is .*, where a dict") for name in FORMATS for odd in (7, "hi", None)),
    ("openai-chat", {"role": "user", "content": ["a", {"type": "text", "text": 5}]}, r"content\[1\]\.text is 5"),
    ("openai-chat", {"role": "assistant", "tool_calls": 3}, "tool_calls is 3"),
    ("openai-chat", CALL, r"tool_calls\[0\]\.name is 3"),
    ("openai-responses", {"type": "function_call", "call_id": [1], "name": "x"}, r"call_id is \[1\]"),
    ("openai-responses", {"type": "function_call_output", "call_id": "c", "output": [3]}, r"output\[0\] is 3"),
    ("anthropic", {"role": "user", "content": [{"type": "tool_result", "content": 9}]}, r"content\[0\]\.content is 9"),
    ("anthropic", {"role": "user", "content": [{"type": "text", "text": b"x" * 99}]}, r"text is b'x{10,30}… \(bytes\)"),
    ("bedrock-converse", {"role": "user", "content": [{"image": {"source": {"bytes": 7}}}]}, r"bytes is 7"),
    ("gemini", {"role": "user", "content": "a"}, r"message 1 .* content is 'a' \(str\), where `parts`"),
    ("gemini", {"role": [], "parts": []}, r"role is \[\] \(list\), where a text"),
    ("gemini", {"role": "user", "parts": 7}, r"parts is 7 \(int\), where a list of parts"),
    ("gemini", {"role": "user", "parts": [{"text": "a"}, {"text": 5}]}, r"parts\[1\]\.text is 5"),
    ("gemini", {"role": "model", "parts": [{"functionCall": {"name": "x", "args": 3}}]}, r"parts\[0\]\.args is 3"),
]  # fmt: skip


@rows(("format_", "odd", "said"), REFUSED)
def test_what_is_no_message_is_named_by_its_index_and_what_was_found(format_: str, odd: Any, said: str) -> None:
    messages = [get_format(format_).text("user", "hello"), odd]
    with compactor(format=format_) as engine:
        for asked in (engine.fit, engine.compact, engine.plan, engine.replay, engine.undo):
            with pytest.raises(IllegalConversation, match=said):
                asked(messages, thread="t")
        with pytest.raises(IllegalConversation, match=said):
            asyncio.run(engine.afit(messages, thread="t"))
    with pytest.raises(IllegalConversation, match=said):
        check(messages, format=format_)
    with pytest.raises(IllegalConversation, match=said):
        repair(messages, format=format_)


def test_nothing_is_lost_when_a_message_is_refused_and_the_run_goes_on_without_it() -> None:
    messages = rounds(40)
    with compactor() as engine:
        before = engine.fit(messages, thread="t")
        assert before.changed
        with pytest.raises(IllegalConversation, match=f"message {len(before.messages)} "):
            engine.fit([*before.messages, {"role": "user", "content": 0}], thread="t")
        assert engine.replay(before.messages, thread="t") == messages
        again = engine.fit([*before.messages, user("go on")], thread="t")
        assert engine.replay(again.messages, thread="t") == [*messages, user("go on")]


@pytest.mark.parametrize("given", [7, "hello", {"role": "user", "content": "hello"}, {1, 2}, b"hello"])
def test_a_conversation_that_is_no_list_is_refused(given: Any) -> None:
    with compactor() as engine:
        engine.fit([user("hello")], thread="known")
        for thread in ("new", "known", None):
            for asked in (engine.fit, engine.compact, engine.plan, engine.replay):
                with pytest.raises(IllegalConversation, match=f"a list of messages; got {type(given).__name__}"):
                    asked(given, thread=thread)


def test_calls_that_a_server_numbers_are_read_as_their_digits_and_pair() -> None:
    messages = rounds(30)
    for message in messages:
        for call in message.get("tool_calls", ()):
            call["id"] = len(call["id"])
        if message["role"] == "tool":
            message["tool_call_id"] = len(message["tool_call_id"])
    with compactor() as engine:
        fitted = engine.fit(messages, thread="t")
        assert fitted.changed
        assert engine.replay(fitted.messages, thread="t") == messages
