"""Damage of every kind, made on purpose: `verify` names it, and nothing damaged is ever handed out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from archive_support import new_schema, postgres_url
from unabridged.archive import codec
from unabridged.archive.stores.base_sql import SqlArchive
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.postgres import open_postgres
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged_testing.archive_contract.values import (
    OTHER_SCOPE,
    TEST_SCOPE,
    catch_archive_error,
    make_part,
    make_summary,
    store_parts,
)


@pytest.fixture(params=["sqlite", "postgres"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlArchive]:
    if request.param == "sqlite":
        opened = open_sqlite(tmp_path / "a.db")
    else:
        opened = open_postgres(postgres_url(), schema=new_schema())
    store_parts(opened, make_part("first words", 0), make_part("second words", 1), after=make_summary("in short"))
    store_parts(opened, make_part("elsewhere", 0), scope=OTHER_SCOPE)
    yield opened
    opened.close()


def change(archive: SqlArchive, statement: str, *values: object) -> None:
    """Run a statement no store would run."""
    with archive._database.write(*TEST_SCOPE) as write:  # noqa: SLF001 - damage, made on purpose
        write.execute(statement, values)


def one_problem(archive: SqlArchive) -> str:
    (problem,) = archive.verify()
    assert archive.verify(TEST_SCOPE) == [problem]
    assert archive.verify(OTHER_SCOPE) == []
    return problem


def test_a_changed_body_is_found_and_not_handed_out(archive: SqlArchive) -> None:
    part = archive.parts(TEST_SCOPE)[0]
    body = "SELECT body FROM parts WHERE turn = 0 AND thread = (SELECT MIN(id) FROM threads)"
    change(archive, f"UPDATE bodies SET body = ? WHERE id = ({body})", b"\0other")  # noqa: S608 - the test's own
    assert "turn 0" in archive.verify(TEST_SCOPE)[0]
    assert "damaged" in catch_archive_error(lambda: archive.bodies(TEST_SCOPE, [part.hash]))
    assert catch_archive_error(lambda: archive.parts(TEST_SCOPE))
    assert [part.text for part in archive.parts(TEST_SCOPE, 1)] == ["second words"]


@pytest.mark.parametrize("body", [b"", b"\1", b"\1\xff\xff", b"\7x"])
def test_a_body_that_is_no_packed_body_is_found(archive: SqlArchive, body: bytes) -> None:
    change(archive, "UPDATE bodies SET body = ? WHERE id = (SELECT MIN(body) FROM parts)", body)
    assert archive.verify(TEST_SCOPE)


def test_a_view_that_can_not_be_read_is_found(archive: SqlArchive) -> None:
    change(archive, "UPDATE parts SET view = ? WHERE turn = 1", b"\1nonsense")
    assert "turn 1" in one_problem(archive)


def test_a_lost_part_is_found(archive: SqlArchive) -> None:
    change(archive, "DELETE FROM parts WHERE turn = 0 AND thread = (SELECT MIN(id) FROM threads)")
    problems = " ".join(archive.verify(TEST_SCOPE))
    assert "refers to 1 messages that are not there" in problems
    assert "search index" in problems
    assert "belong to no thread" in " ".join(archive.verify())


def test_a_lost_or_changed_index_is_found(archive: SqlArchive) -> None:
    if archive.url.startswith("sqlite"):
        change(
            archive, "INSERT INTO words_0 (words_0, rowid, text) SELECT 'delete', base + 1, 'first words' FROM threads"
        )
    else:
        change(archive, "UPDATE words SET tokens = '{1}' WHERE number = 1 AND thread = (SELECT MIN(id) FROM threads)")
    assert "differ in 1 places" in one_problem(archive)
    change(archive, "UPDATE threads SET messages = 7 WHERE id = (SELECT MIN(id) FROM threads)")
    assert "search index" in one_problem(archive)


def test_a_record_that_can_not_be_read_or_stands_elsewhere_is_found(archive: SqlArchive) -> None:
    first = "WHERE thread = (SELECT MIN(id) FROM threads)"
    change(archive, f"UPDATE records SET id = ? {first}", b"other")  # noqa: S608 - the test's own
    assert "another id or key" in one_problem(archive)
    change(archive, f"UPDATE records SET data = ? {first}", b"\0{}")  # noqa: S608 - the test's own
    assert "can't be read" in one_problem(archive)
    assert "can't be read" in catch_archive_error(lambda: archive.records(TEST_SCOPE))


def test_a_part_of_another_namespace_is_found(archive: SqlArchive) -> None:
    change(archive, "UPDATE parts SET body = (SELECT MAX(id) FROM bodies) WHERE turn = 1")
    assert "another namespace" in " ".join(archive.verify())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    archive = DirectoryArchive(tmp_path)
    store_parts(archive, make_part("first words", 0), after=make_summary("in short"))
    store_parts(archive, make_part("second words", 1), key="k2")
    archive.close()
    return tmp_path / "here" / "thread_201"


def replaced(old: bytes, new: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "cut off"),
    "not JSON": (lambda path: path.write_bytes(b"nonsense\n"), "can't be read"),
    "empty": (lambda path: path.write_bytes(b""), "cut off"),
    "another message": (replaced(b'words"}', b'wards"}'), "damaged"),
    "another version": (replaced(b'unabridged":2', b'unabridged":9'), "version 9"),
    "another thread's": (replaced(b"thread 1", b"thread 2"), "thread 2"),
    "a line lost": (lambda path: path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n"), "not there"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["00000001.jsonl", "00000002.jsonl"])
def test_a_damaged_file_is_found(folder: Path, name: str, damage: str) -> None:
    make, message = DAMAGES[damage]
    make(folder / name)
    archive = DirectoryArchive(folder.parents[1])
    assert message in " ".join(archive.verify(TEST_SCOPE))
    assert archive.verify()
    archive.close()


def test_a_lost_file_is_found_and_not_passed_over(folder: Path) -> None:
    archive = DirectoryArchive(folder.parents[1])
    store_parts(archive, make_part("third words", 2), key="k3")
    store_parts(archive, make_part("elsewhere", 0), scope=OTHER_SCOPE)
    for name, count in (("00000002.jsonl", 2), ("00000001.jsonl", 1)):
        (folder / name).unlink()
        assert f"only {count} are there" in archive.verify(TEST_SCOPE)[0]
        assert f"only {count} are there" in catch_archive_error(lambda: archive.parts(TEST_SCOPE))
        assert len(archive.verify()) == 1
        assert archive.threads(OTHER_SCOPE.namespace) == [OTHER_SCOPE.thread]
    archive.close()


def test_a_damaged_message_in_a_file_is_not_handed_out(folder: Path) -> None:
    make, _ = DAMAGES["another message"]
    part = make_part("second words", 1)
    make(folder / "00000002.jsonl")
    archive = DirectoryArchive(folder.parents[1])
    assert "damaged" in catch_archive_error(lambda: archive.bodies(TEST_SCOPE, [part.hash]))
    assert "damaged" in catch_archive_error(lambda: archive.parts(TEST_SCOPE))
    assert [part.text for part in archive.parts(TEST_SCOPE, 0, 1)] == ["first words"]
    archive.close()


def test_the_hash_says_by_which_algorithm() -> None:
    assert codec.digest(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
