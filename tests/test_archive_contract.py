"""Every store runs the contract whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from archive_support import new_schema, postgres_url
from unabridged.archive.encrypted import EncryptedArchive, new_key
from unabridged.archive.protocol import Archive
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.postgres import open_postgres
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.testing.archive_contract import ArchiveContract


class TestMemory(ArchiveContract):
    durable = False

    @pytest.fixture
    def opened(self) -> Callable[[], Archive]:
        return MemoryArchive


class TestSqlite(ArchiveContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Callable[[], Archive]:
        return lambda: open_sqlite(tmp_path / "archive.db")


class TestDirectory(ArchiveContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Callable[[], Archive]:
        return lambda: DirectoryArchive(tmp_path / "archive")


class TestPostgres(ArchiveContract):
    @pytest.fixture
    def opened(self) -> Callable[[], Archive]:
        schema = new_schema()
        return lambda: open_postgres(postgres_url(), schema=schema)


class TestEncrypted(ArchiveContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Callable[[], Archive]:
        key = new_key()
        return lambda: EncryptedArchive(open_sqlite(tmp_path / "archive.db"), key)


class TestEncryptedWithAPlaintextIndex(ArchiveContract):
    durable = False

    @pytest.fixture
    def opened(self) -> Callable[[], Archive]:
        return lambda: EncryptedArchive(MemoryArchive(), new_key(), plaintext_index=True)


def test_a_store_that_keeps_nothing_is_skipped_aloud() -> None:
    with pytest.raises(pytest.skip.Exception, match="nothing tests that what was stored"):
        TestMemory().test_what_was_stored_is_there_when_opened_again(MemoryArchive)
