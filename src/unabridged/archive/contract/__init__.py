"""What every archive must do, as tests: subclass `ArchiveContract`, say how to open yours, and pytest runs it whole.

    class TestMyArchive(ArchiveContract):
        @pytest.fixture
        def opened(self, tmp_path):
            return lambda: MyArchive(tmp_path)    # each call opens the same, at first empty, store

`durable = False` for a store that is gone when it is closed.
"""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from unabridged.archive import codec
from unabridged.archive.contract.forget import ForgetContract
from unabridged.archive.contract.lookup import LookupContract
from unabridged.archive.contract.search import SearchContract
from unabridged.archive.contract.values import HERE, THERE, raises, record_for, said, stored, summary
from unabridged.archive.protocol import Archive, Record, Scope

_ODD_NAMES = (
    "", " ", ".", "..", "../../x", "/etc/passwd", "C:\\x", "a/b", "a\0b", "A", "a", "É", "E\u0301", "é", "con", "NUL",
    "-rf", "_41", "%41", "\ud800", "\U0001f600", "x" * 300, "x" * 301, "a.", "a ", "~", "*", "'; DROP TABLE parts; --",
    "_", ".locks", "line\nbreak", "\uff46\uff55\uff4c\uff4c", "full",
)  # fmt: skip


class ArchiveContract(LookupContract, SearchContract, ForgetContract):
    """The behaviour of every store, each sentence a test."""

    durable = True

    # R37 R40
    def test_what_is_stored_comes_back_equal(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        parts = [said("what is it?", 0), said("a pipe", 1, "assistant", "model")]
        record = record_for(parts, summary("they spoke"), data={"tokens": 7, "nested": {"list": [1, None, 2.5]}})
        assert archive.store(record, [*parts, summary("they spoke")]) == record
        assert archive.record(HERE, record.id) == record
        assert list(archive.records(HERE)) == [record]
        assert list(archive.parts(HERE)) == parts
        assert archive.threads(HERE.namespace) == [HERE.thread]
        archive.close()

    def test_every_field_of_a_record_comes_back_type_for_type(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        part = said("x", 3)
        record = Record(
            id="r\ud800", scope=HERE, key="k\0", length=9, start=3, before=(part.hash, 0, 1),
            after=(None, part.hash, None), kind="clearing", prior="r0", model="openai:gpt", created=1.25,
            data={"receipt": {"cost": 0.1, "big": 10**400, "none": None, "text": "\ud83d", "pairs": [[1, "a"], []]}},
        )  # fmt: skip
        archive.store(record, [part])
        found = archive.record(HERE, "r\ud800")
        assert found == record
        assert found is not None
        assert repr(found) == repr(record)
        archive.close()

    def test_bodies_and_texts_are_exact_to_the_byte(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        bodies = [b"", b"\0", b"not json\n\r\n", b'{"a":\n1}', "é\U0001f600".encode(), b"\xff\xfe", b"x" * 200_000]
        texts = ["", "\ud800 lone", "a\0b", "line\r\nline", "é", "\U0001f600" * 9, "long " * 30_000]
        parts = [
            replace(said(text, turn), body=body, hash=codec.digest(body))
            for turn, (body, text) in enumerate(zip(bodies, texts, strict=True))
        ]
        archive.store(record_for(parts), parts)
        assert list(archive.parts(HERE)) == parts
        assert archive.bodies(HERE, [part.hash for part in parts]) == {part.hash: part.body for part in parts}
        archive.close()

    def test_parts_come_in_the_order_of_turns_and_within_bounds(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        parts = [said(f"m{turn}", turn) for turn in (5, 2, 9, 0)]
        archive.store(record_for(parts), parts)
        more = [said(f"m{turn}", turn) for turn in (3, 1)]
        archive.store(record_for(more, key="k2"), more)
        assert [part.turn for part in archive.parts(HERE)] == [0, 1, 2, 3, 5, 9]
        assert [part.turn for part in archive.parts(HERE, 2, 5)] == [2, 3]
        assert [part.turn for part in archive.parts(HERE, -5, 10**30)] == [0, 1, 2, 3, 5, 9]
        assert not archive.parts(HERE, 5, 2)
        archive.close()

    def test_messages_put_in_are_known_by_their_hash_but_are_no_parts(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        turn = summary("standing in")
        stored(archive, said("gone", 0), after=turn)
        assert archive.bodies(HERE, [turn.hash]) == {turn.hash: turn.body}
        assert [part.text for part in archive.parts(HERE)] == ["gone"]
        archive.close()

    def test_a_message_said_twice_is_there_twice_and_stored_again_is_not(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        parts = [said("yes", 0), said("no", 1), said("yes", 2)]
        archive.store(record_for(parts), parts)
        archive.store(record_for(parts, key="k2"), [*parts, said("new", 3)])
        assert [(part.turn, part.text) for part in archive.parts(HERE)] == [
            (0, "yes"),
            (1, "no"),
            (2, "yes"),
            (3, "new"),
        ]
        archive.close()

    def test_a_second_record_for_a_key_is_dropped_with_its_parts(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        first = stored(archive, said("one", 0))
        second = record_for([said("two", 1)], key=first.key)
        assert archive.store(second, [said("two", 1)]) == first
        assert archive.record(HERE, second.id) is None
        assert [part.text for part in archive.parts(HERE)] == ["one"]
        archive.close()

    def test_a_models_record_replaces_a_model_free_one_which_stays_readable(
        self, opened: Callable[[], Archive]
    ) -> None:
        archive = opened()
        free = stored(archive, said("one", 0))
        made = record_for([said("one", 0)], key=free.key, model="m")
        assert archive.store(made, [said("one", 0)]) == made
        assert list(archive.records(HERE)) == [made]
        assert archive.record(HERE, free.id) == free
        later = record_for([said("one", 0)], key=free.key, model="other")
        assert archive.store(later, [said("one", 0)]) == made
        assert archive.store(replace(later, id="r9", model=None), [said("one", 0)]) == made
        archive.close()

    def test_a_retired_record_is_readable_and_frees_its_key(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        first = stored(archive, said("one", 0))
        archive.retire(HERE, first.id)
        archive.retire(HERE, first.id)
        archive.retire(HERE, "no such record")
        assert not archive.records(HERE)
        assert archive.record(HERE, first.id) == first
        assert [part.text for part in archive.parts(HERE)] == ["one"]
        second = record_for([said("one", 0)], key=first.key)
        assert archive.store(second, [said("one", 0)]) == second
        archive.retire(HERE, first.id)
        assert list(archive.records(HERE)) == [second]
        archive.close()

    def test_storing_a_record_again_gives_the_same_and_revives_a_retired_one(
        self, opened: Callable[[], Archive]
    ) -> None:
        archive = opened()
        record = stored(archive, said("one", 0))
        assert archive.store(record, [said("one", 0)]) == record
        archive.retire(HERE, record.id)
        assert archive.store(record, [said("one", 0)]) == record
        assert list(archive.records(HERE)) == [record]
        assert [part.text for part in archive.parts(HERE)] == ["one"]
        archive.close()

    def test_records_come_oldest_first(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        made = [stored(archive, said(f"m{at}", at), key=f"k{9 - at}") for at in range(5)]
        archive.retire(HERE, made[2].id)
        assert list(archive.records(HERE)) == [made[0], made[1], made[3], made[4]]
        archive.close()

    def test_a_record_is_located_within_its_namespace_only(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        record = stored(archive, said("one", 0))
        stored(archive, said("two", 0), scope=Scope(HERE.namespace, "neighbour"))
        archive.retire(HERE, record.id)
        assert archive.locate(HERE.namespace, record.id) == HERE
        assert archive.locate(THERE.namespace, record.id) is None
        assert archive.locate(HERE.namespace, "no such record") is None
        wanted = [record.id, "no such record", record.id, "\ud800"]
        assert archive.locate_each(HERE.namespace, wanted) == {record.id: HERE}
        assert archive.locate_each(THERE.namespace, wanted) == {}
        assert archive.locate_each(HERE.namespace, []) == {}
        archive.close()

    # R38
    def test_what_must_not_be_stored_leaves_nothing_behind(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        lying = replace(said("one", 0), body=b"another")
        assert "codec.digest" in raises(lambda: archive.store(record_for([said("one", 0)]), [lying]))
        assert "refers to 1" in raises(lambda: archive.store(record_for([said("one", 0)]), []))
        assert not archive.threads(HERE.namespace)
        first = stored(archive, said("one", 0))
        taken = replace(record_for([said("two", 1)], key="other"), id=first.id)
        assert "already taken" in raises(lambda: archive.store(taken, [said("two", 1)]))
        assert [part.text for part in archive.parts(HERE)] == ["one"]
        archive.close()

    def test_a_record_may_refer_to_what_the_thread_already_holds(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        old = summary("first summary")
        stored(archive, said("one", 0), after=old)
        second = replace(record_for([said("two", 1)], key="k2"), before=(old.hash, said("two", 1).hash))
        assert archive.store(second, [said("two", 1)]) == second
        assert not archive.verify()
        archive.close()

    def test_nothing_crosses_threads_or_namespaces(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        secret = said("the launch code is 4711", 0)
        mine = record_for([secret], scope=THERE)
        archive.store(mine, [secret])
        for scope in (
            HERE,
            Scope(THERE.namespace, "other"),
            Scope("other", THERE.thread),
            Scope("", ""),
            Scope("n", "t"),
        ):
            assert archive.record(scope, mine.id) is None
            assert not archive.records(scope)
            assert not archive.bodies(scope, [secret.hash])
            assert not archive.parts(scope)
            assert not archive.search(scope, "launch code 4711")
            archive.retire(scope, mine.id)
            archive.forget(scope)
        assert list(archive.records(THERE)) == [mine]
        stored(archive, said("other", 0))
        assert not archive.bodies(HERE, [secret.hash, "sha256:00", "", "no hash", "sha256:zz"])
        archive.close()

    def test_a_body_known_elsewhere_does_not_vouch_for_a_reference_here(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        part = said("known there", 0)
        for scope in (THERE, Scope(HERE.namespace, "neighbour")):
            archive.store(record_for([part], scope=scope), [part])
        assert "refers to 1" in raises(lambda: archive.store(record_for([part]), []))
        archive.close()

    def test_forgetting_removes_the_thread_and_spares_what_others_share(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        other = Scope(HERE.namespace, "neighbour")
        shared, own = said("we both said this", 0), said("only here", 1)
        archive.store(record_for([shared, own]), [shared, own])
        archive.store(record_for([shared], scope=other), [shared])
        archive.forget(HERE)
        assert not archive.parts(HERE)
        assert not archive.records(HERE)
        assert not archive.search(HERE, "said")
        assert not archive.bodies(HERE, [shared.hash, own.hash])
        assert archive.threads(HERE.namespace) == ["neighbour"]
        assert list(archive.parts(other)) == [shared]
        assert [hit.text for hit in archive.search(other, "said")] == [shared.text]
        assert not archive.verify()
        archive.forget(other)
        archive.forget(other)
        assert not archive.threads(HERE.namespace)
        assert not archive.verify()
        stored(archive, said("begun anew", 0))
        assert [part.text for part in archive.parts(HERE)] == ["begun anew"]
        archive.close()

    def test_any_string_is_a_name_of_its_own(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        scopes = [Scope("n", name) for name in _ODD_NAMES] + [Scope(name, "t") for name in _ODD_NAMES if name != "n"]
        for number, scope in enumerate(scopes):
            part = said(f"number {number}", number)
            archive.store(record_for([part], scope=scope), [part])
        for number, scope in enumerate(scopes):
            assert [part.text for part in archive.parts(scope)] == [f"number {number}"]
        assert archive.threads("n") == sorted(_ODD_NAMES)
        assert not archive.verify()
        archive.forget(Scope("n", "A"))
        assert archive.threads("n") == sorted(name for name in _ODD_NAMES if name != "A")
        archive.close()

    def test_a_lease_is_given_to_one_until_released(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        assert archive.lease(HERE, "k", 60)
        assert not archive.lease(HERE, "k", 60)
        assert archive.lease(HERE, "other", 60)
        assert archive.lease(THERE, "k", 60)
        archive.release(HERE, "k")
        assert archive.lease(HERE, "k", 60)
        archive.release(HERE, "k")
        archive.release(HERE, "k")
        assert archive.lease(HERE, "k", 60)
        assert not archive.threads(HERE.namespace)
        archive.close()

    def test_a_lease_runs_out_and_its_late_release_harms_nobody(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        assert archive.lease(HERE, "k", 0.05)
        time.sleep(0.1)
        assert archive.lease(HERE, "k", 60)
        archive.release(HERE, "k")
        assert not archive.lease(HERE, "k", 60)
        archive.release(HERE, "k")
        assert archive.lease(HERE, "k", 60)
        for seconds in (0, -1, float("nan"), float("inf")):
            assert "86,400" in raises(lambda seconds=seconds: archive.lease(HERE, "k", seconds))  # type: ignore[misc]
        archive.close()

    def test_many_threads_store_at_once_and_nothing_is_lost(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        workers, rounds = 8, 6
        begin = threading.Barrier(workers)

        def work(worker: int) -> list[str]:
            begin.wait()
            won = []
            for at in range(rounds):
                part, own = said(f"shared {at}", at), said(f"own {worker} {at}", at)
                record = record_for([part], key=f"k{at}")
                won.append(archive.store(record, [part]).id)
                scope = Scope(HERE.namespace, f"own {worker}")
                archive.store(record_for([own], scope=scope, key=f"k{at}"), [own])
                archive.search(HERE, "shared")
            return won

        with ThreadPoolExecutor(workers) as pool:
            winners = list(pool.map(work, range(workers)))
        assert all(won == winners[0] for won in winners)
        assert [record.id for record in archive.records(HERE)] == winners[0]
        assert [part.text for part in archive.parts(HERE)] == [f"shared {at}" for at in range(rounds)]
        for worker in range(workers):
            texts = [part.text for part in archive.parts(Scope(HERE.namespace, f"own {worker}"))]
            assert texts == [f"own {worker} {at}" for at in range(rounds)]
        assert not archive.verify()
        archive.close()

    def test_of_many_who_want_a_lease_one_gets_it(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        with ThreadPoolExecutor(8) as pool:
            given = list(pool.map(lambda _: archive.lease(HERE, "k", 60), range(8)))
        assert given.count(True) == 1
        archive.close()

    def test_closing_twice_is_harmless_and_use_afterwards_is_an_error(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        stored(archive, said("one", 0))
        archive.close()
        archive.close()
        uses: Sequence[Callable[[], Any]] = (
            lambda: archive.parts(HERE),
            lambda: archive.search(HERE, "one"),
            lambda: stored(archive, said("two", 1), key="k2"),
            lambda: archive.threads(""),
            lambda: archive.lease(HERE, "k", 1),
            archive.verify,
        )
        for use in uses:
            assert "closed" in raises(use)

    def test_what_was_stored_is_there_when_opened_again(self, opened: Callable[[], Archive]) -> None:
        if not self.durable:
            return
        archive = opened()
        record = stored(archive, said("kept for good", 0), after=summary("s"))
        retired = stored(archive, said("two", 1), key="k2")
        archive.retire(HERE, retired.id)
        assert archive.lease(HERE, "k", 60)
        again = opened()
        assert list(again.records(HERE)) == [record]
        assert not again.lease(HERE, "k", 60)
        archive.close()
        again.close()
        last = opened()
        assert list(last.records(HERE)) == [record]
        assert last.record(HERE, retired.id) == retired
        assert [hit.text for hit in last.search(HERE, "good")] == ["kept for good"]
        assert not last.verify()
        assert not last.verify(HERE)
        last.close()
