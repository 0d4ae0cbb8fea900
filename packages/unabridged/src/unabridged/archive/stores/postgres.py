"""The archive in Postgres: shared by any number of processes and machines. Needs the extra `postgres`.

The tables stand in a schema of their own. Writers of one thread take turns; writers of other threads don't wait.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, LiteralString
from urllib.parse import quote, unquote

from unabridged.archive import store_rules
from unabridged.archive.address import hide_credentials, scrub_error
from unabridged.archive.stores import files, sql_tables
from unabridged.archive.stores.base_sql import SqlArchive
from unabridged.archive.stores.postgres_index import GinWords
from unabridged.archive.stores.sql_tables import SqlWords, Transaction, to_bytes
from unabridged.errors import ArchiveError, NotInstalled, SettingsError

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise NotInstalled("a postgresql:// archive", "unabridged[postgres]", error) from error

SCHEMA: Final = "unabridged"
CONNECT_TIMEOUT_SECONDS: Final = 10
"""Seconds that a connection may take: the first is made while the program starts, maybe inside an event loop."""
MAX_CONNECTIONS: Final = 8
"""Connections of one process at once; who wants more waits."""
_MAX_IDLE_SECONDS: Final = 60.0
"""Seconds after which a connection that nobody used is closed."""
_RETRY_PAUSE_SECONDS: Final = 1.0
"""Seconds for which a server that did not answer is left alone: meanwhile every use fails at once, in the same words.
After that one use tries again, and the others go on failing until it has come to an end."""
_LOST_CLIENT_MILLISECONDS: Final = 15_000
"""Milliseconds after which a connection is given up whose other end does not even acknowledge what it is sent."""
_SQL_WORDS: Final = {"id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bytes": "BYTEA", "compact": ""}
_UNRELEASED_TABLE: Final = "version"
"""The table that said their version before the first release; now it is `archive_version`."""
_SETUP_LOCK_NUMBER: Final = 0x756E6162  # the advisory lock under which tables are made: `unab`


def open_postgres(
    url: str, *, schema: str = SCHEMA, wait: float = 60.0, step: Callable[[str], None] | None = None
) -> SqlArchive:
    """Return the archive in this database, its tables made at first use, or by `probe`. `wait` seconds for others."""
    return SqlArchive(PostgresDatabase(url, schema, wait), step)


class PostgresDatabase(files.Forkable):
    """Connections to one server, of this process alone: a few idle ones, one for each transaction under way.

    A server that was gone and is back needs no help: what is left of the old connections is replaced.
    """

    words: SqlWords = GinWords()
    now = "EXTRACT(EPOCH FROM clock_timestamp())::double precision"

    def __init__(self, url: str, schema: str, wait: float) -> None:
        self._url = url
        self.url = hide_credentials(url)
        self._secrets, self._options = _read_url(url)
        self._options.setdefault("connect_timeout", max(2, min(CONNECT_TIMEOUT_SECONDS, int(wait))))
        self._schema = schema
        self._wait = wait
        self._lock_timeout = f"SET LOCAL lock_timeout TO {int(wait * 1000)}"
        self._closed = False
        self._made = False
        files.register_forkable(self)

    def start_over(self) -> None:
        """Make a lock that nobody holds, and no connections: at the beginning, and in a forked child.

        The child's copies of the parent's connections are left alone: psycopg closes only what its own process opened.
        """
        self.lock = threading.Lock()
        self._slots = threading.Semaphore(MAX_CONNECTIONS)
        self._idle: list[tuple[float, psycopg.Connection]] = []
        self._failed: tuple[float, str] | None = None
        self._trying = False

    def read(self) -> AbstractContextManager[Transaction]:
        """Return a transaction that sees one state."""
        return self._transaction("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def write(self, namespace: str, thread: str | None = None) -> AbstractContextManager[Transaction]:
        """Return a transaction, written whole or not at all; no other writes the thread or namespace meanwhile."""
        locks = f"SELECT pg_advisory_xact_lock({_lock_number(namespace)})"
        if thread is not None:
            shared = f"SELECT pg_advisory_xact_lock_shared({_lock_number(namespace)})"
            locks = f"{shared}; SELECT pg_advisory_xact_lock({_lock_number(namespace, thread)})"
        # Whatever the role's default is: what is read under the lock must be what the one before has written.
        return self._transaction(f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {self._lock_timeout}; {locks}")

    @contextmanager
    def _transaction(self, setting_up: str) -> Iterator[Transaction]:
        """Begin a transaction in one round trip, with settings for itself alone: poolers share sessions."""
        path = sql.SQL("SET LOCAL search_path TO {};").format(sql.Identifier(self._schema))
        with self._explain_errors(), self._connection(sql.SQL(_as_literal(f"{setting_up};")) + path) as connection:
            yield _transaction(connection)

    @contextmanager
    def _connection(self, begin: sql.Composed) -> Iterator[psycopg.Connection]:
        """Begin a transaction on a connection; close it if that was not whole, so that nothing of it stays."""
        slots = self._slots
        if not slots.acquire(timeout=self._wait):
            busy = f"all {MAX_CONNECTIONS} connections have been busy for {self._wait:.0f} s. Try again."
            raise ArchiveError(f"{self.url}: {busy}")
        connection: psycopg.Connection | None = None
        try:
            connection = self._begin_on_connection(begin)
            yield connection
            connection.commit()
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        finally:
            self._return_connection(connection)
            slots.release()

    def _begin_on_connection(self, begin: sql.Composed) -> psycopg.Connection:
        """Return a connection on which this was executed: an idle one that the server still knows, else a new one."""
        while True:
            idle = self._take_idle_connection()
            connection = idle or self._connect()
            try:
                connection.execute(begin)
            except BaseException as error:
                connection.close()
                is_gone = isinstance(error, psycopg.OperationalError) and connection.broken
                if idle is None or not is_gone:  # it is the statement that failed
                    raise
            else:
                return connection

    def _take_idle_connection(self) -> psycopg.Connection | None:
        """Return an idle connection, the newest; None when a new one is to be made."""
        with self.lock:
            if self._closed:
                raise ArchiveError("this archive is closed. Open it again.")
            usable = self._made and self._idle
            return self._idle.pop()[1] if usable else None

    def _return_connection(self, connection: psycopg.Connection | None) -> None:
        now = time.monotonic()
        with self.lock:
            if connection is not None and not connection.closed:
                self._idle.append((now, connection))
            while self._idle and (self._closed or now - self._idle[0][0] >= _MAX_IDLE_SECONDS):
                self._idle.pop(0)[1].close()

    def _connect(self) -> psycopg.Connection:
        """Return a new connection to tables that are there; a server that is not there is not asked at every turn."""
        with self.lock:
            if self._failed is not None and (self._trying or time.monotonic() - self._failed[0] < _RETRY_PAUSE_SECONDS):
                raise psycopg.OperationalError(self._failed[1])
            self._trying = True
        try:
            connection = psycopg.connect(self._url, prepare_threshold=None, **self._options)  # poolers share sessions
            self._failed = None
        except BaseException as error:
            self._failed = (time.monotonic(), str(error) or "the attempt before did not come to an end")
            raise
        finally:
            self._trying = False
        try:
            if not self._made:
                make_tables(connection, self._schema, self._wait)
                self._made = True
        except BaseException:
            connection.close()
            raise
        return connection

    def probe(self) -> None:
        """Connect, and make the tables: what is wrong with URL, server or role is found now."""
        with self._explain_errors():
            connection = self._connect()
        self._return_connection(connection)

    def purge(self) -> None:
        """Do nothing: what was deleted goes when the server vacuums."""

    def check(self) -> list[str]:
        """Do nothing: the server checks its own files."""
        return []

    def close(self) -> None:
        """Let go of every connection; one that is in use closes when it is done."""
        with self.lock:
            self._closed = True
        self._return_connection(None)

    def __del__(self) -> None:
        for _, connection in self.__dict__.get("_idle", ()):
            connection.close()  # nobody did, and psycopg would complain

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            scrub_error(error, self._secrets)
            if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
                self._made = False  # another database stands there now: the next use makes them again
            raise ArchiveError(
                f"{self.url}: {str(error).strip()}. Check the URL (user, password, host, database), that the server "
                f"runs, and that its role may create schema {self._schema}."
            ) from error


def make_tables(connection: psycopg.Connection, schema: str, wait: float = 60.0) -> None:
    """Make the tables in a schema that has none; refuse those of another version. `wait` seconds for who makes them."""
    begin = f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout TO {int(wait * 1000)}; "
    path = sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(schema))
    connection.execute(sql.SQL(_as_literal(begin)) + path)
    tx = _transaction(connection)
    if not _has_tables(connection, schema):
        tx.execute("SELECT pg_advisory_xact_lock(?)", [_SETUP_LOCK_NUMBER])
        if not _has_tables(connection, schema):  # else another process has made them meanwhile
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            tx.execute("CREATE TABLE archive_version (version INTEGER NOT NULL)")
            tx.execute("INSERT INTO archive_version VALUES (?)", [store_rules.ARCHIVE_VERSION])
            sql_tables.make_tables(tx, _SQL_WORDS)
    connection.commit()


def _has_tables(connection: psycopg.Connection, schema: str) -> bool:
    """Return whether the schema has tables of this version; those of any other are refused."""
    rows = connection.execute(  # not `to_regclass`, which may remember what was before the lock
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname IN ('archive_version', %s)",
        [schema, _UNRELEASED_TABLE],
    )
    names = {name for (name,) in rows.fetchall()}
    place = f"schema {schema} of database {connection.info.dbname}"
    if _UNRELEASED_TABLE in names:
        store_rules.check_version(place, None, "rename the schema")
    if "archive_version" not in names:
        return False
    for (version,) in connection.execute("SELECT version FROM archive_version"):
        store_rules.check_version(place, version, "rename the schema")
    return True


def _read_url(url: str) -> tuple[set[str], dict[str, Any]]:
    """Return the secrets in the URL, which no error may show, and the time-outs, ours where the URL has none.

    One that can't be read is refused without a word of it.
    """
    try:
        parsed = conninfo_to_dict(url)
    except psycopg.Error:
        parsed = None
    if parsed is None:  # raised here, so that what the driver said stands nowhere behind it
        raise SettingsError(
            f"archive={hide_credentials(url)!r} is no URL that Postgres takes: write "
            "postgresql://user:password@host:5432/database, with %40 for @, %2F for /, %3A for : and %25 for % in the "
            "password, or leave the password to PGPASSWORD or ~/.pgpass."
        )
    shown = hide_credentials(url)
    found = {str(value) for value in parsed.values() if value and str(value) not in unquote(shown)}
    options = {name: value for name, value in parsed.items() if name in {"connect_timeout", "tcp_user_timeout"}}
    options = {"tcp_user_timeout": _LOST_CLIENT_MILLISECONDS, **options}
    return found | {quote(value, safe="") for value in found}, options


def _transaction(connection: psycopg.Connection) -> Transaction:
    return Transaction(connection.cursor(binary=True), GinWords(), mark="%s")


def _as_literal(statement: str) -> LiteralString:
    """Return a statement of this package, which the type checker can't know to be no outsider's."""
    return statement


def _lock_number(*names: str) -> int:
    """Return the number of the advisory lock for these names; two that share one only wait for each other."""
    encoded = [to_bytes(name) for name in names]
    joined = b"".join(b"unabridged:%d:%b" % (len(name), name) for name in encoded)
    return int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest(), "big", signed=True)
