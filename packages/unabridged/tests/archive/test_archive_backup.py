"""A backup taken while others write is whole: it is restored, checked, and worked on."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
import uuid
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from archive_child import compaction, state
from archive_support import postgres_url
from pg_servers import wheel
from unabridged.archive import Archive, Scope, open_archive

SCOPE = Scope("crashes", "crash")


@contextmanager
def writing(archive: Archive) -> Any:
    """Have one compaction after the other stored, until the block ends."""
    stop = threading.Event()
    archive.store(*compaction(SCOPE, 0))

    def write() -> None:
        number = 1
        while not stop.is_set():
            archive.store(*compaction(SCOPE, number))
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def check(url: str, least: int) -> None:
    """Assert that the restored archive is whole, and goes on."""
    with closing(open_archive(url)) as archive:
        assert not archive.verify()
        count = state(archive, SCOPE)
        assert count >= least
        archive.store(*compaction(SCOPE, count))
        assert state(archive, SCOPE) == count + 1
        other = Scope("crashes", "another")
        archive.store(*compaction(other, 0))
        assert state(archive, other) == 1


def test_a_backup_of_sqlite_under_load_is_restored(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with closing(open_archive(url)) as archive, writing(archive):
        files = (sqlite3.connect(tmp_path / name) for name in ("agent.db", "b.db"))
        with closing(next(files)) as source, closing(next(files)) as to:
            source.backup(to)
    check(f"sqlite:///{tmp_path / 'b.db'}", 1)


def test_a_dump_of_postgres_under_load_is_restored(tmp_path: Path) -> None:
    one, other = (f"db_{uuid.uuid4().hex}" for _ in range(2))
    url: Callable[[str], str] = lambda name: postgres_url().replace("/postgres?", f"/{name}?")  # noqa: E731
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        for name in (one, other):
            connection.execute(f"CREATE DATABASE {name}")
    dump = str(tmp_path / "dump")
    with closing(open_archive(url(one))) as archive, writing(archive):
        made = [str(wheel() / "pg_dump"), "--format=custom", "--schema=unabridged", f"--file={dump}", url(one)]
        subprocess.run(made, check=True, capture_output=True)
    restored = [str(wheel() / "pg_restore"), "--no-owner", "--exit-on-error", f"--dbname={url(other)}", dump]
    subprocess.run(restored, check=True, capture_output=True)
    check(url(other), 1)
