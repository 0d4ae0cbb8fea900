"""Whatever stands in a list leads to exactly one record: in straight runs, branches, forks, rewinds, after an undo."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archive_support import Store
from effort import ALL
from engine_case import rounds
from lives import EVERY, Life, as_plain, said_by
from rows import rows
from status_rounds import ROUNDS, Messages
from unabridged import ArchiveError, Compactor, Settings, WontFit
from unabridged.adapters.langchain.format import LangChain


@rows(
    ("kind", "lives", "format_"),
    [("memory", 16 if ALL else 6, name) for name in EVERY]
    + [(kind, 3, "anthropic") for kind in ("sqlite", "directory", "postgres")],
)
def test_whatever_is_done_each_holders_list_replays_to_what_was_said(
    kind: str, lives: int, format_: str, tmp_path: Path
) -> None:
    # R40
    store = Store(kind, tmp_path)
    for seed in range(lives):
        life = Life(store, format_, seed, None if seed % 4 == 3 else f"thread {seed}")
        steps: list[str] = []
        try:
            for _ in range(12):
                steps.append(life.step())
                life.holds()
        except WontFit:
            continue
        except AssertionError as broken:
            broken.add_note(f"seed {seed}: {steps}")
            raise
    store.archive.close()


# --- what the archive does not know -----------------------------------------------------------------------------------

TALK = [
    message
    for i in range(40)
    for message in (
        {"role": "user", "content": f"Question {i}? " + "word " * 30},
        {"role": "assistant", "content": f"Answer {i}. " + "word " * 30},
    )
] + [{"role": "user", "content": "Go on."}]


def compacted(archive: Any, **options: Any) -> Messages:
    with_name: dict[str, Any] = {"thread": "t", **options}
    return Compactor(window=3_000, archive=archive).fit(TALK, **with_name).messages


@rows("take_back", ["replay", "undo"])
@rows(
    ("where", "spoil"),
    [
        ({"thread": "another"}, None),
        ({"thread": "t", "namespace": "another"}, None),
        ({"namespace": "another"}, None),
        ({"thread": "t"}, lambda compactor: compactor.forget("t")),
        ({}, lambda compactor: compactor.forget("t")),
    ],
)
def test_a_summary_turn_that_the_archive_does_not_know_is_an_error_that_names_it(
    take_back: str, where: dict[str, Any], spoil: Callable[[Compactor], Any] | None, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    shorter = compacted(url)
    with Compactor(window=3_000, archive=url) as compactor:
        if spoil is not None:
            spoil(compactor)
        named = re.search(r"summary ([0-9a-f]{12})", shorter[0]["content"])
        assert named is not None
        with pytest.raises(ArchiveError) as raised:
            getattr(compactor, take_back)(shorter, **where)
        for word in (named[1], repr(where.get("namespace", "default")), "agent.db", 'unknown="keep"'):
            assert word in str(raised.value)
        assert getattr(compactor, take_back)(shorter, unknown="keep", **where) == shorter


def test_another_archive_is_an_error_and_the_same_archive_is_the_same_conversation(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    shorter = compacted(url)
    with pytest.raises(ArchiveError, match="memory:"):
        Compactor(window=3_000, archive="memory:").replay(shorter, thread="t")
    with Compactor(window=3_000, archive=url) as later:
        assert later.replay(shorter, thread="t") == TALK
        assert later.replay(shorter) == TALK  # the record says which thread it is


@pytest.mark.parametrize("format_", ROUNDS)
def test_a_mark_in_a_tools_output_or_beside_other_words_is_text(format_: str) -> None:
    compactor = Compactor(window=3_000, archive="memory:")
    frame = "[unabridged summary 0123456789ab] x\n\ny\n\n[end of summary 0123456789ab]"
    around = [{"role": "user", "content": f"Look: {frame}"}, {"role": "assistant", "content": "I see."}]
    quoted = [{"role": "user", "content": f"{frame} What is that?"}]
    stub = "[Tool result cleared: read; 1 line, 9 characters; record 0123456789ab/3]"
    said = [*around, *quoted, *ROUNDS[format_](1, "c1", frame), *ROUNDS[format_](2, "c2", stub)]
    assert compactor.replay(said, thread="t") == said
    assert compactor.undo(said, thread="t") == said


@pytest.mark.parametrize(
    ("form", "summary", "beside"), [("alternate", 0, 1), ("pair", 1, 0)], ids=["acknowledgment", "question"]
)
def test_a_list_that_was_changed_within_a_compaction_is_an_error_not_a_guess(
    form: Any, summary: int, beside: int
) -> None:
    how = Settings(form=form, keep=("messages", 3))
    compactor = Compactor(window=3_000, archive="memory:", settings=how)
    shorter = compactor.fit(TALK, thread="t").messages
    assert compactor.replay(shorter, thread="t") == TALK
    without = [message for i, message in enumerate(shorter) if i != beside]
    edited = [{**message, "content": "Right."} if i == beside else message for i, message in enumerate(shorter)]
    for changed in ([shorter[summary]], without, edited):
        with pytest.raises(ArchiveError, match="only in part"):
            compactor.replay(copy.deepcopy(changed), thread="t")


def test_a_list_that_ends_before_the_message_that_stays_behind_a_summary_is_an_error_not_a_guess() -> None:
    compactor = Compactor(window=3_000, archive="memory:", settings=Settings(clear=None))
    shorter = compactor.fit(rounds(60), thread="t").messages
    assert shorter[1] == rounds(1)[0]
    assert compactor.replay(shorter, thread="t") == rounds(60)
    with pytest.raises(ArchiveError, match="only in part"):
        compactor.replay(shorter[:1], thread="t")


def test_an_archive_deleted_while_running_is_an_error(tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "record"
    with Compactor(window=3_000, archive=f"dir://{folder}") as compactor:
        shorter = compactor.fit(TALK, thread="t").messages
        shutil.rmtree(folder)
        with pytest.raises(ArchiveError):
            compactor.replay(shorter, thread="t")


# --- conversations that nobody named ----------------------------------------------------------------------------------


def user_of(name: str, rounds: int) -> Messages:
    hello = [{"role": "user", "content": "Hello, please help me."}, {"role": "assistant", "content": "Gladly."}]
    return (
        hello
        + [
            message
            for i in range(rounds)
            for message in (
                {"role": "user", "content": f"{name} asks {i}: " + "word " * 30},
                {"role": "assistant", "content": f"{name} is told {i}: " + "word " * 30},
            )
        ]
        + [{"role": "user", "content": "Go on."}]
    )


@pytest.mark.parametrize("form", ["user", "pair", "alternate"])
def test_two_conversations_that_begin_alike_and_have_no_name_share_nothing(form: Any) -> None:
    compactor = Compactor(window=3_000, archive="memory:", settings=Settings(form=form))
    fitted = {name: compactor.fit(user_of(name, 60)) for name in ("alice", "bob")}
    assert fitted["alice"].thread != fitted["bob"].thread
    for name, other in (("alice", "bob"), ("bob", "alice")):
        assert compactor.replay(fitted[name].messages) == user_of(name, 60)
        assert not [hit for hit in compactor.search(f"{other} asks", thread=fitted[name].thread) if other in hit.text]
    compactor.forget(fitted["alice"].thread)
    assert compactor.replay(fitted["bob"].messages) == user_of("bob", 60)


def test_conversations_that_were_the_same_until_the_first_compaction_part_at_the_next() -> None:
    compactor = Compactor(window=3_000, archive="memory:")
    first = compactor.fit(TALK)
    later = {name: [*first.messages, *user_of(name, 60)] for name in ("alice", "bob")}
    fitted = {name: compactor.fit(messages) for name, messages in later.items()}
    assert fitted["alice"].thread == first.thread != fitted["bob"].thread
    for name, other in (("alice", "bob"), ("bob", "alice")):
        assert compactor.replay(fitted[name].messages) == [*TALK, *user_of(name, 60)]
        found = compactor.search("asks", thread=fitted[name].thread, limit=50)
        assert found
        assert not [hit for hit in found if other in hit.text]
        assert compactor.search("Question 3", thread=fitted[name].thread), "what was common goes along"


def test_a_list_resent_without_a_name_is_found_again_by_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with Compactor(window=3_000, archive=url) as one:
        first = one.fit(copy.deepcopy(TALK))
    with Compactor(window=3_000, archive=url) as other:
        again = other.fit(copy.deepcopy(TALK))
        assert again.messages == first.messages
        assert again.thread == first.thread
        assert len(other.threads()) == 1


@rows("kind", ["memory", "sqlite", "directory"])
@rows("format_", EVERY)
def test_a_list_that_was_only_looked_behind_goes_on_and_replays_exactly(
    kind: str, format_: str, tmp_path: Path
) -> None:
    """`undo` to see a step, then on with the shorter list: also where what was undone left no name in it, a repair."""
    store = Store(kind, tmp_path)
    settings = Settings(trigger=("tokens", 800), keep=("messages", 4), clear=None, pin=lambda m: "pinned" in str(m))
    known = LangChain() if format_ == "langchain" else format_
    engine = Compactor(window=4_000, archive=store.archive, settings=settings, format=known)
    said: Messages = [said_by(format_, "user", "This is pinned. " * 200), said_by(format_, "assistant", "pinned: yes.")]
    kinds: list[str] = []
    live = list(said)
    for n in range(24):
        call, answer = EVERY[format_](n, f"c{n}", f"Pump {n} is steady. " * 30)
        broken = n % 3 == 0
        new = [said_by(format_, "user", f"Look at pump {n}{', pinned' if n < 2 else ''}."), call]
        new += [] if broken else [answer, said_by(format_, "assistant", f"Pump {n} is fine. " * 20)]
        said, given = [*said, *new], [*live, *copy.deepcopy(new)]
        try:
            fitted = engine.fit(given, thread="t")
        except WontFit:
            break
        live = list(fitted.messages)
        if fitted.changed and fitted.receipt is not None:
            kinds.append(fitted.receipt.kind)
            assert as_plain(engine.undo(live, thread="t")) == as_plain(given)
        assert as_plain(engine.replay(live, thread="t")) == as_plain(said), f"after round {n}: {kinds}"
    assert {"repair", "summary"} <= set(kinds), kinds
    engine.close()
