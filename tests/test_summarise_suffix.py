"""The summary asked for behind the live prompt, so that the provider's cache serves most of it."""

from __future__ import annotations

from summaries import GOOD, block, ends, summary_of, talk
from unabridged.summarise.block import Live, calls_bound
from unabridged.testing import ScriptedModel


def live(tokens: int = 5_000) -> Live:
    messages = [{"role": "user", "content": view.text} for view in talk(4)]
    return Live(messages, tokens, system="You are a builder.", tools=[{"name": "bash"}], kept=2)


def test_a_suffix_carries_the_live_prompts_own_objects_and_asks_last() -> None:
    prompt = live()
    scripted = ScriptedModel([ends(GOOD)])
    summary_of(scripted, block(mode="suffix", live=prompt, prior="old"))
    (ask,) = scripted.asks
    assert ask.messages is prompt.messages
    assert ask.system is prompt.system
    assert ask.tools is prompt.tools
    assert ask.instruction.startswith("Stop here")
    assert "newest 2 messages stay" in ask.instruction
    assert "mark3end" not in ask.instruction


def test_a_tool_call_in_reply_to_a_suffix_is_a_fault_and_the_second_ask_has_the_same_prefix() -> None:
    prompt = live()
    scripted = ScriptedModel([ends("", stop="tool", calls=1), ends(GOOD)])
    assert summary_of(scripted, block(mode="suffix", live=prompt)).text == GOOD
    assert scripted.asks[1].messages is prompt.messages
    assert "called a tool" in scripted.asks[1].instruction


def test_without_room_behind_the_live_prompt_it_is_asked_apart() -> None:
    scripted = ScriptedModel([ends(GOOD)])
    summary = summary_of(scripted, block(mode="suffix", live=live(30_000)))
    assert scripted.asks[0].messages == ()
    assert "no room behind the live prompt of 30,000 tokens" in summary.notes[0]


def test_an_ordinary_block_takes_at_most_two_calls_behind_the_live_prompt_too() -> None:
    assert calls_bound(block(mode="suffix", live=live())) == 2
