"""What only the Postgres store promises: versions, a schema of its own, and clear errors."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import psycopg

from archive_support import new_schema, postgres_url
from patience import PATIENCE
from unabridged.archive import open_archive
from unabridged.archive.address import hide_credentials
from unabridged.archive.protocol import Record
from unabridged.archive.stores.postgres import SCHEMA, make_tables, open_postgres
from unabridged_testing.archive_contract.values import (
    TEST_SCOPE,
    catch_archive_error,
    make_part,
    make_record,
    store_parts,
)


def test_a_newer_version_is_refused() -> None:
    schema = new_schema()
    with psycopg.connect(postgres_url()) as connection:
        make_tables(connection, schema)
        connection.execute(f"UPDATE {schema}.archive_version SET version = 99")  # noqa: S608 - ours
    archive = open_postgres(postgres_url(), schema=schema)
    assert "version 99" in catch_archive_error(lambda: archive.threads("n"))
    archive.close()


def test_of_many_that_open_a_new_archive_at_once_none_fails() -> None:
    schema = new_schema()
    begin = threading.Barrier(12)
    problems: list[BaseException] = []

    def use() -> None:
        try:
            with closing(open_postgres(postgres_url(), schema=schema)) as archive:
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


def test_two_schemas_are_two_archives() -> None:
    one, other = (open_postgres(postgres_url(), schema=new_schema()) for _ in range(2))
    store_parts(one, make_part("one", 0))
    assert not other.parts(TEST_SCOPE)
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
    message = catch_archive_error(lambda: archive.threads("n"))
    assert "Check the URL" in message
    assert "geheim" not in message
    assert archive.url == "postgresql://nobody@127.0.0.1:9/none"
    archive.close()


def test_a_password_is_never_shown() -> None:
    assert hide_credentials("postgresql://a:b@h/d?password=c&x=1") == "postgresql://a@h/d?password=…&x=1"
    assert hide_credentials("postgresql://h/d") == "postgresql://h/d"
    assert hide_credentials("postgresql://a:p@ss@h/d") == "postgresql://a@h/d"


def test_a_server_that_ended_every_connection_is_connected_to_again() -> None:
    archive = open_postgres(postgres_url(), schema=new_schema())
    store_parts(archive, make_part("one", 0))
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert len(archive.parts(TEST_SCOPE)) == 1
    archive.close()


def test_a_server_that_is_not_there_is_left_alone_for_a_moment() -> None:
    asked = 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        archive = open_postgres(f"postgresql://nobody@127.0.0.1:{server.getsockname()[1]}/none?sslmode=disable")

        def refuse() -> None:
            nonlocal asked
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                asked += 1
                connection.close()

        refusing = threading.Thread(target=refuse, daemon=True)
        refusing.start()
        errors = {catch_archive_error(lambda: archive.threads("n")) for _ in range(20)}
        assert asked < 20
        assert len(errors) == 1, "and says the same"
        archive.close()
        server.shutdown(socket.SHUT_RDWR)
    refusing.join(PATIENCE)


def test_tables_that_are_gone_are_made_again() -> None:
    schema = new_schema()
    archive = open_postgres(postgres_url(), schema=schema)
    store_parts(archive, make_part("one", 0))
    with psycopg.connect(postgres_url()) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
    catch_archive_error(lambda: archive.parts(TEST_SCOPE))
    assert not archive.parts(TEST_SCOPE)
    archive.close()


def test_of_two_that_store_the_same_the_later_sees_the_first_whatever_isolation_the_role_has() -> None:
    schema, url = new_schema(), f"{postgres_url()}&options=-c%20default_transaction_isolation%3Dserializable"
    answers: list[Record] = []
    part = make_part("one", 0)
    other = open_postgres(url, schema=schema)
    later = threading.Thread(target=lambda: answers.append(other.store(make_record([part], record_id="later"), [part])))

    def wait_for_it(step: str) -> None:
        if step == "record":  # all is written, and nothing is committed
            later.start()
            with psycopg.connect(postgres_url(), autocommit=True) as connection:
                while not connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                    pass

    with closing(open_postgres(url, schema=schema, step=wait_for_it)) as first:
        assert first.store(make_record([part], record_id="first"), [part]).id == "first"
        later.join()
    assert [record.id for record in answers] == ["first"]
    other.close()
