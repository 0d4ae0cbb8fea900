"""The tables of the SQL stores, and what their rows mean.

Names and texts are bytes, and names of another type are refused: `archive.names` says what a name is. A body belongs to
a namespace and is stored once in it; nothing but its own namespace ever refers to it.
"""

# Statements are put together from constants of this package; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from unabridged.archive import codec, search, store_rules
from unabridged.archive.codec import pack
from unabridged.archive.protocol import Part, Record, Scope, ThreadContents

# `leases` and `notes` refer to no other table: a lease is taken, and what is learned is kept, before anything of the
# thread or namespace is stored.
_TABLES: Final = """
CREATE TABLE namespaces (id {id}, name {bytes} NOT NULL{check_name} UNIQUE);
CREATE TABLE threads (
    id {id}, namespace BIGINT NOT NULL REFERENCES namespaces (id), name {bytes} NOT NULL{check_name},
    used DOUBLE PRECISION, messages BIGINT NOT NULL DEFAULT 0, length BIGINT NOT NULL DEFAULT 0,
    {columns}UNIQUE (namespace, name)
);
CREATE INDEX threads_by_use ON threads (namespace, used, name);
CREATE TABLE bodies (
    id {id}, namespace BIGINT NOT NULL REFERENCES namespaces (id), hash {bytes} NOT NULL, body {bytes} NOT NULL,
    UNIQUE (namespace, hash)
);
CREATE TABLE parts (
    thread BIGINT NOT NULL REFERENCES threads (id), number BIGINT NOT NULL, turn BIGINT NOT NULL,
    body BIGINT NOT NULL REFERENCES bodies (id), view {bytes} NOT NULL,
    PRIMARY KEY (thread, number)
){compact};
CREATE UNIQUE INDEX parts_by_turn ON parts (thread, turn, body);
CREATE INDEX parts_by_body ON parts (body, thread);
CREATE TABLE records (
    thread BIGINT NOT NULL REFERENCES threads (id), number BIGINT NOT NULL, id {bytes} NOT NULL,
    key {bytes} NOT NULL, live INTEGER NOT NULL, kind {bytes} NOT NULL, data {bytes} NOT NULL,
    PRIMARY KEY (thread, number),
    UNIQUE (id, thread)
);
CREATE UNIQUE INDEX records_by_key ON records (thread, key) WHERE live = 1;
CREATE INDEX records_by_kind ON records (thread, live, kind);
CREATE TABLE leases (
    namespace {bytes} NOT NULL{check_namespace}, thread {bytes} NOT NULL{check_thread}, key {bytes} NOT NULL,
    token {bytes} NOT NULL, expires DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (namespace, thread, key)
){compact};
CREATE TABLE notes (
    namespace {bytes} NOT NULL{check_namespace}, key {bytes} NOT NULL, data {bytes} NOT NULL,
    PRIMARY KEY (namespace, key)
){compact};
{index}
"""

TABLES: Final = ("namespaces", "threads", "bodies", "parts", "records", "leases", "notes")

Row = tuple[Any, ...]

MAX_TURN: Final = 2**62
"""Beyond every turn."""

BATCH_SIZE: Final = 500
"""Values that one statement takes, and rows that are read at once."""

THREADS_WITH_NAMESPACES: Final = "threads t JOIN namespaces n ON n.id = t.namespace"

THREAD_ID_QUERY: Final = f"(SELECT t.id FROM {THREADS_WITH_NAMESPACES} WHERE n.name = ? AND t.name = ?)"
"""The thread's id; its values are those of the scope."""

PARTS_QUERY: Final = (
    "SELECT p.number, p.turn, b.hash, b.body, p.view FROM parts p JOIN bodies b ON b.id = p.body "
    f"WHERE p.thread = {THREAD_ID_QUERY}"
)
"""The parts of a thread, as `to_part` reads them; to be narrowed by an AND."""


class SqlWords(Protocol):
    """How a database keeps the words of messages."""

    columns: str = ""
    """The columns of its own in `threads`, each with a comma behind it."""
    tables: str
    """The statements that make its tables."""

    def prepare(self, texts: Iterable[str]) -> list[Any]:
        """Return what is kept of these texts, made before the transaction."""

    def add(self, tx: Transaction, namespace: int, thread: int, prepared: Sequence[tuple[int, Any]]) -> None:
        """Index messages of a thread, each by its number and what was prepared of it."""

    def remove(self, tx: Transaction, threads: Sequence[int]) -> None:
        """Take everything of these threads out of the index, before they go themselves."""

    def count_unindexed(self, tx: Transaction, namespace: int, thread: int, messages: Sequence[tuple[int, str]]) -> int:
        """Return how many of these messages of a thread, by number and text, are not in the index as they should be."""

    def open_index(self, tx: Transaction, namespace: str, ids: tuple[int, int | None]) -> search.SearchIndex:
        """Return the words of a thread, or of a namespace: by the ids of the namespace and the thread, if it is one."""


