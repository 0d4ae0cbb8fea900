"""A message is read, measured and recognised once: what a call costs follows what is new in the list."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from engine_case import compactor, rounds
from unabridged.formats.base import Message
from unabridged.formats.openai_chat import OpenAIChat
from unabridged.messages import Answer, Call, View


class Reads(OpenAIChat):
    """Counts how often each message is read. It holds on to them, so that no two share an id."""

    def __init__(self) -> None:
        self.read_messages: list[Message] = []

    def read(self, message: Message) -> View:
        self.read_messages.append(message)
        return super().read(message)

    def most(self) -> int:
        return max(Counter(map(id, self.read_messages)).values())


def test_a_conversation_seen_for_the_first_time_is_read_once() -> None:
    format_ = Reads()
    messages = rounds(100, size=5)
    fitted = compactor(window=10_000_000, format=format_, agent="gpt-5").fit(messages, thread="t")
    assert not fitted.changed
    assert len(format_.read_messages) == len(messages)


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
    assert view.meaning == other.meaning == view.said_by("host").meaning
    assert view.meaning != replace(view, answers=(Answer("c1", "text"),)).meaning


def test_what_was_worked_out_about_a_view_is_no_part_of_it() -> None:
    asked, fresh = View("user", "person", "Go on."), View("user", "person", "Go on.")
    assert asked.meaning
    assert asked == fresh
    assert hash(asked) == hash(fresh)
    assert repr(asked) == repr(fresh)
    assert asked.said_by("tool") == View("user", "tool", "Go on.")
