"""What every archive must do with threads and namespaces: kept apart, forgotten whole, leased, remembered for."""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from unabridged.archive.protocol import Archive, Note, Part, Scope, StoredRecord
from unabridged.archive.store_rules import thread_note_key
from unabridged.errors import SettingsError
from unabridged_testing.archive_contract.values import (
    OTHER_SCOPE,
    TEST_SCOPE,
    catch_archive_error,
    make_part,
    make_record,
    make_summary,
    store_parts,
)

_ODD_NAMES = (
    " ", ".", "..", "../../x", "/etc/passwd", "C:\\x", "a/b", "7", "A", "a", "É", "E\u0301", "é", "con", "NUL",
    "-rf", "_41", "%41", "\ufffd", "\U0001f600", "x" * 511, "x" * 512, "\U0001f600" * 128, "a.", "a ", "~", "*",
    "'; DROP TABLE parts; --", "_", ".locks", "two words", "\u2028", "\uff46\uff55\uff4c\uff4c", "full",
)  # fmt: skip
_INVALID_NAMES = ("", "a\0b", "line\nbreak", "\x7f", "\x85", "\ud800", "x" * 513, "\U0001f600" * 129)
_NEIGHBOUR_SCOPE = Scope(TEST_SCOPE.namespace, "neighbour")


