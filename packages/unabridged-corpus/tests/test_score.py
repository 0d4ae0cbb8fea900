"""What counts as needed next, and what as held."""

from __future__ import annotations

import json
from typing import Any

from rows import rows
from unabridged.messages import Answer, Call, View
from unabridged_corpus.evaluate.score import (
    Needs,
    NeedsScore,
    average_shares,
    count_held_needs,
    find_cuts,
    find_needs,
    find_needs_in_views,
    join_argument_values,
)


def call(**arguments: Any) -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": function}]}


def tool(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "1", "content": text}


BEFORE = [{"role": "user", "content": "use load_config from src/app/main.py and parseArgs"}]


def test_a_name_is_needed_when_it_stood_before_the_cut_and_a_later_call_uses_it() -> None:
    found = find_needs(BEFORE, [call(command="grep load_config src/app/main.py other_name")])
    assert found == Needs(frozenset({"src/app/main.py"}), frozenset({"load_config"}))


def test_what_is_shown_again_before_its_use_is_not_needed() -> None:
    after = [call(command="ls"), tool("load_config here"), call(command="grep load_config")]
    assert find_needs(BEFORE, after).names == frozenset()


def test_short_and_plain_words_are_no_names() -> None:
    assert (
        find_needs([{"role": "user", "content": "a_b configuration"}], [call(command="a_b configuration")]).names
        == frozenset()
    )


def test_in_a_text_protocol_the_turns_of_the_assistant_count() -> None:
    after = [{"role": "assistant", "content": "now parseArgs"}, {"role": "user", "content": "load_config"}]
    assert find_needs(BEFORE, after).names == {"parseArgs"}


def test_blocks_of_anthropic_are_read() -> None:
    before = [{"role": "user", "content": [{"type": "text", "text": "load_config"}]}]
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "input": {"q": "load_config other_one"}}]}
    shown = {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "load_config"}]}]}
    assert find_needs(before, [use]).names == {"load_config"}
    assert find_needs(before, [shown, use]).names == frozenset()


def test_only_so_many_calls_count_as_next() -> None:
    after = [call(command="ls"), call(command="load_config")]
    assert find_needs(BEFORE, after, calls=1).names == frozenset()


def test_a_file_is_held_when_its_name_is() -> None:
    needed = Needs(frozenset({"src/app/main.py", "a/b.py"}), frozenset({"load_config"}))
    assert count_held_needs("main.py calls load_config()", needed) == NeedsScore(1, 2, 1, 1)


def test_a_conversation_is_cut_every_so_many_tokens_and_never_at_its_end() -> None:
    messages = [{"role": "user", "content": "x" * 400} for _ in range(10)]
    assert find_cuts(messages, 250) == [3, 5, 7]
    assert find_cuts(messages[:1], 10) == []


def test_conversations_weigh_the_same_however_often_they_were_cut() -> None:
    files, names = average_shares(
        {"a": [NeedsScore(1, 1, 1, 2), NeedsScore(0, 0, 2, 2)], "b": [NeedsScore(0, 1, 0, 1)]}
    )
    assert (files, names) == (0.5, 0.375)
    assert average_shares({}) == (1.0, 1.0)


def used(name: str, value: Any) -> list[dict[str, Any]]:
    """The same call in the form of each provider."""
    use = {"type": "tool_use", "id": "1", "name": "edit", "input": {name: value}}
    return [call(**{name: value}), {"role": "assistant", "content": [use]}]


@rows("before", ["\n", "\t", "\r", "\x08", "\\", '"', "\u00e9 ", "\x00"])
def test_a_name_in_a_call_is_read_as_it_is_whatever_json_writes_in_front_of_it(before: str) -> None:
    """`\\tgetColor` is the name `getColor`, never `tgetColor`; nothing else is read as needed beside it."""
    stood = [{"role": "user", "content": "getColor, tgetColor, ngetColor, rgetColor, bgetColor and u0000getColor"}]
    for after in used("new_text", f"x = 1;{before}getColor(theme)"):
        assert find_needs(stood, [after]).names == {"getColor"}


def test_the_keys_of_arguments_are_no_names() -> None:
    stood = [{"role": "user", "content": "pass replace_all and file_path with load_config"}]
    for after in used("replace_all", [{"file_path": "load_config"}, None, 3]):
        assert find_needs(stood, [after]).names == {"load_config"}


def test_the_values_of_arguments_are_read_through_json_in_json() -> None:
    inner = json.dumps({"query": "a\tload_config", "flags": [True, None, 4.5]})
    assert join_argument_values({"arguments": inner}) == "a\tload_config\nTrue\n\n4.5"
    assert join_argument_values('"quoted"') == '"quoted"'
    assert join_argument_values("[" * 100_000) == "[" * 100_000


def test_messages_that_were_read_already_need_the_same() -> None:
    before = [View("tool", "tool", answers=(Answer("1", "src/app/main.py: load_config, save_config, plain"),))]
    after = [
        View("assistant", "model", "load_config here is talk", calls=(Call("2", "edit", '{"f":"src/app/main.py"}'),)),
        View("tool", "tool", answers=(Answer("2", "now save_config"),)),
        View("assistant", "model", calls=(Call("3", "run", '{"new_text": "\\tload_config save_config never_seen"}'),)),
    ]
    wanted = find_needs_in_views(before, after)
    assert wanted == Needs(frozenset({"src/app/main.py"}), frozenset({"load_config"}))
    assert [count_held_needs(text, wanted).share for text in ("main.py load_config", "main.py", "")] == [1.0, 0.5, 0.0]
    assert not Needs(frozenset(), frozenset())
    assert count_held_needs("", Needs(frozenset(), frozenset())).share == 1.0
