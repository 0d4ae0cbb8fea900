"""What only the SQLite store promises: private files, versions, forks, and nothing left of what was forgotten."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE
from unabridged.archive.codec import pack
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.sqlite import APPLICATION_ID, SqliteDatabase, open_sqlite
from unabridged_testing.archive_contract.values import (
    TEST_SCOPE,
    catch_archive_error,
    make_part,
    make_record,
    store_parts,
)
from unreleased_archives import REFUSAL, fill_sqlite


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_folder_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        archive = open_sqlite(tmp_path / "deep" / "er" / "a.db")
        store_parts(archive, make_part("one", 0))
        folder = tmp_path / "deep" / "er"
        assert mode(folder) == 0o700
        assert {path.name: mode(path) for path in folder.iterdir()} == {
            "a.db": 0o600,
            "a.db-wal": 0o600,
            "a.db-shm": 0o600,
        }
        archive.close()
    finally:
        os.umask(before)


OTHER_PROCESS = """
import sys
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged_testing.archive_contract.values import make_part, store_parts

archive = open_sqlite(sys.argv[1])
number = int(sys.argv[2])
store_parts(archive, make_part(f"other {number}", number), key=f"k{number}", record_id=f"r{number}")
archive.close()
"""


def test_a_second_connection_of_a_process_takes_no_lock_from_the_first(tmp_path: Path) -> None:
    # A process that has lost its locks has its log deleted by the next process that closes the file.
    path = tmp_path / "a.db"
    first, second = open_sqlite(path), open_sqlite(path)
    store_parts(first, make_part("one 0", 0), key="k0", record_id="r0")
    assert second.threads(TEST_SCOPE.namespace)
    for number in (1, 3, 5):
        subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(path), str(number)], check=True, timeout=PATIENCE)
        following = number + 1
        store_parts(first, make_part(f"one {following}", following), key=f"k{following}", record_id=f"r{following}")
    first.close()
    second.close()
    again = open_sqlite(path)
    expected = ["one 0", "other 1", "one 2", "other 3", "one 4", "other 5", "one 6"]
    assert [part.text for part in again.parts(TEST_SCOPE)] == expected
    assert not again.verify()
    again.close()


def test_only_sqlite_itself_opens_the_file(tmp_path: Path) -> None:
    path, opened = tmp_path / "a.db", list[str]()
    watching = True
    sys.addaudithook(lambda name, args: opened.append(str(args[0])) if watching and name == "open" else None)
    for _ in range(2):
        archive = open_sqlite(path)
        archive.probe()
        store_parts(archive, make_part("one", 0))
        assert archive.search(TEST_SCOPE, "one")
        assert not archive.verify()
        archive.forget(TEST_SCOPE)
        archive.close()
    watching = False
    assert str(path) not in opened


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    archive = open_sqlite(tmp_path / "a.db")
    archive.close()
    assert not list(tmp_path.iterdir())


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    message = catch_archive_error(lambda: open_sqlite(tmp_path / "a.db").threads("n"))
    assert "version 99" in message
    assert "Update unabridged" in message


def test_a_file_of_before_the_first_release_is_refused_while_its_program_has_all_in_the_log(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        fill_sqlite(old)
        before = list(old.iterdump())
        assert REFUSAL in catch_archive_error(lambda: open_sqlite(tmp_path / "a.db").threads("n"))
        assert list(old.iterdump()) == before
        assert old.execute("PRAGMA user_version").fetchone() == (7,)


def test_a_new_file_says_whose_it_is_and_of_which_version(tmp_path: Path) -> None:
    open_sqlite(tmp_path / "a.db").probe()
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        assert file.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert file.execute("PRAGMA user_version").fetchone() == (2,)


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE threads (mine)")
    connection.commit()
    connection.close()
    before = (tmp_path / "a.db").read_bytes()
    assert "a file of its own" in catch_archive_error(lambda: open_sqlite(tmp_path / "a.db").threads("n"))
    (tmp_path / "b.db").write_bytes(b"no database at all, but long enough to be one" * 100)
    assert "Name another file" in catch_archive_error(lambda: open_sqlite(tmp_path / "b.db").threads("n"))
    assert "folder" in catch_archive_error(lambda: open_sqlite(tmp_path / "b.db" / "c.db").threads("n"))
    assert (tmp_path / "a.db").read_bytes() == before


def test_a_writer_who_does_not_let_go_is_a_clear_error(tmp_path: Path) -> None:
    archive = open_sqlite(tmp_path / "a.db", wait=0.1)
    store_parts(archive, make_part("one", 0))
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert "Another program holds the file" in catch_archive_error(
        lambda: store_parts(archive, make_part("two", 1), key="k2")
    )
    assert [part.text for part in archive.parts(TEST_SCOPE)] == ["one"]
    other.execute("ROLLBACK")
    other.close()
    store_parts(archive, make_part("two", 1), key="k2")
    archive.close()


def test_a_file_that_was_removed_is_made_anew_and_not_written_to_in_vain(tmp_path: Path) -> None:
    archive = open_sqlite(tmp_path / "a.db")
    store_parts(archive, make_part("one", 0))
    for path in tmp_path.iterdir():
        path.unlink()
    store_parts(archive, make_part("two", 1), key="k2")
    again = open_sqlite(tmp_path / "a.db")
    assert [part.text for part in again.parts(TEST_SCOPE)] == ["two"]
    again.close()
    archive.close()


def test_what_was_forgotten_is_in_no_file_any_more(tmp_path: Path) -> None:
    archive = open_sqlite(tmp_path / "a.db")
    scope = Scope("namespace-of-mallory", "thread-of-mallory")
    part = make_part("the launch code is xylofnord, as in getQuuxWord, 密码", 0)
    archive.store(make_record([part], scope=scope), [part])
    traces = [b"mallory", bytes.fromhex(part.hash[7:]), pack.pack(part.body), b"xylofnord", b"quux", "码".encode()]
    for thread in range(20):  # FTS5 merges what it has several times over
        parts = [make_part(f"stays {thread} the word {turn}", turn) for turn in range(3)]
        archive.store(make_record(parts, scope=Scope(f"n{thread % 3}", str(thread))), parts)

    def found() -> list[bytes]:
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        return [trace for trace in traces if trace in files]

    assert found() == traces
    archive.forget(scope)
    assert found() == []
    assert [hit.thread for hit in archive.search_namespace("n1", "stays 4")][:3] == ["4", "4", "4"]
    assert archive.verify() == []
    archive.close()
    assert found() == []


@pytest.mark.parametrize("damaged", [False, True])
def test_words_of_a_namespace_leave_the_index_too_even_when_a_text_can_not_be_read(
    tmp_path: Path, *, damaged: bool
) -> None:
    archive = open_sqlite(tmp_path / "a.db")
    parts = [make_part(f"xylofnord {turn}", turn) for turn in range(3)]
    for thread in ("a", "b"):
        archive.store(make_record(parts, scope=Scope("gone", thread)), parts)
    stays = make_part("the words that stay", 0)
    archive.store(make_record([stays], scope=TEST_SCOPE), [stays])
    if damaged:
        with archive._database.write(*TEST_SCOPE) as write:  # noqa: SLF001 - damage, made on purpose
            write.execute("UPDATE parts SET view = ? WHERE turn = 1", [b"\1nonsense"])
    assert b"xylofnord" in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert archive.forget_namespace("gone") == ["a", "b"]
    assert b"xylofnord" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [hit.text for hit in archive.search(TEST_SCOPE, "words")] == [stays.text]
    assert archive.verify() == []
    archive.close()


def test_a_namespace_of_more_threads_than_a_statement_takes_values_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def limited(*given: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **more)
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 505)  # as low as some builds have it, to scale
        return connection

    monkeypatch.setattr(sqlite3, "connect", limited)
    archive = open_sqlite(tmp_path / "archive.db")
    for number in range(520):
        store_parts(archive, make_part(f"tamarin {number}", 0), scope=Scope("many", f"t{number}"))
    store_parts(archive, make_part("tamarin of somebody else", 0))
    assert len(archive.forget_namespace("many")) == 520
    assert not archive.search_namespace("many", "tamarin")
    assert len(archive.search(TEST_SCOPE, "tamarin")) == 1
    assert archive.verify() == []
    archive.close()


def test_a_message_is_stored_once_in_a_namespace_however_often_it_occurs(tmp_path: Path) -> None:
    archive = open_sqlite(tmp_path / "a.db")
    for thread in "abc":
        parts = [make_part("the same", 0), make_part("the same", 1)]
        archive.store(make_record(parts, scope=Scope("n", thread)), parts)
    parts = [make_part("the same", 0)]
    archive.store(make_record(parts, scope=Scope("other", "a")), parts)
    archive.close()
    connection = sqlite3.connect(tmp_path / "a.db")
    assert connection.execute("SELECT COUNT(*) FROM bodies").fetchone() == (2,)  # one for each namespace
    assert connection.execute("SELECT COUNT(*) FROM parts").fetchone() == (7,)
    connection.close()


def test_writers_of_one_process_take_turns_without_waiting_for_long(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a.db", wait=0.05)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with database.write(*TEST_SCOPE):
            entered.set()
            leave.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(PATIENCE)

    def write() -> None:
        with database.write(*TEST_SCOPE):
            pass

    assert "another thread has been writing" in catch_archive_error(write)
    leave.set()
    holder.join()
    write()
    database.close()


READ_ONLY = """
import os, sys
from unabridged_testing.archive_contract.values import TEST_SCOPE, catch_archive_error, make_part, store_parts
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.archive import search
from unabridged.archive.codec import values

