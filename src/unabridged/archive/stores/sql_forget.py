"""Threads and namespaces removed from a SQL database, inside a transaction that is alone in its namespace."""

# Statements are put together from constants of this package; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

from unabridged.archive import rules
from unabridged.archive.protocol import Scope
from unabridged.archive.stores import sql_rows
from unabridged.archive.stores.sql_rows import THREAD, Transaction, batches, names, to_bytes, to_text


def remove_thread(write: Transaction, scope: Scope) -> None:
    """Remove a thread: its leases, records and parts, every body only it used, and a namespace it leaves empty."""
    write.execute("DELETE FROM leases WHERE namespace = ? AND thread = ?", names(scope))
    thread = sql_rows.thread_id(write, scope)
    if thread is None:
        return
    bodies = [body for (body,) in write.execute("SELECT DISTINCT body FROM parts WHERE thread = ?", [thread])]
    for table in ("parts", "segments", "records"):
        write.execute(f"DELETE FROM {table} WHERE thread = ?", [thread])
    for batch, marks in batches(bodies):
        unused = "NOT EXISTS (SELECT 1 FROM parts p WHERE p.body = bodies.id)"
        write.execute(f"DELETE FROM bodies WHERE id IN ({marks}) AND {unused}", batch)
    write.execute("DELETE FROM threads WHERE id = ?", [thread])
    unused = "NOT EXISTS (SELECT 1 FROM threads t WHERE t.namespace = namespaces.id)"
    write.execute(f"DELETE FROM namespaces WHERE name = ? AND {unused}", [to_bytes(scope.namespace)])


def remove_namespace(write: Transaction, namespace: str, before: float | None) -> list[str]:
    """Remove the threads of a namespace, or those whose newest record is older than `before`; their names, sorted."""
    name = to_bytes(namespace)
    found = write.execute(
        "SELECT t.name FROM threads t JOIN namespaces n ON n.id = t.namespace WHERE n.name = ?", [name]
    )
    scopes = [Scope(namespace, to_text(thread)) for (thread,) in found]
    old = [one.thread for one in scopes if before is None or rules.is_older(newest_time(write, one), before)]
    for thread in old:
        remove_thread(write, Scope(namespace, thread))
    if before is None:
        for table in ("leases", "notes"):
            write.execute(f"DELETE FROM {table} WHERE namespace = ?", [name])
    return sorted(old)


def newest_time(tx: Transaction, scope: Scope) -> float | None:
    """When the record that was stored last was made, retired or not; None when the thread has none."""
    rows = tx.execute(f"SELECT data FROM records WHERE thread = {THREAD} ORDER BY number DESC LIMIT 1", names(scope))
    return sql_rows.unpack_record(scope, rows[0][0]).created if rows else None
