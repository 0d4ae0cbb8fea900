"""What was forgotten is gone: from every row, decoded, and from every page of the files; what others hold stays."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from archive_support import new_place, open_store
from cli_case import run
from unabridged import Compactor
from unabridged.archive.codec import pack
from unabridged.archive.protocol import Archive, Scope
from unabridged_testing.archive_contract.values import make_part, make_record, make_summary

WORDS = ("zqxvault7391kestrel", "zqxGetVaultKestrel_8842", "龘靐齉爩")
GONE = Scope("ns", "thread-zqxmallory")
STAYS = Scope("ns", "neighbour")
OWN = make_part(f"The launch word is {WORDS[0]}, see {WORDS[1]} and {WORDS[2]}. " + "Other words follow. " * 20, 0)
SUMMARY = make_summary(f"A summary that says {WORDS[0]} and {WORDS[2]}")
BOTH = make_part("We both said plover5512 in this room", 1)


_BEGINS = re.compile(rb"\x01(?=[^\0])|\x78(?=[\x01\x5e\x9c\xda])")


def fill(archive: Archive) -> None:
    """Store a thread with the marked words, and one that shares a message with it."""
    record = make_record([OWN, BOTH], SUMMARY, scope=GONE, record_id="idzqxmallory", data={"prose": WORDS[0]})
    archive.store(record, [OWN, BOTH, SUMMARY])
    other = make_part("Something else entirely", 0)
    archive.store(make_record([other, BOTH], scope=STAYS), [other, BOTH])


def traces() -> dict[str, tuple[bytes, ...]]:
    """What would tell of it, as it may be written: words (their beginnings an index may share), names, hashes."""
    words = [word[3:].lower() for word in WORDS[:2]] + [WORDS[2][at : at + 2] for at in range(3)] + ["zqxmallory"]
    hashes = [part.hash.partition(":")[2] for part in (OWN, SUMMARY)]
    return {word: (word.encode(),) for word in words} | {
        digits: (digits.encode(), bytes.fromhex(digits)) for digits in hashes
    }


def found(chunks: Iterable[bytes]) -> set[str]:
    """The traces in these bytes as they are, and in whatever is deflated in them, at any place."""
    sought = traces()
    seen: set[str] = set()
    for chunk in chunks:
        for text in (chunk, *_inflated(chunk)):
            both = text + text.lower()
            seen.update(name for name, forms in sought.items() if any(form in both for form in forms))
    return seen


def _inflated(chunk: bytes) -> Iterator[bytes]:
    """All that is deflated: behind zlib's own first bytes, and behind the first byte of a packed message."""
    for begin in _BEGINS.finditer(chunk):
        packed = begin[0] == b"\1"
        inflater = zlib.decompressobj(-15, zdict=pack.COMMON_DICTIONARY) if packed else zlib.decompressobj()
        with suppress(zlib.error):
            yield inflater.decompress(chunk[begin.start() + packed : begin.start() + 4_096], 8_192)


def rows_of_sqlite(place: str) -> Iterator[bytes]:
    """Every value of every table, those inside an index of words too."""
    with closing(sqlite3.connect(place)) as file:
        file.text_factory = bytes
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        for (name,) in file.execute(tables).fetchall():  # what a virtual one holds is in tables of its own
            for row in file.execute(f'SELECT * FROM "{name.decode()}"'):  # noqa: S608 - a name from the schema
                yield from (value for value in row if isinstance(value, bytes))


def files_in(folder: Path) -> Iterator[bytes]:
    """Every name, and every file whole: free pages and logs of the database's own too."""
    for path in sorted(folder.rglob("*")):
        yield path.name.encode()
        if path.is_file():
            yield path.read_bytes()


def rows_of_postgres(place: str) -> Iterator[bytes]:
    """Every value of every table of the schema."""
    schema, _, url = place.partition(" ")
    with psycopg.connect(url) as connection:
        named = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        for (name,) in connection.execute(named, [schema]).fetchall():
            for row in connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, name))):
                yield from (value if isinstance(value, bytes) else str(value).encode() for value in row)


