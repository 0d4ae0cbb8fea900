"""`make peers`: a peer without tests in its source distribution is named, and is not among those that passed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import peers


def run(monkeypatch: pytest.MonkeyPatch, *with_tests: str) -> int:
    """Return the script's exit code when these peers' source distributions hold tests and all of those pass."""

    def download_sdist(package: str, folder: Path) -> Path:
        for peer in peers.PEERS:
            for name in peer.tests if peer.package == package and package in with_tests else ():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text("", encoding="utf-8")
        return folder

    monkeypatch.setattr(peers, "download_sdist", download_sdist)
    monkeypatch.setattr(peers, "compare", lambda *_, **__: 0)
    monkeypatch.setattr(sys, "argv", ["peers.py"])
    return peers.main()


def test_deep_agents_has_a_section_and_every_section_is_a_peers() -> None:
    names = {peer.package for peer in peers.PEERS}
    listed = peers.read_differences()
    assert set(listed.pop("without-tests")) == {"deepagents"}
    assert set(listed) <= names
    for instead in peers.without_tests().values():
        named = [word.rstrip(";.") for word in instead.split() if word.startswith("packages/")]
        assert all((peers.ROOT / name).is_file() for name in named)


def test_a_peer_without_tests_is_named_and_not_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [peer.package for peer in peers.PEERS if peer.package != "deepagents"]
    assert run(monkeypatch, *others) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("deepagents ")
    assert "no tests in its sdist" in said[0]
    assert said[-1] == (
        "3 of 4 peers compared, 0 differences not explained; not compared: deepagents (no tests in its sdist)"
    )


def test_a_peer_that_should_have_tests_and_has_none_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "langchain", "strands-agents") == 1
    assert "2 of 4 peers compared" in capsys.readouterr().out
