"""Behind PgBouncer in transaction mode every promise holds: no statement is prepared, nothing is left in a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest

from archive_support import new_schema
from pg_servers import Bouncer, Server, debian, pgbouncer, wheel
from unabridged.archive.protocol import Archive
from unabridged.archive.stores.postgres import open_postgres
from unabridged_testing.archive_contract import ArchiveContract
from unabridged_testing.archive_contract.values import TEST_SCOPE, make_part, store_parts

pytestmark = pytest.mark.posix

LONG = bool(os.environ.get("UNABRIDGED_FLEET_KILLS"))
NEEDED = pytest.mark.skipif(pgbouncer() is None, reason="needs PgBouncer: apt-get install pgbouncer")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server((debian() if LONG else None) or wheel())
    yield made
    made.close()


@NEEDED
@pytest.mark.skipif(not LONG, reason="the whole contract takes a while: make fleet")
class TestBehindPgBouncer(ArchiveContract):
    """Two sessions of the server for everybody."""

    @pytest.fixture
    def url(self, server: Server) -> Iterator[str]:
        bouncer = Bouncer(server, size=2)
        yield bouncer.url
        bouncer.close()

    @pytest.fixture
    def opened(self, url: str) -> Callable[[], Archive]:
        schema = new_schema()
        return lambda: open_postgres(url, schema=schema)


@NEEDED
def test_a_session_that_was_used_is_as_it_was(server: Server) -> None:
    bouncer = Bouncer(server, size=1)
    look = (
        "SELECT current_setting('search_path'), current_setting('lock_timeout'), "
        "current_setting('transaction_isolation'), (SELECT COUNT(*) FROM pg_prepared_statements), "
        "(SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())"
    )
    try:
        with psycopg.connect(bouncer.url, autocommit=True, prepare_threshold=None) as same:
            fresh = same.execute(look).fetchone()
            archive = open_postgres(bouncer.url, schema=new_schema())
            for number in range(10):
                store_parts(archive, make_part(f"said {number}", number), key=f"k{number}")
                assert len(archive.search(TEST_SCOPE, "said", limit=100)) == number + 1
            assert archive.lease(TEST_SCOPE, "k", 60)
            archive.forget(TEST_SCOPE)
            archive.close()
            assert same.execute(look).fetchone() == fresh
            sessions = same.execute("SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            assert sessions.fetchone() == (1,), "it was the same session"
    finally:
        bouncer.close()
