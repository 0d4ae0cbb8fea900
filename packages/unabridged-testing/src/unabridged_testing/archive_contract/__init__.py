"""What every archive must do, as tests: subclass `ArchiveContract`, say how to open yours, and pytest runs it whole.

    class TestMyArchive(ArchiveContract):
        @pytest.fixture
        def opened(self, tmp_path):
            return lambda: MyArchive(tmp_path)    # each call opens the same, at first empty, store

`durable = False` for a store that is gone when it is closed: then nothing tests that anything is saved, and a skipped
test says so. A store whose format has versions overrides `refused`: archives of versions that it can't read.
"""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from unabridged.archive.protocol import Archive
from unabridged.errors import NotInstalled

try:
    import pytest
except ImportError as error:
    raise NotInstalled(__name__, "pytest", error) from error

from unabridged_testing.archive_contract import values
from unabridged_testing.archive_contract.records import RecordContract
from unabridged_testing.archive_contract.search import SearchContract
from unabridged_testing.archive_contract.threads import ThreadContract

_USES: Sequence[Callable[[Archive], Any]] = (
    lambda archive: values.store_parts(archive, values.make_part("two", 1), key="k2"),
    lambda archive: archive.parts(values.TEST_SCOPE),
    lambda archive: archive.search(values.TEST_SCOPE, "one"),
    lambda archive: archive.keyed(values.TEST_SCOPE, ["k"]),
    lambda archive: next(archive.newest(values.TEST_SCOPE), None),
    lambda archive: archive.threads(values.TEST_SCOPE.namespace),
    lambda archive: archive.forget(values.TEST_SCOPE),
    lambda archive: archive.forget_namespace("n"),
    lambda archive: archive.remember("n", "k", {}),
    lambda archive: archive.remembered("n", "k"),
    lambda archive: archive.lease(values.TEST_SCOPE, "k", 1),
    lambda archive: next(archive.everything(values.TEST_SCOPE), None),
    lambda archive: archive.take(values.TEST_SCOPE, 1, []),
    lambda archive: archive.notes(),
    lambda archive: archive.namespaces(),
    lambda archive: archive.verify(),
)
"""Every way to use an archive: all fail on one that can't be read, and on one that was closed."""


def _probe(archive: Archive) -> Any:
    return getattr(archive, "probe", archive.namespaces)()


class UnreadableArchive(NamedTuple):
    """An archive that the store can't read: it is refused at every use, and left as it is."""

    opened: Callable[[], Archive]
    """Opens it."""
    says: Sequence[str]
    """What stands in the refusal: why, and what to do."""
    stored: Callable[[], Any]
    """Returns all that is stored in it, to be compared."""


class ArchiveContract(RecordContract, ThreadContract, SearchContract):
    """The behaviour of every store, each sentence a test."""

    durable = True
    """Whether what was stored is there when it is opened again, and for two that have it open at once."""

    @pytest.fixture
    def archive(self, opened: Callable[[], Archive]) -> Iterator[Archive]:
        archive = opened()
        yield archive
        archive.close()

    @pytest.fixture
    def refused(self) -> Mapping[str, UnreadableArchive]:
        """Return archives of other versions, by a name for each."""
        return {}

    def test_an_archive_of_another_version_is_refused_and_left_as_it_is(
        self, refused: Mapping[str, UnreadableArchive]
    ) -> None:
        if not refused:
            pytest.skip("no fixture `refused`: nothing tests that an archive of another version is refused")
        for name, other in refused.items():
            before = other.stored()
            for use in (_probe, *_USES):
                archive = other.opened()
                message = values.catch_archive_error(partial(use, archive))
                assert all(part in message for part in other.says), f"{name}: {message}"
                assert "\n" not in message, name
                archive.close()
            assert other.stored() == before, name

    def test_closing_twice_is_harmless_and_use_afterwards_is_an_error(self, archive: Archive) -> None:
        values.store_parts(archive, values.make_part("one", 0))
        archive.close()
        archive.close()
        for use in _USES:
            assert "closed" in values.catch_archive_error(partial(use, archive))

    def test_what_was_stored_is_there_when_opened_again(self, opened: Callable[[], Archive]) -> None:
        if not self.durable:
            pytest.skip("durable = False: nothing tests that what was stored is still there when it is opened again")
        first, second = opened(), opened()
        record = values.store_parts(first, values.make_part("kept for good", 0), after=values.make_summary("s"))
        retired = values.store_parts(first, values.make_part("two", 1), key="k2")
        first.retire(values.TEST_SCOPE, retired.id)
        first.remember("n", "k", {"a": 1})
        assert first.lease(values.TEST_SCOPE, "k", 60)
        assert list(second.records(values.TEST_SCOPE)) == [record]
        assert second.remembered("n", "k") == {"a": 1}
        assert not second.lease(values.TEST_SCOPE, "k", 60)
        first.close()
        second.close()
        last = opened()
        assert list(last.records(values.TEST_SCOPE)) == [record]
        assert last.record(values.TEST_SCOPE, retired.id) == retired
        assert [hit.text for hit in last.search(values.TEST_SCOPE, "good")] == ["kept for good"]
        assert last.remembered("n", "k") == {"a": 1}
        assert not last.verify()
        assert not last.verify(values.TEST_SCOPE)
        last.close()
