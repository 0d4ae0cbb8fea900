"""What only the directory store promises: files that other tools read, a transcript, and folders that stay apart."""

from __future__ import annotations

import json
import os
import shutil
import stat
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unabridged.archive.protocol import Scope
from unabridged.archive.stores.directory import MARK_FILE, TRANSCRIPT_FILE, DirectoryArchive
from unabridged.archive.stores.files import TEMPORARY_PREFIX, to_folder_name
from unabridged_testing.archive_contract.values import (
    OTHER_SCOPE,
    TEST_SCOPE,
    catch_archive_error,
    make_part,
    make_record,
    make_summary,
    store_parts,
)
from unreleased_archives import REFUSAL, make_directory

NAMES = st.text(st.characters(), max_size=120) | st.sampled_from(
    ["con", "NUL", "com1", "..", ".", "", "-rf", "_41", "A"]
)


def test_each_file_is_json_lines_that_any_tool_reads(tmp_path: Path) -> None:
    archive = DirectoryArchive(tmp_path)
    store_parts(
        archive, make_part("what is it?", 0), make_part("a pipe", 1, "assistant", "model"), after=make_summary("a pipe")
    )
    archive.close()
    (file,) = (tmp_path / "here" / "thread_201").glob("*.jsonl")
    head, *parts = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert (head["namespace"], head["thread"], head["record"]["kind"]) == ("here", "thread 1", "summary")
    told = [(part["turn"], part["message"]) for part in parts]
    assert told == [
        (-1, {"role": "user", "content": "a pipe"}),
        (0, {"role": "user", "content": "what is it?"}),
        (1, {"role": "assistant", "content": "a pipe"}),
    ]


def test_an_archive_says_of_which_version_it_is_before_it_holds_anything(tmp_path: Path) -> None:
    with closing(DirectoryArchive(tmp_path / "a")) as archive:
        assert archive.threads("n") == []
        assert not (tmp_path / "a").exists(), "reading makes nothing"
    with closing(DirectoryArchive(tmp_path / "a")) as archive:
        store_parts(archive, make_part("one", 0))
    assert (tmp_path / "a" / MARK_FILE).read_bytes() == b"unabridged archive 2\n"
    (tmp_path / "a" / MARK_FILE).write_bytes(b"something else\n")
    with closing(DirectoryArchive(tmp_path / "a")) as archive:
        assert "can't be read. Restore it from a backup" in catch_archive_error(lambda: archive.threads("n"))


def test_threads_that_were_copied_by_themselves_are_an_archive(tmp_path: Path) -> None:
    with closing(DirectoryArchive(tmp_path / "a")) as archive:
        store_parts(archive, make_part("one", 0))
    shutil.copytree(tmp_path / "a" / TEST_SCOPE.namespace, tmp_path / "b" / TEST_SCOPE.namespace)
    with closing(DirectoryArchive(tmp_path / "b")) as archive:
        assert [part.text for part in archive.parts(TEST_SCOPE)] == ["one"]
        assert not archive.verify()


def test_a_thread_of_before_the_first_release_is_refused_among_others(tmp_path: Path) -> None:
    with closing(DirectoryArchive(tmp_path / "a")) as archive:
        store_parts(archive, make_part("one", 0), scope=OTHER_SCOPE)
    make_directory(tmp_path / "b", locks=False)
    shutil.copytree(tmp_path / "b" / "here", tmp_path / "a" / "here")
    with closing(DirectoryArchive(tmp_path / "a")) as archive:
        assert [part.text for part in archive.parts(OTHER_SCOPE)] == ["one"]
        assert REFUSAL in catch_archive_error(lambda: archive.parts(TEST_SCOPE))
        (problem,) = archive.verify()
        assert REFUSAL in problem


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with closing(DirectoryArchive(tmp_path)) as archive:
        store_parts(archive, make_part("what is it?", 0))
    (file,) = (tmp_path / "here" / "thread_201").glob("*.jsonl")
    file.write_text(file.read_text("utf-8").replace('"unabridged":2', '"unabridged":99', 1), "utf-8")
    with closing(DirectoryArchive(tmp_path)) as archive:
        assert "is of version 99, this program knows 2. Update unabridged" in catch_archive_error(
            lambda: archive.records(TEST_SCOPE)
        )


