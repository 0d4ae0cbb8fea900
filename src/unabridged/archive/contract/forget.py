"""What every archive must do when a namespace is listed or removed, and when the engine keeps what it learned."""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from unabridged.archive.contract.values import HERE, THERE, raises, record_for, said, stored
from unabridged.archive.protocol import Archive, Scope


class ForgetContract:
    """Whole namespaces, old threads, and the engine's own notes."""

    durable = True

    def test_the_namespaces_that_have_a_thread_are_listed(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        assert list(archive.namespaces()) == []
        for scope in (THERE, HERE, Scope("", "t"), Scope("É\0/..", "t"), Scope(HERE.namespace, "neighbour")):
            stored(archive, said("one", 0), scope=scope)
        archive.remember("only notes", "k", {"a": 1})
        assert list(archive.namespaces()) == sorted(["", "here", "there", "É\0/.."])
        archive.forget(THERE)
        assert list(archive.namespaces()) == sorted(["", "here", "É\0/.."])
        archive.close()

    def test_a_namespace_is_forgotten_whole_and_no_other_is_touched(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        both = said("said in both", 0)
        scopes = [HERE, Scope(HERE.namespace, "neighbour"), Scope(HERE.namespace, "")]
        for scope in (*scopes, THERE, Scope("her", "e"), Scope("here ", "thread 1")):
            stored(archive, both, said(f"own of {scope.thread}", 1), scope=scope)
        assert list(archive.forget_namespace(HERE.namespace)) == sorted(scope.thread for scope in scopes)
        assert not archive.threads(HERE.namespace)
        for scope in scopes:
            assert not archive.parts(scope)
            assert not archive.records(scope)
            assert not archive.search(scope, "said")
            assert not archive.bodies(scope, [both.hash])
        assert list(archive.namespaces()) == ["her", "here ", "there"]
        assert [part.text for part in archive.parts(THERE)] == ["said in both", "own of thread 1"]
        assert [hit.text for hit in archive.search(THERE, "both")] == ["said in both"]
        assert not archive.verify()
        assert list(archive.forget_namespace(HERE.namespace)) == []
        assert list(archive.forget_namespace("never there")) == []
        stored(archive, said("begun anew", 0))
        assert [part.text for part in archive.parts(HERE)] == ["begun anew"]
        archive.close()

    def test_threads_are_as_old_as_their_newest_record_even_a_retired_one(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        times = {"old": (100.0, 200.0), "new": (100.0, 900.0), "undone": (100.0, 900.0), "edge": (500.0,)}
        for name, created in times.items():
            scope = Scope(HERE.namespace, name)
            for number, moment in enumerate(created):
                part = said(f"{name} {number}", number)
                record = replace(record_for([part], scope=scope, key=f"k{number}"), created=moment)
                archive.store(record, [part])
            if name == "undone":
                archive.retire(scope, record.id)
        stored(archive, said("elsewhere", 0), scope=THERE)
        archive.remember(HERE.namespace, "k", {"a": 1})
        newest = {name: archive.newest_time(Scope(HERE.namespace, name)) for name in (*times, "never there")}
        assert newest == {"old": 200.0, "new": 900.0, "undone": 900.0, "edge": 500.0, "never there": None}
        assert list(archive.forget_namespace(HERE.namespace, 500.0)) == ["old"]
        assert list(archive.threads(HERE.namespace)) == ["edge", "new", "undone"]
        assert archive.remembered(HERE.namespace, "k") == {"a": 1}
        assert list(archive.forget_namespace(HERE.namespace, 500.5)) == ["edge"]
        assert list(archive.forget_namespace(HERE.namespace, 1.0)) == []
        assert len(archive.parts(Scope(HERE.namespace, "new"))) == 2
        assert len(archive.parts(THERE)) == 1
        assert not archive.verify()
        archive.close()

    def test_what_is_stored_while_a_namespace_goes_is_there_whole_or_not_at_all(
        self, opened: Callable[[], Archive]
    ) -> None:
        archive = opened()

        def work(worker: int) -> None:
            for at in range(6):
                if worker == 0:
                    archive.forget_namespace(HERE.namespace)
                else:
                    shared, own = said("shared by all", 0), said(f"own {worker} {at}", 1)
                    scope = Scope(HERE.namespace, f"thread {worker}")
                    archive.store(record_for([shared, own], scope=scope, key=f"k{at}"), [shared, own])

        with ThreadPoolExecutor(5) as pool:
            list(pool.map(work, range(5)))
        assert not archive.verify()
        for name in archive.threads(HERE.namespace):
            scope = Scope(HERE.namespace, name)
            turns = [part.turn for part in archive.parts(scope)]
            assert turns == [0, *[1] * len(archive.records(scope))]
        archive.close()

    def test_what_is_remembered_comes_back_and_the_last_one_counts(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        assert archive.remembered("n", "k") is None
        value: dict[str, object] = {
            "ratios": [1.5, 2],
            "text": "é\ud800\0",
            "none": None,
            "deep": {"list": [[], {}]},
            "big": 10**30,
        }
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
        archive.close()
        for use in (
            archive.namespaces,
            lambda: archive.forget_namespace("n"),
            lambda: archive.remember("n", "k", {}),
            lambda: archive.remembered("n", "k"),
        ):
            assert "closed" in raises(use)

    def test_what_is_remembered_is_there_when_opened_again(self, opened: Callable[[], Archive]) -> None:
        if not self.durable:
            return
        first, second = opened(), opened()
        first.remember("n", "k", {"a": 1})
        assert second.remembered("n", "k") == {"a": 1}
        first.close()
        second.close()
        last = opened()
        assert last.remembered("n", "k") == {"a": 1}
        last.close()
