"""The embedded default: one SQLite file, shared by any number of threads and processes of one machine.

Commits are on the disk before they return (WAL, synchronous FULL). The file and its companions are readable by their
owner alone. What is deleted is overwritten. A connection never crosses a fork.
"""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from unabridged.archive import store_rules
from unabridged.archive.stores import files, sql_tables
from unabridged.archive.stores.base_sql import SqlArchive
from unabridged.archive.stores.sql_tables import SqlWords, Transaction
from unabridged.archive.stores.sqlite_index import FtsWords
from unabridged.errors import ArchiveError

APPLICATION_ID: Final = 0x756E6272
"""`unbr`, in the file's header: so that another program's database is never taken for an archive."""
_UNRELEASED_APPLICATION_ID: Final = 0x756E6162
"""What stands there in the files of the versions before the first release."""

_SQL_WORDS: Final = {
    "id": "INTEGER PRIMARY KEY",
    "bytes": "BLOB",
    "compact": " WITHOUT ROWID",
    "check": " CONSTRAINT \"a name of a thread or namespace must be text\" CHECK (typeof({}) = 'blob')",
}
_LOWEST_SQLITE_VERSION: Final = (3, 35, 0)  # RETURNING
_MAX_IDLE_CONNECTIONS: Final = 8
# The last one keeps content out of temporary files.
_PRAGMAS: Final = ("foreign_keys = ON", "secure_delete = ON", "synchronous = FULL", "temp_store = MEMORY")
_REMEDIES: Final = (
    ("disk is full", "Free some space; nothing was written."),
    ("disk I/O error", "Check the disk and its free space; nothing was written."),
    ("readonly", "Make the file and its folder writable for this user; nothing was written."),
    ("unable to open", "Check that it is a file, the folder exists and this user may write there."),
    ("locked", "Another program holds the file for long; close it or raise `wait`."),
    ("not a database", "Name another file, or restore this one from a backup."),
    ("malformed", "Restore the file from a backup."),
    ("Errno", "Name a file in a folder this user may write to."),
)


def open_sqlite(path: str | Path, *, wait: float = 60.0, step: Callable[[str], None] | None = None) -> SqlArchive:
    """Return the archive in this file, made at first use. `wait` is how long to wait for other writers, in seconds."""
    return SqlArchive(SqliteDatabase(Path(path), wait), step)


