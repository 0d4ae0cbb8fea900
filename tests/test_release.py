"""What `make release` refuses, and what it writes; the build itself is that of `make dist`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import release
from places import ROOT
from workspace import PACKAGES, project

VALUES = {
    "repository": "https://code.example/team/unabridged",
    "documentation": "https://docs.example",
    "maintainer": 'Ada "the first" Lovelace',
    "maintainer_email": "ada@example.org",
    "security_contact": "security@example.org",
    "publisher": "team/unabridged",
}
NAMES = ("RELEASING.md", "SECURITY.md", "CHANGELOG.md")


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *identity, *arguments), cwd=root, check=True, capture_output=True)  # noqa: S607 - the one on the path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the files that a release reads and writes."""
    names = [*NAMES, *release.MANIFESTS, *(f"packages/{package.name}/pyproject.toml" for package in PACKAGES)]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "a release")


def fill_in(root: Path) -> None:
    path, text = root / "RELEASING.md", (root / "RELEASING.md").read_text(encoding="utf-8")
    for name, value in VALUES.items():
        text = re.sub(rf'^{name} = "" *', f"{name} = '{value}' ".replace("\\", ""), text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")


def make_ready(root: Path) -> None:
    fill_in(root)
    for path, text in release.files_with_values(release.owner_values(root), root).items():
        path.write_text(text, encoding="utf-8")
    path = root / "CHANGELOG.md"
    path.write_text(path.read_text(encoding="utf-8").replace("## 0.1.0, not yet released", "## 0.1.0, 2027-01-02"))
    commit(root)


def test_a_release_is_refused_while_a_value_of_the_owner_is_empty(tree: Path) -> None:
    assert release.owner_values(tree).keys() == VALUES.keys()
    reasons = release.reasons_to_refuse("0.1.0", tree)
    assert all(name in reasons[0] for name in VALUES)
    fill_in(tree)
    commit(tree)
    assert "--write" in release.reasons_to_refuse("0.1.0", tree)[0]


def test_what_else_is_refused(tree: Path) -> None:
    make_ready(tree)
    assert release.reasons_to_refuse("0.1.0", tree) == []
    assert "--set-version 0.2.0" in release.reasons_to_refuse("0.2.0", tree)[0]
    assert "CHANGELOG.md" in release.reasons_to_refuse("0.2.0", tree)[1]
    git(tree, "tag", "v0.1.0")
    assert release.reasons_to_refuse("0.1.0", tree) == [], "the tag stands at this commit"
    (tree / "more").write_text("more")
    assert "not committed" in release.reasons_to_refuse("0.1.0", tree)[0]
    commit(tree)
    assert "another commit" in release.reasons_to_refuse("0.1.0", tree)[0]


def test_the_owners_values_stand_where_users_look(tree: Path) -> None:
    make_ready(tree)
    for package in PACKAGES:
        table = project(package.name, tree)
        assert table["urls"]["Repository"] == VALUES["repository"]
        assert table["maintainers"] == [{"name": VALUES["maintainer"], "email": VALUES["maintainer_email"]}]
    assert f"to {VALUES['security_contact']}," in (tree / "SECURITY.md").read_text(encoding="utf-8")
    assert VALUES["repository"] in (tree / "CITATION.cff").read_text(encoding="utf-8")
    again = release.files_with_values(release.owner_values(tree), tree)
    assert [path for path, text in again.items() if path.read_text(encoding="utf-8") != text] == []


def test_a_new_version_stands_everywhere_and_nothing_else_changes(tree: Path) -> None:
    files = release.set_version("0.2.0rc1", tree)
    assert len(files) == len(PACKAGES) + len(release.MANIFESTS)
    assert {project(package.name, tree)["version"] for package in PACKAGES} == {"0.2.0rc1"}
    for path in files:
        before, after = (ROOT / path.relative_to(tree)).read_text(encoding="utf-8"), path.read_text(encoding="utf-8")
        assert after == before.replace("0.1.0", "0.2.0rc1"), path
