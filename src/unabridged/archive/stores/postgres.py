"""The archive in Postgres: shared by any number of processes and machines. Needs the extra `postgres`.

The tables stand in a schema of their own. Writers of one thread take turns; writers of other threads don't wait.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, LiteralString
from urllib.parse import quote, unquote

from unabridged.archive.address import scrub_error, without_credentials
from unabridged.archive.stores import forks, sql_tables
from unabridged.archive.stores.base_sql import SqlArchive
from unabridged.archive.stores.sql_tables import Transaction, to_bytes
from unabridged.errors import ArchiveError, NotInstalled, SettingsError

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import ConnectionPool
except ImportError as error:
    raise NotInstalled("a postgresql:// archive", "unabridged[postgres]", error) from error

SCHEMA: Final = "unabridged"
CONNECTING: Final = 10
"""Seconds that a first connection may take: it is made while the program starts, maybe inside an event loop."""
_WORDS: Final = {"id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bytes": "BYTEA", "compact": ""}
_MIGRATING: Final = 0x756E6162  # the advisory lock under which versions change: `unab`


def open_postgres(
    url: str, *, schema: str = SCHEMA, wait: float = 60.0, step: Callable[[str], None] | None = None
) -> SqlArchive:
    """The archive in this database, its tables made at first use, or by `probe`. `wait` seconds for pool and locks."""
    return SqlArchive(PostgresDatabase(url, schema, wait), step)


class PostgresDatabase(forks.Forkable):
    """A pool of connections, of this process alone: a forked child opens its own."""

    now = "EXTRACT(EPOCH FROM clock_timestamp())::double precision"

    def __init__(self, url: str, schema: str, wait: float) -> None:
        self._url = url
        self.url = without_credentials(url)
        self._secrets = _secrets_of(url)
        self._schema = schema
        self._wait = wait
        self._lock_timeout = f"SET LOCAL lock_timeout TO {int(wait * 1000)}"
        self._closed = False
        self._migrated = False
        forks.watch(self)

    def start_over(self) -> None:
        """A lock that nobody holds, and no pool: at the beginning, and in a forked child.

        The child's copies of the parent's connections are left alone: psycopg closes only what its own process opened.
        """
        self.lock = threading.Lock()
        self._pool: ConnectionPool | None = None

    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state."""
        return self._transaction("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def write(self, namespace: str, thread: str | None = None) -> AbstractContextManager[Transaction]:
        """A transaction that is all there or not at all; no other writes the thread, or the namespace, meanwhile."""
        locks = f"SELECT pg_advisory_xact_lock({_lock_number(namespace)})"
        if thread is not None:
            shared = f"SELECT pg_advisory_xact_lock_shared({_lock_number(namespace)})"
            locks = f"{shared}; SELECT pg_advisory_xact_lock({_lock_number(namespace, thread)})"
        return self._transaction(f"{self._lock_timeout}; {locks}")

    @contextmanager
    def _transaction(self, setting_up: str) -> Iterator[Transaction]:
        """A transaction set up in one round trip, and for itself alone: poolers share sessions."""
        path = sql.SQL("SET LOCAL search_path TO {};").format(sql.Identifier(self._schema))
        with self._explain_errors(), self._open_pool().connection(self._wait) as connection:
            connection.execute(sql.SQL(_own(f"{setting_up};")) + path)
            yield _transaction(connection)

    def purge(self) -> None:
        """Nothing: what was deleted goes when the server vacuums, which is the server's own business."""

    def check(self) -> list[str]:
        """Nothing: the server watches over its own files."""
        return []

    def close(self) -> None:
        """Let go of every connection."""
        with self.lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            scrub_error(error, self._secrets)
            raise ArchiveError(
                f"{self.url}: {str(error).strip()}. Check the URL (user, password, host, database), that the server "
                f"runs, and that its role may create schema {self._schema}."
            ) from error

    def _open_pool(self) -> ConnectionPool:
        with self.lock:
            if self._closed:
                raise ArchiveError("this archive is closed. Open it again.")
            if self._pool is None:
                self._migrate()
                options = {"prepare_threshold": None}  # poolers share sessions
                self._pool = ConnectionPool(
                    self._url, min_size=0, max_size=8, timeout=self._wait, max_idle=60.0, open=True, kwargs=options
                )
            return self._pool

    def probe(self) -> None:
        """Connect, and make the tables: what is wrong with URL, server or role is found now."""
        with self.lock:
            self._migrate()

    def _migrate(self) -> None:
        """Bring the tables up to date, once. psycopg waits `connect_timeout` for each address that a host has."""
        if self._migrated:
            return
        patience = max(2, min(CONNECTING, int(self._wait)))
        with self._explain_errors(), psycopg.connect(self._url, connect_timeout=patience) as connection:
            connection.execute(_own(self._lock_timeout))
            migrate(connection, self._schema)
        self._migrated = True


def migrate(connection: psycopg.Connection, archive: str, target: int | None = None) -> None:
    """Bring the schema to the newest version (or `target`), all in one transaction, one process at a time."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATING])
    name = sql.Identifier(archive)
    exists = connection.execute("SELECT to_regclass(%s)", [f"{name.as_string()}.version"]).fetchone() != (None,)
    if not exists:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
    connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(name))
    if not exists:
        connection.execute("CREATE TABLE version (version INTEGER NOT NULL)")
        connection.execute("INSERT INTO version VALUES (0)")
    row = connection.execute("SELECT version FROM version").fetchone()
    version = sql_tables.migrate(_transaction(connection), f"schema {archive}", row[0] if row else 0, _WORDS, target)
    connection.execute("UPDATE version SET version = %s", [version])
    connection.commit()


def _secrets_of(url: str) -> set[str]:
    """Everything in the URL that no error may say; one that can't be read is refused without a word of it."""
    try:
        parsed = conninfo_to_dict(url)
    except psycopg.Error:
        parsed = None
    if parsed is None:  # raised here, so that what the driver said stands nowhere behind it
        raise SettingsError(
            f"archive={without_credentials(url)!r} is no URL that Postgres takes: write "
            "postgresql://user:password@host:5432/database, with %40 for @, %2F for /, %3A for : and %25 for % in the "
            "password, or leave the password to PGPASSWORD or ~/.pgpass."
        )
    shown = without_credentials(url)
    found = {str(value) for value in parsed.values() if value and str(value) not in unquote(shown)}
    return found | {quote(value, safe="") for value in found}


def _transaction(connection: psycopg.Connection) -> Transaction:
    return Transaction(connection.cursor(binary=True), mark="%s")


def _own(statement: str) -> LiteralString:
    """A statement of this package, which the type checker can't know to be no outsider's."""
    return statement


def _lock_number(*names: str) -> int:
    """The number of the advisory lock for these names; two that share one only wait for each other."""
    encoded = [to_bytes(name) for name in names]
    joined = b"".join(b"unabridged:%d:%b" % (len(name), name) for name in encoded)
    return int.from_bytes(hashlib.blake2b(joined, digest_size=8).digest(), "big", signed=True)