class Transaction:
    """One transaction of a driver's cursor; statements have `?` for each value, the driver the mark of its own.

    A text is stored as its bytes, lone surrogates and NUL too.
    """

    def __init__(self, cursor: Any, words: SqlWords, mark: str = "?") -> None:
        self._cursor = cursor
        self._mark = mark
        self.words = words
        """How the database keeps the words of messages."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run it, and return the rows it gave."""
        stored = [to_bytes(value) if isinstance(value, str) else value for value in values]
        self._cursor.execute(statement.replace("?", self._mark), stored)
        return self._cursor.fetchall() if self._cursor.description else []

    def execute_in(self, statement: str, values: Sequence[Any], items: Iterable[Any]) -> list[Row]:
        """Return the rows of a statement that has `IN (…)` behind its other values, for any number of items."""
        waiting = list(dict.fromkeys(items))
        found: list[Row] = []
        for at in range(0, len(waiting), BATCH_SIZE):
            batch = waiting[at : at + BATCH_SIZE]
            found += self.execute(statement.replace("…", ", ".join("?" * len(batch))), [*values, *batch])
        return found

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run it once for each row of values."""
        self._cursor.executemany(statement.replace("?", self._mark), rows)


def make_tables(tx: Transaction, words: Mapping[str, str]) -> None:
    """Make every table and index, in the words of the database."""
    check = words.get("check", "")  # where a column of bytes takes other types too
    checks = {f"check_{column}": check.format(column) for column in ("name", "namespace", "thread")}
    for statement in _TABLES.format(**words, **checks, columns=tx.words.columns, index=tx.words.tables).split(";"):
        tx.execute(statement)


class PreparedParts(NamedTuple):
    """The parts that are new, as they will be written; made before the transaction, so that it is short."""

    parts: list[Part]
    rows: list[tuple[bytes, bytes, bytes]]
    """Hash, body and view of each."""
    words: list[Any]
    """What the index takes of those that search sees, which are the last ones."""


def prepare_parts(parts: list[Part], words: SqlWords) -> PreparedParts:
    """Return the parts packed, and their words prepared."""
    rows: list[tuple[bytes, bytes, bytes]] = []
    for part in parts:
        view = pack.pack_view(part.role, part.origin, part.text, part.body)
        rows.append((hash_to_bytes(part.hash), pack.pack(part.body), view))
    return PreparedParts(parts, rows, words.prepare(part.text for part in parts if part.turn >= 0))


def find_thread_ids(tx: Transaction, namespace: str, threads: Iterable[str]) -> dict[str, int]:
    """Return the ids of those of these threads of which anything is stored, by their names."""
    statement = f"SELECT t.name, t.id FROM {THREADS_WITH_NAMESPACES} WHERE n.name = ? AND t.name IN (…)"
    return {to_text(name): thread for name, thread in tx.execute_in(statement, [namespace], threads)}


def make_thread(tx: Transaction, scope: Scope) -> tuple[int, int]:
    """Return the ids of a thread that is about to hold something, and of its namespace."""
    tx.execute("INSERT INTO namespaces (name) VALUES (?) ON CONFLICT DO NOTHING", [scope.namespace])
    tx.execute(
        "INSERT INTO threads (namespace, name) SELECT id, ? FROM namespaces WHERE name = ? ON CONFLICT DO NOTHING",
        [scope.thread, scope.namespace],
    )
    (row,) = tx.execute(f"SELECT t.id, n.id FROM {THREADS_WITH_NAMESPACES} WHERE n.name = ? AND t.name = ?", scope)
    return row[0], row[1]


def find_known_parts(tx: Transaction, scope: Scope, hashes: Iterable[str]) -> set[tuple[int, str]]:
    """Return turn and hash of each message with one of these hashes that the thread holds.

    `+p.thread`: by the body they are found at once, by the thread only after all of its parts.
    """
    rows = tx.execute_in(
        f"SELECT p.turn, b.hash FROM {THREADS_WITH_NAMESPACES} JOIN bodies b ON b.namespace = n.id "
        "JOIN parts p ON p.body = b.id AND +p.thread = t.id WHERE n.name = ? AND t.name = ? AND b.hash IN (…)",
        scope,
        map(hash_to_bytes, hashes),
    )
    return {(turn, hash_from_bytes(digest)) for turn, digest in rows}


def find_record(tx: Transaction, scope: Scope, condition: str, *values: Any) -> Record | None:
    """Return the thread's first record that meets the condition; None when none does."""
    statement = f"SELECT data FROM records WHERE thread = {THREAD_ID_QUERY} {condition} LIMIT 1"
    return next((unpack_record(scope, data) for (data,) in tx.execute(statement, [*scope, *values])), None)


