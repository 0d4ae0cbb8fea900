"""Rows of the SQL stores and what they mean: the statements several places share, and their values as objects."""

# Statements are put together from constants of this package; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from unabridged.archive import codec, laws
from unabridged.archive.address import scrub_data
from unabridged.archive.codec import pack
from unabridged.archive.protocol import Part, Record, Scope
from unabridged.archive.search import index
from unabridged.errors import ArchiveError

Row = tuple[Any, ...]

FAR: Final = 2**62
"""Beyond every turn."""

_AT_ONCE: Final = 500
"""Values that one statement takes."""

NAMED: Final = "threads t JOIN namespaces n ON n.id = t.namespace"

THREAD: Final = f"(SELECT t.id FROM {NAMED} WHERE n.name = ? AND t.name = ?)"
"""The thread's id; its values are `names(scope)`."""

PARTS: Final = (
    "SELECT p.number, p.turn, b.hash, b.body, p.view FROM parts p JOIN bodies b ON b.id = p.body "
    f"WHERE p.thread = {THREAD}"
)
"""The parts of a thread, as `to_part` reads them; to be narrowed by an AND."""

HELD: Final = (
    f"FROM {NAMED} JOIN bodies b ON b.namespace = n.id WHERE n.name = ? AND t.name = ? "
    "AND EXISTS (SELECT 1 FROM parts p WHERE p.body = b.id AND p.thread = t.id)"
)
"""The bodies `b` that a thread holds; to be narrowed by an AND."""


class Transaction(Protocol):
    """One transaction; statements have `?` for each value."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run it, and return the rows it gave."""

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run it once for each row of values."""


def execute_in(tx: Transaction, statement: str, values: Sequence[Any], items: Iterable[Any]) -> list[Row]:
    """The rows of a statement that has `IN (…)` behind its other values, for any number of items."""
    waiting = list(dict.fromkeys(items))
    found: list[Row] = []
    for at in range(0, len(waiting), _AT_ONCE):
        batch = waiting[at : at + _AT_ONCE]
        found += tx.execute(statement.replace("…", ", ".join("?" * len(batch))), [*values, *batch])
    return found


class Prepared(NamedTuple):
    """The parts that are new, as they will be written; made before the transaction, so that it is short."""

    parts: list[Part]
    bodies: list[bytes]
    views: list[bytes]
    segment: bytes | None


def prepare(parts: list[Part]) -> Prepared:
    """The parts packed and indexed."""
    seen = [(part.turn, part.text) for part in parts if part.turn >= 0]
    return Prepared(
        parts,
        [pack.pack(part.body) for part in parts],
        [pack.pack_view(part.role, part.origin, part.text, part.body) for part in parts],
        index.build(seen) if seen else None,
    )


def thread_id(tx: Transaction, scope: Scope) -> int | None:
    """The thread's id, or None when nothing of it is stored."""
    return next((found for (found,) in tx.execute(f"SELECT {THREAD}", names(scope))), None)


def make_thread(tx: Transaction, scope: Scope) -> tuple[int, int]:
    """The ids of a thread that is about to hold something, and of its namespace."""
    namespace, thread = names(scope)
    tx.execute("INSERT INTO namespaces (name) VALUES (?) ON CONFLICT DO NOTHING", [namespace])
    tx.execute(
        "INSERT INTO threads (namespace, name) SELECT id, ? FROM namespaces WHERE name = ? ON CONFLICT DO NOTHING",
        [thread, namespace],
    )
    (row,) = tx.execute(f"SELECT t.id, n.id FROM {NAMED} WHERE n.name = ? AND t.name = ?", [namespace, thread])
    return row[0], row[1]


def known_parts(tx: Transaction, scope: Scope, parts: Sequence[Part]) -> set[tuple[int, str]]:
    """Turn and hash of those of the parts that the thread holds already.

    `+p.thread`: by the body they are found at once, by the thread only after all of its parts.
    """
    rows = execute_in(
        tx,
        f"SELECT p.turn, b.hash FROM {NAMED} JOIN bodies b ON b.namespace = n.id "
        "JOIN parts p ON p.body = b.id AND +p.thread = t.id WHERE n.name = ? AND t.name = ? AND b.hash IN (…)",
        names(scope),
        hash_bytes(part.hash for part in parts),
    )
    return {(turn, to_hash(digest)) for turn, digest in rows}