def test_a_message_is_written_once_in_a_thread_however_often_it_occurs(tmp_path: Path) -> None:
    archive = DirectoryArchive(tmp_path)
    store_parts(archive, make_part("the same", 0), make_part("the same", 1))
    store_parts(archive, make_part("the same", 2), key="k2")
    written = b"".join(path.read_bytes() for path in (tmp_path / "here").rglob("*.jsonl"))
    assert written.count(b'"content":"the same"') == 1
    assert [part.body for part in archive.parts(TEST_SCOPE)] == [make_part("the same", 0).body] * 3
    archive.close()
    again = DirectoryArchive(tmp_path)
    assert [part.body for part in again.parts(TEST_SCOPE)] == [make_part("the same", 0).body] * 3
    again.close()


# R41
def test_the_transcript_has_every_message_in_order(tmp_path: Path) -> None:
    archive = DirectoryArchive(tmp_path)
    store_parts(archive, make_part("later", 5), after=make_summary("in short"))
    store_parts(archive, make_part("earlier", 2, "tool", "tool"), key="k2")
    path = archive.transcript(TEST_SCOPE)
    assert path == tmp_path / "here" / "thread_201" / TRANSCRIPT_FILE
    assert path is not None
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if line in {"earlier", "later", "in short"}] == ["earlier", "later"]
    assert [line.split(" · ")[:2] for line in lines if line.startswith("---")] == [
        ["--- turn 2", "tool"],
        ["--- turn 5", "user, person"],
    ]
    archive.close()


def test_a_transcript_left_behind_by_a_crash_is_made_anew(tmp_path: Path) -> None:
    def die_before_the_transcript(step: str) -> None:
        if step == "renamed":
            raise KeyboardInterrupt

    archive = DirectoryArchive(tmp_path)
    store_parts(archive, make_part("one", 0))
    dying = DirectoryArchive(tmp_path, step=die_before_the_transcript)
    with pytest.raises(KeyboardInterrupt):
        store_parts(dying, make_part("two", 1), key="k2")
    path = archive.transcript(TEST_SCOPE)
    assert path is not None
    assert "two" in path.read_text("utf-8")
    archive.close()


def transcribed(folder: Path) -> str:
    return (folder / "here" / "thread_201" / TRANSCRIPT_FILE).read_text("utf-8")


def test_what_comes_last_is_added_to_the_transcript_and_the_rest_of_it_is_not_written_again(tmp_path: Path) -> None:
    archive = DirectoryArchive(tmp_path)
    store_parts(archive, make_part("one", 0))
    path = tmp_path / "here" / "thread_201" / TRANSCRIPT_FILE
    before, inode = transcribed(tmp_path), path.stat().st_ino
    store_parts(archive, make_part("two ünd", 1), make_part("three", 2), key="k2")
    archive.retire(TEST_SCOPE, store_parts(archive, make_part("four", 2), key="k3").id)
    assert path.stat().st_ino == inode
    after = transcribed(tmp_path)
    assert after.startswith(before.rpartition("=== ")[0])
    assert after.count("=== ") == 1
    assert after.splitlines()[-1].startswith("=== 4 messages, up to turn 2, record ")
    archive.close()


