"""The search index by the database's own means: FTS5 in SQLite, arrays with a GIN index in Postgres.

Both give candidates only; `archive.search` decides on their texts. A thread's row counts its messages and their
characters, so that nothing is counted at search time.

SQLite: contentless FTS5 tables (no positions, no texts), shelves of about `SHELF` messages each. A thread stands on one
of them, and a namespace and a thread are ranges of its row ids: one tenant's words are never gone through for another.
What is forgotten is taken out and the shelf merged anew, since FTS5 keeps what was deleted until then: that costs the
size of one shelf, not of the archive.

Postgres: a row of numbers for each message. A token's number is a checksum that begins with its namespace, so that no
word stands in the index, and namespaces share nothing.
"""

# Statements are put together from constants of this package and from numbers; every value is a `?`.
# ruff: noqa: S608

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nlargest
from typing import Any, Final, NamedTuple

from unabridged.archive import search, words
from unabridged.archive.codec import pack
from unabridged.archive.protocol import Scope
from unabridged.archive.stores import sql_tables
from unabridged.archive.stores.sql_tables import Transaction, to_text
from unabridged.errors import ArchiveError

SHELF: Final = 1 << 16
"""Messages after which new threads go onto another shelf."""
SAMPLE: Final = 2_000
"""Messages with a word after which the others are not counted but estimated."""
_NUMBERS: Final = 22  # bits of a row id for the message's number in its thread
_PLACES: Final = 20  # bits for the thread's place on its shelf; the others are the namespace's
_AT_ONCE: Final = 500
_CHECKED: Final = 4  # tokens of a message that are looked for to see that it is indexed

LAST: Final = 3_000
"""Messages of a namespace, the last ones, that Postgres goes through without its index."""
ENOUGH: Final = 60
"""Messages among the last ones with a word that tell how common it is."""
Key = tuple[int, int]


class Place(NamedTuple):
    """Whose words: of one thread, or of a whole namespace."""

    name: Scope
    namespace: int
    thread: int | None


class SqlIndex:
    """What both databases share: one place, looked at in one transaction."""

    def __init__(self, tx: Transaction, place: Place) -> None:
        self._tx = tx
        self._place = place
        column, value = ("namespace", place.namespace) if place.thread is None else ("id", place.thread)
        self._threads, self._whose = f"t.{column} = ?", value

    @cached_property
    def totals(self) -> tuple[int, int]:
        """How many messages there are, and how many characters they have."""
        counts = f"SELECT COALESCE(SUM(messages), 0), COALESCE(SUM(length), 0) FROM threads t WHERE {self._threads}"
        ((messages, length),) = self._tx.execute(counts, [self._whose])
        return int(messages), int(length)

    def read(self, keys: Sequence[Key]) -> Sequence[search.Found]:
        """These messages, as far as they stand in this place, in no order."""
        found: list[search.Found] = []
        for at in range(0, len(keys), _AT_ONCE):
            batch = keys[at : at + _AT_ONCE]
            statement = (
                f"WITH wanted (thread, number) AS (VALUES {', '.join(['(?, ?)'] * len(batch))}) "
                "SELECT t.name, p.number, p.turn, b.hash, b.body, p.view FROM wanted w CROSS JOIN parts p "
                "CROSS JOIN bodies b CROSS JOIN threads t WHERE p.thread = w.thread AND p.number = w.number "
                f"AND b.id = p.body AND t.id = p.thread AND {self._threads}"
            )
            rows = self._tx.execute(statement, [*(value for key in batch for value in key), self._whose])
            found += [
                search.Found(Scope(self._place.name.namespace, to_text(name)), row[0], sql_tables.to_part(tuple(row)))
                for name, *row in rows
            ]
        return found

    def _newest_of_all(self, most: int) -> list[Key]:
        """The newest messages, whatever they have."""
        rows = self._tx.execute(
            "SELECT p.thread, p.number FROM threads t JOIN parts p ON p.thread = t.id "
            f"WHERE {self._threads} AND p.turn >= 0 ORDER BY t.used DESC, p.thread DESC, p.number DESC LIMIT ?",
            [self._whose, most],
        )
        return [(thread, number) for thread, number in rows]


