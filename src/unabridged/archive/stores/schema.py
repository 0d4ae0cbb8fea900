"""The tables of the SQL stores: migrations in order, the position of each being the version it brings.

Names and texts are bytes: any string is a thread's name, with NUL or a lone surrogate in it too. A body belongs to a
namespace and is stored once in it; nothing but its own namespace ever refers to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unabridged.archive.stores.sql_rows import Transaction, scrub_records
from unabridged.errors import ArchiveError

_ARCHIVE: Final = """
CREATE TABLE namespaces (
    id {id},
    name {bytes} NOT NULL UNIQUE
);
CREATE TABLE threads (
    id {id},
    namespace BIGINT NOT NULL REFERENCES namespaces (id),
    name {bytes} NOT NULL,
    UNIQUE (namespace, name)
);
CREATE TABLE bodies (
    id {id},
    namespace BIGINT NOT NULL REFERENCES namespaces (id),
    hash {bytes} NOT NULL,
    body {bytes} NOT NULL,
    UNIQUE (namespace, hash)
);
CREATE TABLE parts (
    thread BIGINT NOT NULL REFERENCES threads (id),
    number BIGINT NOT NULL,
    turn BIGINT NOT NULL,
    body BIGINT NOT NULL REFERENCES bodies (id),
    view {bytes} NOT NULL,
    PRIMARY KEY (thread, number)
){compact};
CREATE UNIQUE INDEX parts_by_turn ON parts (thread, turn, body);
CREATE INDEX parts_by_body ON parts (body, thread);
CREATE TABLE records (
    thread BIGINT NOT NULL REFERENCES threads (id),
    number BIGINT NOT NULL,
    id {bytes} NOT NULL,
    key {bytes} NOT NULL,
    live INTEGER NOT NULL,
    data {bytes} NOT NULL,
    PRIMARY KEY (thread, number),
    UNIQUE (id, thread)
);
CREATE UNIQUE INDEX records_by_key ON records (thread, key) WHERE live = 1;
CREATE TABLE segments (
    thread BIGINT NOT NULL REFERENCES threads (id),
    number BIGINT NOT NULL,
    data {bytes} NOT NULL,
    PRIMARY KEY (thread, number)
){compact};
"""

# Not tied to `threads`: a lease is taken before anything of its thread is stored.
_LEASES: Final = """
CREATE TABLE leases (
    namespace {bytes} NOT NULL,
    thread {bytes} NOT NULL,
    key {bytes} NOT NULL,
    token {bytes} NOT NULL,
    expires DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (namespace, thread, key)
){compact};
"""

# Not tied to `namespaces` either: what is learned is kept before anything left a context.
_NOTES: Final = """
CREATE TABLE notes (
    namespace {bytes} NOT NULL,
    key {bytes} NOT NULL,
    data {bytes} NOT NULL,
    PRIMARY KEY (namespace, key)
){compact};
"""

# Receipts of earlier versions have the archive's URL as it was given, password and all: `sql_rows.scrub_records`.
_SCRUBBED: Final = ""

MIGRATIONS: Final = (_ARCHIVE, _LEASES, _NOTES, _SCRUBBED)
SCRUBS: Final = MIGRATIONS.index(_SCRUBBED)
TABLES: Final = ("namespaces", "threads", "bodies", "parts", "records", "segments", "leases", "notes")


def migrate(tx: Transaction, place: str, version: int, words: Mapping[str, str], target: int | None = None) -> int:
    """Bring tables of this version to the newest (or `target`), in the words of the database; the version they have."""
    if version > len(MIGRATIONS):
        raise ArchiveError(f"{place} is of version {version}, this program knows {len(MIGRATIONS)}. Update unabridged.")
    for number, script in list(enumerate(MIGRATIONS[:target]))[version:]:
        for statement in script.format_map(words).split(";"):
            if statement.strip():
                tx.execute(statement)
        if number == SCRUBS:
            scrub_records(tx)
        version = number + 1
    return version
