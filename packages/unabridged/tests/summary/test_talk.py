"""Where nothing is done but talk, what people said is what there is to keep: it has a room of its own."""

from __future__ import annotations

from typing import Any

from conversations import assistant, chat_round, long_chat, user
from properties_case import fitted_at_once
from unabridged import Compactor, Settings
from unabridged.asking.ask import Ask, Reply
from unabridged.settings import resolve_limits
from unabridged.tokens import Meter
from unabridged_testing import Shape

WINDOW = 6_000
TOWNS = ("Oslo", "Lima", "Kyoto", "Accra", "Turin", "Quito", "Hanoi", "Malmö", "Izmir", "Perth")


def told(i: int) -> str:
    return f"On day {i} my cousin number {i} moved to {TOWNS[i % 10]} with {i + 3} boxes of books about topic {i * 7}."


def talk(rounds: int) -> list[Any]:
    return [line for i in range(rounds) for line in (user(told(i)), assistant(f"How far is {TOWNS[i % 10]} from {i}?"))]


def largest_summary(messages: list[Any], settings: Settings | None = None, model: Any = None) -> int:
    """Fitted message by message: the most tokens that a summary turn took."""
    meter, most, sent = Meter(model="gpt-5"), 0, list[Any]()
    with Compactor(model, agent="gpt-5", window=WINDOW, archive="memory:", settings=settings) as compactor:
        for message in messages:
            fitted = compactor.fit([*sent, message], thread="t")
            sent = fitted.messages
            if fitted.changed:
                most = max(most, *(meter.text(str(one["content"])) for one in sent if _is_summary(one)))
    return most


def _is_summary(message: Any) -> bool:
    return "[unabridged summary" in str(message["content"])


# R26
def test_in_mere_talk_the_summary_grows_for_what_was_said_and_no_further() -> None:
    bounds = resolve_limits(Settings(), WINDOW)
    assert (
        bounds.summary < largest_summary(talk(300)) <= bounds.summary + bounds.people + 120
    )  # its header and end line
    assert bounds.summary + bounds.people <= bounds.tokens_below_trigger / 2


# R26
def test_whoever_sets_the_size_gets_that_size() -> None:
    bounds = resolve_limits(Settings(preserve=0), WINDOW)
    assert bounds.people == 0
    assert largest_summary(talk(200), Settings(preserve=0)) <= bounds.summary + 120
    bounds = resolve_limits(Settings(summary=1_000, preserve=200), WINDOW)
    assert (bounds.summary, bounds.people) == (1_000, 200)
    assert largest_summary(talk(200), Settings(summary=1_000, preserve=200)) <= 1_000 + 200 + 120


def test_one_call_ever_made_leaves_people_the_same_room() -> None:
    bounds = resolve_limits(Settings(), WINDOW)
    worked = [user("Look at the file."), *chat_round("read", "found it", path="a.py"), assistant("Done.")]
    assert largest_summary([*worked, *talk(200)]) <= bounds.summary + bounds.people + 120


def test_a_model_may_write_no_more_for_it() -> None:
    asked: list[int] = []

    def model(ask: Ask) -> Reply:
        asked.append(ask.max_tokens)
        return Reply("They spoke of cousins who moved, town after town, and of how far it is.", "end", model="scripted")

    bounds = resolve_limits(Settings(), WINDOW)
    assert largest_summary(talk(200), Settings(deadline=30), model) <= bounds.summary + bounds.people + 120
    assert asked
    assert max(asked) <= bounds.summary


def test_three_hundred_messages_of_a_person_never_stand_in_the_way_of_fitting() -> None:
    worked = [user("Look at the file, then help me move."), *chat_round("read", "found it", path="a.py")]
    sent: list[Any] = []
    with Compactor(agent="gpt-5", window=WINDOW, archive="memory:") as compactor:
        for message in [*worked, assistant("Done. What next?"), *talk(300)]:
            fitted = compactor.fit([*sent, message], thread="t")
            sent = fitted.messages
            assert fitted.estimate <= compactor.limits.budget
        assert compactor.replay(sent, thread="t") == [*worked, assistant("Done. What next?"), *talk(300)]


def test_many_pins_are_counted_with_what_keeps_them_apart() -> None:
    pin = lambda message: "number 1" in str(message["content"])  # noqa: E731 - one line says it
    sent: list[Any] = []
    with Compactor(agent="gpt-5", window=WINDOW, archive="memory:", settings=Settings(pin=pin)) as compactor:
        for message in talk(100):
            fitted = compactor.fit([*sent, message], thread="t")
            sent = fitted.messages
            assert fitted.estimate <= compactor.limits.budget
    assert sum(map(pin, sent)) == sum(map(pin, talk(100)))


def test_an_interrupted_marathon_fits_a_window_of_two_thousand_tokens() -> None:
    """Found by the soak: what stood between the messages of a person took the room of one of them."""
    extras = ("odd", "interrupted")
    shape = Shape("anthropic", 1, "marathon", turns=1, rounds=32, width=1, bulk=66, ending="working", extras=extras)
    assert fitted_at_once(shape, 2_000)


def test_what_stays_in_the_tail_is_not_said_in_the_summary_and_what_went_is() -> None:
    talk = long_chat(40)
    talk += [user("The guitar is mostly my thing, playing it helps."), assistant("Mine is the violin. Played long?")]
    told = "I began about five years ago, and it has been a great way to say what I feel and to rest from all the rest."
    talk += [user(told), assistant("Lovely! What do you like best?"), user("Brave, if I had to choose.")]
    with Compactor(window=8_000, archive="memory:", settings=Settings(keep=("messages", 4))) as compactor:
        made = compactor.compact(talk, thread="t")
    assert made is not None
    assert made.messages[1:] == talk[-4:]
    summary = str(made.messages[0]["content"])
    assert "user: \u201cThe guitar is mostly my thing, playing it helps.\u201d" in summary
    assert "five years ago" not in summary
    assert "Brave" not in summary
