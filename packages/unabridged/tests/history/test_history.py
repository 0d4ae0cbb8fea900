"""The record on every store: whatever is done to a conversation, in any order, its originals come back exactly."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archive_support import Store
from rows import rows
from unabridged import Compactor, Settings, WontFit
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged_testing import Shape, make_conversation, shapes

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini")
FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


class Branch:
    """One line of a conversation: what was said in all, and the list its caller keeps."""

    def __init__(self, said: list[Any], kept: list[Any]) -> None:
        self.said, self.kept = said, kept


def live(store: Store, shape: Shape, seed: int, thread: str) -> None:
    """Fit, compact, clear, undo, fork, resend and reopen in random order; originals must come back at every step."""
    chance, told = random.Random(seed), make_conversation(shape)  # noqa: S311 - to choose, not to hide
    messages, stops = told.messages, told.stops
    branches = [Branch([], [])]
    done = 0

    def engine() -> Compactor:
        return Compactor(window=3_000, archive=store.archive, namespace="n", format=shape.format, settings=Settings())

    for stop in stops[:: max(1, len(stops) // 6)]:
        new, done = messages[done:stop], stop
        for branch in list(branches):
            branch.said, branch.kept = [*branch.said, *new], [*branch.kept, *new]
            compactor = engine()
            step = chance.choice(["fit", "fit", "compact", "undo", "resend", "fork", "reopen"])
            if step == "reopen":
                store.reopen()
                compactor = engine()
            if step == "fork":
                branches.append(Branch(list(branch.said), list(branch.kept)))
            if step in {"fit", "reopen", "fork"}:
                branch.kept = compactor.fit(branch.kept, thread=thread).messages
            elif step == "compact":
                compacted = compactor.compact(branch.kept, thread=thread)
                branch.kept = compacted.messages if compacted else branch.kept
            elif step == "undo":
                branch.kept = compactor.undo(branch.kept, thread=thread)
            else:
                once = compactor.fit(copy.deepcopy(branch.said), thread=thread).messages
                assert same(compactor.fit(copy.deepcopy(branch.said), thread=thread).messages, once), "the same bytes"
                assert same(compactor.replay(once, thread=thread), branch.said), f"replay after {step}"
            assert same(compactor.replay(branch.kept, thread=thread), branch.said), f"replay after {step}"
    scope = Scope("n", thread)
    assert list(store.archive.verify(scope)) == []
    for part in store.archive.parts(scope):
        assert part.hash in store.archive.bodies(scope, [part.hash])


@rows(
    ("kind", "format_"),
    [
        *(("memory", format_) for format_ in FORMATS),
        *((kind, "anthropic") for kind in ("sqlite", "directory", "postgres")),
    ],
)
def test_whatever_is_done_in_whatever_order_every_store_gives_the_originals_back(
    kind: str, format_: str, tmp_path: Path
) -> None:
    # R37, R38, R40
    store = Store(kind, tmp_path)
    number = 0

    @FEW
    @given(shapes(format_), st.integers(0, 2**32 - 1))
    def holds(shape: Shape, seed: int) -> None:
        nonlocal number
        number += 1
        try:
            live(store, shape, seed, f"thread {number}")
        except WontFit:
            return

    try:
        holds()
    finally:
        store.archive.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_two_branches_of_one_thread_never_mix(kind: str, tmp_path: Path) -> None:
    store = Store(kind, tmp_path)
    shared = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"shared {i} " * 40} for i in range(20)]
    engine = Compactor(window=3_000, archive=store.archive, namespace="n")
    kept = engine.fit(shared, thread="t").messages
    lines: list[tuple[list[Any], list[Any]]] = []
    for name in ("port", "starboard"):
        own = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{name} {i} " * 60} for i in range(20)]
        lines.append((engine.fit([*kept, *own], thread="t").messages, [*shared, *own]))
    for branch, original in lines:
        assert engine.replay(branch, thread="t") == original
    assert "port " not in str(lines[1][0])
    assert "starboard" not in str(lines[0][0])


@pytest.mark.parametrize("form", ["user", "pair"])
def test_system_messages_behind_what_went_are_those_of_the_request(form: Literal["user", "pair"]) -> None:
    talk = [
        message
        for i in range(24)
        for message in (
            {"role": "user", "content": f"Question {i}? " + "word " * 40},
            {"role": "assistant", "content": f"Answer {i}. " + "word " * 40},
        )
    ]
    archive = MemoryArchive()
    chosen = Settings(keep=("messages", 1), form=form)
    for policy in ("Be brief.", "Be polite."):
        said = [*talk, {"role": "system", "content": policy}, {"role": "user", "content": "Go on."}]
        with Compactor(window=2_500, archive=archive, settings=chosen) as compactor:
            fitted = compactor.fit(said)
            assert {"role": "system", "content": policy} in fitted.messages
            assert compactor.replay(fitted.messages) == said
    (thread,) = archive.threads("default")
    assert len(archive.records(Scope("default", thread))) == 1


def test_a_crash_between_the_archive_and_the_callers_own_store_leaves_nothing_wrong(tmp_path: Path) -> None:
    # R37: the record is there, the caller's shorter list was lost: the next call finds it again, byte for byte.
    store = Store("sqlite", tmp_path)
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"turn {i} " * 40} for i in range(61)]
    lost = Compactor(window=3_000, archive=store.archive, namespace="n").fit(messages, thread="t")
    again = Compactor(window=3_000, archive=store.reopen(), namespace="n")
    assert again.replay(messages, thread="t") == messages
    assert again.fit(messages, thread="t").messages == lost.messages
    assert len(store.archive.records(Scope("n", "t"))) == 1


def test_a_receipt_names_where_the_originals_are_and_every_part_is_found(
    tmp_path: Path,
) -> None:
    # R39, R42
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with Compactor(window=3_000, archive=url, namespace="n") as engine:
        messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"turn {i} " * 40} for i in range(61)]
        kept = engine.fit(messages, thread="t").messages
        later = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"later {i} " * 40} for i in range(60)]
        done = engine.fit([*kept, *later], thread="t")
        assert done.receipt is not None
        assert done.receipt.archive == url
        assert engine.replay(done.messages, thread="t") == [*messages, *later]
        turns = [part.turn for part in engine._archive.parts(Scope("n", "t"))]  # noqa: SLF001 - asks the archive itself
        assert turns == sorted(set(turns))
        assert turns[0] == 0


def test_a_transcript_for_people_stands_beside_the_directory_archive(tmp_path: Path) -> None:
    # R41
    with Compactor(window=3_000, archive=f"dir://{tmp_path / 'record'}", namespace="n") as engine:
        messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"turn {i} " * 40} for i in range(61)]
        engine.fit(messages, thread="t")
    transcripts = [file for file in (tmp_path / "record").rglob("*") if file.suffix in {".txt", ".md"}]
    assert any("turn 3 turn 3" in file.read_text() for file in transcripts)
