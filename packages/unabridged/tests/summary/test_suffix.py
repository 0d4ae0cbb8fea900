"""The summary asked for behind the live prompt, so that the provider's cache serves most of it."""

from __future__ import annotations

from summaries import GOOD, block, calls_bound, count, ends, live, summary_of
from unabridged.summary.ledger import Ledger, Rule
from unabridged.summary.prompt import PROMPT_PARTS
from unabridged_testing import ScriptedModel


def test_a_suffix_carries_the_live_prompts_own_objects_and_asks_last() -> None:
    prompt = live()
    scripted = ScriptedModel([ends(GOOD)])
    summary_of(scripted, block(live=prompt, prior="old"))
    (ask,) = scripted.asks
    assert list(map(id, ask.messages)) == list(map(id, prompt.messages))
    assert ask.messages is not prompt.messages, "a list of its own: what a summariser appends changes nothing"
    assert ask.system is prompt.system
    assert ask.tools == prompt.tools
    assert ask.instruction.startswith("Stop here")
    assert "newest 2 messages stay" in ask.instruction
    assert "mark3end" not in ask.instruction


def test_a_tool_call_in_reply_to_a_suffix_is_a_fault_and_the_second_ask_has_the_same_prefix() -> None:
    prompt = live()
    scripted = ScriptedModel([ends("", stop="tool", calls=1), ends(GOOD)])
    assert summary_of(scripted, block(live=prompt)).text == GOOD
    assert list(map(id, scripted.asks[1].messages)) == list(map(id, prompt.messages))
    assert "called a tool" in scripted.asks[1].instruction


def test_without_room_behind_the_live_prompt_it_is_asked_apart() -> None:
    scripted = ScriptedModel([ends(GOOD)])
    summary = summary_of(scripted, block(live=live(31_000)))
    assert scripted.asks[0].messages == ()
    assert "no room behind the live prompt of 31,000 tokens" in summary.notes[0]


def test_an_ordinary_block_takes_at_most_two_calls_behind_the_live_prompt_too() -> None:
    assert calls_bound(*block(live=live())) == 2


def test_near_the_trigger_the_reply_gets_the_room_that_is_left() -> None:
    scripted = ScriptedModel([ends(GOOD)])
    summary_of(scripted, block(live=live(28_650)))
    (ask,) = scripted.asks
    assert len(ask.messages) == 8
    assert 400 <= ask.max_tokens < 1_500
    assert 28_650 + count(ask.instruction) + ask.max_tokens <= 32_768


def test_the_rules_known_are_told_behind_the_live_prompt_and_those_listed_are_taken_out() -> None:
    known = Ledger(rules=(Rule(0, "Never edit vendor/."),))
    scripted = ScriptedModel([ends(f"{GOOD}\n### Standing rules\n- Always ask first.")])
    summary = summary_of(scripted, block(live=live(), ledger=known))
    (ask,) = scripted.asks
    assert len(ask.messages) == 8
    assert PROMPT_PARTS["standing"] in ask.instruction
    assert PROMPT_PARTS["known-rules"] in ask.instruction
    assert "- Never edit vendor/." in ask.instruction
    assert (summary.text, summary.rules) == (GOOD, ("Always ask first.",))


def test_without_room_behind_the_whole_prompt_it_is_asked_behind_what_goes() -> None:
    prompt = live(31_000, tail=3_000)
    scripted = ScriptedModel([ends(GOOD)])
    summary = summary_of(scripted, block(live=prompt))
    (ask,) = scripted.asks
    assert ask.messages == prompt.messages[:-2]
    assert all(sent is given for sent, given in zip(ask.messages, prompt.messages, strict=False))
    assert "messages stay" not in ask.instruction
    assert summary.notes == ()


def test_a_reply_that_little_room_cut_off_is_asked_for_apart_with_all_of_it() -> None:
    given = block(live=live(28_900))
    scripted = ScriptedModel([ends("### Goals and", stop="length"), ends("### Goals", stop="length"), ends(GOOD)])
    summary = summary_of(scripted, given)
    assert summary.text == GOOD
    assert [len(ask.messages) for ask in scripted.asks] == [8, 8, 0]
    assert scripted.asks[2].max_tokens == 4_096
    assert "too few for the reply" in summary.notes[0]
    assert summary.calls == 3 <= calls_bound(*given) == 4
