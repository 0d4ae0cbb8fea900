"""Whatever a summariser does, the run goes on: every fault, sync and async, within the budget and above it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from conversations import assistant, chat_round, long_chat, user
from engine_case import fill
from patience import PATIENCE
from rows import rows
from unabridged import Compaction, Compactor, Settings, check
from unabridged.archive.codec import digest, encode
from unabridged.asking.ask import Ask, Reply
from unabridged.errors import SummaryFailed
from unabridged.events import Compacted, Event, Failed
from unabridged_testing import ScriptedModel

PROSE = "They asked about many orders, one after another, and heard where each of them was sent and who signs it."
GERMAN = (
    "Der Benutzer hat nach den Bestellungen gefragt und wissen wollen, wer sie unterschreiben muss. "
    "Wir haben ihm gesagt, dass sie an das Büro geschickt wurden und dass der Leiter dort zuständig ist. "
    "Es bleibt nichts mehr zu tun, außer auf die nächste Frage zu warten, die noch nicht beantwortet wurde."
)
FAULTS: dict[str, Any] = {
    "timeout": TimeoutError("read timed out"),
    "429": RuntimeError("429 Too Many Requests"),
    "500": RuntimeError("500 Internal Server Error"),
    "connection cut": ConnectionResetError("peer went away"),
    "empty": Reply("", "end"),
    "whitespace": Reply(" \n\t ", "end"),
    "tool call": Reply("", "tool", calls=1),
    "reasoning only": Reply("", "end", reasoning="let me think"),
    "refusal": Reply("I'm sorry, but I can't help with that.", "refusal"),
    "length stop": Reply("The user asked about", "length"),
    "restated input": lambda ask: Reply(ask.instruction[-3_000:], "end"),
    "longer than the input": Reply("More and more words were said here. " * 3_000, "end"),
    "wrong language": Reply(GERMAN, "end"),
}


class Stuck:
    """A model that does not answer before it is let; then it answers well."""

    def __init__(self) -> None:
        self.free, self.asked = threading.Event(), threading.Event()
        self.answered = 0

    def __call__(self, ask: Ask) -> Reply:
        self.asked.set()
        self.free.wait(60)
        self.answered += 1
        return Reply(PROSE, "end", model=f"late{len(ask.messages)}")


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    model = Stuck()
    yield model
    model.free.set()


def engine(model: Any, events: list[Event], deadline: float = 30.0) -> Compactor:
    settings = Settings(deadline=deadline, retries=0, cool_down=600)
    return Compactor(model, window=6_000, archive="memory:", settings=settings, on_event=events.append)


def orders(count: int) -> list[Any]:
    """A chat in plain English, so that its language can be told."""
    messages: list[Any] = []
    for i in range(count):
        messages += [user(f"What do we know about the order with number {i}, and who has to sign it?")]
        messages += [assistant(f"It was sent to the office on day {i}, and the manager there has to sign it.")]
    return [*messages, user("And what is the very last thing that we have to do?")]


def fitting(compactor: Compactor) -> list[Any]:
    """Above the trigger, and within the budget."""
    return fill(compactor, orders, compactor.limits.budget)


def fit(compactor: Compactor, messages: list[Any], *, later: bool) -> Compaction:
    if later:
        return asyncio.run(compactor.afit(messages, thread="t"))
    return compactor.fit(messages, thread="t")


def failures(events: list[Event]) -> list[tuple[str, type[BaseException]]]:
    return [(event.stage, type(event.error)) for event in events if isinstance(event, Failed)]


@rows("later", [False, True], ids=["sync", "async"])
@rows("fault", FAULTS)
def test_while_it_fits_history_is_the_same_and_when_it_does_not_the_rules_take_over(fault: str, later: bool) -> None:
    # R33, R34, R36
    events: list[Event] = []
    model = ScriptedModel([FAULTS[fault]], forever=True)
    with engine(model.acall if later else model, events) as compactor:
        messages = fitting(compactor)
        before = digest(encode(messages))
        assert fit(compactor, messages, later=later).messages is messages
        assert digest(encode(messages)) == before
        assert len(failures(events)) == 1
        assert issubclass(failures(events)[0][1], SummaryFailed)
    events.clear()
    model = ScriptedModel([FAULTS[fault]], forever=True)
    with engine(model.acall if later else model, events) as compactor:
        over = orders(100)
        forced = fit(compactor, over, later=later)
        assert forced.tokens_after <= compactor.limits.budget
        assert [stage for stage, _ in failures(events)] == ["summary"]
        assert [event.receipt.summariser for event in events if isinstance(event, Compacted)] == ["model-free"]
        asked = model.calls
        went_on = fit(compactor, [*forced.messages, assistant("Wait."), user("Go on.")], later=later)
        assert check(went_on.messages) == []
        assert model.calls == asked  # left alone for a while
        assert compactor.replay(went_on.messages, thread="t")[: len(over)] == over


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
def test_a_model_that_never_returns_is_left_at_the_deadline_and_its_late_answer_is_never_used(
    stuck: Stuck, later: bool
) -> None:
    events: list[Event] = []
    with engine(stuck, events, deadline=0.3) as compactor:
        messages = fitting(compactor)
        fitted = fit(compactor, messages, later=later)
        assert stuck.asked.is_set()
        assert stuck.answered == 0  # it is back, and the model is not
        assert fitted.messages is messages
        assert [stage for stage, _ in failures(events)] == ["summary"]
        stuck.free.set()
        assert fit(compactor, messages, later=later).messages is messages
        assert compactor.search("order", thread="t") == []  # nothing was recorded


def test_cancelling_ends_the_wait_and_another_thread_never_waits(stuck: Stuck) -> None:
    events: list[Event] = []
    with engine(stuck, events) as compactor:
        messages = fitting(compactor)
        done: list[Compaction] = []
        waiting = threading.Thread(target=lambda: done.append(compactor.fit(messages, thread="t")))
        waiting.start()
        assert stuck.asked.wait(PATIENCE)
        hello = [user("hello")]
        assert compactor.fit(hello, thread="another").messages is hello
        assert not done  # the first still waits
        compactor.cancel()
        waiting.join(PATIENCE)
        assert [fitted.messages for fitted in done] == [messages]
        assert stuck.answered == 0


def test_twenty_rolling_compactions_never_hold_the_summarisers_text_as_a_persons_words() -> None:
    # R25
    model = ScriptedModel([PROSE], forever=True)
    with engine(model, []) as compactor:
        messages: list[Any] = []
        sizes: list[int] = []
        while len(sizes) < 20:
            fitted = compactor.fit([*messages, *long_chat(3, words=30), assistant("That was it.")], thread="t")
            messages = fitted.messages
            if fitted.changed:
                turns = [str(m["content"]) for m in messages if "[unabridged summary" in str(m["content"])]
                assert len(turns) == 1
                assert turns[0].count(PROSE) == 1
                sizes.append(len(turns[0]))
        assert max(sizes[10:]) <= max(sizes[:10])  # it does not grow
        assert sum(PROSE in ask.instruction for ask in model.asks) >= 10  # as the record to bring up to date
        said = [w for ask in model.asks for w in re.findall(r"\] user\n(.*?)(?=\n#|\Z)", ask.instruction, re.DOTALL)]
        assert sum("Question" in words for words in said) >= 20
        assert not any(PROSE in words or "[unabridged" in words for words in said)


def carried_out(messages: list[Any]) -> set[str]:
    """What an agent would do that carries out all that is open: in the summary, and behind it."""
    summary = next((str(m["content"]) for m in messages if "[unabridged summary" in str(m["content"])), "")
    opened = re.search(r"## Open request.*?(?=\n## |\Z)", summary, re.DOTALL)
    said = [str(message["content"]) for message in messages if message["role"] == "user"]
    behind = [text for text in said if "[unabridged summary" not in text]
    return set(re.findall(r"task (\w+)", "\n".join([opened[0] if opened else "", *behind])))


@pytest.mark.parametrize("model", [None, ScriptedModel([PROSE], forever=True)], ids=["model-free", "with a model"])
def test_an_agent_that_carries_out_what_is_open_never_does_again_what_is_done(model: Any) -> None:
    # R26
    with engine(model, []) as compactor:
        messages: list[Any] = []
        for i in range(5):
            messages += [user(f"Please do task X{i} in file_{i}.py."), *chat_round(f"run{i}", "ok " * 300)]
            messages += [assistant(f"I did it, file_{i}.py is as you wanted.")]
        messages.append(user("Now please do task Y."))
        for _ in range(5):
            messages += [*chat_round("work", "result " * 1_200), *chat_round("more", "and more " * 1_200)]
            fitted = compactor.compact(messages, thread="t")
            assert fitted is not None
            messages = fitted.messages
            assert carried_out(messages) == {"Y"}