@given(st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=6), st.integers(0, 40), st.booleans())
def test_a_transcript_that_was_added_to_is_the_one_made_at_once(turns: Any, cut: int, again: bool) -> None:
    with TemporaryDirectory() as grown, TemporaryDirectory() as fresh:
        archive = DirectoryArchive(grown)
        numbered = [
            (turn, f"{i}.{j} sagt ü\n=== {i} messages, up to turn 9")
            for i, one in enumerate(turns)
            for j, turn in enumerate(one)
        ]
        done = 0
        for i, one in enumerate(turns):
            parts = [make_part(text, turn) for turn, text in numbered[done : done + len(one)]]
            done += len(one)
            store_parts(archive, *parts, key=f"k{i}")
            if again:  # another process goes on
                archive.close()
                archive = DirectoryArchive(grown)
            if i == 0 and cut:  # a crash, or an editor, took some of its end
                path = Path(grown) / "here" / "thread_201" / TRANSCRIPT_FILE
                path.write_bytes(path.read_bytes()[:-cut])
        archive.close()
        shutil.copytree(Path(grown) / "here", Path(fresh) / "here")
        (Path(fresh) / "here" / "thread_201" / TRANSCRIPT_FILE).unlink()
        made = DirectoryArchive(fresh)
        assert made.transcript(TEST_SCOPE) is not None
        made.close()
        if len(turns) > 1 or not cut:
            assert transcribed(Path(grown)) == transcribed(Path(fresh))


def test_of_an_unknown_thread_there_is_no_transcript(tmp_path: Path) -> None:
    archive = DirectoryArchive(tmp_path)
    assert archive.transcript(Scope("no", "such")) is None
    archive.close()


def test_what_a_crash_left_half_written_is_passed_over_and_cleared(tmp_path: Path) -> None:
    archive = DirectoryArchive(tmp_path)
    store_parts(archive, make_part("one", 0))
    folder = tmp_path / "here" / "thread_201"
    (folder / f"{TEMPORARY_PREFIX}1234").write_bytes(b"half a li")
    (tmp_path / ".gone-1234").mkdir()
    assert not archive.verify()
    store_parts(archive, make_part("two", 1), key="k2")
    assert not list(folder.glob(f"{TEMPORARY_PREFIX}*"))
    archive.forget(Scope("no", "such"))
    assert not list(tmp_path.glob(".gone-*"))
    archive.close()


def test_another_process_sees_what_is_new_and_what_was_forgotten(tmp_path: Path) -> None:
    mine, other = DirectoryArchive(tmp_path), DirectoryArchive(tmp_path)
    store_parts(mine, make_part("one", 0))
    assert [part.text for part in other.parts(TEST_SCOPE)] == ["one"]
    store_parts(mine, make_part("two", 1), key="k2")
    assert [part.text for part in other.parts(TEST_SCOPE)] == ["one", "two"]
    mine.forget(TEST_SCOPE)
    assert not other.parts(TEST_SCOPE)
    store_parts(mine, make_part("new", 0))
    assert [part.text for part in other.parts(TEST_SCOPE)] == ["new"]
    mine.close()
    other.close()


def test_files_and_folders_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        archive = DirectoryArchive(tmp_path / "a")
        store_parts(archive, make_part("one", 0))
        assert archive.lease(TEST_SCOPE, "k", 60)
        archive.close()
    finally:
        os.umask(before)
    for path in [tmp_path / "a", *(tmp_path / "a").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_nothing_is_left_of_a_forgotten_thread_not_even_its_name(tmp_path: Path) -> None:
    archive = DirectoryArchive(tmp_path)
    scope = Scope("of-mallory", "thread-of-mallory")
    part = make_part("the launch code", 0)
    archive.store(make_record([part], scope=scope), [part])
    assert archive.lease(scope, "mallory", 60)
    archive.forget(scope)
    archive.close()
    for path in tmp_path.rglob("*"):
        assert "mallory" not in path.name
        assert path.is_dir() or b"launch" not in path.read_bytes()


@given(NAMES, NAMES)
def test_two_names_never_share_a_folder_on_any_file_system(one: str, other: str) -> None:
    import unicodedata

    folders = [to_folder_name(one), to_folder_name(other)]
    on_any = [unicodedata.normalize("NFC", folder).casefold().rstrip(". ") for folder in folders]
    assert (one == other) == (on_any[0] == on_any[1])


@given(NAMES)
def test_a_folder_stays_in_its_place(name: str) -> None:
    folder = to_folder_name(name)
    assert folder
    assert len(folder) <= 150
    assert not set(folder) - set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert not folder.startswith((".", "-"))
