"""Whatever happens to a legal conversation, repair makes it legal again and touches nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import TextBlock, ThinkingBlock, ToolUseBlock
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem

from effort import examples
from legal_case import untouched
from unabridged.errors import IllegalConversation
from unabridged.formats import FORMATS
from unabridged.legality import PROVIDERS, Finding, check, check_views, repair
from unabridged.messages import View

Turn = tuple[str, int, bool]
"""What happens, how many calls it takes, and whether the model thinks and SDK objects are used."""

TURNS: st.SearchStrategy[list[Turn]] = st.lists(
    st.tuples(st.sampled_from(["user", "round", "round", "say", "system"]), st.integers(1, 3), st.booleans()),
    max_size=8,
)


def chat(turns: list[Turn]) -> list[Any]:
    made: list[Any] = [{"role": "user", "content": "Begin."}]
    for number, (what, count, sdk) in enumerate(turns):
        if what != "round":
            role = {"say": "assistant"}.get(what, what)
            made.append({"role": role, "content": f"{what} {number}"})
            continue
        ids = [f"c{number}_{i}" for i in range(count)]
        calls = [{"id": i, "type": "function", "function": {"name": "read", "arguments": "{}"}} for i in ids]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        made.append(ChatCompletionMessage.model_validate(message) if sdk else message)
        made += [{"role": "tool", "tool_call_id": i, "content": f"result {i}"} for i in reversed(ids)]
    return made


def responses(turns: list[Turn]) -> list[Any]:
    made: list[Any] = [{"role": "user", "content": "Begin."}]
    for number, (what, count, sdk) in enumerate(turns):
        if what != "round":
            role = {"say": "assistant", "system": "developer"}.get(what, what)
            made.append({"role": role, "content": f"{what} {number}"})
            continue
        if sdk:
            made.append(ResponseReasoningItem(type="reasoning", id=f"rs_{number}", summary=[]))
        for i in range(count):
            call = {"type": "function_call", "call_id": f"c{number}_{i}", "name": "read", "arguments": "{}"}
            made.append(ResponseFunctionToolCall.model_validate({**call, "id": f"fc_{number}_{i}"}) if sdk else call)
        made += [
            {"type": "function_call_output", "call_id": f"c{number}_{i}", "output": f"result {i}"} for i in range(count)
        ]
    return made


def anthropic(turns: list[Turn]) -> list[Any]:
    made: list[Any] = [{"role": "user", "content": "Begin."}]
    for number, (what, count, sdk) in enumerate(turns):
        last = made[-1]["role"]
        if what == "system" and last == "user":
            made += [
                {"role": "system", "content": f"system {number}"},
                {"role": "assistant", "content": f"yes {number}"},
            ]
        elif what in {"user", "system"}:
            made.append({"role": "user", "content": [{"type": "text", "text": f"user {number}"}]})
        elif what == "say":
            made.append({"role": "assistant", "content": f"say {number}"})
        else:
            ids = [f"c{number}_{i}" for i in range(count)]
            blocks: list[Any] = [{"type": "tool_use", "id": i, "name": "read", "input": {}} for i in ids]
            if sdk:
                blocks = [
                    ThinkingBlock(type="thinking", thinking="Hm.", signature="s"),
                    TextBlock(type="text", text="I read."),
                    *(ToolUseBlock.model_validate(block) for block in blocks),
                ]
            results: list[Any] = [{"type": "tool_result", "tool_use_id": i, "content": f"result {i}"} for i in ids]
            if number % 2:
                results.append({"type": "text", "text": f"and {number}"})
            made += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    return made


def gemini(turns: list[Turn]) -> list[Any]:
    made: list[Any] = [{"role": "user", "parts": [{"text": "Begin."}]}]
    for number, (what, count, sdk) in enumerate(turns):
        if what != "round":
            made.append({"role": "model" if what == "say" else "user", "parts": [{"text": f"{what} {number}"}]})
            continue
        if made[-1]["role"] == "model":
            made.append({"role": "user", "parts": [{"text": f"go on {number}"}]})
        ids = [{"id": f"c{number}_{i}"} if number % 3 else {} for i in range(count)]
        call: dict[str, Any] = {"name": "read", "args": {}}
        calls = [{"functionCall": {**id_, **call}} for id_ in ids]
        parts: list[Any] = [{"text": "Hm.", "thought": True}, *calls] if sdk else calls
        answers = [
            {"functionResponse": {**id_, "name": "read", "response": {"output": f"{i}"}}}
            for i, id_ in enumerate(ids if number % 3 == 1 else [{} for _ in ids])
        ]
        made += [
            {"role": "model", "parts": [types.Part.model_validate(part) for part in parts] if sdk else parts},
            {"role": "user", "parts": answers},
        ]
    return made


BUILDERS: dict[str, Callable[[list[Turn]], list[Any]]] = {
    "openai-chat": chat, "openai-responses": responses, "anthropic": anthropic, "gemini": gemini,
}  # fmt: skip
STRAYS: dict[str, list[Any]] = {
    "openai-chat": [
        {"role": "assistant", "content": None},
        {"role": "user", "content": []},
        {"role": "tool", "tool_call_id": "stray", "content": "stray"},
        {"role": "tool", "content": "no id"},
        {"role": "assistant", "content": "Aborted.", "tool_calls": []},
    ],
    "openai-responses": [
        {"type": "reasoning", "id": "rs_stray", "summary": []},
        {"type": "function_call_output", "call_id": "stray", "output": "stray"},
        {"type": "function_call", "call_id": "", "name": "read", "arguments": "{}"},
        {"type": "computer_call", "id": "cu", "call_id": "screen", "action": {"type": "wait"}},
        {"role": "assistant", "content": "Aborted."},
    ],
    "anthropic": [
        {"role": "assistant", "content": []},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": " "}]},
        {"role": "assistant", "content": "Aborted. \n"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]},
        {"role": "system", "content": "Mind the gap."},
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "stray"}]},
    ],
    "gemini": [
        {"role": "model", "parts": []},
        {"role": "model"},
        {"role": "user", "parts": [{"text": ""}]},
        {"role": "user", "parts": [{"text": "x"}, {"functionResponse": {"name": "stray", "response": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "stray", "name": "read", "response": {}}}]},
        {"role": "model", "parts": [{"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"}]},
    ],
}
DAMAGE = st.lists(
    st.tuples(st.sampled_from(["delete", "again", "move", "stray", "tear"]), st.integers(0, 99), st.integers(0, 99)),
    max_size=6,
)


def damaged(messages: list[Any], format_: str, damage: list[tuple[str, int, int]]) -> list[Any]:
    """The conversation after everything that can go wrong with a list, and with the blocks in it."""
    broken = list(messages)
    for what, at, other in damage:
        if what == "stray":
            broken.insert(at % (len(broken) + 1), STRAYS[format_][other % len(STRAYS[format_])])
        if not broken:
            continue
        index = at % len(broken)
        if what == "delete":
            del broken[index]
        elif what == "again":
            broken.insert(other % len(broken), broken[index])
        elif what == "move":
            broken.insert(other % len(broken), broken.pop(index))
        elif what == "tear":
            broken[index] = _torn(broken[index], other)
    return broken


def _torn(message: Any, other: int) -> Any:
    """The message with its list of blocks or calls turned around, or with one of them gone."""
    for key in ("content", "tool_calls", "parts"):
        parts = message.get(key) if isinstance(message, dict) else None
        if isinstance(parts, list) and parts:
            return {**message, key: parts[::-1] if other % 2 else parts[1:]}
    return message


@pytest.mark.parametrize("format_", BUILDERS)
@given(turns=TURNS)
@settings(max_examples=examples(20, 40), deadline=None)
def test_what_the_builders_make_is_legal_and_comes_back_as_it_is(format_: str, turns: list[Turn]) -> None:
    messages = BUILDERS[format_](turns)
    assert check(messages, format=format_) == []
    assert repair(messages, format=format_).messages is messages
    views = [FORMATS[format_].read(message) for message in messages]
    assert check_views(views, format_) == []


@given(turns=TURNS, ids=st.lists(st.sampled_from(["", "x", "y"]), min_size=1))
@settings(max_examples=examples(30, 60), deadline=None)
def test_repair_never_takes_a_call_or_an_output_that_pair_by_call_id(turns: list[Turn], ids: list[str]) -> None:
    """Whatever ids the items share: by those nothing is paired."""
    dumped = [item if isinstance(item, dict) else item.model_dump() for item in responses(turns)]
    named = [{**item, "id": ids[i % len(ids)]} if ids[i % len(ids)] else item for i, item in enumerate(dumped)]
    mended = repair(named, format="openai-responses").messages
    assert check(mended, format="openai-responses") == []
    bare = [{key: value for key, value in item.items() if key != "id"} for item in mended if "call_id" in item]
    assert bare == [{k: value for k, value in item.items() if k != "id"} for item in dumped if "call_id" in item]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("format_", BUILDERS)
@given(turns=TURNS, damage=DAMAGE, bound=st.booleans())
@settings(max_examples=examples(30, 60), deadline=None)
def test_repair_makes_any_damage_legal_once_and_for_all(
    format_: str, provider: str, turns: list[Turn], damage: list[tuple[str, int, int]], bound: bool
) -> None:
    # R14
    messages = damaged(BUILDERS[format_](turns), format_, damage)
    model = "claude-opus-5-5" if bound and provider == "anthropic" else None
    try:
        repaired = repair(messages, provider, format=format_, model=model)
    except IllegalConversation:
        assert not any(_can_be_sent(FORMATS[format_].read(message)) for message in messages)
        return
    assert check(repaired.messages, provider, format=format_, model=model) == []
    assert repair(repaired.messages, provider, format=format_, model=model).messages is repaired.messages
    assert untouched(messages, repaired.findings) <= {id(message) for message in repaired.messages}
    assert not _unsaid(messages, repaired.messages, check(messages, provider, format=format_, model=model), format_)


def _unsaid(before: list[Any], after: list[Any], found: list[Finding], format_: str) -> list[str]:
    """What somebody said in a message that was not refused, and that is said no more."""
    refused = {finding.index for finding in found}
    said = "\n".join(FORMATS[format_].read(message).text for message in after)
    views = [FORMATS[format_].read(message) for i, message in enumerate(before) if i not in refused]
    return [view.text for view in views if view.text.strip() not in said]


def _can_be_sent(view: View) -> bool:
    """Whether something of the message stays whatever happens; only a list without any such can't be mended."""
    calls = [call for call in view.calls if call.name != "computer_call"]
    return view.role in {"user", "assistant"} and bool(view.text.strip() or calls)


DATA = Path(os.environ.get("BENCH_DATA", "recorded"))


@pytest.mark.skipif(not DATA.is_dir(), reason="no recorded conversations at hand")
@pytest.mark.parametrize("provider", [None, "gemini", "strict", "anthropic"])
def test_recorded_conversations_come_out_legal_and_whole(provider: str | None) -> None:
    for path in sorted(DATA.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            messages = record["messages"]
            repaired = repair(messages, provider, format=record["format"])
            assert check(repaired.messages, provider, format=record["format"]) == []
            assert untouched(messages, repaired.findings) <= {id(message) for message in repaired.messages}
