"""A `prepare` hook that condenses, empties, reorders or adds: what counts is what goes, and whose words it was."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from conversations import assistant, chat_round, user
from rows import rows
from unabridged import Compactor, Settings, check
from unabridged.asking.ask import Ask, Reply
from unabridged.engine.hooks import Hooks
from unabridged.events import Event, Failed

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4_000}}
DIGEST = "Pump 7 was looked at, and all of its parts were fine."
PROSE = (
    "Pump 7 was looked at part by part, and each was found to be in order; nothing was pushed, and the person wants "
    "the parts that are left to be looked at in the same way, with a short note on each of them."
)
OVER, FITS = 3_000, 200_000
QUOTED = re.compile(r"^- \[(\d+)\] user\b(?:.*“|.*:\n~~~\n)(.*?)(?:”|\n)", re.MULTILINE)


def asking(i: int) -> Any:
    """Return what the person says in round `i`, sometimes with a picture."""
    said = f"Now look at part {i}, please."
    return {"role": "user", "content": [{"type": "text", "text": said}, PICTURE]} if i % 5 == 0 else user(said)


def talk(first: int, rounds: int) -> list[Any]:
    """Return rounds of talk; every message is a new object."""
    found = f"I looked at part {{0}}, and detail{{0}}x was as it should be there. {'All of it was fine. ' * 8}"
    return [m for i in range(first, first + rounds) for m in (assistant(found.format(i)), asking(i))]


TALK = [user("Look at pump 7. Never push."), *talk(0, 40)]


def without_pictures(messages: list[Any]) -> list[Any]:
    """Return the messages with their texts only, those with pictures as new objects."""
    return [
        {**m, "content": [part for part in m["content"] if part["type"] == "text"]}
        if isinstance(m["content"], list)
        else m
        for m in messages
    ]


def masked(messages: list[Any]) -> list[Any]:
    """Return as many new messages, with another word in the place of a name."""
    texts = [m["content"] if isinstance(m["content"], str) else m["content"][0]["text"] for m in messages]
    return [{**m, "content": text.replace("part", "item")} for m, text in zip(messages, texts, strict=True)]


PREPARED: dict[str, Callable[[list[Any]], Any]] = {
    "one short message": lambda _: [user(DIGEST)],
    "one short message of the assistant": lambda _: [assistant(DIGEST)],
    "nothing": lambda _: [],
    "nothing, as a tuple": lambda _: (),
    "an empty text": lambda _: [user("")],
    "no pictures": without_pictures,
    "pictures only": lambda ms: [m for m in ms if isinstance(m["content"], list)],
    "another word": masked,
    "the newest": lambda ms: ms[-3:],
    "backwards": lambda ms: ms[::-1],
    "more": lambda ms: [*ms, *(user(f"Extra fact {i} of the host, told at some length.") for i in range(30))],
    "the same": list,
}


def made(prepare: Any, model: Any, window: int, events: list[Event], **options: Any) -> Compactor:
    settings = Settings(
        trigger=("tokens", 2_000), keep=("tokens", 300), deadline=30, cool_down=0, retries=0, clear=None
    )
    wide: dict[str, Any] = {"model_window": 64_000} if model is not None else {}
    return Compactor(
        model, window=window, archive="memory:", settings=options.pop("settings", settings),
        hooks=Hooks(prepare=prepare), on_event=events.append, **wide, **options,
    )  # fmt: skip


class Writer:
    """A summariser that gives one reply, and keeps what it was shown."""

    name = "writer"

    def __init__(self, reply: str = PROSE) -> None:
        self.reply = reply
        self.asks: list[Ask] = []

    def __call__(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        return Reply(self.reply, "end", model="writer")

    @property
    def shown(self) -> str:
        """The conversation in the newest ask."""
        return self.asks[-1].instruction.partition("<conversation ")[2]


# R30, R35
@rows("waits", [False, True], ids=["sync", "async"])
@rows("reply", [PROSE, DIGEST, None], ids=["longer", "the same", "no model"])
@rows("name", PREPARED)
def test_what_the_hook_shows_never_blocks_a_compaction(name: str, reply: str | None, waits: bool) -> None:
    for window in (FITS, OVER):
        events: list[Event] = []
        writer = Writer(reply) if reply is not None else None
        with made(PREPARED[name], writer, window, events) as compactor:
            given = list(TALK)
            done = asyncio.run(compactor.afit(given, thread="t")) if waits else compactor.fit(given, thread="t")
            assert done.changed, done.why
            assert done.receipt is not None
            assert [event for event in events if isinstance(event, Failed)] == []
            assert done.tokens_after < done.tokens_before
            assert check(done.messages) == []
            assert compactor.replay(done.messages, thread="t") == TALK
        blank = name in {"nothing", "nothing, as a tuple", "an empty text"}
        assert (done.receipt.summariser == "writer") == (writer is not None and not blank)
        assert writer is None or len(writer.asks) == (0 if blank else 1)
        assert ("prepare left nothing to show, so no model was asked" in done.receipt.notes) == (
            blank and writer is not None
        )


def test_a_reply_that_is_larger_than_what_goes_is_still_refused() -> None:
    long = " ".join(f"word{i}" for i in range(6_000))
    events: list[Event] = []
    with made(PREPARED["one short message"], Writer(long), FITS, events) as compactor:
        assert compactor.fit(list(TALK), thread="t").messages == TALK
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert {"over-budget", "not-smaller"} & set(failed.error.problems)  # type: ignore[attr-defined]


@pytest.mark.parametrize("suffix", [None, True])
def test_the_summariser_sees_what_the_hook_returned_and_nothing_else_of_the_conversation(suffix: bool | None) -> None:
    writer = Writer()
    writer.name = "gpt-5-mini"
    settings = Settings(trigger=("tokens", 2_000), keep=("tokens", 300), suffix=suffix)
    events: list[Event] = []
    with made(PREPARED["one short message"], writer, FITS, events, agent="gpt-5-mini", settings=settings) as compactor:
        assert compactor.fit(list(TALK), thread="t").changed
    (ask,) = writer.asks
    assert list(ask.messages) == []
    assert list(ask.gone) == [user(DIGEST)]
    assert DIGEST in ask.instruction
    assert not re.search(r"detail\d+x|Now look at part", ask.instruction), "neither what goes nor what stays"


def test_a_message_of_the_hooks_own_is_never_called_the_persons() -> None:
    for writer in (Writer(), None):
        with made(PREPARED["one short message"], writer, FITS, []) as compactor:
            turn = compactor.fit(list(TALK), thread="t").messages[0]["content"]
        assert QUOTED.findall(turn) == []
        assert writer is None or re.search(rf"\[0\] host\n{re.escape(DIGEST)}", writer.shown)
    with made(PREPARED["one short message"], Writer(), FITS, [], origin=lambda _: "person") as compactor:
        turn = compactor.fit(list(TALK), thread="t").messages[0]["content"]
    assert QUOTED.findall(turn) == [("0", DIGEST)], "unless the caller says that it is"


@pytest.mark.parametrize("name", ["the newest", "no pictures", "another word", "pictures only", "more"])
def test_a_message_that_the_hook_left_or_changed_keeps_its_number(name: str) -> None:
    writer = Writer()
    with made(PREPARED[name], writer, FITS, []) as compactor:
        turn = compactor.fit(list(TALK), thread="t").messages[0]["content"]
    quoted = QUOTED.findall(turn)
    assert quoted
    for number, words in quoted:
        content = TALK[int(number)]["content"]
        said = content if isinstance(content, str) else content[0]["text"]
        assert (said.replace("part", "item") if name == "another word" else said) == words
    shown = re.findall(r"^#\w+ \[(\d+)\] (\w+)\n(.*)", writer.shown, re.MULTILINE)
    assert all(who == "host" for _, who, words in shown if words.startswith("Extra fact"))
    assert sum(words.startswith("Extra fact") for _, _, words in shown) == (30 if name == "more" else 0)


def test_a_result_in_a_users_turn_stays_a_tools_where_the_hook_drops_the_action() -> None:
    call = "THOUGHT: I look.\n\n```bash\nls src\n```"
    rounds = [m for i in range(30) for m in (assistant(call), user(f"<returncode>0</returncode>\npart_{i}.py " * 9))]
    with made(lambda ms: [m for m in ms if m["role"] == "user"], None, FITS, []) as compactor:
        turn = compactor.fit([user("Look at pump 7."), *rounds], thread="t").messages[0]["content"]
    assert "part_28" in turn
    assert QUOTED.findall(turn) == []


@pytest.mark.parametrize("writer", [None, Writer()], ids=["no model", "model"])
def test_in_later_rounds_the_hook_changes_nothing_that_it_leaves_as_it_is(writer: Writer | None) -> None:
    seen: list[list[Any]] = []
    for prepare in (None, list):
        messages, rounds = list(TALK[:1]), list[Any]()
        with made(prepare, writer, FITS, []) as compactor:
            for number in range(3):
                messages = compactor.fit([*messages, *talk(40 * number, 40)], thread="t").messages
                rounds.append(messages)
            whole = compactor.replay(messages, thread="t")
        assert whole == [TALK[0], *(m for number in range(3) for m in talk(40 * number, 40))]
        seen.append(rounds)
    assert seen[0] == seen[1]


def test_where_nothing_is_shown_in_a_later_round_the_earlier_prose_stays() -> None:
    hooks: list[Callable[[list[Any]], list[Any]]] = [list, lambda _: [], lambda _: []]
    rounds = iter(hooks)
    writer = Writer()
    messages = list(TALK[:1])

    def prepare(given: list[Any]) -> list[Any]:
        return next(rounds)(given)

    with made(prepare, writer, FITS, []) as compactor:
        for number in range(3):
            done = compactor.fit([*messages, *talk(40 * number, 40)], thread="t")
            messages = done.messages
            assert done.changed
            assert PROSE in messages[0]["content"]
            assert f"Messages 0 to {done.receipt.turns[-1][1] - 1} of" in messages[0]["content"]  # type: ignore[union-attr]
    assert len(writer.asks) == 1


def test_tool_rounds_may_be_condensed_too() -> None:
    rounds = [m for i in range(30) for m in chat_round(f"read_{i}", f"line {i} of the file\n" * 20, path=f"p{i}.py")]
    for name in ("one short message of the assistant", "nothing"):
        with made(PREPARED[name], Writer(), FITS, []) as compactor:
            given = [user("Read all files."), *rounds]
            done = compactor.fit(given, thread="t")
            assert done.changed
            assert check(done.messages) == []
            assert compactor.replay(done.messages, thread="t") == given
