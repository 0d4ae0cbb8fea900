"""The search index in Postgres: an array of numbers for each message, with a GIN index.

A token's number is a checksum that begins with its namespace, so that no word stands in the index, and namespaces share
nothing.
"""

# Statements are put together from constants of this package and from numbers; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from unabridged.archive import search, words
from unabridged.archive.stores import sql_index
from unabridged.archive.stores.sql_index import Key, SqlIndex, group_keys, narrow_to_indexed
from unabridged.archive.stores.sql_tables import SqlWords, Transaction

MAX_SORTED_ROWS: Final = 3_000
"""Messages of a namespace, the last ones, that are gone through without the index."""
ENOUGH_MATCHES: Final = 60
"""Messages among the last ones with a word that tell how common it is."""


class GinWords(SqlWords):
    """How Postgres keeps the words of messages: what is added and removed."""

    tables = (
        "CREATE TABLE words (thread BIGINT NOT NULL REFERENCES threads (id) ON DELETE CASCADE, number BIGINT NOT NULL, "
        "tokens INTEGER[] NOT NULL, PRIMARY KEY (thread, number));"
        "CREATE INDEX words_by_token ON words USING gin (tokens) WITH (fastupdate = off)"
    )

    def prepare(self, texts: Iterable[str]) -> list[Any]:
        """Return what is kept of these texts, made before the transaction."""
        return [words.extract_tokens(words.prepare_for_index(text)) for text in texts]

    def add(self, tx: Transaction, namespace: int, thread: int, prepared: Sequence[tuple[int, Any]]) -> None:
        """Index messages of a thread, each by its number and what was prepared of it."""
        rows = [(thread, number, _hash_tokens(namespace, tokens)) for number, tokens in prepared]
        tx.execute_many("INSERT INTO words VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def remove(self, tx: Transaction, threads: Sequence[int]) -> None:
        """Take everything of these threads out of the index."""
        tx.execute_in("DELETE FROM words WHERE thread IN (…)", [], threads)

    def count_unindexed(self, tx: Transaction, namespace: int, thread: int, messages: Sequence[tuple[int, str]]) -> int:
        """Return how many of these messages of a thread, by number and text, are not indexed as they should be."""
        statement = "SELECT number, tokens FROM words WHERE thread = ? AND number IN (…)"
        rows = tx.execute_in(statement, [thread], (number for number, _ in messages))
        held = {number: set(tokens or ()) for number, tokens in rows}
        prepared = self.prepare(text for _, text in messages)
        expected = [set(_hash_tokens(namespace, tokens)) for tokens in prepared]
        return sum(held.get(number) != tokens for (number, _), tokens in zip(messages, expected, strict=True))

    def open_index(self, tx: Transaction, namespace: str, ids: tuple[int, int | None]) -> GinIndex:
        """Return the words of this place."""
        tx.execute("SET LOCAL enable_seqscan TO off")  # what is estimated wrongly must not go through every message
        return GinIndex(tx, namespace, ids)


def _hash_tokens(namespace: int, tokens: Iterable[bytes]) -> list[int]:
    """Return the tokens as signed numbers of 32 bits."""
    begun = zlib.crc32(b"%d:" % namespace)
    return [(zlib.crc32(token, begun) ^ 0x80000000) - 0x80000000 for token in tokens]


def _newest_rows() -> str:
    """Return the rows of the messages of a namespace that were written last, as a table of a query."""
    return (
        "(SELECT w.* FROM (SELECT id FROM threads WHERE namespace = ? ORDER BY used DESC) t CROSS JOIN LATERAL "
        f"(SELECT * FROM words WHERE thread = t.id ORDER BY number DESC LIMIT {MAX_SORTED_ROWS}) w "
        f"LIMIT {MAX_SORTED_ROWS}) w"
    )


class GinIndex(SqlIndex):
    """The words of a place in Postgres.

    The index gives all the messages with a word before the first can be read. So a namespace's last messages are gone
    through first: a word that is so common that the index would take long is common among them.
    """

    def newest(self, wanted: search.RequiredTokens, most: int) -> list[Key]:
        """Messages that may have what is wanted: of those written last, if enough of these do."""
        if not (narrowed := narrow_to_indexed(wanted)):
            return self._newest_of_all(most)
        condition, values = self._build_condition(narrowed)
        if self._thread_id is not None:
            rows = f"words WHERE thread = ? AND {condition} ORDER BY number DESC"
            return self._select_keys(rows, [self._thread_id, *values], most)
        found = self._select_keys(f"{_newest_rows()} WHERE {condition}", [self._namespace_id, *values], most)
        return found if len(found) >= most else self._select_keys(f"words WHERE {condition}", values, most)

    def threads(self, wanted: search.RequiredTokens) -> list[int]:
        """Return every thread with a message that may have what is wanted.

        Where that is common among the last messages, each thread is gone through up to the first that has it.
        """
        if not (narrowed := narrow_to_indexed(wanted)):
            return self._threads_with_any()
        condition, values = self._build_condition(narrowed)
        in_namespace = [self._namespace_id, *values]
        common = self._select_keys(f"{_newest_rows()} WHERE {condition}", in_namespace, ENOUGH_MATCHES)
        if len(common) < ENOUGH_MATCHES:
            rows = self._tx.execute(f"SELECT DISTINCT thread FROM words WHERE {condition}", values)
        else:
            having = f"(SELECT 1 FROM words WHERE thread = t.id AND {condition} OFFSET 0)"
            statement = f"SELECT t.id FROM threads t WHERE t.namespace = ? AND EXISTS {having}"
            rows = self._tx.execute(statement, in_namespace)
        return [thread for (thread,) in rows]

    def newest_each(self, wanted: search.RequiredTokens, threads: Sequence[int], most: int) -> dict[int, list[Key]]:
        """Return the newest messages of each of these threads that may have what is wanted, by one query."""
        if not (narrowed := narrow_to_indexed(wanted)):
            return self._newest_of_each(threads, most)
        condition, values = self._build_condition(narrowed)
        rows = self._tx.execute(
            "SELECT t.id, w.number FROM unnest(?::bigint[]) AS t (id) CROSS JOIN LATERAL "
            f"(SELECT number FROM words WHERE thread = t.id AND {condition} ORDER BY number DESC LIMIT ?) w",
            [list(threads), *values, most],
        )
        return group_keys(rows)

    def count(self, each: Sequence[search.TokenSet]) -> list[int]:
        """Return about how many messages have all of these tokens: estimated, or counted up to a sample."""
        if self._thread_id is not None:
            return [len(self.newest([[tokens]], sql_index.SAMPLE_SIZE)) for tokens in each]
        asked = [self._build_condition([[tokens]]) for tokens in each]
        columns = ", ".join(f"COUNT(*) FILTER (WHERE {condition})" for condition, _ in asked)
        values = [value for _, values in asked for value in values]
        (counts,) = self._tx.execute(f"SELECT {columns} FROM {_newest_rows()}", [*values, self._namespace_id])
        return [
            max(found, found * self.totals[0] // MAX_SORTED_ROWS)
            if found >= ENOUGH_MATCHES
            else len(self._select_keys(f"words WHERE {condition}", values, sql_index.SAMPLE_SIZE))
            for (condition, values), found in zip(asked, counts, strict=True)
        ]

    def _select_keys(self, where: str, values: Sequence[Any], most: int) -> list[Key]:
        rows = self._tx.execute(f"SELECT thread, number FROM {where} LIMIT ?", [*values, most])
        return [(thread, number) for thread, number in rows]

    def _build_condition(self, wanted: search.RequiredTokens) -> tuple[str, list[Any]]:
        every = (" OR ".join(["tokens @> ?::integer[]"] * len(alternatives)) for alternatives in wanted)
        asked = (map(str.encode, tokens) for alternatives in wanted for tokens in alternatives)
        values = [_hash_tokens(self._namespace_id, tokens) for tokens in asked]
        return " AND ".join(f"({one})" for one in every), values