def pages_of_postgres(place: str) -> Iterator[bytes]:
    """Every file of every table and index of the schema, and of what is stored beside a table's rows."""
    schema, _, url = place.partition(" ")
    named = (
        "SELECT current_setting('data_directory') || '/' || pg_relation_filepath(c.oid) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE pg_relation_filepath(c.oid) IS NOT NULL AND "
        "(n.nspname = %s OR c.oid IN (SELECT t.reltoastrelid FROM pg_class t JOIN pg_namespace m "
        "ON m.oid = t.relnamespace WHERE m.nspname = %s))"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        for (path,) in connection.execute(named, [schema, schema]).fetchall():
            yield Path(path).read_bytes()


@pytest.mark.parametrize("store", ["sqlite", "postgres", "directory"])
def test_nothing_of_what_was_forgotten_is_in_a_row_or_a_page(store: str, tmp_path: Path) -> None:
    place = new_place(store, tmp_path)
    archive = open_store(store, place)
    for number in range(30):  # pages that hold others' rows too
        part = make_part(f"Row {number} of others, with words of its own", 0)
        scope = Scope("ns", f"other {number}")
        archive.store(make_record([part], scope=scope), [part])
    fill(archive)
    rows = {"sqlite": rows_of_sqlite, "postgres": rows_of_postgres}.get(store)

    def raw() -> Iterator[bytes]:
        return pages_of_postgres(place) if store == "postgres" else files_in(tmp_path)

    assert found(raw()) == set(traces()), "the search does find what is there"
    assert rows is None or found(rows(place)) == set(traces())
    assert archive.shared(GONE) == {1: [STAYS.thread]}
    archive.forget(GONE)
    assert archive.search(STAYS, "plover5512")
    assert not archive.search(STAYS, "kestrel")
    if rows is not None:
        assert not found(rows(place))
    if store == "postgres":
        vacuum(place)
    assert not found(raw())
    assert not archive.verify()
    archive.close()
    assert not found(raw())


def vacuum(place: str) -> None:
    """What docs/production.md tells to do: rewrite the tables, and their indexes with them."""
    schema, _, url = place.partition(" ")
    with psycopg.connect(url, autocommit=True) as connection:
        named = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
        for (name,) in named:
            connection.execute(sql.SQL("VACUUM FULL {}").format(sql.Identifier(schema, name)))


def test_the_command_names_what_stays_because_others_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", url)
    with closing(open_store("sqlite", str(tmp_path / "a.db"))) as archive:
        fill(archive)
    done = run("forget", GONE.thread, "--namespace", "ns", "--yes")
    assert "1 message of that stay" in done.out
    assert f"turn 1 of {GONE.thread}, in {STAYS.thread}" in done.out
    with closing(open_store("sqlite", str(tmp_path / "a.db"))) as archive:
        fill(archive)
        assert archive.shared(STAYS) == {1: [GONE.thread]}
    told = run("forget", STAYS.thread, "--namespace", "ns", "--yes", "--json").json
    assert told["staying"] == [{"namespace": "ns", "thread": STAYS.thread, "turn": 1, "also_in": [GONE.thread]}]
    assert "stay" not in run("forget", GONE.thread, "--namespace", "ns", "--yes").out


@pytest.mark.parametrize("store", ["sqlite", "postgres", "directory"])
def test_the_longest_unused_threads_go_until_the_rest_is_small_enough(store: str, tmp_path: Path) -> None:
    place = new_place(store, tmp_path)
    archive = open_store(store, place)
    for number in range(6):
        part = make_part(f"{number} " + " ".join(str(number * at) for at in range(400)), 0)
        archive.store(make_record([part], scope=Scope("ns", f"t{number}"), created=1_000.0 + (number + 3) % 6), [part])
    sizes = {held.thread: held.size for held in archive.holdings("ns", archive.threads("ns"))}
    with Compactor(archive=archive, window=8_000) as compactor:
        room = sizes["t2"] + sizes["t1"] + 1
        assert not compactor.forget(namespace="ns", to_size=sum(sizes.values()))
        assert list(compactor.forget(namespace="ns", to_size=room)) == ["t0", "t3", "t4", "t5"]
        assert list(archive.threads("ns")) == ["t1", "t2"], "the two that were used last"
        assert list(compactor.forget(namespace="ns", to_size=0)) == ["t1", "t2"]
        assert not compactor.forget(namespace="ns", to_size=0)
    archive.close()