class SqlWords(ABC):
    """What both databases share of keeping words."""

    tables: str
    """The statements that make its tables."""

    @abstractmethod
    def prepare(self, texts: Iterable[str]) -> list[Any]:
        """What is kept of these texts, made before the transaction."""

    @abstractmethod
    def add(self, tx: Transaction, namespace: int, thread: int, prepared: Sequence[tuple[int, Any]]) -> None:
        """Index messages of a thread, each by its number and what was prepared of it."""

    @abstractmethod
    def remove(self, tx: Transaction, threads: Sequence[int]) -> None:
        """Take everything of these threads out of the index, before they go themselves."""

    @abstractmethod
    def wrong(self, tx: Transaction, namespace: int, thread: int, messages: Sequence[tuple[int, str]]) -> int:
        """How many of these messages of a thread, by number and text, are not in the index as they should be."""

    @abstractmethod
    def look(self, tx: Transaction, place: Place) -> search.Index:
        """The words of a thread, or of a namespace."""

    def index(self, tx: Transaction, namespace: int, thread: int, messages: Sequence[tuple[int, str | None]]) -> None:
        """Index messages of a thread, each given by number and text."""
        if messages:
            prepared = self.prepare(text or "" for _, text in messages)
            self.add(tx, namespace, thread, list(zip((number for number, _ in messages), prepared, strict=True)))

    def fill(self, tx: Transaction, after: int) -> int | None:
        """Index some of what the segments of earlier versions tell of, and remove these; None when none is left.

        A segment is named by its first message; it begins with its version and how many messages it has.
        """
        rows = tx.execute(
            "SELECT s.thread, t.namespace, s.number, s.data FROM segments s JOIN threads t ON t.id = s.thread "
            "ORDER BY s.thread, s.number LIMIT 20"
        )
        for thread, namespace, first, data in rows:
            size = data.split(b" ", 2)[1:2]
            stop = first + int(size[0]) if size and size[0].isdigit() else sql_tables.FAR
            for batch in searched(tx, thread, first, stop):
                self.index(tx, namespace, thread, batch)
                lengths = [len(text or "") for _, text in batch]
                tx.execute(
                    "UPDATE threads SET messages = messages + ?, length = length + ? WHERE id = ?",
                    [len(lengths), sum(lengths), thread],
                )
            tx.execute("DELETE FROM segments WHERE thread = ? AND number = ?", [thread, first])
        return after if rows else None


def searched(
    tx: Transaction, thread: int, first: int = 0, stop: int = sql_tables.FAR
) -> Iterator[list[tuple[int, str | None]]]:
    """Number and text of the messages of a thread that search sees, some at a time; None for what can't be read."""
    statement = (
        "SELECT p.number, p.turn, b.body, p.view FROM parts p JOIN bodies b ON b.id = p.body "
        "WHERE p.thread = ? AND p.number >= ? AND p.number < ? ORDER BY p.number LIMIT ?"
    )
    while rows := tx.execute(statement, [thread, first, stop, _AT_ONCE]):
        first = rows[-1][0] + 1
        yield [(number, _text_of(body, view)) for number, turn, body, view in rows if turn >= 0]


def _text_of(body: bytes, view: bytes) -> str | None:
    try:
        return pack.unpack_view(view, pack.unpack(body))[2]
    except ArchiveError:
        return None  # `verify` tells of it


def narrowing(wanted: search.Wanted) -> list[list[search.Tokens]]:
    """What of it an index can tell: not what a message without any tokens may have, too."""
    return [list(alternatives) for alternatives in wanted if all(alternatives)]


# -- SQLite ----------------------------------------------------------------------------------------------------------


