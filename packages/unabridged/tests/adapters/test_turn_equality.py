"""A list of an SDK's objects that is built anew for each request: what it holds is compared, every change is seen."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from google.adk.flows.llm_flows.contents import _copy_content_for_request
from google.genai import types

from rows import rows
from unabridged import Compactor

Contents = list[types.Content]


def conversation(rounds: int) -> Contents:
    """Turns as ADK has them, with ids that it takes out of each request."""
    said = [types.Content(role="user", parts=[types.Part(text="Read all of it.")])]
    for i in range(rounds):
        call = types.FunctionCall(id=f"adk-{i}", name="read", args={"path": f"src/{i}.py", "lines": [i, i + 9]})
        answer = types.FunctionResponse(id=f"adk-{i}", name="read", response={"result": f"file {i} " * 40})
        signed = types.Part(function_call=call, thought_signature=f"sign{i}".encode())
        said += [
            types.Content(role="model", parts=[types.Part(text=f"Now {i}."), signed]),
            types.Content(role="user", parts=[types.Part(function_response=answer)]),
        ]
    return said


def as_adk(contents: Contents) -> Contents:
    return [_copy_content_for_request(content, strip_client_function_call_ids=True) for content in contents]


COPIES: list[Callable[[Contents], Contents]] = [as_adk, copy.deepcopy]


def with_other_text(contents: Contents) -> None:
    contents[3].parts[0].text = "Something else, and much longer than what stood here before."  # type: ignore[index]


def with_other_arguments(contents: Contents) -> None:
    call = types.FunctionCall(name="read", args={"path": "another/" * 20})
    contents[3].parts[1].function_call = call  # type: ignore[index]


def with_other_answer(contents: Contents) -> None:
    answer = types.FunctionResponse(name="read", response={"result": "short"})
    contents[4].parts = [types.Part(function_response=answer)]


def with_an_image(contents: Contents) -> None:
    blob = types.Blob(data=b"\x89PNG" * 50, mime_type="image/png")
    contents[4].parts.append(types.Part(inline_data=blob))  # type: ignore[union-attr]


def with_another_role(contents: Contents) -> None:
    contents[3].role = "user"


def with_a_thought(contents: Contents) -> None:
    contents[3].parts[0].thought = True  # type: ignore[index]


def with_parts_moved(contents: Contents) -> None:
    first, second = contents[3], contents[5]
    second.parts = [first.parts.pop(), *second.parts]  # type: ignore[union-attr, misc]


def with_a_turn_left_out(contents: Contents) -> None:
    del contents[3:5]


CHANGES = [
    with_other_text, with_other_arguments, with_other_answer, with_an_image, with_another_role, with_a_thought,
    with_parts_moved, with_a_turn_left_out,
]  # fmt: skip


@rows("copied", COPIES)
@rows("change", CHANGES)
def test_a_change_in_a_list_built_anew_is_counted_as_in_one_that_was_never_seen(
    copied: Callable[[Contents], Contents], change: Callable[[Contents], None]
) -> None:
    compactor = Compactor(window=1_000_000, archive="memory:")
    for rounds in (4, 5, 6):
        compactor.fit(copied(conversation(rounds)), thread="t")
    now = copied(conversation(7))
    change(now)
    for request in (copied(now), copied(now), now, now):
        fitted = compactor.fit(request, thread="t")
        assert fitted.messages is request
        assert fitted.tokens_before == Compactor(window=1_000_000, archive="memory:").plan(request).tokens


@pytest.mark.parametrize("copied", COPIES)
def test_a_change_in_what_was_compacted_is_seen_in_the_next_request(copied: Callable[[Contents], Contents]) -> None:
    compactor = Compactor(window=4_000, archive="memory:")
    whole = conversation(60)
    first = compactor.fit(copied(whole), thread="t")
    again = compactor.fit(copied(whole), thread="t")
    assert first.changed
    assert again.messages == first.messages
    with_other_text(whole)
    other = compactor.fit(copied(whole), thread="t")
    assert compactor.replay(other.messages, thread="t") == copied(whole)
