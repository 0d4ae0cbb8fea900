"""The archive over SQL: one set of statements for SQLite and Postgres, which differ only in how they connect."""

# Statements are put together from constants of this package; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from unabridged.archive import codec, rules
from unabridged.archive.protocol import Hit, Part, Record, Scope
from unabridged.archive.search import index
from unabridged.archive.stores import sql_rows
from unabridged.archive.stores.sql_forget import newest_time, remove_namespace, remove_thread
from unabridged.archive.stores.sql_rows import HELD, PARTS, THREAD, Prepared, Transaction, batches, names, to_bytes

STEPS: Final = ("begun", "bodies", "parts", "index", "record", "committed")
"""The moments of a `store` at which a crash is tried: all but the last leave the old state."""
_LONGEST_PAGE: Final = 64


class Database(Protocol):
    """How to connect. Whatever the driver raises comes out as an `ArchiveError` with a remedy."""

    url: str
    """Where it is, for people to read; without a password."""
    now: str
    """The time of the database, in seconds since 1970, as an expression."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state."""
        ...

    def write(self, scope: Scope) -> AbstractContextManager[Transaction]:
        """A transaction that is all there or not at all; no other writes this thread meanwhile."""
        ...

    def alone(self, namespace: str) -> AbstractContextManager[Transaction]:
        """A transaction that is all there or not at all; no other writes anything of this namespace meanwhile."""
        ...

    def probe(self) -> None:
        """Connect, make the tables if need be, and see that they can be written. Nothing is stored."""
        ...

    def purge(self) -> None:
        """Leave no copy of what was deleted in files of the database's own."""
        ...

    def check(self) -> list[str]:
        """What the database itself finds wrong with its files."""
        ...

    def close(self) -> None:
        """Let go of every connection."""
        ...


