"""What only the Postgres store promises: versions, a schema of its own, and clear errors."""

from __future__ import annotations

import psycopg
import pytest

from archive_support import new_schema, postgres_url
from unabridged.archive import open_archive
from unabridged.archive.address import without_credentials
from unabridged.archive.stores.postgres import SCHEMA, migrate, open_postgres
from unabridged.archive.stores.sql_tables import MIGRATIONS
from unabridged.testing.archive_contract.values import HERE, make_part, raises, store_parts


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
def test_every_version_migrates_to_the_newest(version: int) -> None:
    schema = new_schema()
    with psycopg.connect(postgres_url()) as connection:
        migrate(connection, schema, target=version)
        migrate(connection, schema, target=version)
        assert connection.execute(f"SELECT version FROM {schema}.version").fetchone() == (version,)  # noqa: S608 - ours
    archive = open_postgres(postgres_url(), schema=schema)
    store_parts(archive, make_part("one", 0))
    assert archive.lease(HERE, "k", 1)
    assert not archive.verify()
    archive.close()


def test_a_newer_version_is_refused() -> None:
    schema = new_schema()
    with psycopg.connect(postgres_url()) as connection:
        migrate(connection, schema)
        connection.execute(f"UPDATE {schema}.version SET version = 99")  # noqa: S608 - ours
    archive = open_postgres(postgres_url(), schema=schema)
    assert "version 99" in raises(lambda: archive.threads("n"))
    archive.close()


def test_two_schemas_are_two_archives() -> None:
    one, other = (open_postgres(postgres_url(), schema=new_schema()) for _ in range(2))
    store_parts(one, make_part("one", 0))
    assert not other.parts(HERE)
    one.close()
    other.close()


def test_the_url_opens_the_schema_of_the_package() -> None:
    archive = open_archive(postgres_url())
    assert not archive.threads("nobody's")
    archive.close()
    with psycopg.connect(postgres_url()) as connection:
        assert connection.execute("SELECT to_regclass(%s)", [f"{SCHEMA}.parts"]).fetchone() != (None,)
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_a_server_that_is_not_there_is_a_clear_error() -> None:
    archive = open_postgres("postgresql://nobody:geheim@127.0.0.1:9/none", wait=2)
    message = raises(lambda: archive.threads("n"))
    assert "Check the URL" in message
    assert "geheim" not in message
    assert archive.url == "postgresql://nobody@127.0.0.1:9/none"
    archive.close()


def test_a_password_is_never_shown() -> None:
    assert without_credentials("postgresql://a:b@h/d?password=c&x=1") == "postgresql://a@h/d?password=…&x=1"
    assert without_credentials("postgresql://h/d") == "postgresql://h/d"
    assert without_credentials("postgresql://a:p@ss@h/d") == "postgresql://a@h/d"