path, store = sys.argv[1:]
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
archive = open_sqlite(path + "/a.db") if store == "sqlite" else DirectoryArchive(path + "/a")
message = catch_archive_error(lambda: store_parts(archive, make_part("two", 1), key="k2"))
assert "writable" in message or "may write" in message, message
"""


@pytest.mark.posix
@pytest.mark.parametrize("store", ["sqlite", "directory"])
def test_a_store_that_became_read_only_is_a_clear_error(store: str, tmp_path: Path) -> None:
    from archive_support import open_store

    place = tmp_path / ("a.db" if store == "sqlite" else "a")
    archive = open_store(store, str(place))
    store_parts(archive, make_part("one", 0))
    archive.close()
    for above in (*tmp_path.parents[:-1], tmp_path):
        if above.owner() == tmp_path.owner() and "pytest" in str(above):
            above.chmod(0o755)
    everything = [tmp_path, *tmp_path.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        run = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(tmp_path), store], capture_output=True, timeout=PATIENCE, check=False
        )
        assert run.returncode == 0, run.stderr.decode()
    finally:
        for path in everything:
            path.chmod(0o755 if path.is_dir() else 0o644)
    again = open_store(store, str(place))
    assert [part.text for part in again.parts(TEST_SCOPE)] == ["one"]
    again.close()


def test_an_interrupted_store_leaves_nothing_and_the_archive_usable(tmp_path: Path) -> None:
    def interrupt(step: str) -> None:
        if step == "parts":
            raise KeyboardInterrupt

    archive = open_sqlite(tmp_path / "a.db", step=interrupt)
    with pytest.raises(KeyboardInterrupt):
        store_parts(archive, make_part("one", 0))
    assert not archive.threads(TEST_SCOPE.namespace)
    assert not archive.verify()
    archive.close()
    again = open_sqlite(tmp_path / "a.db")
    record = replace(make_record([make_part("one", 0)]), id="r")
    assert again.store(record, [make_part("one", 0)]) == record
    again.close()
