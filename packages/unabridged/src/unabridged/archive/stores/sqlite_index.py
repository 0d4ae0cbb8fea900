"""The search index in SQLite: contentless FTS5 tables without positions or texts, in shelves of `SHELF_MESSAGES`.

A thread stands on one of them, and a namespace and a thread are ranges of its row ids: one tenant's words are never
gone through for another. What is forgotten is taken out and the shelf merged anew, since FTS5 keeps what was deleted
until then: that costs the size of one shelf, not of the archive.
"""

# Statements are put together from constants of this package and from numbers; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nlargest
from typing import Any, Final

from unabridged.archive import search, words
from unabridged.archive.codec import pack
from unabridged.archive.stores import sql_index
from unabridged.archive.stores.sql_index import Key, SqlIndex, narrow_to_indexed
from unabridged.archive.stores.sql_tables import SqlWords, Transaction, read_in_pages
from unabridged.errors import ArchiveError

SHELF_MESSAGES: Final = 1 << 16
"""Messages after which new threads go onto another shelf."""
_NUMBER_BITS: Final = 22  # bits of a row id for the message's number in its thread
_PLACE_BITS: Final = 20  # bits for the thread's place on its shelf; the others are the namespace's
_LAST_NUMBER: Final = (1 << _NUMBER_BITS) - 1
_CHECKED_TOKENS: Final = 4  # tokens of a message that are looked for to see that it is indexed
_MATCHES: Final = "{0} MATCH CAST(? AS TEXT) AND rowid BETWEEN ? AND ?"
"""The condition of a table: its values are a query and two row ids."""


class FtsWords(SqlWords):
    """How SQLite keeps the words of messages: what is added and removed."""

    columns = "shelf INTEGER, base INTEGER, "
    tables = (
        "CREATE TABLE shelves (id INTEGER PRIMARY KEY, threads INTEGER NOT NULL, messages INTEGER NOT NULL);"
        "CREATE INDEX threads_by_base ON threads (shelf, base)"
    )

    def prepare(self, texts: Iterable[str]) -> list[Any]:
        """Return what is kept of these texts, made before the transaction."""
        return [words.prepare_for_index(text).decode() for text in texts]

    def add(self, tx: Transaction, namespace: int, thread: int, prepared: Sequence[tuple[int, Any]]) -> None:
        """Index messages of a thread, each by its number and what was prepared of it."""
        ((shelf, base),) = tx.execute("SELECT shelf, base FROM threads WHERE id = ?", [thread])
        if shelf is None:
            shelf, base = _assign_shelf(tx, namespace, thread)
        tx.execute("UPDATE shelves SET messages = messages + ? WHERE id = ?", [len(prepared), shelf])
        _check_fits_bits(max(number for number, _ in prepared), _NUMBER_BITS, "messages in a thread")
        rows = [(base + number, text) for number, text in prepared]
        tx.execute_many(f"INSERT INTO words_{int(shelf)} (rowid, text) VALUES (?, ?)", rows)

    def remove(self, tx: Transaction, threads: Sequence[int]) -> None:
        """Take everything of these threads out of the index, so that nothing of it is left in the file."""
        standing: defaultdict[int, dict[int, int]] = defaultdict(dict)
        rows = tx.execute_in("SELECT shelf, id, base FROM threads WHERE shelf IS NOT NULL AND id IN (…)", [], threads)
        for shelf, thread, base in rows:
            standing[shelf][thread] = base
        for shelf, going in standing.items():
            ((others,),) = tx.execute("SELECT COUNT(*) FROM threads WHERE shelf = ?", [shelf])
            table = f"words_{int(shelf)}"
            if others == len(going) or not all(self._delete_thread(tx, table, *thread) for thread in going.items()):
                self._rebuild_shelf(tx, shelf, going)
            else:
                tx.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
            messages = tx.execute_in("SELECT id, messages FROM threads WHERE id IN (…)", [], going)
            left = "(SELECT COALESCE(SUM(messages), 0) FROM threads WHERE shelf = ?) - ?"
            gone = sum(number for _, number in messages)
            tx.execute(f"UPDATE shelves SET messages = {left} WHERE id = ?", [shelf, gone, shelf])

    def _delete_thread(self, tx: Transaction, table: str, thread: int, base: int) -> bool:
        """Delete a thread's row ids, which takes their texts; whether all could be read."""
        for batch in _read_prepared_texts(tx, thread):
            if any(text is None for _, text in batch):
                return False
            rows = [(base + number, text) for number, text in batch]
            tx.execute_many(f"INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', ?, ?)", rows)
        return True

    def _rebuild_shelf(self, tx: Transaction, shelf: int, without: Mapping[int, int]) -> None:
        """Empty the shelf, and index anew what stays of it."""
        tx.execute(f"INSERT INTO words_{int(shelf)} (words_{int(shelf)}) VALUES ('delete-all')")
        for thread, namespace in tx.execute("SELECT id, namespace FROM threads WHERE shelf = ?", [shelf]):
            for batch in _read_prepared_texts(tx, thread) if thread not in without else ():
                self.add(tx, namespace, thread, [(number, text or "") for number, text in batch])

    def count_unindexed(self, tx: Transaction, namespace: int, thread: int, messages: Sequence[tuple[int, str]]) -> int:
        """Return how many of these messages of a thread, by number and text, are not found by their longest tokens."""
        index = FtsIndex(tx, "", (namespace, thread))
        ((shelf, base),) = tx.execute("SELECT shelf, base FROM threads WHERE id = ?", [thread])
        count = 0
        for number, text in messages:
            tokens = nlargest(_CHECKED_TOKENS, words.extract_tokens(words.prepare_for_index(text)), key=len)
            wanted = [[frozenset(token.decode() for token in tokens)]]
            row = (base or 0) + number
            count += bool(tokens) and (shelf is None or not index.find_rows(shelf, row, row, wanted, 1))
        return count

    def open_index(self, tx: Transaction, namespace: str, ids: tuple[int, int | None]) -> FtsIndex:
        """Return the words of this place."""
        return FtsIndex(tx, namespace, ids)


