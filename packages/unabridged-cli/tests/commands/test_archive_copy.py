"""One archive copied into another: between every pair of stores, killed and resumed, and the same on both sides."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from archive_support import new_place, open_store, postgres_url
from cli_case import SESSION, run
from effort import ALL
from unabridged.archive import open_archive
from unabridged.archive.encrypted import EncryptedArchive, new_key
from unabridged.archive.protocol import Archive, Note, Scope
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.memory import MemoryArchive
from unabridged_cli.copying import ArchiveCopy, copy_archive
from unabridged_testing.archive_contract.values import (
    catch_archive_error,
    make_part,
    make_record,
    make_summary,
    store_parts,
)

pytestmark = pytest.mark.posix

KEY = bytes(range(32))
DURABLE = ("sqlite", "postgres", "directory", "sealed")
KILLS = int(os.environ.get("UNABRIDGED_COPY_KILLS", "0"))
"""Kills of the whole command for each pair of stores: `make fleet`."""
ODD = Scope("É /..", "../../x")
SCOPES = (Scope("a", "one"), Scope("a", "two"), Scope("b", "one"), ODD)
NOTES = [Note("a", "calibration", {"ratio": 1.5}), Note("only notes", "k\0", {"deep": [{}]})]


def opened(store: str, place: str) -> Archive:
    """The archive of this kind there; a sealed one is SQLite under a key."""
    return EncryptedArchive(open_store("sqlite", place), KEY) if store == "sealed" else open_store(store, place)


def placed(store: str, folder: Path) -> str:
    folder.mkdir()
    return new_place(store, folder)


def fill(archive: Archive, rounds: range, scopes: tuple[Scope, ...] = SCOPES) -> None:
    """Conversations with all that can happen to one: summaries replaced and undone, edits, the same said twice."""
    for scope in scopes:
        for at in rounds:
            said = [make_part(f"{scope.thread} says {at}.{number} " * 9, at * 4 + number) for number in range(3)]
            said.append(make_part("the same in all", at * 4 + 3))
            first = make_record(said, make_summary(f"by rule {at}"), scope=scope, key=f"k{at}", record_id=f"r{at}")
            archive.store(first, [*said, make_summary(f"by rule {at}")])
            edited = make_part(f"edited {at}", at * 4)
            for name, model in (("m", "model"), ("u", None)):
                put_in = make_summary(f"{name} {at}")
                record = make_record([edited, *said[1:]], put_in, scope=scope, key=f"k{at}{name[1:]}", model=model)
                record = replace(record, id=f"{name}{at}", key=f"k{at}" if model else f"u{at}", data={"depth": at})
                archive.store(record, [edited, *said[1:], put_in])
            archive.retire(scope, f"u{at}")
    for note in NOTES:
        archive.remember(str(note.namespace), str(note.key), {**note.data, "at": rounds.stop})


def held(archive: Archive) -> dict[Scope, list[Any]]:
    """All that every thread holds: each record with whether it is live, and the messages, put-in ones apart."""
    found: dict[Scope, list[Any]] = {}
    for namespace in archive.namespaces():
        for name in archive.threads(namespace):
            stored = list(archive.everything(scope := Scope(namespace, name)))
            parts = [part for one in stored for part in one.parts]
            found[scope] = [[(one.record, one.live) for one in stored]]
            found[scope] += [[part for part in parts if (part.turn < 0) is put_in] for put_in in (True, False)]
    return found


def noted(archive: Archive) -> list[Note]:
    return sorted(archive.notes(), key=lambda note: str(note.namespace))


def in_child(work: Callable[[], object], kill_at: int = 0) -> int:
    """Do it in a process of its own, killed at this call of a function; how many calls it took, where it was not."""
    come, go = os.pipe()
    if not (pid := os.fork()):
        calls = 0

        def count(_frame: object, event: str, _what: object) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        status = 1
        try:
            sys.setprofile(count)
            work()
            sys.setprofile(None)
            os.write(go, str(calls).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(go)
    with os.fdopen(come, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status in ({0} if said else {signal.SIGKILL}), status
    return int(said or 0)


def copied(source: tuple[str, str] | Archive, target: tuple[str, str]) -> ArchiveCopy:
    here = source if not isinstance(source, tuple) else opened(*source)
    there = opened(*target)
    done = copy_archive(here, there)
    assert not done.problems, done.problems
    there.close()
    return done


RING = [*zip(DURABLE, (*DURABLE[1:], DURABLE[0]), strict=True)]
"""Each store once as the source and once as the target."""
PAIRS = [("memory", "sqlite"), *(itertools.product(DURABLE, DURABLE) if ALL else RING)]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_from_one_store_to_another_killed_anywhere_and_resumed(source: str, target: str, tmp_path: Path) -> None:
    instants = random.Random(f"{source} {target}")  # noqa: S311 - moments, not secrets
    where = ("memory", "") if source == "memory" else (source, placed(source, tmp_path / "from"))
    here = MemoryArchive() if source == "memory" else opened(*where)
    given: Any = here if source == "memory" else where
    fill(here, range(2), SCOPES[:3])
    to, trial = ((target, placed(target, tmp_path / name)) for name in ("to", "trial"))
    for grown in (False, True):
        if grown:
            fill(here, range(2, 3))
            here.retire(SCOPES[0], "m0")
            undone = next(one.record for one in here.everything(SCOPES[1]) if one.record.id == "u0")
            here.store(undone, [])
        calls = in_child(lambda: copied(given, trial))
        whole = held(here)
        for kill in range(1 if grown else 2):
            finished = in_child(lambda: copied(given, to), instants.randrange(1, calls * 9 // 10))
            assert kill or not finished, "the first is killed for sure, the others have less to do"
            there = opened(*to)
            assert not there.verify()
            for scope, what in held(there).items():  # whole or not there; what was there before is at least there
                assert what == whole[scope] or (grown and what[2] == whole[scope][2][: len(what[2])])
            there.close()
        done = copied(given, to)
        assert done.threads == len(whole)
        there = opened(*to)
        assert held(there) == whole
        assert noted(there) == noted(here)
        assert not there.verify()
        for scope in whole:
            assert [hit.turn for hit in there.search(scope, "says")] == [hit.turn for hit in here.search(scope, "says")]
        there.close()
        again = copied(given, to)
        assert (again.records, again.messages, again.notes, again.digest) == (0, 0, 0, done.digest)
    here.close()


def test_a_target_that_holds_something_else_of_a_conversation_is_refused_and_the_others_are_copied() -> None:
    source, target = MemoryArchive(), MemoryArchive()
    fill(source, range(2))
    fill(target, range(1), SCOPES[:1])
    store_parts(target, make_part("said here only", 9), scope=SCOPES[0], key="x")  # went on by itself
    store_parts(target, make_part("another", 0), scope=SCOPES[2])  # was never the same
    before = held(target)
    done = copy_archive(source, target)
    assert (done.threads, done.new, done.grown) == (2, 2, 0)
    assert all("holds another conversation under this name" in problem for problem in done.problems)
    assert [repr(SCOPES[0].thread) in problem and "'a'" in problem for problem in done.problems] == [True, False]
    assert held(target) == {**held(source), SCOPES[0]: before[SCOPES[0]], SCOPES[2]: before[SCOPES[2]]}
    for scope in (SCOPES[0], SCOPES[2]):
        target.forget(scope)
    assert copy_archive(source, target).new == 2
    assert held(target) == held(source)


@pytest.mark.parametrize(
    ("record_id", "text", "words"),
    [
        ("another", "said", "1 of its 1 records are not in the source"),
        ("one", "other words", "some of its messages are"),
    ],
)
def test_one_difference_is_enough_for_another_conversation(record_id: str, text: str, words: str) -> None:
    source, target = MemoryArchive(), MemoryArchive()
    store_parts(source, make_part("said", 0), scope=SCOPES[0], record_id="one", key="one")
    store_parts(target, make_part(text, 0), scope=SCOPES[0], record_id=record_id, key=record_id)
    (problem,) = copy_archive(source, target).problems
    assert "holds another conversation under this name" in problem
    assert words in problem


def test_damage_is_told_and_nothing_of_that_conversation_is_copied(tmp_path: Path) -> None:
    source, target = DirectoryArchive(tmp_path / "from"), DirectoryArchive(tmp_path / "to")
    fill(source, range(1))
    file = next((tmp_path / "from" / "b").glob("one/*1.jsonl"))
    file.write_bytes(file.read_bytes().replace(b"one says 0.0", b"one lies 0.0"))
    (problem,) = copy_archive(source, target).problems
    assert "damaged" in problem
    assert "thread 'one' of namespace 'b'" in problem
    assert sorted(held(target)) == sorted(set(SCOPES) - {SCOPES[2]})
    assert not target.verify()


def test_sealed_and_open_messages_are_never_put_together() -> None:
    sealed, plain = MemoryArchive(), MemoryArchive()
    for archive in (EncryptedArchive(sealed, KEY), plain):
        fill(archive, range(1))
    fill(source := MemoryArchive(), range(1), (Scope("c", "new"),))
    assert "encrypted" in catch_archive_error(lambda: copy_archive(source, sealed))
    assert "encrypted" in catch_archive_error(lambda: copy_archive(sealed, plain))
    assert "not the key" in catch_archive_error(lambda: copy_archive(source, EncryptedArchive(sealed, new_key())))
    twice = copy_archive(sealed, EncryptedArchive(MemoryArchive(), KEY))
    assert all("sealed already" in problem for problem in twice.problems)
    assert len(twice.problems) == len(SCOPES)
    as_it_is = MemoryArchive()
    assert not copy_archive(sealed, as_it_is).problems  # without the key
    assert held(EncryptedArchive(as_it_is, KEY)) == held(plain)
    assert noted(EncryptedArchive(as_it_is, KEY)) == noted(plain)
    opened_again = MemoryArchive()
    assert not copy_archive(EncryptedArchive(sealed, KEY), opened_again).problems
    assert held(opened_again) == held(plain)


def test_a_store_of_somebodys_own_without_the_methods_is_told_which() -> None:
    class Older:
        """An archive from before archives could be copied."""

        url = "older:"

    older: Any = Older()
    message = catch_archive_error(lambda: copy_archive(older, MemoryArchive()))
    assert "Older can't be copied: it has no `everything`, `take`, `notes`" in message
    assert "name that too" in catch_archive_error(lambda: copy_archive(MemoryArchive(), MemoryArchive(), thread="t"))


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An archive with a real compaction in it, in `default`, and conversations of others."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("UNABRIDGED_NAMESPACE", raising=False)
    url = f"sqlite:///{tmp_path / 'from.db'}"
    out = ("-o", tmp_path / "short.json")
    assert run("compact", SESSION, "--window", "8k", "--thread", "ferry", "--archive", url, *out).code == 0
    archive = open_archive(url)
    fill(archive, range(1), SCOPES[:3])
    archive.close()
    return url


def test_the_command_says_what_it_did_and_what_was_copied_replays(url: str, tmp_path: Path) -> None:
    key, wrong = tmp_path / "key", tmp_path / "wrong"
    key.write_text(KEY.hex() + "\n")
    wrong.write_bytes(new_key())
    sealed, folder, last = f"sqlite:///{tmp_path / 'sealed.db'}", f"dir://{tmp_path / 'to'}", f"{url}.last"
    done = run("archive", "copy", url, sealed, "--to-key", key)
    assert done.code == 0, done.err
    assert f"4 threads in {sealed} as in the source: 4 new, 0 brought up to date, 0 there already." in done.out
    assert "10 records and" in done.out
    assert "2 notes" in done.out
    assert b"says" not in (tmp_path / "sealed.db").read_bytes()
    first = run("archive", "copy", sealed, folder, "--from-key", key, "--json").json
    second = run("archive", "copy", folder, last, "--json").json
    assert (first["new"], second["new"], first["digest"]) == (4, 4, second["digest"])
    assert first["digest"] in done.out
    again = run("archive", "copy", url, last)
    assert "0 new, 0 brought up to date, 4 there already." in again.out
    assert "Written: 0 records and 0 messages (0 bytes), 0 notes." in again.out
    out = tmp_path / "whole.json"
    assert run("replay", tmp_path / "short.json", "--archive", last, "--thread", "ferry", "-o", out).code == 0
    assert json.loads(out.read_text())["messages"] == json.loads(SESSION.read_text())["messages"]
    refused = run("archive", "copy", url, sealed, "--to-key", wrong)
    assert refused.code == 2
    assert "not the key" in refused.line


def test_the_command_copies_a_namespace_or_a_thread_and_ends_with_1_where_it_refuses(url: str, tmp_path: Path) -> None:
    one, two = (f"sqlite:///{tmp_path / name}" for name in ("one.db", "two.db"))
    assert run("archive", "copy", url, one, "--namespace", "a", "--json").json["threads"] == 2
    assert run("archive", "copy", url, two, "--thread", "ferry", "--json").json["threads"] == 1
    archive = open_archive(one)
    store_parts(archive, make_part("went on here", 99), scope=SCOPES[1], key="x")
    archive.close()
    done = run("archive", "copy", url, one)
    assert done.code == 1
    assert "3 threads" in done.out
    assert "thread 'two' of namespace 'a'" in done.line
    assert "Forget it there, or copy into another archive" in done.line
    text = tmp_path / "text"
    text.write_text("correct horse battery staple, and so on\n")
    for arguments, said in (
        ((url, url), "the same archive"),
        ((url, two, "--thread", "never"), "no thread 'never'"),
        ((f"{url}x", two), "there is no archive"),
        ((url, two, "--to-key", text), "no key"),
    ):
        refused = run("archive", "copy", *arguments)
        assert refused.code == 2
        assert said in refused.line


def new_url(store: str, folder: Path) -> str:
    """An empty archive of this kind, as the command line takes it; Postgres with a database of its own."""
    if store != "postgres":
        return f"{'dir' if store == 'directory' else 'sqlite'}:///{folder / uuid.uuid4().hex}"
    name = f"copy_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return postgres_url().replace("/postgres?", f"/{name}?", 1)


def opened_at(store: str, url: str) -> Archive:
    return EncryptedArchive(open_archive(url), KEY) if store == "sealed" else open_archive(url)


@pytest.mark.skipif(not KILLS, reason="UNABRIDGED_COPY_KILLS: kills of the command for each pair of stores; make fleet")
def test_the_command_killed_at_random_instants_between_every_pair_of_stores(tmp_path: Path) -> None:
    instants = random.Random(KILLS)  # noqa: S311 - moments, not secrets
    key = tmp_path / "key"
    key.write_bytes(KEY)
    sources = {store: new_url(store, tmp_path) for store in DURABLE}
    scopes = tuple(Scope(f"namespace {number % 3}", f"thread {number}") for number in range(60))
    fill(first := opened_at("sqlite", sources["sqlite"]), range(8), (*scopes, ODD))
    whole, notes = held(first), noted(first)
    killed = inside = 0
    for source, target in itertools.product(DURABLE, DURABLE):

        def command(here: str, there: str, kinds: tuple[str, str]) -> subprocess.Popen[bytes]:
            keys = [f"--{end}-key={key}" for end, kind in zip(("from", "to"), kinds, strict=True) if kind == "sealed"]
            words = [sys.executable, "-m", "unabridged", "archive", "copy", here, there, "--json", *keys]
            return subprocess.Popen(words, stdout=subprocess.PIPE)

        if not held(filled := opened_at(source, sources[source])):
            assert not copy_archive(first, filled).problems
        filled.close()
        begun = time.monotonic()
        with command(sources[source], new_url(target, tmp_path), (source, target)) as trial:
            assert trial.wait() == 0
        took = time.monotonic() - begun
        to = new_url(target, tmp_path)
        for _ in range(KILLS):
            with command(sources[source], to, (source, target)) as process:
                time.sleep(instants.uniform(0.2, 1) * took)
                process.kill()
            killed += process.returncode == -signal.SIGKILL
            there = opened_at(target, to)
            assert not there.verify()
            some = held(there)
            inside += 0 < len(some) < len(whole)
            assert all(what == whole[scope] for scope, what in some.items())
            there.close()
        with command(sources[source], to, (source, target)) as process:
            done = json.loads(process.communicate()[0])
        assert (process.returncode, done["threads"], done["problems"]) == (0, len(whole), [])
        there = opened_at(target, to)
        assert held(there) == whole
        assert noted(there) == notes
        assert not there.verify()
        there.close()
        print(f"{source} to {target}: {took:.1f} s, and as good after {KILLS} kills: {done['digest'][:20]}…")  # noqa: T201
    assert inside, "not one of the kills came while threads were being copied"
    print(f"{killed} processes killed, {inside} of them when some threads were there and others not")  # noqa: T201
