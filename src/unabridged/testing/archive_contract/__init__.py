"""What every archive must do, as tests: subclass `ArchiveContract`, say how to open yours, and pytest runs it whole.

    class TestMyArchive(ArchiveContract):
        @pytest.fixture
        def opened(self, tmp_path):
            return lambda: MyArchive(tmp_path)    # each call opens the same, at first empty, store

`durable = False` for a store that is gone when it is closed: then nothing tests that anything is saved, and a skipped
test says so.
"""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from unabridged.archive.protocol import Archive
from unabridged.errors import NotInstalled

try:
    import pytest
except ImportError as error:
    raise NotInstalled(__name__, "pytest", error) from error

from unabridged.testing.archive_contract.records import RecordContract
from unabridged.testing.archive_contract.search import SearchContract
from unabridged.testing.archive_contract.threads import ThreadContract
from unabridged.testing.archive_contract.values import HERE, make_part, make_summary, raises, store_parts


class ArchiveContract(RecordContract, ThreadContract, SearchContract):
    """The behaviour of every store, each sentence a test."""

    durable = True
    """Whether what was stored is there when it is opened again, and for two that have it open at once."""

    @pytest.fixture
    def archive(self, opened: Callable[[], Archive]) -> Iterator[Archive]:
        archive = opened()
        yield archive
        archive.close()

    def test_closing_twice_is_harmless_and_use_afterwards_is_an_error(self, archive: Archive) -> None:
        store_parts(archive, make_part("one", 0))
        archive.close()
        archive.close()
        uses: Sequence[Callable[[], Any]] = (
            lambda: store_parts(archive, make_part("two", 1), key="k2"),
            lambda: archive.parts(HERE),
            lambda: archive.search(HERE, "one"),
            lambda: archive.keyed(HERE, ["k"]),
            lambda: next(archive.newest(HERE), None),
            lambda: archive.threads(""),
            lambda: archive.forget_namespace("n"),
            lambda: archive.remember("n", "k", {}),
            lambda: archive.remembered("n", "k"),
            lambda: archive.lease(HERE, "k", 1),
            lambda: next(archive.everything(HERE), None),
            lambda: archive.take(HERE, 1, []),
            archive.notes,
            archive.namespaces,
            archive.verify,
        )
        for use in uses:
            assert "closed" in raises(use)

    def test_what_was_stored_is_there_when_opened_again(self, opened: Callable[[], Archive]) -> None:
        if not self.durable:
            pytest.skip("durable = False: nothing tests that what was stored is still there when it is opened again")
        first, second = opened(), opened()
        record = store_parts(first, make_part("kept for good", 0), after=make_summary("s"))
        retired = store_parts(first, make_part("two", 1), key="k2")
        first.retire(HERE, retired.id)
        first.remember("n", "k", {"a": 1})
        assert first.lease(HERE, "k", 60)
        assert list(second.records(HERE)) == [record]
        assert second.remembered("n", "k") == {"a": 1}
        assert not second.lease(HERE, "k", 60)
        first.close()
        second.close()
        last = opened()
        assert list(last.records(HERE)) == [record]
        assert last.record(HERE, retired.id) == retired
        assert [hit.text for hit in last.search(HERE, "good")] == ["kept for good"]
        assert last.remembered("n", "k") == {"a": 1}
        assert not last.verify()
        assert not last.verify(HERE)
        last.close()