class SqliteDatabase(files.Forkable):
    """Connections to one file: a few idle ones, one for each transaction under way."""

    words: SqlWords = FtsWords()
    now = "((julianday('now') - 2440587.5) * 86400.0)"

    def __init__(self, path: Path, wait: float) -> None:
        if sqlite3.sqlite_version_info < _LOWEST_SQLITE_VERSION:
            raise ArchiveError(f"SQLite {sqlite3.sqlite_version} is too old: 3.35 or newer is needed.")
        self._path = path
        self.url = f"sqlite:///{path}"
        self._wait = wait
        self._closed = False
        files.register_forkable(self)

    def start_over(self) -> None:
        """Make locks that nobody holds, and no connections: at the beginning, and in a forked child."""
        self.lock = threading.Condition()
        self._in_use = 0
        self._pausing = False
        self._writer = threading.Lock()  # threads of one process queue here, not in SQLite's polling
        self._idle: list[sqlite3.Connection] = []
        self._file: tuple[int, int] | None = None

    def read(self) -> AbstractContextManager[Transaction]:
        """Return a transaction that sees one state."""
        return self._transaction("BEGIN")

    @contextmanager
    def write(self, namespace: str, thread: str | None = None) -> Iterator[Transaction]:
        """Begin a transaction that is written whole or not at all, with every other writer kept out of the file."""
        del namespace, thread  # SQLite has one writer at a time
        if not self._writer.acquire(timeout=self._wait):
            raise ArchiveError(f"{self._path}: another thread has been writing for {self._wait:.0f} s. Try again.")
        try:
            with self._transaction("BEGIN IMMEDIATE") as transaction:
                yield transaction
        finally:
            self._writer.release()

    def probe(self) -> None:
        """Make the file if need be, look at each table, and see that it can be written."""
        with self._connection() as connection:
            for table in sql_tables.TABLES:
                connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall()  # noqa: S608 - ours
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):  # another is writing: so it can be written
                    raise
            connection.execute(f"PRAGMA busy_timeout = {int(self._wait * 1000)}")

    def purge(self) -> None:
        """Empty the write-ahead log, which still has what was deleted; another reader may delay that a little."""
        with self._connection() as connection:
            for _ in range(50):
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    return
                time.sleep(0.02)

    def check(self) -> list[str]:
        """Return what SQLite itself finds wrong with the file."""
        with self._connection() as connection:
            rows = connection.execute("PRAGMA integrity_check").fetchall()
            rows += connection.execute("PRAGMA foreign_key_check").fetchall()
        return [f"{self._path}: {' '.join(map(str, row))}" for row in rows if row != ("ok",)]

    def close(self) -> None:
        """Let go of every connection; one that is in use closes when it is done."""
        with self.lock:
            self._closed = True
            self._close_idle()

    def __del__(self) -> None:
        for connection in self.__dict__.get("_idle", ()):
            connection.close()  # nobody did, and newer Pythons would complain

    def pause(self) -> None:
        """Wait for connections in use, close the idle ones, and hand out none until `resume`: a fork follows.

        SQLite has locks of its own; a child forked while a thread is inside it would find them closed for ever.
        """
        self.lock.acquire()
        self._pausing = True
        self.lock.wait_for(lambda: self._in_use == 0, timeout=self._wait)
        self._close_idle()

    def resume(self) -> None:
        """Hand out connections again after `pause`."""
        self._pausing = False
        self.lock.notify_all()
        self.lock.release()

    def _close_idle(self, keep: int = 0) -> None:
        while len(self._idle) > keep:
            self._idle.pop().close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        with self._connection() as connection:
            connection.execute(begin)
            yield Transaction(connection.cursor(), self.words)
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Take a connection for one transaction; close it if that was not whole, so that nothing of it stays."""
        connection = self._take_idle_connection()
        try:
            connection = connection or _connect(self._path, self._wait)
            yield connection
        except BaseException as error:
            if connection is not None:
                connection.close()
                connection = None
            if not isinstance(error, sqlite3.Error | OSError):
                raise
            remedy = next((remedy for sign, remedy in _REMEDIES if sign in str(error)), "Run `verify`.")
            raise ArchiveError(f"{self._path}: {error}. {remedy}") from error
        finally:
            self._return_connection(connection)

    def _take_idle_connection(self) -> sqlite3.Connection | None:
        """Return an idle connection, or None when a new one is to be made."""
        with self.lock:
            self.lock.wait_for(lambda: not self._pausing)
            if self._closed:
                raise ArchiveError(f"the archive {self._path} is closed. Open it again.")
            if self._idle and _file_identity(self._path) != self._file:
                self._close_idle()  # the file was removed or replaced: what is written there now would be lost
            self._in_use += 1
            return self._idle.pop() if self._idle else None

    def _return_connection(self, connection: sqlite3.Connection | None) -> None:
        with self.lock:
            if connection is not None:
                self._file = self._file if self._idle else _file_identity(self._path)
                self._idle.append(connection)
            self._close_idle(keep=0 if self._closed else _MAX_IDLE_CONNECTIONS)
            self._in_use -= 1
            self.lock.notify_all()


def _connect(path: Path, wait: float) -> sqlite3.Connection:
    _make_private(path)
    _check_header(path)
    connection = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        _check_is_archive(connection, path)
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            _switch_to_wal(connection, wait)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _file_identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def _make_private(path: Path) -> None:
    """Make the file and the folders it needs, for their owner alone; SQLite gives its companions the file's mode.

    The file is closed before it has its name: closing it later would lose the locks of other connections to it.
    """
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(descriptor)
        try:
            os.link(name, path)
        except OSError:  # it has been made meanwhile; or files cannot have two names here
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL, mode=0o600))
        finally:
            Path(name).unlink()


def _check_header(path: Path) -> None:
    """Refuse a file of a version before the first release before SQLite may write to it.

    SQLite itself reads the header: a file that is opened and closed beside it loses the locks of every other
    connection of this process. `immutable` keeps it from reading the log and from making files.
    """
    with (
        suppress(sqlite3.Error),  # the connection that follows says what is wrong with the file
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection,
    ):
        _check_version(connection, path)


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    """Refuse an archive of another version; return the mark of the program whose file it is."""
    mark, version = _read_pragma(connection, "application_id"), _read_pragma(connection, "user_version")
    if mark == _UNRELEASED_APPLICATION_ID:
        store_rules.check_version(path, None)
    if mark == APPLICATION_ID and version:
        store_rules.check_version(path, version)
    return mark


def _check_is_archive(connection: sqlite3.Connection, path: Path) -> None:
    # In this order: a file that another process makes meanwhile has the mark as soon as it has tables.
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0]
    mark = _check_version(connection, path)  # the header says nothing while all of it is in the log
    if tables and mark != APPLICATION_ID:
        raise ArchiveError(f"{path} is another program's database. Give the archive a file of its own.")


def _switch_to_wal(connection: sqlite3.Connection, wait: float) -> None:
    """Turn on the write-ahead log; SQLite does not wait for other processes here, so this function does."""
    deadline = time.monotonic() + wait
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - spreads the waiting processes, no secret
            continue
        if mode != "wal":
            raise ArchiveError(f"this file system can't share a SQLite file (journal mode {mode!r}). Use a local disk.")
        return


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables in a file that has none."""
    if _read_pragma(connection, "user_version") == store_rules.ARCHIVE_VERSION:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if _read_pragma(connection, "user_version") == 0:  # else another process has made them meanwhile
            sql_tables.make_tables(Transaction(connection.cursor(), FtsWords()), _SQL_WORDS)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {store_rules.ARCHIVE_VERSION}")


def _read_pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
