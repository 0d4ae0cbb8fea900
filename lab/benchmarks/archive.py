"""The archive beside plain SQLite with FTS5 on the same messages: appending, searching, bytes on disk.

    python -m benchmarks.archive [--quick] [--threads 10000] [--data DIR]
    python -m benchmarks.archive --growth 10000 1000000 [--postgres URL]    over all threads of one namespace

Plain SQLite is what one would write by hand: a table of messages and a full-text index, as durable (WAL, synchronous
FULL) and in transactions of the same size. Its search asks for the thread in the MATCH, the fastest of the plain ways.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from unabridged.archive import codec
from unabridged.archive.protocol import Part, Record, Scope
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.formats import detect_message_format

Row = dict[str, Any]
Thread = list[tuple[str, bytes, str]]
"""The messages of one thread: role, body, and what search sees."""

EACH = 100
"""Messages of one thread, and of one transaction."""
SYLLABLES = ("ba", "ko", "ri", "ten", "mo", "lu", "sha", "per", "in", "dor", "vel", "qui", "as", "nem")


class Language:
    """Made-up messages with the statistics of real ones: common and rare words, names, paths, some CJK."""

    def __init__(self, seed: int = 7) -> None:
        self.random = random.Random(seed)  # noqa: S311 - text, not secrets
        self.words = ["".join(self.random.choices(SYLLABLES, k=self.random.randint(1, 4))) for _ in range(30_000)]
        self._weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(self.words))))

    def text(self, words: int) -> str:
        """Return this many words, the common ones more often."""
        return " ".join(self.random.choices(self.words, cum_weights=self._weights, k=words))

    def name(self) -> str:
        """Return a name in camel case, as code has them."""
        first, second = self.random.choices(self.words[:3000], k=2)
        return f"get{first.title()}{second.title()}"

    def cjk(self, length: int) -> str:
        """Return characters of a script without spaces."""
        return "".join(chr(self.random.randint(0x4E00, 0x5200)) for _ in range(length))

    def thread(self) -> Thread:
        """Generate one conversation of `EACH` messages."""
        return [self._message(at) for at in range(EACH)]

    def _message(self, at: int) -> tuple[str, bytes, str]:
        text = self.text(self.random.randint(10, 120))
        if self.random.random() < 0.4:
            text += f"\nsrc/{self.random.choice(self.words)}/{self.name()}.py:{self.random.randint(1, 999)}"
        if self.random.random() < 0.1:
            text += f" {self.cjk(12)}"
        role = "user" if at % 2 else "assistant"
        return role, codec.encode({"role": role, "content": text}), text


class Ours:
    """The archive in SQLite, one compaction for each thread."""

    name = "unabridged"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ours.db"
        self._archive = open_sqlite(self.path)

    def append(self, name: str, thread: Thread) -> None:
        """Archive a whole thread."""
        parts = [Part(codec.digest(b), b, turn, role, "person", text) for turn, (role, b, text) in enumerate(thread)]
        hashes = tuple(part.hash for part in parts)
        self._archive.store(Record(f"r{name}", Scope("n", name), "k", len(parts), 0, hashes, (), "summary"), parts)

    def search(self, name: str, query: str) -> int:
        """Return the number of hits in the thread, read with their texts."""
        return len(self._archive.search(Scope("n", name), query))

    def search_all(self, query: str) -> int:
        """Return the number of hits in all threads."""
        return len(self._archive.search_namespace("n", query))

    def look_up(self, name: str) -> object:
        """Return the record of a thread."""
        return self._archive.record(Scope("n", name), f"r{name}")

    def close(self) -> None:
        """Write everything into the one file."""
        self._archive.close()


class InPostgres(Ours):
    """The archive in Postgres, in a schema of its own."""

    name = "unabridged in Postgres"

    def __init__(self, url: str) -> None:
        from unabridged.archive.stores.postgres import open_postgres  # noqa: PLC0415 - only where there is a server

        self.path = Path()  # it is the server that knows
        self._archive = open_postgres(url, schema=f"bench_{os.getpid()}")


class Plain:
    """A table and an FTS5 index over it."""

    name = "plain SQLite + FTS5"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "plain.db"
        self._connection = sqlite3.connect(self.path, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, thread TEXT, turn INT, role TEXT, body BLOB, text TEXT)",
            "CREATE INDEX messages_by_thread ON messages (thread, turn)",
            "CREATE VIRTUAL TABLE words USING fts5 (thread, text, content='messages', content_rowid='id')",
        ):
            self._connection.execute(statement)

    def append(self, name: str, thread: Thread) -> None:
        """Store a whole thread."""
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        for turn, (role, body, text) in enumerate(thread):
            row = run(
                "INSERT INTO messages (thread, turn, role, body, text) VALUES (?, ?, ?, ?, ?)",
                [name, turn, role, body, text],
            ).lastrowid
            run("INSERT INTO words (rowid, thread, text) VALUES (?, ?, ?)", [row, name, text])
        run("COMMIT")

    def search(self, name: str, query: str) -> int:
        """Return the number of hits in the thread, read with their texts."""
        words = " OR ".join(f'"{word}"' for word in query.split())
        match = f'thread : "{name}" AND text : ({words})'
        rows = self._connection.execute(
            "SELECT m.turn, m.role, m.text FROM words w JOIN messages m ON m.id = w.rowid WHERE words MATCH ? "
            "ORDER BY bm25(words) LIMIT 10",
            [match],
        ).fetchall()
        return len(rows)

    def search_all(self, query: str) -> int:
        """Return the number of hits in all threads."""
        words = " OR ".join(f'"{word}"' for word in query.split())
        rows = self._connection.execute(
            "SELECT m.turn, m.role, m.text FROM words w JOIN messages m ON m.id = w.rowid WHERE words MATCH ? "
            "ORDER BY bm25(words) LIMIT 10",
            [f"text : ({words})"],
        ).fetchall()
        return len(rows)

    def look_up(self, name: str) -> object:
        """Return the first message of a thread."""
        return self._connection.execute("SELECT body FROM messages WHERE thread = ? AND turn = 0", [name]).fetchone()

    def close(self) -> None:
        """Write everything into the one file."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


