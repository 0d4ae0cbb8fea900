"""Archives as the versions before the first release wrote them, made by hand: every store refuses them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql

REFUSAL = "was written before the first release"
REMEDY = "or name another archive."
VERSIONS = (1, 7)
"""The first and the last of their tables."""
_TABLES = """
CREATE TABLE namespaces (id {id}, name {bytes} NOT NULL UNIQUE);
CREATE TABLE threads (id {id}, namespace BIGINT NOT NULL REFERENCES namespaces (id), name {bytes} NOT NULL);
CREATE TABLE bodies (id {id}, namespace BIGINT NOT NULL, hash {bytes} NOT NULL, body {bytes} NOT NULL);
CREATE TABLE parts (
    thread BIGINT NOT NULL, number BIGINT NOT NULL, turn BIGINT NOT NULL, body BIGINT NOT NULL, view {bytes} NOT NULL
);
CREATE TABLE records (
    thread BIGINT NOT NULL, number BIGINT NOT NULL, id {bytes} NOT NULL, key {bytes} NOT NULL, live INTEGER NOT NULL,
    data {bytes} NOT NULL
);
CREATE TABLE segments (thread BIGINT NOT NULL, number BIGINT NOT NULL, data {bytes} NOT NULL);
INSERT INTO namespaces (name) VALUES ({here});
INSERT INTO threads (namespace, name) VALUES (1, {here});
"""
_LATER = """
CREATE TABLE leases (namespace {bytes}, thread {bytes}, key {bytes}, token {bytes}, expires DOUBLE PRECISION);
CREATE TABLE notes (namespace {bytes}, key {bytes}, data {bytes});
ALTER TABLE threads ADD COLUMN used DOUBLE PRECISION;
ALTER TABLE records ADD COLUMN kind {bytes};
INSERT INTO notes VALUES ({here}, {here}, {here});
"""
_SQLITE = {"id": "INTEGER PRIMARY KEY", "bytes": "BLOB", "here": "x'68657265'"}
_POSTGRES = {
    "id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "bytes": "BYTEA",
    "here": "'here'::bytea",
}
_ENTRY = (
    b'{"version":1,"namespace":"here","thread":"thread 1","record":{"id":"r","key":"k","length":1,"start":0,'
    b'"kind":"summary","prior":null,"model":null,"created":1700000000.5,"data":{},"before":[],"after":[]}}\n'
)


def _script(version: int, words: dict[str, str]) -> str:
    return (_TABLES + (_LATER if version > 1 else "")).format_map(words)


def make_sqlite(path: Path, version: int = 7) -> None:
    """Make the file and its log, as a program leaves them that was killed after its last commit."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "made.db"
        with closing(sqlite3.connect(made)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            fill_sqlite(database, version)
        with closing(sqlite3.connect(made)) as database, database:
            database.execute("INSERT INTO namespaces (name) VALUES (x'746865726520746f6f')")
            database.commit()
            shutil.copy(made, path)
            shutil.copy(f"{made}-wal", f"{path}-wal")


def fill_sqlite(database: sqlite3.Connection, version: int = 7) -> None:
    """Put the tables, their rows and the marks there."""
    database.executescript(_script(version, _SQLITE))
    database.execute("PRAGMA application_id = 0x756E6162")
    database.execute(f"PRAGMA user_version = {version}")


def make_postgres(url: str, schema: str, version: int = 7) -> None:
    """Make the schema."""
    with psycopg.connect(url) as database:
        name = sql.Identifier(schema)
        database.execute(sql.SQL("CREATE SCHEMA {}; SET search_path TO {}").format(name, name))
        database.execute("CREATE TABLE version (version INTEGER NOT NULL)")
        database.execute("INSERT INTO version VALUES (%s)", [version])
        database.execute(_script(version, _POSTGRES))


def make_directory(folder: Path, *, locks: bool = True) -> None:
    """Make the folder; one that was copied thread by thread has no locks."""
    thread = folder / "here" / "thread_201"
    thread.mkdir(parents=True)
    (thread / "00000001.jsonl").write_bytes(_ENTRY)
    if locks:
        (folder / ".locks").mkdir()
        (folder / ".locks" / "17").touch()
        (folder / ".notes" / "4ad4").mkdir(parents=True)
        (folder / ".notes" / "4ad4" / "5d7c").write_bytes(b'["n","k",{"a":1}]')


def files_in(folder: Path) -> dict[str, bytes | None]:
    """Every file below the folder with its bytes, and every folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def rows_in(url: str, schema: str) -> dict[str, Any]:
    """Every table of the schema with its columns and rows."""
    with psycopg.connect(url) as database:
        listed = "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = %s"
        columns = sorted(database.execute(listed, [schema]).fetchall())
        select = sql.SQL("SELECT * FROM {}.{}")
        named = {table: select.format(sql.Identifier(schema), sql.Identifier(table)) for table, _ in columns}
        return {"columns": columns, **{table: database.execute(query).fetchall() for table, query in named.items()}}
