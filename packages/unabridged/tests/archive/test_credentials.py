"""No credential anywhere: whatever stands in an archive's URL, nobody but the server is ever shown its password."""

from __future__ import annotations

import json
import logging
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive_support import guarded_role, new_schema, postgres_url
from cli_case import run
from conversations import long_chat
from unabridged import Compactor
from unabridged.archive import Scope, open_archive
from unabridged.archive.address import hide_credentials
from unabridged.archive.codec import pack
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.postgres import SCHEMA, open_postgres
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.asking.providers import open_model
from unabridged.errors import ArchiveError, SettingsError, UnabridgedError
from unabridged_testing.archive_contract.values import TEST_SCOPE, make_part, make_record

LETTERS = "abcXYZ0189-_.~!$'()*+,;&=@:/?#%[] é\"\\"
PASSWORDS = st.text(LETTERS, min_size=1, max_size=24).map(lambda text: f"Qx7{text}9zK")


@given(PASSWORDS, st.sampled_from(["", "9f"]))
def test_no_form_of_address_shows_its_password(password: str, port: str) -> None:
    escaped = quote(password, safe="")
    host = f"db.example{port and ':5432'}"
    shown = [
        f"{scheme}://{user}:{secret}@{host}/app?sslmode=require"
        for scheme in ("postgresql", "postgres", "redis", "https", "s3", "POSTGRESQL+psycopg")
        for user in ("me", "")
        for secret in (escaped, password)
    ]
    shown += [
        f"postgresql://{host}/app?user=me&{name}={escaped}&connect_timeout=3"
        for name in (
            "password",
            "sslpassword",
            "PASSWORD",
            "passwor%64",
            "api_key",
            "oauth_client_secret",
            "access_token",
        )
    ]
    shown += [f"https://{escaped}@{host}/x", f"openai:gpt-x@http://me:{escaped}@{host}/v1", f"me:{escaped}@{host}/app"]
    inside = password.replace("\\", "\\\\").replace("'", "\\'")
    shown += [f"host={host} password='{inside}' user=me", f"user=me password = '{inside}'"]
    for address in shown:
        assert "Qx7" not in hide_credentials(address), address
        assert "9zK" not in hide_credentials(address), address


def test_an_address_without_credentials_is_as_it_was() -> None:
    for address in (
        "memory:", "sqlite:///agent.db", "sqlite:////home/a@b:c/x.db", "dir:///C:/u@h", "dir:u@h", "postgresql://me@db:5432/app",
        "postgresql://db/app?host=/tmp/x&sslmode=require", "postgresql:///app", "openai:gpt-x@http://127.0.0.1:8000/v1",
    ):  # fmt: skip
        assert hide_credentials(address) == address
    assert hide_credentials("postgresql://a:b@h:1/d?x=1") == "postgresql://a@h:1/d?x=1"


def planted_urls(password: str) -> dict[str, str]:
    """A server's URL with a password in each place it may stand."""
    where = postgres_url().partition("?host=")[2]
    escaped = quote(password, safe="")
    return {
        "user": f"postgresql://postgres:{escaped}@/postgres?host={where}",
        "query": f"postgresql:///postgres?host={where}&user=postgres&password={escaped}",
        "both": f"postgres://postgres:{escaped}@/postgres?host={where}&sslpassword={escaped}",
    }


@pytest.fixture
def _own_schema() -> Iterator[None]:
    yield
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def rows() -> Iterator[bytes]:
    """Everything that the database holds, as it is stored and as it is read."""
    with psycopg.connect(postgres_url()) as connection:
        for table in ("namespaces", "threads", "bodies", "parts", "records"):
            for row in connection.execute(f"SELECT * FROM {SCHEMA}.{table}").fetchall():  # noqa: S608
                yield repr(row).encode()
        for packed in ("body FROM {}.bodies", "data FROM {}.records"):
            for (data,) in connection.execute(f"SELECT {packed.format(SCHEMA)}").fetchall():
                yield pack.unpack(data)


