"""The archives that version 0.1.0 wrote, opened for a test."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

from unabridged import Compactor, Settings
from unabridged.settings import Clear, Prices

FOLDER = Path(__file__).parent / "fixtures" / "first_archives"
PROGRAM = "/srv/app/agent.py"
"""The program that wrote them."""
PASSWORD = "hunter2-fixture"  # noqa: S105 - of a server that is long gone
POSTGRES = "Postgres with a password"


def read_json(name: str) -> Any:
    return json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))


@functools.cache
def cases() -> dict[str, Any]:
    return {case["name"]: case for case in read_json("cases")}


def copy_sqlite(folder: Path) -> str:
    """A copy of the SQLite archive in this folder, by its URL."""
    path = folder / "archive.db"
    path.write_bytes(gzip.decompress((FOLDER / "archive.db.gz").read_bytes()))
    return f"sqlite:///{path}"


def compactor_for(case: dict[str, Any], url: str, **options: Any) -> Compactor:
    """A compactor with the settings that the case was made with, and today's defaults for everything else."""
    wanted = dict(case["settings"])
    if wanted.get("clear") == "prices":
        wanted["clear"] = Clear(prices=Prices())
    return Compactor(
        agent=case["agent"], window=case["window"], archive=url, settings=Settings(**wanted), format=case["format"],
        **options,
    )  # fmt: skip


def fill_postgres(url: str, schema: str = "unabridged") -> None:
    """Put the rows of the Postgres archive into an empty database, in the tables of then."""
    import psycopg
    from psycopg import sql

    from unabridged.archive.stores.postgres import migrate

    with psycopg.connect(url) as database:
        migrate(database, schema, target=2)
        database.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        database.execute("DELETE FROM version")
        dump = read_json("postgres")
        order = ("version", "namespaces", "threads", "bodies", "parts", "records", "segments", "leases")
        for table in order:
            held = dump[f"unabridged.{table}"]
            for row in held["rows"]:
                values = [bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in row]
                names = sql.SQL(", ").join(map(sql.Identifier, held["columns"]))
                marks = sql.SQL(", ").join([sql.Placeholder()] * len(values))
                database.execute(
                    sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})").format(
                        sql.Identifier(table), names, marks
                    ),
                    values,
                )
        for table in ("namespaces", "threads", "bodies"):  # as a dump restores them
            database.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT MAX(id) FROM {table}))")  # noqa: S608
