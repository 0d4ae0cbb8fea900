"""A message is read, measured and recognised once: what a call costs follows what is new in the list."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from conversations import anthropic_round, chat_round, converse_round, gemini_round, responses_round
from effort import examples
from engine_case import compactor, rounds
from unabridged import Compactor
from unabridged.archive.protocol import Scope
from unabridged.formats.base import Message
from unabridged.formats.openai_chat import OpenAIChat
from unabridged.messages import Answer, Call, View

EXAMPLES = max(60, examples(600, 2_000) // 10)
PLAIN = {
    "openai-chat": chat_round("read", "The file.", text="Reading.", path="a.py"),
    "openai-responses": responses_round("read", "The file.", path="a.py"),
    "anthropic": anthropic_round("read", "The file.", path="a.py"),
    "bedrock-converse": converse_round("read", "The file.", path="a.py"),
    "gemini": gemini_round("read", "The file.", text="Reading.", path="a.py"),
}


class Reads(OpenAIChat):
    """Counts how often each message is read. It holds on to them, so that no two share an id."""

    def __init__(self) -> None:
        self.read_messages: list[Message] = []

    def read(self, message: Message) -> View:
        self.read_messages.append(message)
        return super().read(message)

    def most(self) -> int:
        return max(Counter(map(id, self.read_messages)).values())


def test_a_conversation_that_is_compacted_at_first_sight_is_read_once() -> None:
    format_ = Reads()
    messages = rounds(100)
    assert compactor(window=4_000, format=format_).fit(messages, thread="t").changed
    times = Counter(map(id, format_.read_messages))
    assert {times[id(message)] for message in messages[1:21]} == {1}  # which went


def test_a_compaction_measures_only_what_it_makes() -> None:
    asked: list[Message] = []

    def counter(messages: list[Message], tools: Any) -> int:
        del tools
        asked.extend(messages)
        return sum(4 + len(str(message)) // 4 for message in messages)

    messages = rounds(100)
    fitted = compactor(window=4_000, counter=counter).fit(messages, thread="t")
    assert fitted.changed
    times = Counter(map(id, asked))
    assert {times[id(message)] for message in messages} == {1}


def test_a_replay_reads_every_message_once_however_many_compactions_it_takes_back() -> None:
    engine = compactor(window=4_000)
    given = rounds(120)
    current: list[Any] = []
    compactions = 0
    for message in given:
        fitted = engine.fit([*current, message], thread="t")
        current, compactions = fitted.messages, compactions + fitted.changed
    assert compactions > 3
    format_ = Reads()
    engine._format = format_  # noqa: SLF001 - the same engine, with a format that counts
    assert engine.replay(current, thread="t") == given
    assert format_.most() == 1


def test_the_meaning_of_a_view_says_nothing_of_whose_words_it_is_or_of_ids() -> None:
    view = View("assistant", "model", "Reading.", calls=(Call("c1", "read", '{"path": "a.py"}'),))
    other = replace(view, calls=(Call("c2", "read", '{"path": "a.py"}'),))
    assert view.meaning_digest == other.meaning_digest == view.with_origin("host").meaning_digest
    assert view.meaning_digest != replace(view, answers=(Answer("c1", "text"),)).meaning_digest


def test_what_was_worked_out_about_a_view_is_no_part_of_it() -> None:
    asked, fresh = View("user", "person", "Go on."), View("user", "person", "Go on.")
    assert asked.meaning_digest
    assert asked == fresh
    assert hash(asked) == hash(fresh)
    assert repr(asked) == repr(fresh)
    assert asked.with_origin("tool") == View("user", "tool", "Go on.")


def test_a_conversation_seen_for_the_first_time_is_read_once() -> None:
    for agent, messages in ((None, rounds(100)), ("gpt-5", rounds(100, size=5))):
        format_ = Reads()
        engine = compactor(window=10_000_000, format=format_, agent=agent)
        fitted = engine.fit(messages, thread="t")
        assert fitted.messages is messages
        assert format_.most() == 1
        assert fitted.tokens_before == engine.plan(messages).tokens
        assert engine.fit(messages, thread="t").messages is messages
        assert format_.most() == 2  # for the plan


def test_a_change_deep_inside_a_message_that_was_only_measured_is_counted_before_a_compaction() -> None:
    for window, agent in ((6_000, None), (60_000, "gpt-5")):
        messages = rounds(12, size=90)
        engine = compactor(window=window, agent=agent)
        calls = messages[1]["tool_calls"][0]["function"]
        before = engine.fit(messages[:3], thread="t")
        assert before.messages == messages[:3]
        calls["arguments"] = '{"path": "' + "elsewhere/" * 300 + '"}'
        engine.compact(messages[:3], thread="t")
        known = engine._runner.caches.find(Scope("default", "t"))  # noqa: SLF001 - what the engine remembers of it
        assert (
            known.measured.total
            == sum(known.measured.sizes)
            == compactor(window=10**9, agent=agent).plan(known.measured.messages).tokens
        )


def test_a_counter_is_asked_once_for_each_message_though_it_is_read_later() -> None:
    asked: list[Message] = []

    def counter(messages: list[Message], tools: Any) -> int:
        del tools
        asked.extend(messages)
        return sum(4 + len(str(message)) // 4 for message in messages)

    messages = rounds(100)
    engine = compactor(window=40_000, counter=counter)
    assert not engine.fit(messages[:21], thread="t").changed
    engine.compact(messages, thread="t")
    times = Counter(map(id, asked))
    assert {times[id(message)] for message in messages} == {1}


def test_a_counter_that_failed_at_a_changed_message_is_asked_again() -> None:
    fails = False

    def count(messages: list[Any], tools: Any) -> int:
        del tools
        if fails:
            raise RuntimeError("down")
        return len(str(messages)) // 4

    messages = rounds(12, size=90)
    engine = Compactor(window=60_000, archive="memory:", counter=count)
    engine.fit(messages[:3], thread="t")
    messages[1]["tool_calls"][0]["function"]["arguments"] = '{"path": "' + "elsewhere/" * 300 + '"}'
    fails = True
    assert engine.compact(messages[:3], thread="t") is None
    fails = False
    assert engine.compact(messages[:3], thread="t") is None, "there is nothing to be gained"
    measured = engine._runner.caches.find(Scope("default", "t")).measured  # noqa: SLF001 - what the engine remembers
    assert measured.total == sum(measured.sizes) == sum(count([one], None) for one in messages[:3])