class SqlArchive:
    """An archive in a SQL database."""

    def __init__(self, database: Database, step: Callable[[str], None] | None = None) -> None:
        self._database = database
        self._step = step or _ignore
        self._tokens = rules.Tokens()

    @property
    def url(self) -> str:
        """Where it is, for people to read."""
        return self._database.url

    def probe(self) -> None:
        """Find out now whether the archive can be used: an `ArchiveError` with the remedy if it can't."""
        self._database.probe()

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        """Write record and parts, all or nothing; return the record that now holds the key."""
        rules.check_parts(parts)
        scope = record.scope
        with self._database.read() as read:
            known = sql_rows.known_parts(read, sql_rows.thread_id(read, scope), scope, parts)
        prepared = sql_rows.prepare(rules.new_parts(parts, known))  # beforehand, so that others wait less
        with self._database.write(scope) as write:
            self._step("begun")
            thread = sql_rows.thread_id(write, scope)
            holder = self._holder(write, thread, record)
            if holder is not None and not rules.wins(record, holder):
                return holder
            rules.check_references(record, parts, lambda hashes: sql_rows.held_hashes(write, scope, hashes))
            fresh = rules.new_parts(parts, sql_rows.known_parts(write, thread, scope, parts))
            if fresh != prepared.parts:  # another writer of the thread was faster with some
                prepared = sql_rows.prepare(fresh)
            self._write(write, thread if thread is not None else sql_rows.new_thread(write, scope), record, prepared)
        self._step("committed")
        return record

    def _write(self, write: Transaction, thread: int, record: Record, prepared: Prepared) -> None:
        namespace = write.execute("SELECT namespace FROM threads WHERE id = ?", [thread])[0][0]
        ids = sql_rows.body_ids(write, namespace, prepared.bodies)
        # Sorted, so that two writers who share bodies wait for each other instead of locking each other out.
        missing = sorted(digest for digest in prepared.bodies if digest not in ids)
        write.many(
            "INSERT INTO bodies (namespace, hash, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(namespace, *sql_rows.hash_bytes([digest]), prepared.bodies[digest]) for digest in missing],
        )
        ids |= sql_rows.body_ids(write, namespace, missing)
        self._step("bodies")
        first = write.execute("SELECT COALESCE(MAX(number) + 1, 0) FROM parts WHERE thread = ?", [thread])[0][0]
        write.many(
            "INSERT INTO parts (thread, number, turn, body, view) VALUES (?, ?, ?, ?, ?)",
            [
                (thread, first + at, part.turn, ids[part.hash], view)
                for at, (part, view) in enumerate(zip(prepared.parts, prepared.views, strict=True))
            ],
        )
        self._step("parts")
        if prepared.segment is not None:
            put_in = sum(part.turn < 0 for part in prepared.parts)
            write.execute("INSERT INTO segments VALUES (?, ?, ?)", [thread, first + put_in, prepared.segment])
        self._step("index")
        write.execute(
            "UPDATE records SET live = 0 WHERE thread = ? AND key = ? AND live = 1", [thread, to_bytes(record.key)]
        )
        write.execute("DELETE FROM records WHERE thread = ? AND id = ?", [thread, to_bytes(record.id)])
        number = write.execute("SELECT COALESCE(MAX(number) + 1, 0) FROM records WHERE thread = ?", [thread])[0][0]
        write.execute(
            "INSERT INTO records (thread, number, id, key, live, data) VALUES (?, ?, ?, ?, 1, ?)",
            [thread, number, to_bytes(record.id), to_bytes(record.key), sql_rows.pack_record(record)],
        )
        self._step("record")

    def _holder(self, write: Transaction, thread: int | None, record: Record) -> Record | None:
        """The record that holds the key now; another one with the same id is refused."""
        rows = write.execute(
            "SELECT live, data FROM records WHERE thread = ? AND (id = ? OR (key = ? AND live = 1))",
            [-1 if thread is None else thread, to_bytes(record.id), to_bytes(record.key)],
        )
        found = [(live, sql_rows.unpack_record(record.scope, data)) for live, data in rows]
        for _, known in found:
            rules.check_same_id(record, known if known.id == record.id else None)
        return next((known for live, known in found if live), None)

    def record(self, scope: Scope, record_id: str) -> Record | None:
        """The record with this id, retired or not, or None."""
        with self._database.read() as read:
            rows = read.execute(
                f"SELECT data FROM records WHERE thread = {THREAD} AND id = ?", [*names(scope), to_bytes(record_id)]
            )
        return sql_rows.unpack_record(scope, rows[0][0]) if rows else None

    def locate(self, namespace: str, record_id: str) -> Scope | None:
        """The thread of this namespace that has the record, retired or not; None when none has."""
        with self._database.read() as read:
            rows = read.execute(
                "SELECT t.name FROM records r JOIN threads t ON t.id = r.thread "
                "JOIN namespaces n ON n.id = t.namespace WHERE r.id = ? AND n.name = ? ORDER BY r.thread LIMIT 1",
                [to_bytes(record_id), to_bytes(namespace)],
            )
        return Scope(namespace, sql_rows.to_text(rows[0][0])) if rows else None

    def locate_each(self, namespace: str, record_ids: Sequence[str]) -> Mapping[str, Scope]:
        """For each of these records that the namespace has, retired or not, its thread."""
        found: dict[str, Scope] = {}
        with self._database.read() as read:
            for batch, marks in batches(to_bytes(record_id) for record_id in dict.fromkeys(record_ids)):
                rows = read.execute(
                    "SELECT r.id, t.name FROM records r JOIN threads t ON t.id = r.thread "
                    f"JOIN namespaces n ON n.id = t.namespace WHERE r.id IN ({marks}) AND n.name = ? "
                    "ORDER BY r.thread DESC",
                    [*batch, to_bytes(namespace)],
                )
                found |= {sql_rows.to_text(known): Scope(namespace, sql_rows.to_text(name)) for known, name in rows}
        return found

    def records(self, scope: Scope) -> Sequence[Record]:
        """Every live record of the thread, oldest first."""
        with self._database.read() as read:
            rows = read.execute(
                f"SELECT data FROM records WHERE thread = {THREAD} AND live = 1 ORDER BY number", names(scope)
            )
        return [sql_rows.unpack_record(scope, data) for (data,) in rows]

    def newest(self, scope: Scope) -> Iterator[Record]:
        """The live records of the thread, newest first, read as they are asked for."""
        below, page = sql_rows.FAR, 2  # most often the first is the one
        while True:
            with self._database.read() as read:
                rows = read.execute(
                    f"SELECT number, data FROM records WHERE thread = {THREAD} AND live = 1 AND number < ? "
                    "ORDER BY number DESC LIMIT ?",
                    [*names(scope), below, page],
                )
            for number, data in rows:
                below = number
                yield sql_rows.unpack_record(scope, data)
            if len(rows) < page:
                return
            page = min(2 * page, _LONGEST_PAGE)

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        """The live records that hold one of these keys, in no order; no other record is read."""
        found: list[Record] = []
        with self._database.read() as read:
            for batch, marks in batches(to_bytes(key) for key in dict.fromkeys(keys)):
                rows = read.execute(
                    f"SELECT data FROM records WHERE thread = {THREAD} AND live = 1 AND key IN ({marks})",
                    [*names(scope), *batch],
                )
                found += [sql_rows.unpack_record(scope, data) for (data,) in rows]
        return found

    def retire(self, scope: Scope, record_id: str) -> None:
        """Take the record out of look-ups (undo). Its parts stay."""
        with self._database.write(scope) as write:
            write.execute(
                f"UPDATE records SET live = 0 WHERE thread = {THREAD} AND id = ?", [*names(scope), to_bytes(record_id)]
            )

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """The stored messages with these hashes, those that the thread holds; others are absent."""
        found: dict[str, bytes] = {}
        with self._database.read() as read:
            for batch, marks in batches(sql_rows.hash_bytes(hashes)):
                rows = read.execute(f"SELECT b.hash, b.body {HELD} AND b.hash IN ({marks})", [*names(scope), *batch])
                found |= {sql_rows.to_hash(digest): body for digest, body in rows}
        return {digest: sql_rows.checked(digest, body) for digest, body in found.items()}

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """The archived messages with first <= turn < last, in the order of turns (put-in ones, turn -1, left out)."""
        last = sql_rows.FAR if last is None else min(last, sql_rows.FAR)
        with self._database.read() as read:
            rows = read.execute(
                f"{PARTS} AND p.turn >= ? AND p.turn < ? ORDER BY p.turn, p.number",
                [*names(scope), min(max(first, 0), sql_rows.FAR), max(last, 0)],
            )
        return [sql_rows.to_part(row) for row in rows]

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """The archived messages that match best: literal words, no query syntax."""
        with self._database.read() as read:
            segments = read.execute(
                f"SELECT number, data FROM segments WHERE thread = {THREAD} ORDER BY number", names(scope)
            )
            parts: dict[int, Part] = {}

            def texts(numbers: Sequence[int]) -> dict[int, str]:
                parts.update(sql_rows.numbered(read, scope, [number for number in numbers if number not in parts]))
                return {number: parts[number].text for number in numbers}

            found = index.search(query, limit, ((first, data) for first, data in segments), texts)
            texts([match.number for match in found])
        return [rules.hit(scope, parts[match.number], match.score) for match in found]

    def namespaces(self) -> Sequence[str]:
        """The namespaces that have a thread, sorted."""
        with self._database.read() as read:
            rows = read.execute("SELECT DISTINCT n.name FROM namespaces n JOIN threads t ON t.namespace = n.id")
        return sorted(sql_rows.to_text(name) for (name,) in rows)

    def threads(self, namespace: str) -> Sequence[str]:
        """The names of the threads that hold anything, sorted."""
        with self._database.read() as read:
            rows = read.execute(
                "SELECT t.name FROM threads t JOIN namespaces n ON n.id = t.namespace WHERE n.name = ?",
                [to_bytes(namespace)],
            )
        return sorted(sql_rows.to_text(name) for (name,) in rows)

    def newest_time(self, scope: Scope) -> float | None:
        """When the record that was stored last was made, retired or not; None when the thread has none."""
        with self._database.read() as read:
            return newest_time(read, scope)

    def forget(self, scope: Scope) -> None:
        """Remove the thread: its records, parts, and every body only it used."""
        with self._database.alone(scope.namespace) as write:
            remove_thread(write, scope)
        self._database.purge()

    def forget_namespace(self, namespace: str, before: float | None = None) -> Sequence[str]:
        """Remove the whole namespace, or its threads that are older than `before`; the names of those that went."""
        with self._database.alone(namespace) as write:
            gone = remove_namespace(write, namespace, before)
        if gone or before is None:
            self._database.purge()
        return gone

    def remember(self, namespace: str, key: str, data: Mapping[str, object]) -> None:
        """Keep some plain JSON under this key, in the place of what was there."""
        with self._database.write(Scope(namespace, "")) as write:
            write.execute(
                "INSERT INTO notes VALUES (?, ?, ?) ON CONFLICT (namespace, key) DO UPDATE SET data = excluded.data",
                [to_bytes(namespace), to_bytes(key), codec.encode(dict(data))],
            )

    def remembered(self, namespace: str, key: str) -> Mapping[str, object] | None:
        """What was kept under this key last; None when nothing was."""
        with self._database.read() as read:
            rows = read.execute(
                "SELECT data FROM notes WHERE namespace = ? AND key = ?", [to_bytes(namespace), to_bytes(key)]
            )
        return rules.note(rows[0][0] if rows else None)

    def lease(self, scope: Scope, key: str, seconds: float) -> bool:
        """Whether the caller may now do the work named `key` alone, until `release` or until `seconds` have passed."""
        rules.check_lease(seconds)
        token = self._tokens.new()
        now = self._database.now
        with self._database.write(scope) as write:
            rows = write.execute(
                f"INSERT INTO leases VALUES (?, ?, ?, ?, {now} + ?) ON CONFLICT (namespace, thread, key) DO UPDATE "
                f"SET token = excluded.token, expires = excluded.expires WHERE leases.expires <= {now} RETURNING 1",
                [*names(scope), to_bytes(key), to_bytes(token), float(seconds)],
            )
        if rows:
            self._tokens.add(scope, key, token)
        return bool(rows)

    def release(self, scope: Scope, key: str) -> None:
        """Give back the oldest lease on `key` that this archive object was given; harmless when it has run out."""
        token = self._tokens.oldest(scope, key)
        if token is not None:
            with self._database.write(scope) as write:
                write.execute(
                    "DELETE FROM leases WHERE namespace = ? AND thread = ? AND key = ? AND token = ?",
                    [*names(scope), to_bytes(key), to_bytes(token)],
                )

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """What is wrong with the stored thread, or with everything: a sentence each; empty when all is well."""
        from unabridged.archive.stores.sql_verify import problems  # noqa: PLC0415 - rarely needed, and it needs this module

        found = [] if scope is not None else self._database.check()
        with self._database.read() as read:
            return [*found, *problems(read, scope)]

    def close(self) -> None:
        """Let go of files and connections. Closing twice is harmless; any other use afterwards is an `ArchiveError`."""
        self._database.close()


def _ignore(_step: str) -> None:
    """Do nothing: no crash is being tried."""
