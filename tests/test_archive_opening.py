"""From a URL to an archive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unabridged.archive import open_archive
from unabridged.archive.opening import default_url
from unabridged.errors import SettingsError
from unabridged.testing.archive_contract.values import HERE, make_part, store_parts


def test_every_form_opens_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forms = ["memory:", "sqlite:///agent.db", f"sqlite:///{tmp_path}/b.db", "dir:///folder", f"dir:///{tmp_path}/other"]
    for url in forms:
        archive = open_archive(url)
        store_parts(archive, make_part("one", 0))
        assert [part.text for part in archive.parts(HERE)] == ["one"]
        assert archive.url == url
        archive.close()
    assert {path.name for path in tmp_path.iterdir()} == {"agent.db", "b.db", "folder", "other"}


def test_the_default_is_a_file_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    archive = open_archive()
    store_parts(archive, make_part("one", 0))
    archive.close()
    assert archive.url == default_url()
    assert len(list(tmp_path.rglob("archive.db"))) == 1


@pytest.mark.parametrize(
    "url",
    ["", "agent.db", "/var/agent.db", "mysql://x", "sqlite:", "sqlite://", "sqlite:///", "sqlite:///:memory:",
     "sqlite://agent.db", "dir:", "dir:///", "dir:///a\0b", "memory", "http://x", "redis://user:secret@host"],
)  # fmt: skip
def test_anything_else_is_refused_with_what_would_do(url: str) -> None:
    with pytest.raises(SettingsError, match=r"sqlite:///agent\.db") as refused:
        open_archive(url)
    assert "secret" not in str(refused.value)


def test_importing_the_package_imports_no_store(tmp_path: Path) -> None:
    heavy = ("sqlite3", "psycopg", "platformdirs", "pydantic")
    code = f"import sys, unabridged.archive; print(*[m for m in sys.modules if m.startswith({heavy})])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.split() == []