class ThreadContract:
    """Threads and namespaces are worlds of their own, whoever writes at the same time."""

    def test_nothing_crosses_threads_or_namespaces(self, archive: Archive) -> None:
        secret = make_part("the launch code is 4711", 0)
        mine = store_parts(archive, secret, scope=OTHER_SCOPE)
        others = (OTHER_SCOPE.namespace, "other"), ("other", OTHER_SCOPE.thread), ("", ""), ("n", "t")
        for scope in (TEST_SCOPE, *(Scope(*other) for other in others)):
            assert archive.record(scope, mine.id) is None
            _check_empty(archive, scope, secret, "launch code 4711")
            archive.retire(scope, mine.id)
            archive.forget(scope)
        assert list(archive.records(OTHER_SCOPE)) == [mine]
        store_parts(archive, make_part("other", 0))
        assert not archive.bodies(TEST_SCOPE, [secret.hash, "sha256:00", "", "no hash", "sha256:zz"])

    def test_a_body_known_elsewhere_does_not_vouch_for_a_reference_here(self, archive: Archive) -> None:
        part = make_part("known there", 0)
        for scope in (OTHER_SCOPE, _NEIGHBOUR_SCOPE):
            store_parts(archive, part, scope=scope)
        assert "refers to 1" in catch_archive_error(lambda: archive.store(make_record([part]), []))

    def test_forgetting_removes_the_thread_and_spares_what_others_share(self, archive: Archive) -> None:
        shared, own = make_part("we both said this", 0), make_part("only here", 1)
        store_parts(archive, shared, own)
        store_parts(archive, shared, scope=_NEIGHBOUR_SCOPE)
        assert archive.shared(TEST_SCOPE) == {0: ["neighbour"]}
        archive.forget(TEST_SCOPE)
        assert not archive.shared(_NEIGHBOUR_SCOPE)
        for part in (shared, own):
            _check_empty(archive, TEST_SCOPE, part, "said")
        assert archive.threads(TEST_SCOPE.namespace) == ["neighbour"]
        assert list(archive.parts(_NEIGHBOUR_SCOPE)) == [shared]
        assert [hit.text for hit in archive.search(_NEIGHBOUR_SCOPE, "said")] == [shared.text]
        assert not archive.verify()
        archive.forget(_NEIGHBOUR_SCOPE)
        archive.forget(_NEIGHBOUR_SCOPE)
        assert not archive.threads(TEST_SCOPE.namespace)
        assert not archive.verify()
        store_parts(archive, make_part("begun anew", 0))
        assert [part.text for part in archive.parts(TEST_SCOPE)] == ["begun anew"]

    def test_what_is_no_name_is_refused_before_anything_is_stored(self, archive: Archive) -> None:
        part = make_part("not to be stored", 0)
        for wrong in (*_INVALID_NAMES, 7, True, None, b"t", 1.5, ("t",)):
            bad: Any = wrong
            for scope in (Scope("n", bad), Scope(bad, "t")):
                record = make_record([part], scope=scope)
                _check_refused(partial(archive.store, record, [part]))
                _check_refused(partial(archive.take, scope, 0, [StoredRecord(record, True, [part])]))
                _check_refused(partial(archive.lease, scope, "k", 60))
            _check_refused(partial(archive.remember, bad, "k", {"a": 1}))
        assert (list(archive.namespaces()), list(archive.notes()), archive.verify()) == ([], [], [])

    def test_any_name_is_a_name_of_its_own(self, archive: Archive) -> None:
        scopes = [Scope("n", name) for name in _ODD_NAMES] + [Scope(name, "t") for name in _ODD_NAMES if name != "n"]
        for number, scope in enumerate(scopes):
            store_parts(archive, make_part(f"number {number}", number), scope=scope)
        for number, scope in enumerate(scopes):
            assert [part.text for part in archive.parts(scope)] == [f"number {number}"]
        assert archive.threads("n") == sorted(_ODD_NAMES)
        assert not archive.verify()
        left = sorted(_ODD_NAMES)
        for name in _ODD_NAMES:
            archive.forget(Scope("n", name))
            left.remove(name)
            assert archive.threads("n") == left
        assert not archive.verify()

    def test_a_lease_is_given_to_one_until_released(self, archive: Archive) -> None:
        assert archive.lease(TEST_SCOPE, "k", 60)
        assert not archive.lease(TEST_SCOPE, "k", 60)
        assert archive.lease(TEST_SCOPE, "other", 60)
        assert archive.lease(OTHER_SCOPE, "k", 60)
        archive.release(TEST_SCOPE, "k")
        assert archive.lease(TEST_SCOPE, "k", 60)
        archive.release(TEST_SCOPE, "k")
        archive.release(TEST_SCOPE, "k")
        assert archive.lease(TEST_SCOPE, "k", 60)
        assert not archive.threads(TEST_SCOPE.namespace)

    def test_a_lease_runs_out_and_its_late_release_harms_nobody(self, archive: Archive) -> None:
        assert archive.lease(TEST_SCOPE, "k", 0.05)
        time.sleep(0.1)
        assert archive.lease(TEST_SCOPE, "k", 60)
        archive.release(TEST_SCOPE, "k")
        assert not archive.lease(TEST_SCOPE, "k", 60)
        archive.release(TEST_SCOPE, "k")
        assert archive.lease(TEST_SCOPE, "k", 60)
        for seconds in (0, -1, float("nan"), float("inf")):
            assert "86,400" in catch_archive_error(lambda seconds=seconds: archive.lease(TEST_SCOPE, "k", seconds))  # type: ignore[misc]

    def test_many_threads_store_at_once_and_nothing_is_lost(self, archive: Archive) -> None:
        workers, rounds = 8, 6
        begin = threading.Barrier(workers)

        def work(worker: int) -> list[str]:
            begin.wait()
            won = []
            for at in range(rounds):
                won.append(store_parts(archive, make_part(f"shared {at}", at), key=f"k{at}").id)
                own = Scope(TEST_SCOPE.namespace, f"own {worker}")
                store_parts(archive, make_part(f"own {worker} {at}", at), scope=own, key=f"k{at}")
                archive.search(TEST_SCOPE, "shared")
            return won

        with ThreadPoolExecutor(workers) as pool:
            winners = list(pool.map(work, range(workers)))
        assert all(won == winners[0] for won in winners)
        assert [record.id for record in archive.records(TEST_SCOPE)] == winners[0]
        assert [part.text for part in archive.parts(TEST_SCOPE)] == [f"shared {at}" for at in range(rounds)]
        for worker in range(workers):
            texts = [part.text for part in archive.parts(Scope(TEST_SCOPE.namespace, f"own {worker}"))]
            assert texts == [f"own {worker} {at}" for at in range(rounds)]
        assert not archive.verify()

    def test_of_many_who_want_a_lease_one_gets_it(self, archive: Archive) -> None:
        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(lambda _: archive.lease(TEST_SCOPE, "k", 60), range(8)))
        assert given.count(True) == 1

    def test_the_namespaces_that_have_a_thread_are_listed(self, archive: Archive) -> None:
        assert list(archive.namespaces()) == []
        for scope in (OTHER_SCOPE, TEST_SCOPE, Scope("7", "t"), Scope("É /..", "t"), _NEIGHBOUR_SCOPE):
            store_parts(archive, make_part("one", 0), scope=scope)
        archive.remember("only notes", "k", {"a": 1})
        assert list(archive.namespaces()) == sorted(["7", "here", "there", "É /.."])
        archive.forget(OTHER_SCOPE)
        assert list(archive.namespaces()) == sorted(["7", "here", "É /.."])

    def test_a_namespace_is_forgotten_whole_and_no_other_is_touched(self, archive: Archive) -> None:
        both = make_part("said in both", 0)
        scopes = [TEST_SCOPE, _NEIGHBOUR_SCOPE, Scope(TEST_SCOPE.namespace, "7")]
        for scope in (*scopes, OTHER_SCOPE, Scope("her", "e"), Scope("here ", "thread 1")):
            store_parts(archive, both, make_part(f"own of {scope.thread}", 1), scope=scope)
        assert list(archive.forget_namespace(TEST_SCOPE.namespace)) == sorted(scope.thread for scope in scopes)
        assert not archive.threads(TEST_SCOPE.namespace)
        for scope in scopes:
            _check_empty(archive, scope, both, "said")
        assert list(archive.namespaces()) == ["her", "here ", "there"]
        assert [part.text for part in archive.parts(OTHER_SCOPE)] == ["said in both", "own of thread 1"]
        assert [hit.text for hit in archive.search(OTHER_SCOPE, "both")] == ["said in both"]
        assert not archive.verify()
        assert list(archive.forget_namespace(TEST_SCOPE.namespace)) == []
        assert list(archive.forget_namespace("never there")) == []
        store_parts(archive, make_part("begun anew", 0))
        assert [part.text for part in archive.parts(TEST_SCOPE)] == ["begun anew"]

    def test_threads_are_as_old_as_their_newest_record_even_a_retired_one(self, archive: Archive) -> None:
        times = {"old": (100.0, 200.0), "new": (100.0, 900.0), "undone": (100.0, 900.0), "edge": (500.0,)}
        for name, created in times.items():
            scope = Scope(TEST_SCOPE.namespace, name)
            for number, moment in enumerate(created):
                part = make_part(f"{name} {number}", number)
                record = store_parts(archive, part, scope=scope, key=f"k{number}", created=moment)
            if name == "undone":
                archive.retire(scope, record.id)
        store_parts(archive, make_part("elsewhere", 0), scope=OTHER_SCOPE)
        archive.remember(TEST_SCOPE.namespace, "k", {"a": 1})
        newest = {name: archive.newest_time(Scope(TEST_SCOPE.namespace, name)) for name in (*times, "never there")}
        assert newest == {"old": 200.0, "new": 900.0, "undone": 900.0, "edge": 500.0, "never there": None}
        assert list(archive.forget_namespace(TEST_SCOPE.namespace, 500.0)) == ["old"]
        assert list(archive.threads(TEST_SCOPE.namespace)) == ["edge", "new", "undone"]
        assert archive.remembered(TEST_SCOPE.namespace, "k") == {"a": 1}
        assert list(archive.forget_namespace(TEST_SCOPE.namespace, 500.5)) == ["edge"]
        assert list(archive.forget_namespace(TEST_SCOPE.namespace, 1.0)) == []
        assert len(archive.parts(Scope(TEST_SCOPE.namespace, "new"))) == 2
        assert len(archive.parts(OTHER_SCOPE)) == 1
        assert not archive.verify()

    def test_what_threads_hold_is_counted_and_when_they_were_used_last_is_told(self, archive: Archive) -> None:
        odd = Scope(TEST_SCOPE.namespace, "É /..")
        shared, own = make_part("we both said this", 3), make_part("only here, and longer", 11)
        for scope, kind, moment in ((TEST_SCOPE, "summary", 5.0), (odd, "copy", 7.0)):
            store_parts(archive, shared, scope=scope, kind=kind, created=moment)
        undone = store_parts(archive, own, key="k2", kind="clearing", created=4.0, after=make_part("put in", -1))
        store_parts(archive, make_part("later", 4), key="k3", kind="clearing", created=3.0)
        archive.retire(TEST_SCOPE, undone.id)
        store_parts(archive, shared, scope=OTHER_SCOPE, kind="summary", created=9.0)
        assert archive.last_used(TEST_SCOPE.namespace) == {TEST_SCOPE.thread: 3.0, odd.thread: 7.0}
        assert archive.last_used("never there") == {}
        first, second = archive.holdings(TEST_SCOPE.namespace, [odd.thread, "never there", TEST_SCOPE.thread])
        assert (first.thread, dict(first.kinds), first.messages, first.turns) == (odd.thread, {"copy": 1}, 1, 4)
        kinds = {"summary": 1, "clearing": 1}
        assert (second.thread, dict(second.kinds), second.messages, second.turns) == (TEST_SCOPE.thread, kinds, 3, 12)
        assert 0 < first.size < second.size
        assert list(archive.holdings(TEST_SCOPE.namespace, [])) == []
        archive.forget(TEST_SCOPE)
        assert archive.last_used(TEST_SCOPE.namespace) == {odd.thread: 7.0}
        assert list(archive.holdings(TEST_SCOPE.namespace, [TEST_SCOPE.thread])) == []

    def test_what_is_stored_while_a_namespace_goes_is_there_whole_or_not_at_all(self, archive: Archive) -> None:
        def work(worker: int) -> None:
            for at in range(6):
                if worker == 0:
                    archive.forget_namespace(TEST_SCOPE.namespace)
                else:
                    shared, own = make_part("shared by all", 0), make_part(f"own {worker} {at}", 1)
                    scope = Scope(TEST_SCOPE.namespace, f"thread {worker}")
                    store_parts(archive, shared, own, scope=scope, key=f"k{at}")

        with ThreadPoolExecutor(5) as pool:
            list(pool.map(work, range(5)))
        assert not archive.verify()
        for name in archive.threads(TEST_SCOPE.namespace):
            scope = Scope(TEST_SCOPE.namespace, name)
            turns = [part.turn for part in archive.parts(scope)]
            assert turns == [0, *[1] * len(archive.records(scope))]

    def test_what_is_remembered_of_a_thread_goes_with_it_and_with_no_other(self, archive: Archive) -> None:
        names = ("old", "new", "é:1", "never there")
        for name, created in zip(names[:3], (100.0, 900.0, 900.0), strict=True):
            store_parts(archive, make_part(name, 0), scope=Scope(TEST_SCOPE.namespace, name), created=created)
        for name in names:
            archive.remember(TEST_SCOPE.namespace, thread_note_key(name), {"pins": [name]})
        archive.remember(TEST_SCOPE.namespace, "k", {"a": 1})
        archive.forget_namespace(TEST_SCOPE.namespace, 500.0)
        kept = [name for name in names if archive.remembered(TEST_SCOPE.namespace, thread_note_key(name))]
        assert kept == ["new", "é:1", "never there"]
        for name in ("é:1", "never there"):
            archive.forget(Scope(TEST_SCOPE.namespace, name))
        notes = {note.key for note in archive.notes(TEST_SCOPE.namespace)}
        assert notes == {"k", thread_note_key("new")}
        assert archive.remembered(TEST_SCOPE.namespace, thread_note_key("new")) == {"pins": ["new"]}
        archive.forget_namespace(TEST_SCOPE.namespace)
        assert list(archive.notes(TEST_SCOPE.namespace)) == []

    def test_what_is_remembered_comes_back_and_the_last_one_counts(self, archive: Archive) -> None:
        assert archive.remembered("n", "k") is None
        deep: object = {"list": [[], {}]}
        value = {"ratios": [1.5, 2], "text": "é\ud800\0", "none": None, "deep": deep, "big": 10**30}
        for number in range(3):
            archive.remember("n", "k", {**value, "number": number})
            archive.remember("n", f"k{number}", {"other": number})
            archive.remember(f"n{number}", "k", {"elsewhere": number})
        assert archive.remembered("n", "k") == {**value, "number": 2}
        assert archive.remembered("n", "k1") == {"other": 1}
        assert archive.remembered("n1", "k") == {"elsewhere": 1}
        assert archive.remembered("n", "K") is None
        assert not archive.verify()
        archive.forget(Scope("n", "k"))
        assert archive.remembered("n", "k") is not None
        archive.forget_namespace("n")
        assert archive.remembered("n", "k") is None
        assert archive.remembered("n1", "k") == {"elsewhere": 1}
        odd, key = "É /..", "É\0/..\ud800"
        archive.remember(odd, key, value)
        assert list(archive.notes(odd)) == [Note(odd, key, value)]
        assert list(archive.notes("never there")) == []
        elsewhere = [Note(f"n{number}", "k", {"elsewhere": number}) for number in range(3)]
        assert sorted(archive.notes(), key=lambda note: str(note.namespace)) == [*elsewhere, Note(odd, key, value)]

    def test_everything_of_a_thread_is_given_in_order_and_taken_as_it_was(self, archive: Archive) -> None:
        first, second = make_part("the first", 0), make_part("the second, said twice", 1)
        again, edited = make_part("the second, said twice", 4), make_part("the first, edited", 0)
        store_parts(archive, first, second, after=make_summary("by rule"))
        by_model = store_parts(archive, first, second, after=make_summary("by a model"), model="m", data={"depth": 2})
        undone = store_parts(archive, again, make_part("and more", 5), key="k2", after=make_summary("undone"))
        archive.retire(TEST_SCOPE, undone.id)
        last = store_parts(archive, edited, key="k3", created=3.5)
        stored = list(archive.everything(TEST_SCOPE))
        assert [one.record.model for one in stored] == [None, "m", None, None]
        assert [one.live for one in stored] == [False, True, False, True]
        assert [one.record for one in stored[1:]] == [by_model, undone, last]
        parts = [part for one in stored for part in one.parts]
        assert [part.text for part in parts if part.turn < 0] == ["by rule", "by a model", "undone"]
        said = [(part.turn, part.origin) for part in parts if part.turn >= 0]
        assert said == [(turn, "person") for turn in (0, 1, 4, 5, 0)]
        there = [one._replace(record=replace(one.record, scope=OTHER_SCOPE)) for one in stored]
        assert not archive.take(OTHER_SCOPE, 1, there)
        assert not archive.threads(OTHER_SCOPE.namespace)
        missing = [there[0]._replace(parts=there[0].parts[:1])]
        assert "refers to" in catch_archive_error(lambda: archive.take(OTHER_SCOPE, 0, missing))
        assert not archive.threads(OTHER_SCOPE.namespace)
        assert archive.take(OTHER_SCOPE, 0, iter(there[:3]))
        assert not archive.take(OTHER_SCOPE, 0, there)
        assert archive.take(OTHER_SCOPE, 3, there[3:])
        assert list(archive.everything(OTHER_SCOPE)) == there
        assert [record.id for record in archive.records(OTHER_SCOPE)] == [by_model.id, last.id]
        assert archive.parts(OTHER_SCOPE) == archive.parts(TEST_SCOPE)
        assert archive.newest_time(OTHER_SCOPE) == archive.newest_time(TEST_SCOPE)
        hits = [[hit.turn for hit in archive.search(scope, "first second")] for scope in (TEST_SCOPE, OTHER_SCOPE)]
        assert hits[0] == hits[1]
        assert len(hits[0]) == 4
        assert archive.take(OTHER_SCOPE, 4, [there[2]._replace(live=True, parts=[])])
        live = [(one.record.id, one.live) for one in archive.everything(OTHER_SCOPE)]
        assert live[2:] == [(last.id, True), (undone.id, True)]
        assert not archive.verify()
        assert not list(archive.everything(Scope("never", "there")))


def _check_empty(archive: Archive, scope: Scope, part: Part, query: str) -> None:
    """See that nothing of the thread is there: no record, no message, this one neither, and none to be found."""
    assert not archive.records(scope)
    assert not archive.bodies(scope, [part.hash])
    assert not archive.parts(scope)
    assert not archive.search(scope, query)


def _check_refused(act: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        act()