def run(*, quick: bool = False, threads: int | None = None, data: str | None = None) -> list[Row]:
    """Run every measurement and return its rows."""
    threads = threads or (50 if quick else 1000)
    folder = data or os.environ.get("BENCH_DATA")
    rows = appending_and_searching(threads, queries=20 if quick else 100)
    return rows + (bytes_on_disk(sorted(Path(folder).glob("*.jsonl"))) if folder else [])


def appending_and_searching(threads: int, queries: int) -> list[Row]:
    """Fill both stores with the same threads, one after the other, and ask both the same questions."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for make in (Ours, Plain):
            language = Language()
            store: Ours | Plain = make(Path(folder))
            seconds, written = _fill(store, (language.thread() for _ in range(threads)))
            count = threads * EACH
            row: Row = {
                "store": store.name,
                "messages": f"{count:,}",
                "append, µs a message": round(seconds / count * 1e6),
                "append, MB/s": round(written / seconds / 1e6, 2),
            }
            for kind, query in _kinds(language).items():
                times = [_timed(store, f"t{language.random.randrange(threads)}", query()) for _ in range(queries)]
                row[f"{kind}, median ms"] = round(statistics.median(times) * 1e3, 2)
            store.close()
            row["bytes on disk per byte"] = round(store.path.stat().st_size / written, 2)
            rows.append(row)
    return rows


def growth(sizes: Sequence[int], url: str | None, queries: int = 40) -> Iterator[Row]:
    """Measure one namespace at each of these sizes: appending since the last one, and searching over all threads.

    Appending and SQLite are measured in processor time; Postgres, which is another process, by the clock.
    """
    with tempfile.TemporaryDirectory() as folder:
        stores: list[Ours | Plain] = [Ours(Path(folder)), Plain(Path(folder))]
        stores += [InPostgres(url)] if url else []
        language, threads = Language(), 0
        for size in sizes:
            spent, written, begun = dict.fromkeys(stores, 0.0), 0, threads
            while threads * EACH < size:
                thread = language.thread()
                written += sum(len(body) for _, body, _ in thread)
                for store in stores:
                    clock = _clock(store)
                    start = clock()
                    store.append(f"t{threads}", thread)
                    spent[store] += clock() - start
                threads += 1
            for store in stores:
                yield {
                    "store": store.name,
                    "messages": f"{size:,}",
                    "append, µs a message": round(spent[store] / ((threads - begun) * EACH) * 1e6),
                    "append, MB/s": round(written / spent[store] / 1e6, 2),
                    **_over_all(store, threads, queries),
                }
        for store in stores:
            store.close()


def _over_all(store: Ours | Plain, threads: int, queries: int) -> Row:
    """Return the medians of each kind of query over all threads, and of looking up a record."""
    language, clock = Language(seed=11), _clock(store)
    language.words = Language().words  # the same language, other texts
    row: Row = {}
    for kind, query in _kinds(language).items():
        times: list[float] = []
        for _ in range(queries):
            wanted, start = query(), clock()
            store.search_all(wanted)
            times.append(clock() - start)
        row[f"{kind}, median ms"] = round(statistics.median(times) * 1e3, 2)
    times = []
    for _ in range(queries):
        name, start = f"t{language.random.randrange(threads)}", clock()
        store.look_up(name)
        times.append(clock() - start)
    return {**row, "a record, median ms": round(statistics.median(times) * 1e3, 3)}


def _clock(store: Ours | Plain) -> Callable[[], float]:
    return time.perf_counter if isinstance(store, InPostgres) else time.process_time


def bytes_on_disk(files: Sequence[Path]) -> list[Row]:
    """Archive real conversations, a hundred messages at a time, and return bytes stored per byte, index included."""
    rows: list[Row] = []
    for file in files:
        for make in (Ours, Plain):
            with tempfile.TemporaryDirectory() as place:
                store: Ours | Plain = make(Path(place))
                seconds, written = _fill(store, _conversations(file))
                store.close()
                rows.append(
                    {
                        "store": store.name,
                        "data": file.stem,
                        "append, MB/s": round(written / seconds / 1e6, 2),
                        "bytes on disk per byte": round(store.path.stat().st_size / written, 2),
                    }
                )
    return rows


def _fill(store: Ours | Plain, threads: Iterator[Thread]) -> tuple[float, int]:
    """Return the seconds of processor time spent in the store alone, and the bytes of messages."""
    seconds, written = 0.0, 0
    for number, thread in enumerate(threads):
        start = time.process_time()
        store.append(f"t{number}", thread)
        seconds += time.process_time() - start
        written += sum(len(body) for _, body, _ in thread)
    return seconds, written


def _kinds(language: Language) -> dict[str, Callable[[], str]]:
    return {
        "one word": lambda: language.text(1),
        "six words": lambda: language.text(6),
        "a name": language.name,
        "CJK": lambda: language.cjk(4),
    }


def _timed(store: Ours | Plain, name: str, query: str) -> float:
    start = time.process_time()
    store.search(name, query)
    return time.process_time() - start


def _conversations(file: Path) -> Iterator[Thread]:
    """Yield each line's messages, a hundred at a time, with their searchable text."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            messages = json.loads(line)["messages"]
            read = detect_message_format(messages).read
            for at in range(0, len(messages), EACH):
                batch = [(message, read(message)) for message in messages[at : at + EACH]]
                yield [(view.role, codec.encode(message), view.whole_text()) for message, view in batch]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, help=f"of {EACH} messages each (default 1,000)")
    parser.add_argument("--data", help="a folder of .jsonl files with `messages` in each line")
    parser.add_argument("--growth", type=int, nargs="+", help="messages of one namespace, searched over all threads")
    parser.add_argument("--postgres", help="with --growth, the URL of a server to measure, too")
    options = parser.parse_args()
    for row in growth(options.growth, options.postgres) if options.growth else ():
        print("  ".join(f"{name}: {value}" for name, value in row.items()), flush=True)
    if options.growth:
        return
    for row in run(quick=options.quick, threads=options.threads, data=options.data):
        print("  ".join(f"{name}: {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