def _read_prepared_texts(tx: Transaction, thread: int) -> Iterator[list[tuple[int, str | None]]]:
    """Yield number and prepared text of the messages that search sees, some at a time; None for what can't be read."""
    statement = (
        "SELECT p.number, b.body, p.view FROM parts p JOIN bodies b ON b.id = p.body WHERE p.turn >= 0 AND p.thread = ?"
    )
    for rows in read_in_pages(tx, statement, "p.number", [thread]):
        yield [(number, _prepare_stored_text(body, view)) for number, body, view in rows]


def _prepare_stored_text(body: bytes, view: bytes) -> str | None:
    try:
        return words.prepare_for_index(pack.unpack_view(view, pack.unpack(body))[2]).decode()
    except ArchiveError:
        return None  # `verify` tells of it


def _assign_shelf(tx: Transaction, namespace: int, thread: int) -> tuple[int, int]:
    """Return a thread's shelf, the last one while there is room, and where its row ids begin."""
    rows = tx.execute("SELECT id, threads, messages FROM shelves ORDER BY id DESC LIMIT 1")
    shelf, threads, messages = rows[0] if rows else (-1, 0, SHELF_MESSAGES)
    if messages >= SHELF_MESSAGES or threads >= 1 << _PLACE_BITS:
        shelf, threads = shelf + 1, 0
        tx.execute("INSERT INTO shelves VALUES (?, 0, 0)", [shelf])
        tx.execute(
            f"CREATE VIRTUAL TABLE words_{int(shelf)} USING "
            "fts5 (text, content='', detail=none, columnsize=0, tokenize='ascii')"
        )
    base = _first_row_id(namespace, threads)
    tx.execute("UPDATE shelves SET threads = threads + 1 WHERE id = ?", [shelf])
    tx.execute("UPDATE threads SET shelf = ?, base = ? WHERE id = ?", [shelf, base, thread])
    return shelf, base


def _first_row_id(namespace: int, place: int) -> int:
    """Return where the row ids begin of the thread in this place of a shelf."""
    number = _check_fits_bits(namespace, 63 - _NUMBER_BITS - _PLACE_BITS, "namespaces")
    return (number << _PLACE_BITS | place) << _NUMBER_BITS


def _check_fits_bits(number: int, bits: int, what: str) -> int:
    if number >> bits:
        raise ArchiveError(f"a SQLite archive takes up to {1 << bits:,} {what}. Use Postgres, or another file.")
    return number