def held_hashes(tx: Transaction, scope: Scope, hashes: Collection[str]) -> set[str]:
    """Those of the hashes whose messages the thread holds."""
    rows = execute_in(tx, f"SELECT b.hash {HELD} AND b.hash IN (…)", names(scope), hash_bytes(hashes))
    return {to_hash(digest) for (digest,) in rows}


def numbered(tx: Transaction, scope: Scope, numbers: Sequence[int]) -> dict[int, Part]:
    """The thread's parts with these numbers."""
    return {row[0]: to_part(row) for row in execute_in(tx, f"{PARTS} AND p.number IN (…)", names(scope), numbers)}


def records(tx: Transaction, scope: Scope, condition: str, *values: Any) -> list[Record]:
    """The thread's records that meet the condition."""
    statement = f"SELECT data FROM records WHERE thread = {THREAD} {condition}"
    return [unpack_record(scope, data) for (data,) in tx.execute(statement, [*names(scope), *values])]


def newest_time(tx: Transaction, scope: Scope) -> float | None:
    """When the record that was stored last was made, retired or not; None when the thread has none."""
    return next((found.created for found in records(tx, scope, "ORDER BY number DESC LIMIT 1")), None)


def to_part(row: Row) -> Part:
    """A row of `PARTS` as the part that was stored."""
    _, turn, digest, packed, view = row
    body = to_body(to_hash(digest), packed)
    role, origin, text = pack.unpack_view(view, body)
    return Part(to_hash(digest), body, turn, role, origin, text)


def to_body(digest: str, packed: bytes) -> bytes:
    """The body, and only if it is still what its hash says."""
    return laws.check_body(pack.unpack(packed), digest)


def pack_record(record: Record) -> bytes:
    """Everything of the record but its scope, which is where it stands."""
    return pack.pack(codec.encode(laws.record_fields(record)))


def unpack_record(scope: Scope, packed: bytes) -> Record:
    """The record that was packed."""
    return laws.record_of(scope, codec.decode(pack.unpack(packed)))


def scrub_records(tx: Transaction) -> None:
    """Rewrite the records whose receipt has credentials in the archive's address. What can't be read is left alone."""
    last = [-1, -1]
    while rows := tx.execute(
        "SELECT thread, number, data FROM records WHERE (thread, number) > (?, ?) ORDER BY thread, number LIMIT 500",
        last,
    ):
        last = list(rows[-1][:2])
        for thread, number, packed in rows:
            try:
                fields = codec.decode(pack.unpack(packed))
                clean = {**fields, "data": scrub_data(fields["data"])}
            except (ArchiveError, LookupError, TypeError, AttributeError):
                continue  # `verify` tells of it
            if clean != fields:
                data = pack.pack(codec.encode(clean))
                tx.execute("UPDATE records SET data = ? WHERE thread = ? AND number = ?", [data, thread, number])


def names(scope: Scope) -> list[bytes]:
    """Namespace and thread as they are stored."""
    return [to_bytes(scope.namespace), to_bytes(scope.thread)]


def to_bytes(text: str) -> bytes:
    """Any string as bytes, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def to_text(stored: bytes) -> str:
    """The string that `to_bytes` stored."""
    return stored.decode("utf-8", "surrogatepass")


def hash_bytes(hashes: Iterable[str]) -> list[bytes]:
    """Hashes as they are stored: half as long as their text. What is no hash is left out."""
    found: list[bytes] = []
    for digest in hashes:
        algorithm, _, digits = digest.partition(":")
        with suppress(ValueError):
            found.append(to_bytes(algorithm) + b":" + bytes.fromhex(digits))
    return found


def to_hash(stored: bytes) -> str:
    """The hash that `hash_bytes` stored."""
    algorithm, _, digest = stored.partition(b":")
    return f"{to_text(algorithm)}:{digest.hex()}"
