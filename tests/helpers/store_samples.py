"""Archives as a release wrote them: made once for each release, and read by every later version.

`python tests/helpers/store_samples.py` writes `fixtures/archives/VERSION.zip` for the present version.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

import unabridged
from archive_support import postgres_url
from pg_servers import wheel
from places import HELPERS
from unabridged import Compactor
from unabridged.archive import Archive, open_archive
from unabridged.archive.encrypted import EncryptedArchive
from unabridged.archive.objects import ObjectArchive

SAMPLES = HELPERS / "fixtures" / "archives"
STORES = ("sqlite", "directory", "postgres", "encrypted", "objects")
KEY = bytes(range(32))
"""The key of the encrypted sample."""
THREAD = "a sample"
WORD = "quarterdeck"
"""Stands in one message that left the context."""


def database(name: str) -> str:
    """Return the URL of a database of this name on the server of the tests."""
    return postgres_url().replace("/postgres?", f"/{name}?")


def open_sample(store: str, folder: Path) -> Archive:
    """Open the archive of this kind in the folder; Postgres has a database of the folder's name."""
    if store == "sqlite":
        return open_archive(f"sqlite:///{folder / 'sqlite.db'}")
    if store == "directory":
        return open_archive(f"dir://{folder / 'directory'}")
    if store == "postgres":
        return open_archive(database(folder.name))
    if store == "encrypted":
        return EncryptedArchive(open_archive(f"sqlite:///{folder / 'encrypted.db'}"), KEY)
    (folder / "objects").mkdir(exist_ok=True)
    return ObjectArchive(open_archive(f"sqlite:///{folder / 'references.db'}"), f"file://{folder / 'objects'}")


def make_database(folder: Path, dump: Path | None = None) -> None:
    """Make the database of this folder, from a dump if there is one."""
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{folder.name}"')
    if dump is not None:
        psql = [str(wheel() / "psql"), "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={database(folder.name)}"]
        subprocess.run([*psql, f"--file={dump}"], check=True, capture_output=True)


def make_conversation() -> list[dict[str, Any]]:
    """Return a run with a rule, calls, results and an image."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You mend ships."},
        {"role": "user", "content": "Never touch the \N{ANCHOR} anchor. Look at each plank."},
    ]
    for number in range(24):
        call = {"id": f"call-{number}", "type": "function"}
        call["function"] = {"name": "look", "arguments": json.dumps({"plank": number})}  # type: ignore[assignment]
        found = f"Plank {number} of the {WORD if number == 3 else 'hull'}: " + f"sound at frame {number}. " * 20
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call-{number}", "content": found},
        ]
        if number == 2:
            image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
            messages.append({"role": "user", "content": [{"type": "text", "text": "And this one?"}, image]})
    return messages


def work(archive: Archive, messages: list[dict[str, Any]]) -> list[Any]:
    """Take a conversation through several compactions and one that is undone; return the list that is carried."""
    compactor = Compactor(window=2_000, archive=archive)
    carried: list[Any] = []
    undone = False
    for message in messages:
        carried = compactor.fit([*carried, message], thread=THREAD).messages
        if len(carried) < 8 and not undone and message["role"] == "tool":  # once, right after a compaction
            undone = True
            restored = compactor.undo(carried, thread=THREAD)
            carried = compactor.fit(restored, thread=THREAD).messages
    return carried


def zipped(folder: Path, target: Path) -> None:
    """Write the files of a folder into a ZIP file that is the same for the same files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            packed.writestr(
                zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes(), zipfile.ZIP_DEFLATED
            )


def make(stores: Iterable[str] = STORES) -> Path:
    """Write the samples of the present version, and return their file."""
    folder = Path(tempfile.mkdtemp(prefix="samples"))
    target = SAMPLES / f"{unabridged.__version__}.zip"
    messages = make_conversation()
    carried = {}
    for store in stores:
        if store == "postgres":
            make_database(folder)
        with closing(open_sample(store, folder)) as archive:
            carried[store] = work(archive, messages)
    dump = [str(wheel() / "pg_dump"), "--no-owner", "--schema=unabridged", f"--file={folder / 'postgres.sql'}"]
    subprocess.run([*dump, database(folder.name)], check=True, capture_output=True)
    kept = {"original": messages, "carried": carried}
    (folder / "lists.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
    SAMPLES.mkdir(parents=True, exist_ok=True)
    zipped(folder, target)
    shutil.rmtree(folder)
    return target


Opened = tuple[Callable[[], Archive], list[Any], list[Any]]


def unpack(sample: Path, store: str, folder: Path) -> Opened:
    """Unpack a sample; return how to open this store of it, the original list, and the one that was carried."""
    with zipfile.ZipFile(sample) as packed:
        packed.extractall(folder)
    if store == "postgres":
        make_database(folder, folder / "postgres.sql")
    lists = json.loads((folder / "lists.json").read_bytes())
    return lambda: open_sample(store, folder), lists["original"], lists["carried"][store]


if __name__ == "__main__":
    sys.stdout.write(f"{make()}\n")
