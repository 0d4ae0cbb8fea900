from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import anthropic_round, assistant, chat_round, responses_round, system, user
from unabridged.authorship import assign_origins
from unabridged.engine.clear import PATIENCE_SHARE, STUB_TOKENS, Clearing, ClearingTerms, build_edits, plan_clearing
from unabridged.engine.stubs import build_media_stub, build_stub, shorten_arguments
from unabridged.errors import SettingsError
from unabridged.formats import FORMATS, Slot
from unabridged.marks import is_shortened, is_stub
from unabridged.messages import Answer, Call, Media, View
from unabridged.settings import Clear, Prices
from unabridged_testing import conversations, refusals

ASK = (View("user", "person", "please fix it"), 100)
CHEAP = Prices(read=0.1, write=1.1)  # rewriting costs 1.0 a token, carrying 0.1 a turn
NO_CACHE = Prices(read=1.0, write=1.0)


@pytest.fixture(autouse=True, scope="module")
def _gemini_is_imported() -> None:
    """Import its SDK before anything is drawn: that draws random numbers, which a strategy must not."""
    importlib.import_module("google.genai.types")


def stub_costs(tokens: int = STUB_TOKENS) -> Callable[[str], int]:
    return lambda _: tokens


def tool_round(number: int, tokens: int, *, name: str = "bash", call: int = 20) -> list[tuple[View, int]]:
    id_ = f"call-{number}"
    return [
        (View("assistant", "model", calls=(Call(id_, name, '{"command":"ls"}'),)), call),
        (View("tool", "tool", answers=(Answer(id_, "x" * 4 * tokens),)), tokens),
    ]


def bulk_then(rounds: int) -> list[tuple[View, int]]:
    """A request, a round of 20 + 1,060 tokens, then so many of 20 + 30."""
    later = [line for number in range(1, rounds + 1) for line in tool_round(number, 30)]
    return [ASK, *tool_round(0, 1_060), *later]


def plan(lines: Sequence[tuple[View, int]], *, patience: float = 1, **options: Any) -> Clearing | None:
    given_: dict[str, Any] = {"prices": CHEAP, "remaining_turns": 100, "count": stub_costs(), "keep_rounds": 1}
    views, sizes = zip(*lines, strict=True)
    return clearing_of(views, sizes, patience=patience, **{**given_, **options})


def clearing_of(
    views: Sequence[View],
    sizes: Sequence[int],
    *,
    prices: Prices | None,
    count: Callable[[str], int] = len,
    over: int = 0,
    idle: float = 0.0,
    patience: float = PATIENCE_SHARE,
    protect: Callable[[int], bool] = lambda _: False,
    **wanted: Any,
) -> Clearing | None:
    """What is cleared on these terms; `wanted` are the settings of a clearing."""
    terms = ClearingTerms(prices, over, idle, patience)
    return plan_clearing(views, sizes, Clear(**wanted), terms, count=count, protect=protect)


def freed(clearing: Clearing) -> int:
    """Tokens that go, the stubs (without references) already taken off."""
    return sum(piece.freed for pieces in clearing.values() for piece in pieces.values())


def characters(views: Sequence[View]) -> list[int]:
    """One token a character: sizes a test can see."""
    return [len(view.whole_text()) + 1 for view in views]


def planned(format_name: str, messages: Sequence[Any]) -> Clearing | None:
    """What would be cleared for the window, all but the last round."""
    views = assign_origins([FORMATS[format_name].read(message) for message in messages])
    return clearing_of(views, characters(views), prices=None, keep_rounds=1, over=1)


def clear_all(format_name: str, messages: Sequence[Any]) -> list[Any]:
    """The messages after that clearing, or as they are."""
    format_ = FORMATS[format_name]
    clearing = planned(format_name, messages)
    if clearing is None:
        return list(messages)
    table = build_edits(clearing, lambda index: f"r-{index}")
    return [format_.edit(message, table[i]) if i in table else message for i, message in enumerate(messages)]


