"""A bad archive is found when the compactor is made, not when a compaction is unavoidable."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from archive_support import guarded_role, postgres_url
from unabridged import Compactor, Settings
from unabridged.archive import Scope, opening
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.postgres import open_postgres
from unabridged.errors import ArchiveError, UnabridgedError


def bad_places(folder: Path) -> dict[str, tuple[str, str]]:
    """Archives that can't be used, each with a word of the remedy."""
    (folder / "a_folder").mkdir()
    (folder / "a_file").write_text("hello")
    (folder / "no_database.db").write_bytes(b"this is a text, and a long one at that. " * 400)
    (folder / "cut_off.db").write_bytes(b"SQLite format 3\0" + b"\x10\x00\x01\x01" + b"\0" * 80)
    whole = folder / "damaged.db"
    opening.open_archive(f"sqlite:///{whole}").close()
    whole.write_bytes(whole.read_bytes()[:4096] + b"\xff" * 4096 * 12)
    where, (name, _) = postgres_url().partition("?host=")[2], guarded_role()
    return {
        "a folder in place of a file": (f"sqlite:///{folder}/a_folder", "Check that it is a file"),
        "a folder that can't be made": (f"sqlite:///{folder}/a_file/x/agent.db", "or name another"),
        "a folder nobody may write to": ("sqlite:////proc/agent.db", "Name a file in a folder"),
        "no database": (f"sqlite:///{folder}/no_database.db", "Name another file"),
        "a database cut off": (f"sqlite:///{folder}/cut_off.db", "."),
        "a damaged database": (f"sqlite:///{whole}", "backup"),
        "a file in place of a folder": (f"dir://{folder}/a_file", "name a folder"),
        "below a file": (f"dir://{folder}/a_file/x", "name another"),
        "below what can't be written": ("dir:///proc/unabridged", "Check the folder"),
        "no server": ("postgresql://me@127.0.0.1:9/app", "server runs"),
        "no such host": ("postgresql://me@no-such-host.invalid/app", "Check the URL"),
        "no such database": (f"postgresql://postgres@/nosuch?host={where}", "database"),
        "a wrong password": (f"postgresql://{name}:wrong@/postgres?host={where}", "password"),
        "no password": (f"postgresql://{name}@/postgres?host={where}", "password"),
    }


def test_a_bad_archive_is_refused_when_the_compactor_is_made(tmp_path: Path) -> None:
    for case, (url, remedy) in bad_places(tmp_path).items():
        with pytest.raises(ArchiveError) as caught:
            Compactor(archive=url)
        assert remedy in str(caught.value), (case, str(caught.value))
        assert "wrong" not in str(caught.value), case
        Compactor(archive=url, settings=Settings(off=True)).close()


def test_a_good_archive_is_made_and_nothing_is_stored(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/agent.db", f"dir://{tmp_path}/folder"):
        with Compactor(archive=url), Compactor(archive=url) as again:
            assert again._archive.threads("default") == []  # noqa: SLF001 - what the archive itself has
            assert again._archive.verify() == []  # noqa: SLF001 - likewise
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == [".locks", ".unabridged"]
    name, password = guarded_role()
    where = postgres_url().partition("?host=")[2]
    archive = open_postgres(f"postgresql://{name}:{quote(password)}@/postgres?host={where}", schema="probed")
    archive.probe()
    assert archive.verify() == []
    archive.close()


def test_another_writer_does_not_hold_a_start_up(tmp_path: Path) -> None:
    import sqlite3

    url = f"sqlite:///{tmp_path}/agent.db"
    opening.open_archive(url).close()
    other = sqlite3.connect(tmp_path / "agent.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    Compactor(archive=url).close()  # one that waited for the other would end in an error
    other.close()


def test_a_bad_default_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unabridged").write_text("a file in the way")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(ArchiveError, match="archive='memory:'"):
        Compactor()


def test_a_server_that_does_not_answer_is_given_up_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unabridged.archive.stores.postgres.CONNECT_TIMEOUT_SECONDS", 2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)

        async def construct() -> None:
            with pytest.raises(ArchiveError, match="Check the URL"):  # it comes to an end, and says why
                Compactor(archive=f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/app")

        asyncio.run(construct())


def test_a_missing_driver_is_said_with_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from unabridged import Compactor\n"
        "Compactor(archive='postgresql://me:geheim@127.0.0.1/app')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'unabridged[postgres]'" in ran.stderr.splitlines()[-1]


def test_an_archive_object_is_the_callers_own() -> None:
    class Untried(MemoryArchive):
        def probe(self) -> None:
            raise AssertionError("tried")

    Compactor(archive=Untried()).close()


def test_where_conversations_are_kept_is_said_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO, "unabridged")
    url = f"sqlite:///{tmp_path}/agent.db"
    for namespace in ("one", "one", "two"):
        Compactor(archive=url, namespace=namespace).close()
    told = [record.getMessage() for record in caplog.records if url in record.getMessage()]
    assert told == [
        f"archive {url} namespace {name!r}: the same archive, namespace and thread are one conversation"
        for name in ("one", "two")
    ]


def test_an_agent_may_be_built_inside_an_event_loop(tmp_path: Path) -> None:
    from unabridged.adapters.langchain.arguments import ChosenSettings
    from unabridged.adapters.langchain.compactors import Compactors

    names = ("window", "known_window", "namespace", "counter")
    made: dict[str, Any] = dict.fromkeys(names)

    async def build() -> Compactors:
        return Compactors(ChosenSettings(None, None, None), **made, archive=f"dir://{tmp_path}/folder")

    compactors = asyncio.run(build())
    assert not (tmp_path / "folder").exists(), "nothing that blocks was done"
    assert compactors.archive.threads("n") == []
    with pytest.raises(UnabridgedError):
        Compactors(ChosenSettings(None, None, None), **made, archive="dir:///proc/unabridged")
    assert compactors.archive.records(Scope("n", "t")) == []
