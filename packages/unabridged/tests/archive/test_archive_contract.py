"""Every store runs the contract whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from archive_support import new_schema, postgres_url
from unabridged.archive.encrypted import EncryptedArchive, new_key
from unabridged.archive.protocol import Archive
from unabridged.archive.stores.directory import MARK_FILE, DirectoryArchive
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.postgres import open_postgres
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged_testing.archive_contract import ArchiveContract, UnreadableArchive
from unabridged_testing.archive_contract.values import make_part, store_parts
from unreleased_archives import REFUSAL, REMEDY, VERSIONS, files_in, make_directory, make_postgres, make_sqlite, rows_in


def make_files_of_version_1(path: Path) -> None:
    """Make a file with the tables and the mark of today, and yesterday's version."""
    archive = open_sqlite(path)
    store_parts(archive, make_part("one", 0))
    archive.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 1")


def old_files(folder: Path, opened: Callable[[Path], Archive]) -> dict[str, UnreadableArchive]:
    """SQLite files of the versions before the first release."""
    made = {}
    for version in VERSIONS:
        (place := folder / f"version {version}").mkdir()
        make_sqlite(place / "a.db", version)
        says = [f"{place / 'a.db'} {REFUSAL}", "move it away", REMEDY]
        made[place.name] = UnreadableArchive(partial(opened, place / "a.db"), says, partial(files_in, place))
    (place := folder / "yesterday's").mkdir()
    make_files_of_version_1(place / "a.db")
    says = [f"{place / 'a.db'} {REFUSAL}", "move it away", REMEDY]
    made[place.name] = UnreadableArchive(partial(opened, place / "a.db"), says, partial(files_in, place))
    return made


class TestMemory(ArchiveContract):
    durable = False

    @pytest.fixture
    def opened(self) -> Callable[[], Archive]:
        return MemoryArchive


class TestSqlite(ArchiveContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Callable[[], Archive]:
        return lambda: open_sqlite(tmp_path / "archive.db")

    @pytest.fixture
    def refused(self, tmp_path: Path) -> dict[str, UnreadableArchive]:
        return old_files(tmp_path, open_sqlite)


class TestDirectory(ArchiveContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Callable[[], Archive]:
        return lambda: DirectoryArchive(tmp_path / "archive")

    @pytest.fixture
    def refused(self, tmp_path: Path) -> dict[str, UnreadableArchive]:
        made = {}
        for name in ("whole", "threads alone", "newer", "yesterday's"):
            folder = tmp_path / name
            if name in {"newer", "yesterday's"}:
                folder.mkdir()
                (folder / MARK_FILE).write_bytes(b"unabridged archive %d\n" % (3 if name == "newer" else 1))
            else:
                make_directory(folder, locks=name == "whole")
            says = ["version 3", "Update"] if name == "newer" else [f"{folder} {REFUSAL}", "move it away", REMEDY]
            made[name] = UnreadableArchive(partial(DirectoryArchive, folder), says, partial(files_in, folder))
        return made


class TestPostgres(ArchiveContract):
    @pytest.fixture
    def opened(self) -> Callable[[], Archive]:
        schema = new_schema()
        return lambda: open_postgres(postgres_url(), schema=schema)

    @pytest.fixture
    def refused(self) -> dict[str, UnreadableArchive]:
        made = {}
        for version in VERSIONS:
            schema = new_schema()
            make_postgres(postgres_url(), schema, version)
            says = [f"schema {schema} of database postgres {REFUSAL}", "rename the schema", REMEDY]
            opened, stored = partial(open_postgres, schema=schema), partial(rows_in, postgres_url(), schema)
            made[f"version {version}"] = UnreadableArchive(partial(opened, postgres_url()), says, stored)
        schema = new_schema()
        yesterday = open_postgres(postgres_url(), schema=schema)
        store_parts(yesterday, make_part("one", 0))
        yesterday.close()
        with psycopg.connect(postgres_url()) as database:
            database.execute(sql.SQL("UPDATE {}.archive_version SET version = 1").format(sql.Identifier(schema)))
        says = [f"schema {schema} of database postgres {REFUSAL}", "rename the schema", REMEDY]
        opened, stored = partial(open_postgres, schema=schema), partial(rows_in, postgres_url(), schema)
        made["yesterday's"] = UnreadableArchive(partial(opened, postgres_url()), says, stored)
        return made


class TestEncrypted(ArchiveContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Callable[[], Archive]:
        key = new_key()
        return lambda: EncryptedArchive(open_sqlite(tmp_path / "archive.db"), key)

    @pytest.fixture
    def refused(self, tmp_path: Path) -> dict[str, UnreadableArchive]:
        return old_files(tmp_path, lambda path: EncryptedArchive(open_sqlite(path), new_key()))


class TestEncryptedWithAPlaintextIndex(ArchiveContract):
    durable = False

    @pytest.fixture
    def opened(self) -> Callable[[], Archive]:
        return lambda: EncryptedArchive(MemoryArchive(), new_key(), plaintext_index=True)


def test_a_store_that_keeps_nothing_is_skipped_aloud() -> None:
    with pytest.raises(pytest.skip.Exception, match="nothing tests that what was stored"):
        TestMemory().test_what_was_stored_is_there_when_opened_again(MemoryArchive)