# The payback rule, by hand: after n small rounds, clearing frees 1,060 - 60 = 1,000 tokens and rewrites 60 + 50 n of
# them at 1.0; carrying the 1,000 costs 100 a turn, and it could have gone n - 1 turns ago (the last round is kept).


def test_clears_once_waiting_has_cost_what_the_rewrite_will() -> None:
    assert plan(bulk_then(3)) is None  # waiting has cost 200, rewriting costs 210
    found = plan(bulk_then(4))  # 300 and 260
    assert found is not None
    assert [(i, *pieces) for i, pieces in found.items()] == [(2, Slot("answer", "call-0"))]
    assert freed(found) == 1_000


def test_leaves_all_as_it_is_when_too_few_turns_are_left_to_pay_it_back() -> None:
    assert plan(bulk_then(4), remaining_turns=2.6) is None  # 1,000 x 0.1 x 2.6 = 260: not more than the 260 it costs
    assert plan(bulk_then(4), remaining_turns=2.61) is not None


def test_without_patience_the_payback_rule_decides_alone() -> None:
    assert plan(bulk_then(2), remaining_turns=1.6, patience=0) is None  # 160 against 160
    assert plan(bulk_then(2), remaining_turns=1.61, patience=0) is not None


def test_by_default_waiting_must_have_cost_half_of_the_rewrite() -> None:
    views, sizes = zip(*bulk_then(2), strict=True)
    given_: dict[str, Any] = {"prices": CHEAP, "remaining_turns": 100, "count": stub_costs()}
    assert clearing_of(views, sizes, keep_rounds=1, **given_) is not None  # 100 of 160
    views, sizes = zip(*bulk_then(5), strict=True)
    assert clearing_of(views, sizes, **given_) is not None  # three rounds kept: 200 of 310
    views, sizes = zip(*bulk_then(4), strict=True)
    assert clearing_of(views, sizes, **given_) is None  # 100 of 260


def test_a_stub_that_costs_more_than_thought_is_found_out_before_anything_goes() -> None:
    assert plan(bulk_then(4), count=stub_costs(400)) is None  # frees 660, rewrites 600, waiting has cost 198


def test_a_piece_that_would_free_less_than_the_minimum_stays() -> None:
    lines = [ASK, *tool_round(0, 2_000), *tool_round(1, 170), *tool_round(2, 30)]
    for costs, cleared in ((120, [2, 4]), (121, [2])):  # 170 - 120 = 50 tokens
        found = plan(lines, prices=NO_CACHE, count=stub_costs(costs), minimum=50)
        assert found is not None
        assert list(found) == cleared


def test_an_expired_cache_makes_clearing_free() -> None:
    assert plan(bulk_then(2), idle=299.9) is None
    found = plan(bulk_then(2), idle=300.0)
    assert found is not None
    assert freed(found) == 1_000


def test_without_a_cache_a_fifth_of_the_conversation_goes_at_once_and_less_never() -> None:
    assert plan(bulk_then(1), prices=NO_CACHE) is not None
    spoken = (View("user", "person", "a long story"), 3_800)  # 1,000 of 5,030 tokens is less than a fifth
    assert plan([spoken, *bulk_then(1)], prices=NO_CACHE) is None
    assert plan([(spoken[0], 3_760), *bulk_then(1)], prices=NO_CACHE) is not None


def test_clears_from_where_it_pays_on_and_leaves_what_would_cost_more_than_it_saves() -> None:
    story = (View("assistant", "model", "a long answer"), 9_000)
    lines = [ASK, *tool_round(8, 120), story, *bulk_then(4)[1:]]
    found = plan(lines, remaining_turns=20, prices=Prices(read=0.1, write=1.1), idle=0)
    assert found is None  # a fifth of the conversation is 2,300 tokens
    lines = [ASK, *tool_round(8, 120), (story[0], 2_000), *bulk_then(4)[1:]]
    found = plan(lines, remaining_turns=20)
    assert found is not None
    assert list(found) == [5]  # the 120 tokens before the long answer stay


