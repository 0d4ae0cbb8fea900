"""Every reference, hash and part of the SQL stores, checked."""

# Statements are put together from constants of this package; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterator

from unabridged.archive import store_rules
from unabridged.archive.protocol import Record, Scope
from unabridged.archive.stores import sql_tables
from unabridged.archive.stores.sql_tables import THREAD_ID_QUERY, THREADS_WITH_NAMESPACES, Transaction, to_text
from unabridged.errors import ArchiveError


def find_stored_problems(tx: Transaction, scope: Scope | None) -> Iterator[str]:
    """Yield a sentence for everything that is wrong, with one thread or with all."""
    if scope is not None:
        yield from _find_thread_problems(tx, scope)
        return
    rows = tx.execute(f"SELECT n.name, t.name FROM {THREADS_WITH_NAMESPACES} ORDER BY t.id")
    for namespace, thread in rows:
        yield from _find_thread_problems(tx, Scope(to_text(namespace), to_text(thread)))
    unused = tx.execute("SELECT COUNT(*) FROM bodies b WHERE NOT EXISTS (SELECT 1 FROM parts p WHERE p.body = b.id)")
    if unused[0][0]:
        yield f"{unused[0][0]:,} stored messages belong to no thread"
    crossed = tx.execute(
        "SELECT COUNT(*) FROM parts p JOIN bodies b ON b.id = p.body JOIN threads t ON t.id = p.thread "
        "WHERE b.namespace <> t.namespace"
    )
    if crossed[0][0]:
        yield f"{crossed[0][0]:,} parts refer to a message of another namespace"


def _find_thread_problems(tx: Transaction, scope: Scope) -> Iterator[str]:
    held_hashes: set[str] = set()
    numbers: list[int] = []
    lengths: list[int] = []
    wrong, where = 0, store_rules.describe_scope(scope)
    columns = "t.id, t.namespace, t.messages, t.length"
    own = tx.execute(f"SELECT {columns} FROM {THREADS_WITH_NAMESPACES} WHERE n.name = ? AND t.name = ?", scope)
    thread, namespace, *counted = next(iter(own), (None, None, 0, 0))
    for rows in sql_tables.read_in_pages(tx, sql_tables.PARTS_QUERY, "p.number", scope):
        seen: list[tuple[int, str]] = []
        for row in rows:
            numbers.append(row[0])
            held_hashes.add(sql_tables.hash_from_bytes(row[2]))
            try:
                part = sql_tables.to_part(row)
            except ArchiveError as error:
                yield f"{where}: the message at turn {row[1]}: {error}"
                counted = []  # how long its text was nobody can say
            else:
                seen += [(row[0], part.text)] if part.turn >= 0 else []
        lengths += [len(text) for _, text in seen]
        wrong += tx.words.count_unindexed(tx, namespace, thread, seen)
    if numbers != list(range(len(numbers))):
        yield f"{where}: of {max(numbers) + 1:,} parts only {len(numbers):,} are there"
    if wrong or (counted and counted != [len(lengths), sum(lengths)]):
        yield f"{where}: the search index and the {len(lengths):,} messages differ in {max(wrong, 1):,} places"
    yield from _find_record_problems(tx, scope, held_hashes)


def _find_record_problems(tx: Transaction, scope: Scope, held_hashes: set[str]) -> Iterator[str]:
    records: list[Record] = []
    where = store_rules.describe_scope(scope)
    rows = tx.execute(f"SELECT id, key, data FROM records WHERE thread = {THREAD_ID_QUERY} ORDER BY number", scope)
    for stored_id, stored_key, data in rows:
        try:
            record = sql_tables.unpack_record(scope, data)
        except ArchiveError as error:
            yield f"{where}: record {to_text(stored_id)!r}: {error}"
            continue
        if (record.id, record.key) != (to_text(stored_id), to_text(stored_key)):
            yield f"{where}: record {to_text(stored_id)!r} is filed under another id or key than it has"
        records.append(record)
    yield from store_rules.find_dangling_references(scope, records, held_hashes)
