"""The archive over SQL: one set of statements for SQLite and Postgres, which differ only in how they connect."""

# Statements are put together from constants of this package; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from unabridged.archive import codec, protocol, search, store_rules
from unabridged.archive.protocol import Archive, Hit, HitsByThread, Part, Record, Scope, StoredRecord
from unabridged.archive.search import SearchIndex
from unabridged.archive.stores import sql_tables
from unabridged.archive.stores.sql_tables import THREAD_ID_QUERY, THREADS_WITH_NAMESPACES, Transaction, to_text
from unabridged.archive.stores.sql_verify import find_stored_problems

WRITE_STEPS: Final = ("begun", "bodies", "parts", "index", "record", "committed")
"""The moments of a `store` at which a crash is tried: all but the last leave the old state."""

_RETIRE_STATEMENT: Final = f"UPDATE records SET live = 0 WHERE thread = {THREAD_ID_QUERY} AND id = ?"


class Database(Protocol):
    """How to connect. Whatever the driver raises comes out as an `ArchiveError` with a remedy."""

    url: str
    """Where it is, for people to read; without a password."""
    now: str
    """The time of the database, in seconds since 1970, as an expression."""
    words: sql_tables.SqlWords
    """How it keeps the words of messages."""

    def read(self) -> AbstractContextManager[Transaction]:
        """Return a transaction that sees one state."""

    def write(self, namespace: str, thread: str | None = None) -> AbstractContextManager[Transaction]:
        """Return a transaction, written whole or not at all; no other writes the thread or namespace meanwhile."""

    def probe(self) -> None:
        """Connect, make the tables if need be, and see that they can be written. Nothing is stored."""

    def purge(self) -> None:
        """Remove copies of what was deleted from the files of the database."""

    def check(self) -> list[str]:
        """Return what the database itself finds wrong with its files."""

    def close(self) -> None:
        """Close every connection."""