def test_unknown_prices_clear_for_the_window_only_and_only_when_that_is_enough() -> None:
    assert plan(bulk_then(4), prices=None) is None
    assert plan(bulk_then(4), prices=None, over=1_000) is not None
    assert plan(bulk_then(4), prices=None, over=1_001) is None


def test_the_last_rounds_are_never_touched() -> None:
    lines = [ASK, *(line for number in range(4) for line in tool_round(number, 500))]
    for keep in range(1, 6):
        found = plan(lines, keep_rounds=keep, prices=NO_CACHE)
        cleared = list(found) if found else []
        assert cleared == [2 * n + 2 for n in range(4 - keep)]


def test_a_model_turn_without_tools_is_no_round() -> None:
    chat = [(View("assistant", "model", "done"), 10), (View("user", "person", "thanks, and now?"), 10)]
    lines = [ASK, *tool_round(0, 500), *tool_round(1, 500), *chat, *chat]
    found = plan(lines, keep_rounds=1, prices=NO_CACHE)
    assert found is not None
    assert list(found) == [2]


def test_only_tools_that_are_included_and_not_excluded_are_cleared() -> None:
    lines = [ASK, *tool_round(0, 500, name="bash"), *tool_round(1, 500, name="read"), *tool_round(2, 30)]
    for options, cleared in (
        ({"exclude": ("bash",)}, [4]),
        ({"include": ("bash",)}, [2]),
        ({"include": ("bash", "read"), "exclude": ("read",)}, [2]),
        ({"protect": lambda index: index == 2}, [4]),
    ):
        found = plan(lines, prices=NO_CACHE, **options)
        assert found is not None
        assert list(found) == cleared
    assert plan(lines, prices=NO_CACHE, include=()) is None


def test_opaque_items_and_the_words_and_pictures_of_people_stay() -> None:
    picture = Media("image", "image/png", "aGk=")
    person = (View("user", "person", "x" * 4_000, media=(picture,)), 1_000)
    sealed = (View("assistant", "model", opaque=True, calls=(Call("c", "t", '{"a":"' + "x" * 4_000 + '"}'),)), 1_000)
    host = (View("system", "host", "x" * 4_000), 1_000)
    for stays in (host, person, sealed):
        assert plan([stays, ASK, *tool_round(1, 30)], prices=NO_CACHE) is None


def test_a_tools_old_screenshot_becomes_a_line() -> None:
    messages = [
        user("click it"),
        *anthropic_round("computer", "", action="screenshot"),
        *anthropic_round("computer", "ok", action="click"),
    ]
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    messages[2]["content"][0]["content"] = [{"type": "image", "source": source}]
    views = [FORMATS["anthropic"].read(message) for message in messages]
    sizes = [10, 10, 1_600, 10, 10]
    clearing = clearing_of(views, sizes, prices=NO_CACHE, remaining_turns=9, keep_rounds=1)
    assert clearing is not None
    assert [(i, *pieces) for i, pieces in clearing.items()] == [(2, Slot("media"))]
    edited = FORMATS["anthropic"].edit(messages[2], build_edits(clearing)[2])
    assert edited["content"][0]["content"] == [{"type": "text", "text": "[Image cleared: image/png]"}]


def test_arguments_beside_signed_reasoning_are_never_touched_and_others_are() -> None:
    script = "x = 1\n" * 400
    later = "ok" * 10
    for format_name, messages in (
        ("anthropic", [*anthropic_round("write", later, thinking="hm", path="a.py", text_=script)]),
        ("openai-responses", [*responses_round("write", later, reasoning="sealed", path="a.py", text_=script)]),
    ):
        kept = [user("go"), *messages, *_last_round(format_name)]
        assert clear_all(format_name, kept) == kept
    for format_name, messages in (
        ("anthropic", [*anthropic_round("write", later, path="a.py", text_=script)]),
        ("openai-responses", [*responses_round("write", later, path="a.py", text_=script)]),
        ("openai-chat", [*chat_round("write", later, path="a.py", text_=script)]),
    ):
        cleared = clear_all(format_name, [user("go"), *messages, *_last_round(format_name)])
        call = FORMATS[format_name].read(cleared[1]).calls[0]
        arguments = json.loads(call.arguments)
        assert arguments["path"] == "a.py"
        assert arguments["text_"].startswith("x = 1\nx = 1\n")
        assert arguments["text_"].endswith("more characters; full text: r-1]")


