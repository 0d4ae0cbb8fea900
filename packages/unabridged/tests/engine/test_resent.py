"""A caller who sends everything again: the same bytes, legal for the request at hand, at the cost of what is new."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from status_rounds import ROUNDS, Messages
from unabridged import Compactor, check
from unabridged.archive.protocol import Record, Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.formats.base import Message
from unabridged.formats.openai_chat import OpenAIChat
from unabridged.messages import View
from unabridged_testing import Shape, make_conversation


class Reading(OpenAIChat):
    """Counts how many messages are read: the work that a call does, whatever the machine does meanwhile."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, message: Message) -> View:
        self.reads += 1
        return super().read(message)


class Looking(MemoryArchive):
    """Counts how many records and messages are taken from it."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def record(self, scope: Scope, record_id: str) -> Record | None:
        self.taken += 1
        return super().record(scope, record_id)

    def bodies(self, scope: Scope, hashes: Any) -> Any:
        self.taken += len(hashes)
        return super().bodies(scope, hashes)


def built(format_: str, rounds: int, ids: Any) -> Messages:
    """The conversation as a host builds it, with ids of its own making."""
    said: Messages = [{"role": "user", "content": "Read all the files."}]
    for i in range(rounds):
        said += ROUNDS[format_](i, next(ids), f"file {i} word " * 120)
    return said


@pytest.mark.parametrize("format_", ROUNDS)
def test_new_call_ids_in_every_request_are_those_of_what_comes_back(format_: str) -> None:
    ids = (f"call_{i}" for i in itertools.count())
    compactor = Compactor(window=9_000, archive="memory:")
    changed = 0
    for rounds in range(4, 60, 2):
        request = built(format_, rounds, ids)
        fitted = compactor.fit(request, thread="t")
        changed += fitted.changed
        assert check(fitted.messages, format_) == []
        assert check(compactor.replay(fitted.messages, thread="t"), format_) == []
    assert changed > 20


def marks(messages: Messages) -> int:
    return json.dumps(messages).count('"cache_control"')


def test_cache_marks_that_move_on_are_those_of_the_request_at_hand() -> None:
    compactor = Compactor(agent="claude-sonnet-4-5", window=30_000, archive="memory:")
    history: Messages = [{"role": "user", "content": [{"type": "text", "text": "Read all the files."}]}]
    changed = 0
    for i in range(70):
        history += ROUNDS["anthropic"](i, f"t{i}", f"file {i} word " * 300)
        request = copy.deepcopy(history)
        for message in [m for m in request if m["role"] == "user"][-4:]:
            message["content"][-1]["cache_control"] = {"type": "ephemeral"}
        fitted = compactor.fit(request, thread="t")
        changed += fitted.changed
        assert check(fitted.messages, "anthropic", model="claude-sonnet-4-5") == []
        assert marks(fitted.messages) <= marks(request) <= 4
    assert changed > 20


def test_a_message_edited_in_place_never_gets_what_was_recorded_for_the_old_one() -> None:
    compactor = Compactor(window=6_000, archive="memory:")
    history = built("openai-chat", 30, (f"c{i}" for i in itertools.count()))
    first = compactor.fit(history, thread="t")
    assert first.changed
    for place in (0, 1, 2, 20, len(history) - 1):
        edited = history[place]
        if edited.get("tool_calls"):
            edited["tool_calls"][0]["function"]["arguments"] = json.dumps({"job": f"zebra {place}"})
        else:
            edited["content"] += f" zebra {place}"
        again = compactor.fit(history, thread="t")
        assert compactor.replay(again.messages, thread="t") == history
        assert again.receipt is not None
        assert first.receipt is not None
        covered = place < first.receipt.turns[-1][1]
        assert (again.receipt.id != first.receipt.id) is covered, "what stays may change: the record is not about it"
        first = again


def as_object(message: Any) -> Any:
    """An assistant's message as the SDK gives it."""
    from openai.types.chat import ChatCompletionMessage

    return ChatCompletionMessage.model_validate(message) if message["role"] == "assistant" else message


def test_an_object_edited_in_place_never_gets_what_was_recorded_for_the_old_one() -> None:
    compactor = Compactor(window=6_000, archive="memory:")
    history = [as_object(message) for message in built("openai-chat", 30, (f"c{i}" for i in itertools.count()))]
    first = compactor.fit(history, thread="t")
    history[1].tool_calls[0].function.arguments = json.dumps({"job": "zebra"})
    again = compactor.fit(history, thread="t")
    assert first.receipt is not None
    assert again.receipt is not None
    assert again.receipt.id != first.receipt.id
    assert compactor.replay(again.messages, thread="t") == history


@pytest.mark.parametrize(("anew", "form"), [(True, dict), (False, dict), (False, as_object)])
def test_a_call_reads_what_is_new_however_long_the_history_is(anew: bool, form: Callable[[Any], Any]) -> None:
    reading = Reading()
    compactor = Compactor(window=4_000, archive="memory:", format=reading)
    history: Messages = [{"role": "user", "content": "Go."}]
    read: list[int] = []
    for i in range(160):
        history += map(form, ROUNDS["openai-chat"](i, f"c{i}", f"out {i} " * 60))
        given = copy.deepcopy(history) if anew else history
        before, records = reading.reads, len(compactor.threads())
        fitted = compactor.fit(given, thread="t")
        assert records == len(compactor.threads()) or i < 40
        read.append(reading.reads - before)
        assert fitted.changed or i < 40
    quiet = sorted(read[80:])[: 80 * 3 // 4]  # the other calls compact anew
    assert max(quiet) <= 12


def test_a_first_look_at_a_long_resent_history_reads_each_record_a_few_times() -> None:
    archive = Looking()
    history: Messages = [{"role": "user", "content": "Go."}]
    compactor = Compactor(window=4_000, archive=archive)
    made = 0
    for i in range(200):
        history += ROUNDS["openai-chat"](i, f"c{i}", f"out {i} " * 60)
        receipt = compactor.fit(copy.deepcopy(history), thread="t").receipt
        made = len(archive.records(Scope("default", "t"))) if receipt is not None else made
    archive.taken = 0
    other = Compactor(window=4_000, archive=archive)
    fitted = other.fit(copy.deepcopy(history), thread="t")
    assert fitted.changed
    assert made > 30
    assert archive.taken < 15 * made
    archive.taken = 0
    assert other.fit(copy.deepcopy(history), thread="t").messages == fitted.messages
    assert archive.taken == 0


def test_what_was_shortened_beside_a_summary_answers_its_own_call_when_it_is_put_in_again() -> None:
    """Found by the soak: an output that stood for no one message was given to the nearest call."""
    extras = ("reasoning", "media", "sdk", "opaque", "odd", "giant", "interrupted")
    sizes: Any = {"turns": 2, "rounds": 3, "width": 2, "bulk": 350}
    shape = Shape("openai-responses", 20174687, "agent", **sizes, ending="working", extras=extras)
    said = make_conversation(shape).messages
    archive = MemoryArchive()
    first = Compactor(window=2_000, archive=archive, format=shape.format)
    given = first.fit(said, thread="t").messages
    assert first.fit(copy.deepcopy(said), thread="t").messages == given
    later = Compactor(window=2_000, archive=archive, format=shape.format)
    assert later.fit(copy.deepcopy(said), thread="t").messages == given
