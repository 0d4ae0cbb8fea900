"""Open and finished, in whole conversations: after every compaction exactly what is open is open, word for word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from conversations import assistant, user
from ledger_case import ROUNDS, Message, Round, Run, person, run, says, section, summary_in
from unabridged import Compactor, Settings
from unabridged.formats import detect
from unabridged.intent import with_origins
from unabridged.ledger.gather import gather

X = "Rename the green button to “Send”."
Y = "Port the parser to Rust.\n\nKeep the error messages as they are."
ALSO = "also add a --dry-run flag"
WAIT, GO = "wait", "ok, continue"
ZH = "把首页翻译成中文，\n按钮先不动。"  # noqa: RUF001 - Chinese has its own comma
NOT_SO = "不对，我的意思是登录页"  # noqa: RUF001 - likewise
HOW_MANY = "How many files are in src now?"
DROPPED, INSTEAD = "Write a haiku about the release.", "never mind"
Z = "Now write the release notes for 2.4, one line for each change."

ALL = (X, Y, ALSO, WAIT, GO, ZH, NOT_SO, HOW_MANY, DROPPED, INSTEAD, "thanks!", Z)


class Step(NamedTuple):
    """Messages, and what people wait for once they have been said."""

    messages: list[Message]
    open: tuple[str, ...]


def script(round_: Round) -> Iterator[Step]:
    """X done, Y asked and interrupted in all the ways people do it, then one thing after the other, Z still open."""

    def at_work(name: str, times: int = 4) -> list[Message]:
        found: list[Message] = []
        for i in range(times):
            found += round_(
                "edit_file",
                f"row {i}: all of it is in place\n" * 50 + f"{name} {i}",
                path=f"src/{name}.rs",
                new_text=f"v{i}",
            )
        return found

    yield Step([user(X)], (X,))
    yield Step(at_work("button"), (X,))
    yield Step([assistant("The button is renamed.")], ())
    yield Step([user(Y)], (Y,))
    yield Step(at_work("parser", 9), (Y,))
    yield Step([user(ALSO)], (Y, ALSO))
    yield Step(at_work("flag", 6), (Y, ALSO))
    yield Step([user(WAIT)], (Y, ALSO, WAIT))
    yield Step([assistant("All right, I have stopped.")], (Y, ALSO, WAIT))
    yield Step([user(GO)], (Y, ALSO, GO))
    yield Step(at_work("parser", 7), (Y, ALSO, GO))
    yield Step([assistant("The parser is ported and has the flag.")], ())
    yield Step([user("thanks!")], ())
    yield Step([assistant("You are welcome.")], ())
    yield Step([user(ZH)], (ZH,))
    yield Step(at_work("home", 6), (ZH,))
    yield Step([assistant("首页已经翻译完成。")], ())
    yield Step([user(NOT_SO)], (ZH, NOT_SO))
    yield Step(at_work("login", 7), (ZH, NOT_SO))
    yield Step([assistant("登录页已完成。")], ())
    yield Step([user(HOW_MANY)], (HOW_MANY,))
    yield Step(round_("bash", "42", command="ls src | wc -l"), (HOW_MANY,))
    yield Step([assistant("There are 42 files.")], ())
    yield Step([user(DROPPED)], (DROPPED,))
    yield Step(at_work("haiku", 1), (DROPPED,))
    yield Step([user(INSTEAD)], ())
    yield Step([assistant("Dropped.")], ())
    yield Step([user(Z)], (Z,))
    yield Step(at_work("notes", 14), (Z,))


def compacted(protocol: str, window: int) -> tuple[Run, list[tuple[str, ...]]]:
    """The script through `fit`, and what was open at each compaction."""
    steps = list(script(ROUNDS[protocol]))
    made = run((message for step in steps for message in step.messages), window=window, settings=Settings(clear=None))
    waited: list[tuple[str, ...]] = []
    for length, _ in made.lists:
        said = 0
        for step in steps:
            said += len(step.messages)
            if said >= length:
                waited.append(step.open)
                break
    return made, waited


def own_messages(messages: list[Message]) -> set[str]:
    """What people say in the list itself."""
    format_ = detect(messages)
    return {view.text for view in with_origins([format_.read(m) for m in messages]) if view.origin == "person"}


# R25
@pytest.mark.parametrize("window", [4_000, 6_000])
@pytest.mark.parametrize("protocol", ["chat", "anthropic", "responses", "tagged", "react", "bare"])
def test_after_every_compaction_exactly_what_is_open_is_open_word_for_word(protocol: str, window: int) -> None:
    made, waited = compacted(protocol, window)
    assert len(made.ledgers) >= 5
    for ledger, summary, (_, messages), expected in zip(made.ledgers, made.summaries, made.lists, waited, strict=True):
        assert [request.text for request in ledger.open if request.text not in expected] == []
        assert_open(summary, messages, expected)


def assert_open(summary: str, messages: list[Message], expected: tuple[str, ...]) -> None:
    """What is open stands in the list as its own message or in the summary as open; nothing else is said to be open."""
    opened = "\n".join(section(summary, "open"))
    own = own_messages(messages)
    assert [text for text in expected if text not in own and text not in opened] == []
    assert [text for text in ALL if len(text) > 20 and text not in expected and text in opened] == []


@pytest.mark.parametrize("protocol", ["chat", "anthropic", "responses", "tagged"])
def test_wherever_a_compaction_falls_exactly_what_is_open_is_open(protocol: str) -> None:
    messages: list[Message] = []
    with Compactor(window=60_000, archive="memory:", settings=Settings(keep=("messages", 3), clear=None)) as compactor:
        for number, step in enumerate(script(ROUNDS[protocol])):
            messages += step.messages
            fitted = compactor.compact(list(messages), thread=f"t{number}")
            if fitted is not None and fitted.receipt is not None:
                assert_open(summary_in(fitted.messages, fitted.receipt.id), fitted.messages, step.open)
        assert number > 25


@pytest.mark.parametrize("protocol", ["chat", "anthropic", "responses", "tagged"])
def test_what_was_finished_is_listed_as_finished_with_what_became_of_it(protocol: str) -> None:
    made, _ = compacted(protocol, 9_000)
    states = {request.text: request.state for request in made.ledgers[-1].requests}
    assert {text: states[text] for text in (X, Y, ALSO, ZH, NOT_SO, HOW_MANY)} == dict.fromkeys(
        (X, Y, ALSO, ZH, NOT_SO, HOW_MANY), "finished"
    )
    assert states[DROPPED] == "withdrawn"
    answers = {request.text: request.answer for request in made.ledgers[-1].requests}
    assert answers[HOW_MANY] == "There are 42 files."


@pytest.mark.parametrize("protocol", ["tagged", "react", "bare"])
def test_an_observation_in_user_role_is_never_a_request(protocol: str) -> None:
    made, _ = compacted(protocol, 4_000)
    assert {request.text for ledger in made.ledgers for request in ledger.requests} <= set(ALL)


def test_words_to_go_on_that_are_said_again_and_again_are_open_once() -> None:
    views = [person("Fix the failing test.")]
    for step in range(12):
        views += [says(f"Step {step}: I looked at the next file."), person("Go on.")]
    ledger = gather(views, answered=False)
    assert [request.text for request in ledger.open] == ["Fix the failing test.", "Go on."]