class FtsWords(SqlWords):
    """How SQLite keeps the words of messages: what is added and removed."""

    tables = (
        "CREATE TABLE shelves (id INTEGER PRIMARY KEY, threads INTEGER NOT NULL, messages INTEGER NOT NULL);"
        "ALTER TABLE threads ADD COLUMN shelf INTEGER; ALTER TABLE threads ADD COLUMN base INTEGER;"
        "CREATE INDEX threads_by_base ON threads (shelf, base)"
    )

    def prepare(self, texts: Iterable[str]) -> list[Any]:
        """What is kept of these texts, made before the transaction."""
        return [words.prepare(text).decode() for text in texts]

    def add(self, tx: Transaction, namespace: int, thread: int, prepared: Sequence[tuple[int, Any]]) -> None:
        """Index messages of a thread, each by its number and what was prepared of it."""
        ((shelf, base),) = tx.execute("SELECT shelf, base FROM threads WHERE id = ?", [thread])
        if shelf is None:
            shelf, base = _give_place(tx, namespace, thread)
        tx.execute("UPDATE shelves SET messages = messages + ? WHERE id = ?", [len(prepared), shelf])
        _fit(max(number for number, _ in prepared), _NUMBERS, "messages in a thread")
        rows = [(base + number, text) for number, text in prepared]
        tx.many(f"INSERT INTO words_{int(shelf)} (rowid, text) VALUES (?, ?)", rows)

    def remove(self, tx: Transaction, threads: Sequence[int]) -> None:
        """Take everything of these threads out of the index, so that nothing of it is left in the file."""
        standing: defaultdict[int, dict[int, int]] = defaultdict(dict)
        rows = tx.execute_in("SELECT shelf, id, base FROM threads WHERE shelf IS NOT NULL AND id IN (…)", [], threads)
        for shelf, thread, base in rows:
            standing[shelf][thread] = base
        for shelf, going in standing.items():
            ((others,),) = tx.execute("SELECT COUNT(*) FROM threads WHERE shelf = ?", [shelf])
            table = f"words_{int(shelf)}"
            if others == len(going) or not all(self._take_out(tx, table, *thread) for thread in going.items()):
                self._rebuild(tx, shelf, going)
            else:
                tx.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
            messages = tx.execute_in("SELECT id, messages FROM threads WHERE id IN (…)", [], going)
            left = "(SELECT COALESCE(SUM(messages), 0) FROM threads WHERE shelf = ?) - ?"
            gone = sum(number for _, number in messages)
            tx.execute(f"UPDATE shelves SET messages = {left} WHERE id = ?", [shelf, gone, shelf])

    def _take_out(self, tx: Transaction, table: str, thread: int, base: int) -> bool:
        """Delete a thread's row ids, which takes their texts; whether all could be read."""
        for batch in searched(tx, thread):
            if any(text is None for _, text in batch):
                return False
            prepared = self.prepare(text or "" for _, text in batch)
            rows = [(base + number, text) for (number, _), text in zip(batch, prepared, strict=True)]
            tx.many(f"INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', ?, ?)", rows)
        return True

    def _rebuild(self, tx: Transaction, shelf: int, without: Mapping[int, int]) -> None:
        """Empty the shelf, and index anew what stays of it."""
        tx.execute(f"INSERT INTO words_{int(shelf)} (words_{int(shelf)}) VALUES ('delete-all')")
        for thread, namespace in tx.execute("SELECT id, namespace FROM threads WHERE shelf = ?", [shelf]):
            for batch in searched(tx, thread) if thread not in without else ():
                self.index(tx, namespace, thread, batch)

    def wrong(self, tx: Transaction, namespace: int, thread: int, messages: Sequence[tuple[int, str]]) -> int:
        """How many of these messages of a thread, by number and text, are not found by their longest tokens."""
        index = FtsIndex(tx, Place(Scope("", ""), namespace, thread))
        ((shelf, base),) = tx.execute("SELECT shelf, base FROM threads WHERE id = ?", [thread])
        count = 0
        for number, text in messages:
            tokens = nlargest(_CHECKED, words.tokens_of(words.prepare(text)), key=len)
            wanted = [[frozenset(token.decode() for token in tokens)]]
            row = (base or 0) + number
            count += bool(tokens) and (shelf is None or not index.matching(shelf, row, row, wanted, 1))
        return count

    def look(self, tx: Transaction, place: Place) -> FtsIndex:
        """The words of this place."""
        return FtsIndex(tx, place)


def _give_place(tx: Transaction, namespace: int, thread: int) -> tuple[int, int]:
    """A thread's shelf, the last one while there is room, and where its row ids begin."""
    rows = tx.execute("SELECT id, threads, messages FROM shelves ORDER BY id DESC LIMIT 1")
    shelf, threads, messages = rows[0] if rows else (-1, 0, SHELF)
    if messages >= SHELF or threads >= 1 << _PLACES:
        shelf, threads = shelf + 1, 0
        tx.execute("INSERT INTO shelves VALUES (?, 0, 0)", [shelf])
        tx.execute(
            f"CREATE VIRTUAL TABLE words_{int(shelf)} USING "
            "fts5 (text, content='', detail=none, columnsize=0, tokenize='ascii')"
        )
    base = _base(namespace, threads)
    tx.execute("UPDATE shelves SET threads = threads + 1 WHERE id = ?", [shelf])
    tx.execute("UPDATE threads SET shelf = ?, base = ? WHERE id = ?", [shelf, base, thread])
    return shelf, base


def _base(namespace: int, place: int) -> int:
    """Where the row ids begin of the thread in this place of a shelf."""
    return (_fit(namespace, 63 - _NUMBERS - _PLACES, "namespaces") << _PLACES | place) << _NUMBERS


def _fit(number: int, bits: int, what: str) -> int:
    if number >> bits:
        raise ArchiveError(f"a SQLite archive takes up to {1 << bits:,} {what}. Use Postgres, or another file.")
    return number