def _last_round(format_name: str) -> list[dict[str, Any]]:
    build = {"anthropic": anthropic_round, "openai-responses": responses_round, "openai-chat": chat_round}
    return build[format_name]("ls", "a.py")


def test_what_was_cleared_is_not_cleared_again() -> None:
    messages = [
        user("go"),
        *chat_round("bash", "error: " + "no luck " * 400, command="make\n" * 200),
        *chat_round("ls", "a.py"),
    ]
    once = clear_all("openai-chat", messages)
    assert once != messages
    assert clear_all("openai-chat", once) == once


def test_a_cleared_observation_is_still_the_tools_word() -> None:
    action = assistant("Let me look.\n<command>\ncat long.txt\n</command>")
    messages = [
        system("Use commands."),
        user("Fix the bug."),
        action,
        user("line of text\n" * 300 + "bash-$"),
        action,
        user("short\nbash-$"),
    ]
    cleared = clear_all("openai-chat", messages)
    assert is_stub(cleared[3]["content"])
    views = assign_origins([FORMATS["openai-chat"].read(message) for message in cleared])
    assert [view.origin for view in views] == ["host", "person", "model", "tool", "model", "tool"]


def test_pieces_that_have_no_place_for_text_are_left_alone() -> None:
    shell = {"type": "shell_call", "call_id": "s", "action": {"commands": ["x" * 4_000]}}
    streams = [{"stdout": "y" * 4_000, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    output = {"type": "shell_call_output", "call_id": "s", "output": streams}
    messages = [user("go"), shell, output, *responses_round("ls", "a.py")]
    cleared = clear_all("openai-responses", messages)
    assert cleared[1] == shell
    (stream,) = cleared[2]["output"]  # the text of a stream is cleared where it stands
    assert is_stub(stream["stdout"])
    assert stream == {**streams[0], "stdout": stream["stdout"]}
    called = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": '{"a":"' + "x" * 4_000 + '"}'},
    }
    messages = [user("go"), called, {"role": "function", "name": "f", "content": "ok"}, *chat_round("ls", "a.py")]
    assert planned("openai-chat", messages) is None


# Stubs


def test_a_stub_says_which_tool_on_what_how_much_how_it_went_and_where_it_is() -> None:
    call = Call("1", "bash", json.dumps({"timeout": 5, "command": "python -m pytest tests/test_io.py"}))
    text = "Exit code: 1\n" + "collecting\n" * 30 + "E   ValueError: bad row\n== 2 failed, 31 passed in 0.4s ==\n"
    assert build_stub(call, text, "r-12", ("read_header",)) == (
        '[Tool result cleared: bash "python -m pytest tests/test_io.py"; 34 lines, 401 characters; exit 1; '
        "== 2 failed, 31 passed in 0.4s ==; names: read_header; full text: r-12]"
    )


def test_a_stub_tells_what_was_raised_last_or_the_first_failure() -> None:
    trace = "Traceback (most recent call last):\n  File x\nKeyError: 'a'\n\nDuring handling\n\nmod.MyError: gave up\n"
    assert "; mod.MyError: gave up]" in build_stub(None, trace)
    assert "; fatal: not a git repository]" in build_stub(
        Call("1", "git", "{}"), "status\nfatal: not a git repository\nbye"
    )
    assert build_stub(Call("1", "cat", "{}"), "Exit code: 0\nerror: said a file").endswith(
        "2 lines, 31 characters; exit 0]"
    )
    assert build_stub(Call("1", "cat", '{"path":"a.md"}'), "how it failed for us\n" * 9).endswith(
        "10 lines, 189 characters]"
    )


def test_a_stub_states_an_exit_code_only_where_a_frame_or_a_field_does() -> None:
    call = Call("1", "bash", "{}")
    assert "; exit 3" in build_stub(call, "<returncode>3</returncode>\n<output>\n" + "x\n" * 40 + "</output>")
    assert "; exit 3" in build_stub(call, json.dumps({"stdout": "x " * 300, "exit_code": 3}))
    assert "exit" not in build_stub(call, "the script says that its exit code is 3\n" + "x\n" * 40)
    assert "exit" not in build_stub(call, "# exit code: 3 means that the row is bad\n" * 9)


@given(st.text(max_size=400), st.text(max_size=60), st.text(max_size=2_000), st.none() | st.just("r-1"))
def test_a_stub_is_one_short_line_whatever_the_tool_said(name: str, arguments: str, text: str, ref: str | None) -> None:
    made = build_stub(Call("1", name, json.dumps({"path": arguments})), text, ref)
    assert is_stub(made)
    assert len(made) < 500
    assert ref is None or made.endswith("full text: r-1]")
    assert is_stub(build_media_stub(Media("image", "image/png", name=arguments), ref))


def test_arguments_keep_their_shape_and_every_short_value() -> None:
    edits_ = [{"old": "a" * 900, "new": "b" * 900, "line": n} for n in range(2)]
    short = json.loads(
        shorten_arguments(json.dumps({"path": "é.py", "edits": edits_, "dry": True}), "r-3", ("foo_bar",))
    )
    assert (short["path"], short["dry"], [edit["line"] for edit in short["edits"]]) == ("é.py", True, [0, 1])
    assert short["edits"][0]["old"].endswith("… [cleared: 740 more characters; names: foo_bar; full text: r-3]")
    assert short["edits"][1]["new"] == "b" * 160 + "… [cleared: 740 more characters]"


def test_a_string_that_is_hardly_longer_than_its_beginning_stays() -> None:
    assert shorten_arguments(json.dumps({"a": "x" * 220})) == json.dumps({"a": "x" * 220})
    assert is_shortened(shorten_arguments(json.dumps({"a": "x" * 240})))


def test_arguments_that_json_cannot_carry_stay_or_are_escaped() -> None:
    assert shorten_arguments('{"a": 1e999, "b": "' + "x" * 900 + '"}').endswith('x"}')
    half = shorten_arguments('{"a": "\\ud800' + "x" * 900 + '"}')
    assert half.isascii()
    assert is_shortened(half)
    assert shorten_arguments("*** Begin Patch\n" * 100).endswith("… [cleared: 1,440 more characters]")
    assert shorten_arguments('"' + "x" * 900 + '"') == '"' + "x" * 900 + '"'
    deep = "[" * 100_000
    assert shorten_arguments(deep) == deep


def test_a_stub_keeps_the_names_that_would_stand_nowhere_else() -> None:
    listing = (
        "def parse_header(): ...\n" * 40
        + "class RowCursor: src/io/rows_reader.py\nparse_header kept_elsewhere __all__\n"
    )
    messages = [
        user("look at kept_elsewhere"),
        *chat_round("read", listing, path="a.py"),
        *chat_round("ls", "nothing"),
    ]
    cleared = clear_all("openai-chat", messages)
    assert "; names: parse_header, rows_reader.py, RowCursor;" in cleared[2]["content"]


def test_each_part_of_a_result_has_a_stub_of_its_own_and_short_parts_stay() -> None:
    messages = [user("go"), *anthropic_round("read", ""), *anthropic_round("ls", "a")]
    parts = [{"type": "text", "text": text} for text in ("one " * 400, "short", "two " * 300)]
    messages[2]["content"][0]["content"] = parts
    cleared = [part["text"] for part in clear_all("anthropic", messages)[2]["content"][0]["content"]]
    assert [is_stub(text) for text in cleared] == [True, False, True]
    assert ("1,600 characters" in cleared[0], cleared[1], "1,200 characters" in cleared[2]) == (True, "short", True)


# Properties


def bulky(format_name: str, messages: list[Any]) -> list[Any]:
    """The same conversation with every long enough tool result blown up."""
    edit = FORMATS[format_name].edit
    return [edit(m, lambda slot, text: text * 20 if slot.kind == "answer" and text.strip() else text) for m in messages]


@pytest.mark.parametrize("format_name", sorted(FORMATS))
@settings(max_examples=20, deadline=None)
@given(data=st.data(), keep=st.integers(1, 3))
def test_a_clearing_changes_only_what_it_names_and_stays_legal(
    format_name: str, data: st.DataObject, keep: int
) -> None:
    messages = bulky(format_name, data.draw(conversations(format_name)))
    format_ = FORMATS[format_name]
    views = assign_origins([format_.read(message) for message in messages])
    options: dict[str, Any] = {"prices": NO_CACHE, "remaining_turns": 1, "count": len, "keep_rounds": keep}
    clearing = clearing_of(views, characters(views), **options)
    assert clearing == clearing_of(views, characters(views), **options)
    if clearing is None:
        return
    table = build_edits(clearing)
    cleared = [format_.edit(message, table[i]) if i in table else message for i, message in enumerate(messages)]
    after = assign_origins([format_.read(message) for message in cleared])
    assert sorted(refusals(format_name, cleared)) == sorted(refusals(format_name, messages))
    first = min(clearing)
    assert all(new is old for new, old in zip(cleared[:first], messages[:first], strict=True))
    assert sum(characters(views)) - sum(characters(after)) >= freed(clearing) * 0.95
    for index, (old, new) in enumerate(zip(views, after, strict=True)):
        assert index in clearing or cleared[index] is messages[index]
        assert replace(new, calls=(), answers=(), media=(), text="") == replace(
            old, calls=(), answers=(), media=(), text=""
        )
        assert [call.id for call in new.calls] == [call.id for call in old.calls]
        assert [answer.call_id for answer in new.answers] == [answer.call_id for answer in old.answers]
        assert new.text == old.text or old.origin == "tool"
    assert clearing_of(after, characters(after), **options) is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(20, 3_000), min_size=20, max_size=60), st.integers(1, 4))