def iterate_records(tx: Transaction, scope: Scope) -> Iterator[tuple[Record, bool]]:
    """Yield the thread's records, and whether each is live, in the order they were stored."""
    statement = f"SELECT number, data, live FROM records WHERE thread = {THREAD_ID_QUERY}"
    for _, data, live in chain.from_iterable(read_in_pages(tx, statement, "number", scope)):
        yield unpack_record(scope, data), bool(live)


def iterate_parts(tx: Transaction, scope: Scope) -> Iterator[Part]:
    """Return the thread's parts, put-in ones too, in the order they were stored."""
    return map(to_part, chain.from_iterable(read_in_pages(tx, PARTS_QUERY, "p.number", scope)))


def read_in_pages(tx: Transaction, statement: str, number: str, values: Sequence[Any]) -> Iterator[list[Row]]:
    """Yield the rows of the statement, whose first column is this number, in its order, some at a time."""
    after = -1
    page = f"{statement} AND {number} > ? ORDER BY {number} LIMIT {BATCH_SIZE}"
    while rows := tx.execute(page, [*values, after]):
        after = rows[-1][0]
        yield rows


def read_times(tx: Transaction, namespace: str) -> dict[str, float | None]:
    """Return when the record that each thread stored last was made, retired or not, by the thread's name."""
    rows = tx.execute(f"SELECT t.name, t.used FROM {THREADS_WITH_NAMESPACES} WHERE n.name = ?", [namespace])
    return {to_text(name): used for name, used in rows}


def count_holdings(tx: Transaction, namespace: str, threads: Sequence[str]) -> list[ThreadContents]:
    """Return what each of these threads holds, counted in indexes: no record and no message is read."""
    ids = find_thread_ids(tx, namespace, threads)
    live = "SELECT thread, kind, COUNT(*) FROM records WHERE live = 1 AND thread IN (…) GROUP BY thread, kind"
    kinds: dict[int, dict[str, int]] = {thread: {} for thread in ids.values()}
    for thread, kind, count in tx.execute_in(live, [], ids.values()):
        kinds[thread][to_text(kind)] = count
    held = (
        "SELECT p.thread, COUNT(*), MAX(p.turn), SUM(LENGTH(b.body)) FROM parts p JOIN bodies b ON b.id = p.body "
        "WHERE p.turn >= 0 AND p.thread IN (…) GROUP BY p.thread"
    )
    parts = {thread: rest for thread, *rest in tx.execute_in(held, [], ids.values())}
    found: list[ThreadContents] = []
    for name in (name for name in dict.fromkeys(threads) if name in ids):
        messages, last, size = parts.get(ids[name], (0, -1, 0))
        found.append(ThreadContents(name, kinds[ids[name]], messages, last + 1, int(size)))
    return found


def to_part(row: Row) -> Part:
    """Return a row of `PARTS_QUERY` as the part that was stored."""
    _, turn, digest, packed, view = row
    body = to_body(hash_from_bytes(digest), packed)
    return Part(hash_from_bytes(digest), body, turn, *pack.unpack_view(view, body))


def to_body(digest: str, packed: bytes) -> bytes:
    """Return the body, and only if it is still what its hash says."""
    return store_rules.check_body(pack.unpack(packed), digest)


def pack_record(record: Record) -> bytes:
    """Return everything of the record but its scope, which is where it stands."""
    return pack.pack(codec.encode(store_rules.record_fields(record)))


def unpack_record(scope: Scope, packed: bytes) -> Record:
    """Return the record that was packed."""
    return store_rules.record_from_fields(scope, codec.decode(pack.unpack(packed)))


def to_bytes(text: str) -> bytes:
    """Any string as bytes, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def to_text(stored: bytes) -> str:
    """Return the string that `to_bytes` stored."""
    return stored.decode("utf-8", "surrogatepass")


def hash_to_bytes(digest: str) -> bytes:
    """Return a hash as it is stored, half as long as its text; empty, which is stored nowhere, for what is no hash."""
    algorithm, _, digits = digest.partition(":")
    try:
        return to_bytes(algorithm) + b":" + bytes.fromhex(digits)
    except ValueError:
        return b""


def hash_from_bytes(stored: bytes) -> str:
    """Return the hash that `hash_to_bytes` stored."""
    algorithm, _, digest = stored.partition(b":")
    return f"{to_text(algorithm)}:{digest.hex()}"
