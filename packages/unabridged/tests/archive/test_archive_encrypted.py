"""Encryption at rest: nothing said is in the store, and nothing can be moved, changed or read without the key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unabridged.archive.encrypted import EncryptedArchive, new_key
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.errors import SettingsError
from unabridged_testing.archive_contract.values import (
    OTHER_SCOPE,
    TEST_SCOPE,
    catch_archive_error,
    make_part,
    make_record,
    make_summary,
    store_parts,
)


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_nothing_that_was_said_stands_in_the_files(tmp_path: Path) -> None:
    archive = EncryptedArchive(DirectoryArchive(tmp_path), new_key())
    part = make_part("the launch code is 4711-0815-2342", 0)
    record = make_record([part], make_summary("about the launch"), model="gpt-secret", data={"ledger": "launchpad"})
    archive.store(record, [part, make_summary("about the launch")])
    stored_bytes = everything_in(tmp_path)
    for word in (
        b"launch",
        b"4711-0815-2342",
        b"person",
        b"gpt-secret",
        b"ledger",
        part.hash.encode(),
        part.hash[7:].encode(),
    ):
        assert word not in stored_bytes
    assert [hit.text for hit in archive.search(TEST_SCOPE, "launch code")] == ["the launch code is 4711-0815-2342"]
    archive.close()


def test_only_a_plaintext_index_puts_words_into_the_store() -> None:
    for plaintext in (False, True):
        below = MemoryArchive()
        archive = EncryptedArchive(below, new_key(), plaintext_index=plaintext)
        store_parts(archive, make_part("the launch code is 4711-0815-2342", 0))
        assert bool(below.search(TEST_SCOPE, "launch")) is plaintext
        assert [hit.text for hit in archive.search(TEST_SCOPE, "launch")] == ["the launch code is 4711-0815-2342"]


def test_another_key_opens_nothing() -> None:
    below = MemoryArchive()
    record = store_parts(EncryptedArchive(below, new_key()), make_part("mine", 0))
    other = EncryptedArchive(below, new_key())
    assert "not the key" in catch_archive_error(lambda: other.parts(TEST_SCOPE))
    assert "not the key" in catch_archive_error(lambda: other.record(TEST_SCOPE, record.id))
    assert not other.bodies(TEST_SCOPE, [make_part("mine", 0).hash])
    assert other.verify(TEST_SCOPE)


def test_a_sealed_message_can_not_be_put_in_the_place_of_another() -> None:
    key = new_key()
    below = MemoryArchive()
    archive = EncryptedArchive(below, key)
    store_parts(archive, make_part("yes", 0), make_part("no", 1))
    yes, no = below.parts(TEST_SCOPE)
    forged = Scope(TEST_SCOPE.namespace, "forged")
    swapped = [replace(yes, body=no.body), replace(no, body=yes.body)]
    below.store(make_record(swapped, scope=forged), swapped)
    moved = Scope(TEST_SCOPE.namespace, "moved")
    below.store(make_record([yes], scope=moved), [yes])
    for scope in (forged, moved):
        assert "tampered" in catch_archive_error(lambda scope=scope: archive.parts(scope))  # type: ignore[misc]


def test_equal_messages_are_stored_once_in_a_namespace_and_unlike_in_another() -> None:
    below = MemoryArchive()
    archive = EncryptedArchive(below, new_key())
    for scope in (TEST_SCOPE, Scope(TEST_SCOPE.namespace, "neighbour"), OTHER_SCOPE):
        archive.store(make_record([make_part("same", 0)], scope=scope), [make_part("same", 0)])
    here, neighbour, there = (
        below.parts(s)[0] for s in (TEST_SCOPE, Scope(TEST_SCOPE.namespace, "neighbour"), OTHER_SCOPE)
    )
    assert (here.hash, here.body) == (neighbour.hash, neighbour.body)
    assert here.hash != there.hash
    assert here.body != there.body


def test_damage_is_told_without_the_key(tmp_path: Path) -> None:
    key = new_key()
    archive = EncryptedArchive(open_sqlite(tmp_path / "a.db"), key)
    store_parts(archive, make_part("whole", 0))
    below = open_sqlite(tmp_path / "a.db")
    assert not below.verify()
    with below._database.write(*TEST_SCOPE) as write:  # noqa: SLF001 - damage, made on purpose
        ((body,),) = write.execute("SELECT body FROM bodies")
        write.execute("UPDATE bodies SET body = ?", [body[:-1] + bytes([body[-1] ^ 1])])
    assert "damaged" in below.verify()[0]
    assert archive.verify(TEST_SCOPE)
    archive.close()
    below.close()


def test_a_short_key_is_refused() -> None:
    with pytest.raises(SettingsError, match="32 random ones"):
        EncryptedArchive(MemoryArchive(), b"password")