def test_the_prefix_is_byte_stable_between_few_clearings(results: list[int], keep: int) -> None:
    format_ = FORMATS["openai-chat"]
    current: list[Any] = [user("go")]
    clearings = 0
    for number, size in enumerate(results):
        views = [format_.read(message) for message in current]
        sizes = [view_size // 4 + 4 for view_size in characters(views)]
        options: dict[str, Any] = {"prices": Prices(), "remaining_turns": number, "keep_rounds": keep}
        clearing = clearing_of(views, sizes, count=lambda text: len(text) // 4, **options)
        if clearing is not None:
            clearings += 1
            table = build_edits(clearing)
            last = 1 + 2 * (number - keep)
            assert max(table) < last
            current = [format_.edit(message, table[i]) if i in table else message for i, message in enumerate(current)]
            assert freed(clearing) >= 0.2 * sum(sizes)
        current += chat_round(f"tool{number}", "x" * size, command="ls")
    assert clearings <= len(results) / 4 + 1


def test_as_many_turns_are_expected_as_there_were_unless_the_caller_knows_better() -> None:
    lines = bulk_then(4)  # five turns so far, and 2.6 would do
    assert plan(lines, remaining_turns=None) is not None
    assert plan(lines, remaining_turns=2) is None


def test_wrong_prices_and_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"Prices\.read must be .* got -1"):
        Prices(read=-1)
    with pytest.raises(SettingsError, match=r"Prices\.lifetime must be .* got nan"):
        Prices(lifetime=float("nan"))
    with pytest.raises(SettingsError, match="keep_rounds must be"):
        plan(bulk_then(1), keep_rounds=0)