class SqlArchive(Archive):
    """An archive in a SQL database."""

    def __init__(self, database: Database, step: Callable[[str], None] | None = None) -> None:
        self._database = database
        self._step = step or (lambda _: None)
        self._tokens = store_rules.LeaseTokens()

    @property
    def url(self) -> str:
        """Return where it is, for people to read."""
        return self._database.url

    def probe(self) -> None:
        """Find out now whether the archive can be used: an `ArchiveError` with the remedy if it can't."""
        self._database.probe()

    def _select(self, statement: str, *values: Any) -> list[sql_tables.Row]:
        with self._database.read() as read:
            return read.execute(statement, values)

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        """Write record and parts, all or nothing; return the record that now holds the key."""
        store_rules.check_names(*record.scope)
        store_rules.check_parts(parts)
        scope = record.scope
        words, distinct = self._database.words, store_rules.select_new_parts(parts, ())
        prepared = sql_tables.prepare_parts(distinct, words)  # beforehand, so that others wait less
        with self._database.write(*scope) as write:
            self._step("begun")
            namesake = sql_tables.find_record(write, scope, "AND id = ?", record.id)
            holder = sql_tables.find_record(write, scope, "AND key = ? AND live = 1", record.key)
            if (keeper := store_rules.find_key_holder(record, namesake, holder)) is not None:
                return keeper
            fresh = _select_new_parts(write, record, parts)
            if fresh != prepared.parts:  # the thread has some already
                prepared = sql_tables.prepare_parts(fresh, words)
            self._write(write, record, prepared)
        self._step("committed")
        return record

    def _write(self, write: Transaction, record: Record, prepared: sql_tables.PreparedParts) -> None:
        thread, namespace = sql_tables.make_thread(write, record.scope)
        # Sorted, so that two writers who share bodies wait for each other instead of locking each other out.
        write.execute_many(
            "INSERT INTO bodies (namespace, hash, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            sorted((namespace, digest, body) for digest, body, _ in prepared.rows),
        )
        self._step("bodies")
        first = _next_number(write, "parts", thread)
        numbered = enumerate(zip(prepared.parts, prepared.rows, strict=True), first)
        write.execute_many(
            "INSERT INTO parts (thread, number, turn, view, body) "
            "SELECT ?, ?, ?, ?, id FROM bodies WHERE namespace = ? AND hash = ?",
            [(thread, at, part.turn, view, namespace, digest) for at, (part, (digest, _, view)) in numbered],
        )
        self._step("parts")
        put_in = len(prepared.parts) - len(prepared.words)
        if prepared.words:
            write.words.add(write, namespace, thread, list(enumerate(prepared.words, first + put_in)))
        self._step("index")
        write.execute("UPDATE records SET live = 0 WHERE thread = ? AND key = ? AND live = 1", [thread, record.key])
        write.execute("DELETE FROM records WHERE thread = ? AND id = ?", [thread, record.id])
        number, data = _next_number(write, "records", thread), sql_tables.pack_record(record)
        row = [thread, number, record.id, record.key, record.kind, data]
        columns = "(thread, number, id, key, live, kind, data)"
        write.execute(f"INSERT INTO records {columns} VALUES (?, ?, ?, ?, 1, ?, ?)", row)
        seen = [len(part.text) for part in prepared.parts[put_in:]]
        write.execute(
            "UPDATE threads SET used = ?, messages = messages + ?, length = length + ? WHERE id = ?",
            [record.created, len(seen), sum(seen), thread],
        )
        self._step("record")

    def record(self, scope: Scope, record_id: str) -> Record | None:
        """Return the record with this id, retired or not, or None."""
        with self._database.read() as read:
            return sql_tables.find_record(read, scope, "AND id = ?", record_id)

    def newest(self, scope: Scope) -> Iterator[Record]:
        """Yield the live records of the thread, newest first, read as they are asked for."""
        chosen = f"SELECT number, data FROM records WHERE thread = {THREAD_ID_QUERY} AND live = 1 AND number < ?"
        below, page = sql_tables.MAX_TURN, 2  # most often the first is the one
        while rows := self._select(f"{chosen} ORDER BY number DESC LIMIT ?", *scope, below, page):
            page *= 2
            for number, data in rows:
                below = number
                yield sql_tables.unpack_record(scope, data)

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        """Return the live records that hold one of these keys, in no order; no other record is read."""
        statement = f"SELECT data FROM records WHERE thread = {THREAD_ID_QUERY} AND live = 1 AND key IN (…)"
        with self._database.read() as read:
            rows = read.execute_in(statement, scope, keys)
        return [sql_tables.unpack_record(scope, data) for (data,) in rows]

    def locate_each(self, namespace: str, record_ids: Sequence[str]) -> Mapping[str, Scope]:
        """Return the thread of each of these records that the namespace has, retired or not."""
        # CROSS JOIN has SQLite begin with the ids: beginning with the namespace, it would try each thread for each id.
        statement = (
            "SELECT r.id, t.name FROM records r CROSS JOIN threads t CROSS JOIN namespaces n WHERE t.id = r.thread "
            "AND n.id = t.namespace AND n.name = ? AND r.id IN (…) ORDER BY r.thread DESC"
        )
        with self._database.read() as read:
            rows = read.execute_in(statement, [namespace], record_ids)
        return {to_text(record_id): Scope(namespace, to_text(name)) for record_id, name in rows}

    def retire(self, scope: Scope, record_id: str) -> None:
        """Take the record out of look-ups (undo). Its parts stay."""
        with self._database.write(*scope) as write:
            write.execute(_RETIRE_STATEMENT, [*scope, record_id])

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored messages with these hashes, those that the thread holds; others are absent."""
        statement = (
            f"SELECT b.hash, b.body FROM {THREADS_WITH_NAMESPACES} JOIN bodies b ON b.namespace = n.id "
            "WHERE n.name = ? AND t.name = ? "
            "AND EXISTS (SELECT 1 FROM parts p WHERE p.body = b.id AND p.thread = t.id) AND b.hash IN (…)"
        )
        with self._database.read() as read:
            rows = read.execute_in(statement, scope, map(sql_tables.hash_to_bytes, hashes))
        found = {sql_tables.hash_from_bytes(digest): body for digest, body in rows}
        return {digest: sql_tables.to_body(digest, body) for digest, body in found.items()}

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """Return the archived messages with first <= turn < last, in the order of turns: no put-in ones (turn -1)."""
        most = sql_tables.MAX_TURN
        bounds = [min(max(turn, 0), most) for turn in (first, most if last is None else last)]
        statement = f"{sql_tables.PARTS_QUERY} AND p.turn >= ? AND p.turn < ? ORDER BY p.turn, p.number"
        rows = self._select(statement, *scope, *bounds)
        return [sql_tables.to_part(row) for row in rows]

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages that match best: literal words, no query syntax."""
        with self._database.read() as read:
            index = self._open_index(read, *scope)
            return search.search(query, limit, index) if index is not None else []

    def search_namespace(self, namespace: str, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages of all threads of the namespace that match best, each with its thread."""
        with self._database.read() as read:
            index = self._open_index(read, namespace)
            return search.search(query, limit, index) if index is not None else []

    def threads_with(self, namespace: str, query: str) -> protocol.MatchingThreads:
        """Return every thread of the namespace in which `search` finds something, those that were used last first."""
        with self._database.read() as read:
            if (index := self._open_index(read, namespace)) is None:
                return protocol.MatchingThreads([])
            found, exact = search.threads_with(query, index)
            rows = read.execute_in("SELECT used, name FROM threads WHERE id IN (…)", [], found)
        named = sorted((-(used or 0.0), to_text(name)) for used, name in rows)
        return protocol.MatchingThreads([name for _, name in named], exact)

    def search_each(self, namespace: str, threads: Sequence[str], query: str, limit: int = 10) -> HitsByThread:
        """Return the best matches of each of these threads, in one transaction."""
        with self._database.read() as read:
            names = {thread: name for name, thread in sql_tables.find_thread_ids(read, namespace, threads).items()}
            index = self._open_index(read, namespace) if names else None
            found = search.search_each(query, limit, index, list(names)) if index is not None else {}
        return {names[thread]: hits for thread, hits in found.items()}

    def _open_index(self, read: Transaction, namespace: str, thread: str | None = None) -> SearchIndex | None:
        """Return the words of the thread, or of the whole namespace; None where nothing of it is stored."""
        statement, values = "SELECT id, NULL FROM namespaces WHERE name = ?", [namespace]
        if thread is not None:
            statement = f"SELECT n.id, t.id FROM {THREADS_WITH_NAMESPACES} WHERE n.name = ? AND t.name = ?"
            values.append(thread)
        for ids in read.execute(statement, values):
            return self._database.words.open_index(read, namespace, (ids[0], ids[1]))
        return None

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces that have a thread, sorted."""
        rows = self._select(f"SELECT DISTINCT n.name FROM {THREADS_WITH_NAMESPACES}")
        return sorted(to_text(name) for (name,) in rows)

    def threads(self, namespace: str) -> Sequence[str]:
        """Return the names of the threads that hold anything, sorted."""
        return sorted(self.last_used(namespace))

    def newest_time(self, scope: Scope) -> float | None:
        """Return when the record that was stored last was made, retired or not; None when the thread has none."""
        rows = self._select(f"SELECT used FROM threads WHERE id = {THREAD_ID_QUERY}", *scope)
        return rows[0][0] if rows else None

    def last_used(self, namespace: str) -> Mapping[str, float | None]:
        """Return the `newest_time` of every thread, by its name, in no order: one query, and no record is read."""
        with self._database.read() as read:
            return sql_tables.read_times(read, namespace)

    def holdings(self, namespace: str, threads: Sequence[str]) -> Sequence[protocol.ThreadContents]:
        """Return what each of these threads holds, in this order; those that are not there are left out."""
        with self._database.read() as read:
            return sql_tables.count_holdings(read, namespace, threads)

    def shared(self, scope: Scope) -> Mapping[int, Sequence[str]]:
        """Return, by turn, which other threads of the namespace hold the same message: one query."""
        rows = self._select(
            "SELECT DISTINCT p.turn, t.name FROM parts p JOIN parts o ON o.body = p.body AND o.thread <> p.thread "
            f"JOIN threads t ON t.id = o.thread WHERE p.thread = {THREAD_ID_QUERY} AND p.turn >= 0",
            *scope,
        )
        found: dict[int, list[str]] = {}
        for turn, name in sorted((turn, to_text(name)) for turn, name in rows):
            found.setdefault(turn, []).append(name)
        return found

    def forget(self, scope: Scope) -> None:
        """Remove the thread: its records, parts, and every body only it used."""
        with self._database.write(scope.namespace) as write:
            _remove_threads(write, scope.namespace, [scope.thread])
        self._database.purge()

    def forget_namespace(self, namespace: str, before: float | None = None) -> Sequence[str]:
        """Remove the whole namespace, or its threads that are older than `before`; the names of those that went."""
        with self._database.write(namespace) as write:
            for table in ("leases", "notes") if before is None else ():
                write.execute(f"DELETE FROM {table} WHERE namespace = ?", [namespace])
            times = sql_tables.read_times(write, namespace)
            gone = sorted(name for name, used in times.items() if store_rules.is_older(used, before))
            _remove_threads(write, namespace, gone)
        if gone or before is None:
            self._database.purge()
        return gone

    def remember(self, namespace: str, key: str, data: Mapping[str, object]) -> None:
        """Keep some plain JSON under this key, in the place of what was there."""
        store_rules.check_names(namespace)
        with self._database.write(namespace, "") as write:
            write.execute(
                "INSERT INTO notes VALUES (?, ?, ?) ON CONFLICT (namespace, key) DO UPDATE SET data = excluded.data",
                [namespace, key, codec.encode(dict(data))],
            )

    def remembered(self, namespace: str, key: str) -> Mapping[str, object] | None:
        """Return what was kept under this key last; None when nothing was."""
        statement = "SELECT data FROM notes WHERE namespace = ? AND key = ?"
        rows = self._select(statement, namespace, key)
        return store_rules.decode_note_data(rows[0][0]) if rows else None

    def notes(self, namespace: str | None = None) -> Sequence[protocol.Note]:
        """Return everything that is remembered, for one namespace or for all, in no order."""
        which, values = ("", []) if namespace is None else ("WHERE namespace = ?", [namespace])
        rows = self._select(f"SELECT namespace, key, data FROM notes {which}", *values)
        read = ((to_text(space), to_text(key), store_rules.decode_note_data(data)) for space, key, data in rows)
        return [protocol.Note(space, key, data) for space, key, data in read if data is not None]

    def everything(self, scope: Scope) -> Iterator[StoredRecord]:
        """Yield all that the thread holds, in the order it was stored, a page at a time in one transaction."""
        with self._database.read() as read:
            records, parts = sql_tables.iterate_records(read, scope), sql_tables.iterate_parts(read, scope)
            yield from store_rules.group_parts_by_record(records, parts)

    def take(self, scope: Scope, held: int, stored: Iterable[StoredRecord]) -> bool:
        """Append what `everything` yielded to the thread in one transaction; False where it has no `held` records."""
        store_rules.check_names(*scope)
        with self._database.write(*scope) as write:
            ((count,),) = write.execute(f"SELECT COUNT(*) FROM records WHERE thread = {THREAD_ID_QUERY}", scope)
            if count != held:
                return False
            for record, live, parts in stored:
                store_rules.check_parts(parts)
                fresh = _select_new_parts(write, record, parts)
                self._write(write, record, sql_tables.prepare_parts(fresh, write.words))
                if not live:
                    write.execute(_RETIRE_STATEMENT, [*scope, record.id])
        return True

    def lease(self, scope: Scope, key: str, seconds: float) -> bool:
        """Return whether the caller may do the work named `key` alone, until `release` or `seconds` have passed."""
        store_rules.check_names(*scope)
        store_rules.check_lease(seconds)
        token = uuid.uuid4().hex
        now = self._database.now
        with self._database.write(*scope) as write:
            rows = write.execute(
                f"INSERT INTO leases VALUES (?, ?, ?, ?, {now} + ?) ON CONFLICT (namespace, thread, key) DO UPDATE "
                f"SET token = excluded.token, expires = excluded.expires WHERE leases.expires <= {now} RETURNING 1",
                [*scope, key, token, float(seconds)],
            )
        if rows:
            self._tokens.add(scope, key, token)
        return bool(rows)

    def release(self, scope: Scope, key: str) -> None:
        """Give back the oldest lease on `key` that this archive object was given; harmless when it has run out."""
        if (token := self._tokens.take_oldest(scope, key)) is not None:
            statement = "DELETE FROM leases WHERE namespace = ? AND thread = ? AND key = ? AND token = ?"
            with self._database.write(*scope) as write:
                write.execute(statement, [*scope, key, token])

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """Return what is wrong with the stored thread, or with everything: a sentence each; empty when all is well."""
        found = [] if scope is not None else self._database.check()
        with self._database.read() as read:
            return [*found, *find_stored_problems(read, scope)]

    def close(self) -> None:
        """Let go of files and connections. Closing twice is harmless; any other use afterwards is an `ArchiveError`."""
        self._database.close()


def _select_new_parts(write: Transaction, record: Record, parts: Sequence[Part]) -> list[Part]:
    """Return the parts that the thread lacks; refuse a record that refers to a message neither given nor held."""
    hashes = store_rules.collect_hashes(record).union(part.hash for part in parts)
    known = sql_tables.find_known_parts(write, record.scope, hashes)
    store_rules.check_references(record, parts, {digest for _, digest in known})
    return store_rules.select_new_parts(parts, known)


def _next_number(tx: Transaction, table: str, thread: int) -> int:
    (row,) = tx.execute(f"SELECT COALESCE(MAX(number) + 1, 0) FROM {table} WHERE thread = ?", [thread])
    return int(row[0])


def _remove_threads(write: Transaction, namespace: str, names: Sequence[str]) -> None:
    """Remove threads: their leases, notes, words, records and parts, every body only they used."""
    ids = sql_tables.find_thread_ids(write, namespace, names)
    write.words.remove(write, list(ids.values()))
    write.execute_in("DELETE FROM leases WHERE namespace = ? AND thread IN (…)", [namespace], names)
    keys = map(store_rules.thread_note_key, names)
    write.execute_in("DELETE FROM notes WHERE namespace = ? AND key IN (…)", [namespace], keys)
    bodies = write.execute_in("SELECT DISTINCT body FROM parts WHERE thread IN (…)", [], ids.values())
    for table in ("parts", "records"):
        write.execute_in(f"DELETE FROM {table} WHERE thread IN (…)", [], ids.values())
    unused = "NOT EXISTS (SELECT 1 FROM parts p WHERE p.body = bodies.id)"
    write.execute_in(f"DELETE FROM bodies WHERE {unused} AND id IN (…)", [], (body for (body,) in bodies))
    write.execute_in("DELETE FROM threads WHERE id IN (…)", [], ids.values())
    unused = "NOT EXISTS (SELECT 1 FROM threads t WHERE t.namespace = namespaces.id)"
    write.execute(f"DELETE FROM namespaces WHERE name = ? AND {unused}", [namespace])
