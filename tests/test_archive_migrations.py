"""Tables become those of the next version while programs of both use them, and after a kill it goes on where it was."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from archive_support import new_place, open_store, postgres_url
from unabridged.archive.stores import sql_tables
from unabridged.archive.stores.postgres import migrate
from unabridged.archive.stores.sql_tables import Step, Transaction
from unabridged.testing.archive_contract.values import HERE, make_part, store_parts

NOTES = {f"note {number}" for number in range(7)}


class Killed(BaseException):
    """The process ends here, as far as the database can tell."""


class Moving:
    """A step that moves the notes to another table, two at a time."""

    def __init__(self) -> None:
        self.moved: list[str] = []
        self.dies_at: set[int] = set()
        self.step = Step(
            "CREATE TABLE moved (id {id}, key {bytes} NOT NULL)",
            self.fill,
            {"moved_by_key": "moved (key)", "threads_again": "threads (name)"},
            "SELECT 1 FROM notes LIMIT 1",
        )

    def fill(self, tx: Transaction, after: int) -> int | None:
        if len(self.moved) in self.dies_at:
            self.dies_at.discard(len(self.moved))
            raise Killed
        rows = tx.execute("SELECT key FROM notes ORDER BY key LIMIT 2")
        for (key,) in rows:
            tx.execute("INSERT INTO moved (key) VALUES (?)", [key])
            tx.execute("DELETE FROM notes WHERE key = ?", [key])
            self.moved.append(sql_tables.to_text(key))
        return after + len(rows) if rows else None


@contextmanager
def query(store: str, place: str) -> Iterator[Any]:
    """A connection of nobody's, with the archive's tables."""
    if store == "sqlite":
        with closing(sqlite3.connect(place, isolation_level=None)) as file:
            yield file
    else:
        schema, _, url = place.partition(" ")
        with psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}") as connection:
            yield connection


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_step_goes_on_after_every_kill_while_the_version_before_reads_and_writes(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = new_place(store, tmp_path)
    older = open_store(store, place)  # of the version before: it never looks at the version again
    store_parts(older, make_part("one", 0))
    for key in NOTES:
        older.remember("n", key, {"kept": key})
    moving = Moving()
    moving.dies_at = {0, 2, 6}
    monkeypatch.setattr(sql_tables, "MIGRATIONS", (*sql_tables.MIGRATIONS, moving.step))
    version = len(sql_tables.MIGRATIONS)
    for left in (7, 5, 1):
        with pytest.raises(Killed), closing(open_store(store, place)) as newer:
            newer.threads("n")
        with query(store, place) as tables:
            assert tables.execute("SELECT COUNT(*) FROM notes").fetchone() == (left,), "what was done stays done"
            assert tables.execute("SELECT version, place FROM migrating").fetchone() == (version, 7 - left)
        store_parts(older, make_part(f"meanwhile {left}", left + 1), key=f"k{left}")
    with closing(open_store(store, place)) as newer:
        assert [part.turn for part in newer.parts(HERE)] == [0, 2, 6, 8]
        assert not newer.verify()
    assert sorted(moving.moved) == sorted(NOTES), "each once"
    with query(store, place) as tables:
        assert {sql_tables.to_text(key) for (key,) in tables.execute("SELECT key FROM moved")} == NOTES
        with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable)):
            tables.execute("SELECT 1 FROM migrating")
    older.remember("n", "late", {})
    for _ in range(2):  # again, and then there is nothing to do
        with closing(open_store(store, place)) as newer:
            assert newer.threads(HERE.namespace)
        assert moving.moved[7:] == ["late"]
    older.close()


def test_an_index_whose_builder_was_killed_is_built_anew_by_one_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    place = new_place("postgres", Path())
    archive = open_store("postgres", place)
    store_parts(archive, make_part("one", 0))
    archive.remember("n", "a note", {})
    moving = Moving()
    with query("postgres", place) as tables:
        tables.execute("CREATE INDEX threads_again ON threads (name)")
        tables.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'threads_again'::regclass")
    monkeypatch.setattr(sql_tables, "MIGRATIONS", (*sql_tables.MIGRATIONS, moving.step))
    problems: list[BaseException] = []

    def use() -> None:
        try:
            with closing(open_store("postgres", place)) as newer:
                assert len(newer.parts(HERE)) == 1
        except BaseException as error:  # noqa: BLE001 - told below
            problems.append(error)

    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not problems
    with query("postgres", place) as tables:
        valid = "SELECT bool_and(indisvalid), COUNT(*) FROM pg_index WHERE indexrelid = ANY(%s::regclass[])"
        assert tables.execute(valid, [["moved_by_key", "threads_again"]]).fetchone() == (True, 2)
    assert moving.moved == ["a note"]
    archive.close()


def test_of_many_that_open_a_new_archive_at_once_none_fails() -> None:
    place = new_place("postgres", Path())
    begin = threading.Barrier(12)
    problems: list[BaseException] = []

    def use() -> None:
        try:
            with closing(open_store("postgres", place)) as archive:
                begin.wait()
                assert not archive.threads("n")
        except BaseException as error:  # noqa: BLE001 - told below
            problems.append(error)

    users = [threading.Thread(target=use) for _ in range(12)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not problems


def test_a_table_that_somebody_uses_for_long_is_waited_for_without_holding_up_others() -> None:
    place = new_place("postgres", Path())
    schema, _, _ = place.partition(" ")
    with psycopg.connect(postgres_url()) as connection:
        migrate(connection, schema, target=4)
    with query("postgres", place) as reader:
        reader.execute("BEGIN; SELECT COUNT(*) FROM threads")  # a dump, say
        changing = threading.Thread(target=lambda: open_store("postgres", place).threads("n"))
        changing.start()
        with query("postgres", place) as writer:
            writer.execute("SET lock_timeout TO 5000")
            for number in range(3):
                writer.execute("INSERT INTO namespaces (name) VALUES (%s)", [b"%d" % number])
                writer.execute("SELECT COUNT(*) FROM threads")
        reader.execute("COMMIT")
        changing.join()
        assert reader.execute("SELECT version FROM version").fetchone() == (len(sql_tables.MIGRATIONS),)