@pytest.mark.usefixtures("_own_schema")
@pytest.mark.parametrize("place", ["user", "query", "both"])
def test_no_password_reaches_receipts_events_records_logs_or_screens(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = "Qx7kWvTn", "mRbY29zK"  # long: three letters stand by chance in some packed body
    url = planted_urls(f"{start}-p@ss/w:rd?{end}")[place]
    caplog.set_level(logging.DEBUG)
    seen: list[Any] = []
    with Compactor(window=4_000, archive=url, namespace="cli", on_event=seen.append) as compactor:
        done = compactor.compact(long_chat(40), thread="t")
        assert done is not None
        seen += [done, done.receipt, compactor, compactor.settings, compactor._archive, vars(compactor)]  # noqa: SLF001
        seen += compactor._archive.records(Scope("cli", "t"))  # noqa: SLF001
    option = ("--archive", url) if place == "query" else ()
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", "memory:" if option else url)
    file, out = tmp_path / "chat.json", tmp_path / "out.json"
    file.write_text(json.dumps(long_chat(400)))
    page = tmp_path / "page.html"
    ran = [
        run(*command, *option)
        for command in (
            ("compact", file, "--window", "8k", "--out", out),
            ("compact", file, "--window", "8k", "--json"),
            ("threads",), ("threads", "--json"), ("show", "t"), ("show", "t", "--json"), ("show", "t", "--html", page),
            ("show", "nosuch"), ("search", "the", "--thread", "t"), ("read", "0", "--thread", "t"), ("verify",),
            ("verify", "--json"), ("replay", out), ("export", "t"), ("undo", out),
            ("prune", "--older-than", "9y", "--yes"), ("show", "--help"),
        )
    ]  # fmt: skip
    ran += [run("forget", "t", "--yes", *option)]
    texts = [*map(repr, seen), *(text for one in ran for text in (one.out, one.err)), caplog.text, page.read_text()]
    texts += [row.decode("latin-1") for row in rows()]
    assert sum(one.code == 0 for one in ran) >= 14, [(one.code, one.err) for one in ran]
    for text in texts:
        assert start not in text
        assert end not in text


def failures(password: str) -> dict[str, str]:
    """URLs that lead nowhere, each for another reason."""
    where = postgres_url().partition("?host=")[2]
    escaped = quote(password, safe="")
    name, _ = guarded_role()
    return {
        "host": f"postgresql://me:{escaped}@no-such-host.invalid/app",
        "port": f"postgresql://me:{escaped}@127.0.0.1:9/app",
        "password": f"postgresql://{name}:{escaped}@/postgres?host={where}",
        "database": f"postgresql://postgres:{escaped}@/no_such_database?host={where}",
        "role": f"postgresql://nobody:{escaped}@/postgres?host={where}",
        "folder": f"postgresql://postgres:{escaped}@/postgres?host=/no/such/folder",
        "unescaped": f"postgresql://me:{password}@127.0.0.1:9/app",
        "option": f"postgresql://me:{escaped}@127.0.0.1:9/app?no_such_option=1",
        "scheme": f"mysql://me:{escaped}@127.0.0.1/app",
        "keywords": f"host=127.0.0.1 user=me password='{password}'",
    }


@pytest.mark.parametrize("password", ["Qx7plain9zK", "Qx7@9zK", "Qx7-p@ss/w:rd?#9zK", "Qx7%9zK", "Qx7 blank 9zK"])
def test_no_error_says_the_password_nor_any_error_behind_it(password: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name, url in failures(password).items():
        with pytest.raises(UnabridgedError) as caught:
            Compactor(archive=url)
        assert isinstance(caught.value, ArchiveError | SettingsError), name
        told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        behind: BaseException | None = caught.value
        while behind is not None:
            told += repr(behind) + str(behind)
            behind = behind.__cause__ or behind.__context__
        for text in (told, caplog.text, run("threads", "--archive", url).err):
            assert "Qx7" not in text, name
            assert "9zK" not in text, name


def test_a_summarisers_url_is_shown_without_its_password() -> None:
    with pytest.raises(SettingsError) as caught:
        open_model("nosuchprovider:x@http://me:Qx7secret@127.0.0.1/v1")
    assert "Qx7" not in str(caught.value)


@pytest.mark.parametrize("store", ["sqlite", "directory", "postgres"])
def test_a_password_in_a_receipt_is_never_stored(store: str, tmp_path: Path) -> None:
    schema = new_schema()

    def opened() -> Any:
        if store == "postgres":
            return open_postgres(postgres_url(), schema=schema)
        return open_sqlite(tmp_path / "a.db") if store == "sqlite" else DirectoryArchive(tmp_path / "folder")

    receipt = {"archive": "postgresql://me:Qx7secret9zK@db/app", "id": "r"}
    given = replace(make_record([make_part("one", 0)]), data={"receipt": receipt, "depth": 1})
    archive = opened()
    record = archive.store(given, [make_part("one", 0)])
    archive.close()
    archive = opened()
    for found in (archive.record(TEST_SCOPE, record.id), *archive.records(TEST_SCOPE), *archive.newest(TEST_SCOPE)):
        assert found.data["receipt"] == {"archive": "postgresql://me@db/app", "id": "r"}
    assert archive.keyed(TEST_SCOPE, [record.key])[0].data["depth"] == 1
    archive.close()
    assert not any(b"Qx7" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_what_is_damaged_does_not_keep_an_archive_from_opening(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    archive = open_sqlite(path)
    archive.store(make_record([make_part("one", 0)]), [make_part("one", 0)])
    archive.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE records SET data = x'00'")
    open_archive(f"sqlite:///{path}").close()
