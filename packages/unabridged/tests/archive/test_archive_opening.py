"""From a URL to an archive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from rows import rows
from unabridged import Compactor
from unabridged.archive import open_archive
from unabridged.archive.address import folder_from_url, folder_url
from unabridged.archive.opening import default_url
from unabridged.errors import ArchiveError, SettingsError
from unabridged_testing.archive_contract.values import TEST_SCOPE, make_part, store_parts


def test_every_form_opens_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    forms = [
        "memory:",
        "sqlite:///agent.db",
        f"sqlite:///{tmp_path}/b.db",
        "dir:folder",
        "dir:a/b",
        f"dir://{tmp_path}/other",
    ]
    for url in forms:
        archive = open_archive(url)
        store_parts(archive, make_part("one", 0))
        assert [part.text for part in archive.parts(TEST_SCOPE)] == ["one"]
        assert archive.url == url
        archive.close()
    assert {path.name for path in tmp_path.iterdir()} == {"agent.db", "b.db", "folder", "a", "other"}


@rows(
    "url",
    ["sqlite:///{}/missing/x/a.db", "sqlite:///missing/a.db", "dir://{}/missing/x", "dir:missing/x",
     "sqlite:///{}/missing/a.db?bodies=memory://", "sqlite:///{}/a_file/a.db", "dir://{}/a_file/x"],
)  # fmt: skip
def test_a_folder_that_there_is_not_is_an_error_and_is_not_made(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("hello")
    for make in (open_archive, lambda url: Compactor(window=8_000, archive=url)):
        with pytest.raises(ArchiveError, match=r"there is no folder .*mkdir -p .*or name another"):
            make(url.format(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["a_file"]


@pytest.mark.parametrize("named", [False, True], ids=["by default", "named"])
def test_that_the_default_archive_was_made_is_said_once(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data" / "of" / "mine"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for _ in range(3):
        open_archive(default_url() if named else None).close()
    open_archive(f"sqlite:///{tmp_path}/other.db").close()
    (said,) = [record.getMessage() for record in caplog.records if "whole conversations" in record.getMessage()]
    assert str(tmp_path) in said
    assert "archive='sqlite:///agent.db'" in said
    assert "archive='memory:'" in said


def test_the_default_is_a_file_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    archive = open_archive()
    store_parts(archive, make_part("one", 0))
    archive.close()
    assert archive.url == default_url()
    assert len(list(tmp_path.rglob("archive.db"))) == 1


@rows(
    "url",
    ["", "agent.db", "/var/agent.db", "mysql://x", "sqlite:", "sqlite://", "sqlite:///", "sqlite:///:memory:",
     "sqlite://agent.db", "dir:", "dir:/", "dir:///", "dir:///a\0b", "memory", "http://x", "redis://user:secret@host"],
)  # fmt: skip
def test_anything_else_is_refused_with_what_would_do(url: str) -> None:
    with pytest.raises(SettingsError, match=r"sqlite:///agent\.db") as refused:
        open_archive(url)
    assert "secret" not in str(refused.value)


@rows(
    ("url", "path"),
    [("dir:x", "x"), ("dir:a/b", "a/b"), ("dir:./x", "./x"), ("dir:../x", "../x"), ("dir:~/x", "~/x"),
     ("dir:/srv/x", "/srv/x"), ("dir:///srv/x", "/srv/x"), ("dir:////srv/x", "/srv/x"), ("dir:///C:/x", "/C:/x")],
)  # fmt: skip
def test_a_folder_is_named_as_in_a_file_url(url: str, path: str) -> None:
    assert folder_from_url(url, windows=False) == path


@rows(
    ("url", "path"),
    [("dir:x", "x"), ("dir:C:/x", "C:/x"), ("dir:///C:/x", "C:/x"), ("dir:/C:/x", "C:/x"),
     ("dir:///c:/a/C:/b", "c:/a/C:/b"), ("dir:///srv/x", "/srv/x"), ("dir:////server/share/x", "//server/share/x")],
)  # fmt: skip
def test_on_windows_a_drive_stands_behind_the_slashes(url: str, path: str) -> None:
    assert folder_from_url(url, windows=True) == path
    assert folder_from_url(folder_url(PureWindowsPath(path)), windows=True) == path


@pytest.mark.parametrize("path", ["x", "a/b", "/srv/x", "/srv/a b/ü#?%41"])
def test_the_url_of_a_folder_names_it_again(path: str) -> None:
    assert folder_from_url(folder_url(PurePosixPath(path)), windows=False) == path


def test_an_absolute_folder_is_not_made_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    for url in (f"dir://{tmp_path}/there", f"dir:///{tmp_path}/there", f"dir:{tmp_path}/there"):
        archive = open_archive(url)
        archive.close()
        assert archive.url == f"dir://{tmp_path}/there"
    assert list(here.iterdir()) == []
    assert (tmp_path / "there").is_dir()


@pytest.mark.parametrize("url", ["dir://folder", "dir://folder/x", "dir://", "dir://me:secret@folder"])
def test_two_slashes_are_refused_with_both_forms(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"write dir:\S*folder\S* for a .* or dir:///\S*folder\S* for") as refused:
        open_archive(url)
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_importing_the_package_imports_no_store(tmp_path: Path) -> None:
    heavy = ("sqlite3", "psycopg", "platformdirs", "pydantic")
    code = f"import sys, unabridged.archive; print(*[m for m in sys.modules if m.startswith({heavy})])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.split() == []