class FtsIndex(SqlIndex):
    """The words of a place in SQLite."""

    def newest(self, wanted: search.Wanted, most: int) -> list[Key]:
        """Messages that may have what is wanted: of the threads that began last, the newest."""
        if not (narrowed := narrowing(wanted)):
            return self._newest_of_all(most)
        found: list[Key] = []
        for shelf, first, last in self._ranges:
            rows = self.matching(shelf, first, last, narrowed, most - len(found))
            found += self._keys(shelf, rows)
            if len(found) >= most:
                break
        return found

    def count(self, each: Sequence[search.Tokens]) -> list[int]:
        """About how many messages have all of these tokens: up to a sample counted, then estimated from the newest."""
        return [self._count([[tokens]]) for tokens in each]

    def _count(self, wanted: search.Wanted) -> int:
        if not (narrowed := narrowing(wanted)):
            return self.totals[0]
        count = gone_through = 0
        for shelf, first, last in self._ranges:
            rows = self.matching(shelf, first, last, narrowed, SAMPLE - count)
            count += len(rows)
            until = rows[-1] >> _NUMBERS << _NUMBERS if count >= SAMPLE else first
            ((messages,),) = self._tx.execute(
                f"SELECT SUM(messages) FROM threads t WHERE {self._threads} AND shelf = ? AND base >= ?",
                [self._whose, shelf, until],
            )
            gone_through += int(messages or 0)
            if count >= SAMPLE:
                return max(count, count * self.totals[0] // max(gone_through, 1))
        return count

    def matching(self, shelf: int, first: int, last: int, wanted: search.Wanted, most: int) -> list[int]:
        """The row ids of a shelf, from first to last, that have what is wanted: the last ones."""
        every = (" OR ".join(f"({' AND '.join(map(_quote, sorted(tokens)))})" for tokens in one) for one in wanted)
        table = f"words_{int(shelf)}"
        rows = self._tx.execute(
            f"SELECT rowid FROM {table} WHERE {table} MATCH CAST(? AS TEXT) AND rowid BETWEEN ? AND ? "
            "ORDER BY rowid DESC LIMIT ?",
            [" AND ".join(f"({one})" for one in every), first, last, most],
        )
        return [row for (row,) in rows]

    @cached_property
    def _ranges(self) -> list[tuple[int, int, int]]:
        """Each shelf that has something of the place, the newest first, and the row ids of the place."""
        if self._place.thread is not None:
            standing = "SELECT shelf, base FROM threads WHERE id = ? AND shelf IS NOT NULL"
            rows = self._tx.execute(standing, [self._place.thread])
            return [(shelf, base, base | (1 << _NUMBERS) - 1) for shelf, base in rows]
        first = _base(self._place.namespace, 0)
        last = first | (1 << _PLACES + _NUMBERS) - 1
        having = "EXISTS (SELECT 1 FROM threads t WHERE t.shelf = s.id AND t.base BETWEEN ? AND ?)"
        rows = self._tx.execute(f"SELECT id FROM shelves s WHERE {having} ORDER BY id DESC", [first, last])
        return [(shelf, first, last) for (shelf,) in rows]

    def _keys(self, shelf: int, rows: Sequence[int]) -> list[Key]:
        bases = {row >> _NUMBERS << _NUMBERS for row in rows}
        statement = "SELECT base, id FROM threads WHERE shelf = ? AND base IN (…)"
        threads: dict[int, int] = dict(self._tx.execute_in(statement, [shelf], bases))
        places = [(threads.get(row >> _NUMBERS << _NUMBERS), row & (1 << _NUMBERS) - 1) for row in rows]
        return [(thread, number) for thread, number in places if thread is not None]


def _quote(token: str) -> str:
    """A token in FTS5's syntax; a long one by its beginning. There is no quote in any."""
    return f'"{token}"' + (" *" if len(token) >= words.LONGEST else "")


# -- Postgres --------------------------------------------------------------------------------------------------------


class GinWords(SqlWords):
    """How Postgres keeps the words of messages: what is added and removed."""

    tables = (
        "CREATE TABLE words (thread BIGINT NOT NULL REFERENCES threads (id) ON DELETE CASCADE, number BIGINT NOT NULL, "
        "tokens INTEGER[] NOT NULL, PRIMARY KEY (thread, number));"
        "CREATE INDEX words_by_token ON words USING gin (tokens) WITH (fastupdate = off)"
    )

    def prepare(self, texts: Iterable[str]) -> list[Any]:
        """What is kept of these texts, made before the transaction."""
        return [words.tokens_of(words.prepare(text)) for text in texts]

    def add(self, tx: Transaction, namespace: int, thread: int, prepared: Sequence[tuple[int, Any]]) -> None:
        """Index messages of a thread, each by its number and what was prepared of it."""
        rows = [(thread, number, _numbers(namespace, tokens)) for number, tokens in prepared]
        tx.many("INSERT INTO words VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def remove(self, tx: Transaction, threads: Sequence[int]) -> None:
        """Take everything of these threads out of the index."""
        tx.execute_in("DELETE FROM words WHERE thread IN (…)", [], threads)

    def wrong(self, tx: Transaction, namespace: int, thread: int, messages: Sequence[tuple[int, str]]) -> int:
        """How many of these messages of a thread, by number and text, are indexed otherwise than they should be."""
        held: dict[int, list[int]] = dict(
            tx.execute_in(
                "SELECT number, tokens FROM words WHERE thread = ? AND number IN (…)",
                [thread],
                (n for n, _ in messages),
            )
        )
        prepared = self.prepare(text for _, text in messages)
        expected = [
            (number, set(_numbers(namespace, tokens))) for (number, _), tokens in zip(messages, prepared, strict=True)
        ]
        return sum(set(held.get(number) or ()) != tokens or number not in held for number, tokens in expected)

    def look(self, tx: Transaction, place: Place) -> GinIndex:
        """The words of this place."""
        tx.execute("SET LOCAL enable_seqscan TO off")  # what is estimated wrongly must not go through every message
        return GinIndex(tx, place)


def _numbers(namespace: int, tokens: Iterable[bytes]) -> list[int]:
    """The tokens as signed numbers of 32 bits."""
    begun = zlib.crc32(b"%d:" % namespace)
    return [(zlib.crc32(token, begun) ^ 0x80000000) - 0x80000000 for token in tokens]


def _last() -> str:
    """The rows of the messages of a namespace that were written last."""
    return (
        "(SELECT w.* FROM (SELECT id FROM threads WHERE namespace = ? ORDER BY used DESC) t CROSS JOIN LATERAL "
        f"(SELECT * FROM words WHERE thread = t.id ORDER BY number DESC LIMIT {LAST}) w LIMIT {LAST}) w"
    )


class GinIndex(SqlIndex):
    """The words of a place in Postgres.

    The index gives all the messages with a word before the first can be read. So a namespace's last messages are gone
    through first: a word that is so common that the index would take long is common among them.
    """

    def newest(self, wanted: search.Wanted, most: int) -> list[Key]:
        """Messages that may have what is wanted: of those written last, if enough of these do."""
        if not (narrowed := narrowing(wanted)):
            return self._newest_of_all(most)
        condition, values = self._condition(narrowed)
        if self._place.thread is not None:
            return self._keys(
                f"words WHERE thread = ? AND {condition} ORDER BY number DESC", [self._place.thread, *values], most
            )
        found = self._keys(f"{_last()} WHERE {condition}", [self._place.namespace, *values], most)
        return found if len(found) >= most else self._keys(f"words WHERE {condition}", values, most)

    def count(self, each: Sequence[search.Tokens]) -> list[int]:
        """About how many messages have all of these tokens: estimated from the last ones, or counted up to a sample."""
        if self._place.thread is not None:
            return [len(self.newest([[tokens]], SAMPLE)) for tokens in each]
        asked = [self._condition([[tokens]]) for tokens in each]
        columns = ", ".join(f"COUNT(*) FILTER (WHERE {condition})" for condition, _ in asked)
        values = [value for _, values in asked for value in values]
        (counts,) = self._tx.execute(f"SELECT {columns} FROM {_last()}", [*values, self._place.namespace])
        return [
            max(found, found * self.totals[0] // LAST)
            if found >= ENOUGH
            else len(self._keys(f"words WHERE {condition}", values, SAMPLE))
            for (condition, values), found in zip(asked, counts, strict=True)
        ]

    def _keys(self, where: str, values: Sequence[Any], most: int) -> list[Key]:
        rows = self._tx.execute(f"SELECT thread, number FROM {where} LIMIT ?", [*values, most])
        return [(thread, number) for thread, number in rows]

    def _condition(self, wanted: search.Wanted) -> tuple[str, list[Any]]:
        every = (" OR ".join(["tokens @> ?::integer[]"] * len(alternatives)) for alternatives in wanted)
        values = [
            _numbers(self._place.namespace, (token.encode() for token in tokens))
            for alternatives in wanted
            for tokens in alternatives
        ]
        return " AND ".join(f"({one})" for one in every), values