class FtsIndex(SqlIndex):
    """The words of a place in SQLite."""

    def newest(self, wanted: search.RequiredTokens, most: int) -> list[Key]:
        """Messages that may have what is wanted: of the threads that began last, the newest."""
        if not (narrowed := narrow_to_indexed(wanted)):
            return self._newest_of_all(most)
        found: list[Key] = []
        for shelf, first, last in self._row_ranges:
            rows = self.find_rows(shelf, first, last, narrowed, most - len(found))
            found += self._rows_to_keys(shelf, rows)
            if len(found) >= most:
                break
        return found

    def threads(self, wanted: search.RequiredTokens) -> list[int]:
        """Return every thread with a message that may have what is wanted."""
        if not (narrowed := narrow_to_indexed(wanted)):
            return self._threads_with_any()
        found: list[int] = []
        for shelf, first, last in self._row_ranges:
            table = f"words_{int(shelf)}"
            statement = f"SELECT DISTINCT rowid >> {_NUMBER_BITS} FROM {table} WHERE {_MATCHES.format(table)}"
            rows = self._tx.execute(statement, [_build_match_query(narrowed), first, last])
            held = "SELECT id FROM threads WHERE shelf = ? AND base IN (…)"
            threads = self._tx.execute_in(held, [shelf], (row << _NUMBER_BITS for (row,) in rows))
            found += [thread for (thread,) in threads]
        return found

    def newest_each(self, wanted: search.RequiredTokens, threads: Sequence[int], most: int) -> dict[int, list[Key]]:
        """Return the newest messages of each of these threads that may have what is wanted."""
        if not (narrowed := narrow_to_indexed(wanted)):
            return self._newest_of_each(threads, most)
        found: dict[int, list[Key]] = {}
        standing = "SELECT id, shelf, base FROM threads WHERE shelf IS NOT NULL AND id IN (…)"
        for thread, shelf, base in self._tx.execute_in(standing, [], threads):
            rows = self.find_rows(shelf, base, base | _LAST_NUMBER, narrowed, most)
            found[thread] = [(thread, row & _LAST_NUMBER) for row in rows]
        return found

    def count(self, each: Sequence[search.TokenSet]) -> list[int]:
        """Return about how many messages have all of these tokens: counted up to a sample, then estimated."""
        return [self._count([[tokens]]) for tokens in each]

    def _count(self, wanted: search.RequiredTokens) -> int:
        if not (narrowed := narrow_to_indexed(wanted)):
            return self.totals[0]
        count = gone_through = 0
        for shelf, first, last in self._row_ranges:
            rows = self.find_rows(shelf, first, last, narrowed, sql_index.SAMPLE_SIZE - count)
            count += len(rows)
            until = rows[-1] >> _NUMBER_BITS << _NUMBER_BITS if count >= sql_index.SAMPLE_SIZE else first
            ((messages,),) = self._tx.execute(
                f"SELECT SUM(messages) FROM threads t WHERE {self._scope_condition} AND shelf = ? AND base >= ?",
                [self._scope_value, shelf, until],
            )
            gone_through += int(messages or 0)
            if count >= sql_index.SAMPLE_SIZE:
                return max(count, count * self.totals[0] // max(gone_through, 1))
        return count

    def find_rows(self, shelf: int, first: int, last: int, wanted: search.RequiredTokens, most: int) -> list[int]:
        """Return the row ids of a shelf, from first to last, that have what is wanted: the last ones."""
        table = f"words_{int(shelf)}"
        statement = f"SELECT rowid FROM {table} WHERE {_MATCHES.format(table)} ORDER BY rowid DESC LIMIT ?"
        return [row for (row,) in self._tx.execute(statement, [_build_match_query(wanted), first, last, most])]

    @cached_property
    def _row_ranges(self) -> list[tuple[int, int, int]]:
        """Return each shelf that has something of the place, the newest first, and the row ids of the place."""
        if self._thread_id is not None:
            standing = "SELECT shelf, base FROM threads WHERE id = ? AND shelf IS NOT NULL"
            rows = self._tx.execute(standing, [self._thread_id])
            return [(shelf, base, base | _LAST_NUMBER) for shelf, base in rows]
        first = _first_row_id(self._namespace_id, 0)
        last = first | (1 << _PLACE_BITS + _NUMBER_BITS) - 1
        having = "EXISTS (SELECT 1 FROM threads t WHERE t.shelf = s.id AND t.base BETWEEN ? AND ?)"
        rows = self._tx.execute(f"SELECT id FROM shelves s WHERE {having} ORDER BY id DESC", [first, last])
        return [(shelf, first, last) for (shelf,) in rows]

    def _rows_to_keys(self, shelf: int, rows: Sequence[int]) -> list[Key]:
        bases = {row >> _NUMBER_BITS << _NUMBER_BITS for row in rows}
        statement = "SELECT base, id FROM threads WHERE shelf = ? AND base IN (…)"
        threads: dict[int, int] = dict(self._tx.execute_in(statement, [shelf], bases))
        places = [(threads.get(row >> _NUMBER_BITS << _NUMBER_BITS), row & _LAST_NUMBER) for row in rows]
        return [(thread, number) for thread, number in places if thread is not None]


def _build_match_query(wanted: search.RequiredTokens) -> str:
    """Return what is wanted in FTS5's syntax."""
    every = (" OR ".join(f"({' AND '.join(map(_quote, sorted(tokens)))})" for tokens in one) for one in wanted)
    return " AND ".join(f"({one})" for one in every)


def _quote(token: str) -> str:
    """Return a token in FTS5's syntax; a long one by its beginning. There is no quote in any."""
    return f'"{token}"' + (" *" if len(token) >= words.MAX_TOKEN_CHARACTERS else "")
