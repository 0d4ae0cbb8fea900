"""The search index by the database's own means, what `sqlite_index` and `postgres_index` share.

Both give candidates only; `archive.search` decides on their texts. A thread's row counts its messages and their
characters, so that nothing is counted at search time.
"""

# Statements are put together from constants of this package and from numbers; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final

from unabridged.archive import search
from unabridged.archive.protocol import Scope
from unabridged.archive.stores import sql_tables
from unabridged.archive.stores.sql_tables import BATCH_SIZE, Transaction, to_text

SAMPLE_SIZE: Final = 2_000
"""Messages with a word after which the others are not counted but estimated."""
Key = tuple[int, int]


class SqlIndex:
    """What both databases share: one place, looked at in one transaction."""

    def __init__(self, tx: Transaction, namespace: str, ids: tuple[int, int | None]) -> None:
        self._tx, self._namespace = tx, namespace
        self._namespace_id, self._thread_id = ids
        column, value = ("namespace", ids[0]) if ids[1] is None else ("id", ids[1])
        self._scope_condition, self._scope_value = f"t.{column} = ?", value

    @cached_property
    def totals(self) -> tuple[int, int]:
        """Return how many messages there are, and how many characters they have."""
        counts = "SELECT COALESCE(SUM(messages), 0), COALESCE(SUM(length), 0) FROM threads t WHERE"
        ((messages, length),) = self._tx.execute(f"{counts} {self._scope_condition}", [self._scope_value])
        return int(messages), int(length)

    def read(self, keys: Sequence[Key]) -> Iterator[search.SearchCandidate]:
        """Yield these messages, as far as they stand in this place, in no order and not all at once."""
        for at in range(0, len(keys), BATCH_SIZE):
            batch = keys[at : at + BATCH_SIZE]
            statement = (
                f"WITH wanted (thread, number) AS (VALUES {', '.join(['(?, ?)'] * len(batch))}) "
                "SELECT t.id, t.name, p.number, p.turn, b.hash, b.body, p.view FROM wanted w CROSS JOIN parts p "
                "CROSS JOIN bodies b CROSS JOIN threads t WHERE p.thread = w.thread AND p.number = w.number "
                f"AND b.id = p.body AND t.id = p.thread AND {self._scope_condition}"
            )
            rows = self._tx.execute(statement, [*chain.from_iterable(batch), self._scope_value])
            for thread, name, *row in rows:
                scope, part = Scope(self._namespace, to_text(name)), sql_tables.to_part(tuple(row))
                yield search.SearchCandidate(scope, row[0], part, thread)

    def totals_each(self, threads: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return how many messages each of these threads has, and how many characters."""
        rows = self._tx.execute_in("SELECT id, messages, length FROM threads WHERE id IN (…)", [], threads)
        return {thread: (int(messages), int(length)) for thread, messages, length in rows}

    def _threads_with_any(self) -> list[int]:
        """Return every thread that has a message."""
        statement = f"SELECT id FROM threads t WHERE {self._scope_condition} AND messages > 0"
        return [thread for (thread,) in self._tx.execute(statement, [self._scope_value])]

    def _newest_of_each(self, threads: Sequence[int], most: int) -> dict[int, list[Key]]:
        """Return the newest messages of each of these threads, whatever they have."""
        place = "ROW_NUMBER() OVER (PARTITION BY thread ORDER BY number DESC) AS place"
        statement = (
            f"SELECT thread, number FROM (SELECT thread, number, {place} FROM parts WHERE turn >= 0 AND thread IN (…)) "
            f"AS p WHERE place <= {int(most)} ORDER BY number DESC"
        )
        return group_keys(self._tx.execute_in(statement, [], threads))

    def _newest_of_all(self, most: int) -> list[Key]:
        """Return the newest messages, whatever they have."""
        rows = self._tx.execute(
            "SELECT p.thread, p.number FROM threads t JOIN parts p ON p.thread = t.id "
            f"WHERE {self._scope_condition} AND p.turn >= 0 ORDER BY t.used DESC, p.thread DESC, p.number DESC LIMIT ?",
            [self._scope_value, most],
        )
        return [(thread, number) for thread, number in rows]


def group_keys(rows: Iterable[Sequence[Any]]) -> dict[int, list[Key]]:
    """Return rows of a thread and a message's number by their threads."""
    found: dict[int, list[Key]] = {}
    for thread, number in rows:
        found.setdefault(thread, []).append((thread, number))
    return found


def narrow_to_indexed(wanted: search.RequiredTokens) -> list[list[search.TokenSet]]:
    """Return the required tokens without those alternatives that the index cannot check."""
    return [list(alternatives) for alternatives in wanted if all(alternatives)]
