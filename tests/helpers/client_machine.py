"""A machine of its own with sessions of coding agents on it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli_case import Ran, run
from patience import PATIENCE
from places import HELPERS

CLIENTS = pytest.mark.parametrize("client", ["claude-code", "codex", "pi"])
NOW = ("--now", "--keep", "messages=2")
FILES = HELPERS / "session_files"
IDS = {
    "claude-code": "3f2a6a1c-0000-4000-8000-000000000001",
    "codex": "019a2b3c-0000-7000-8000-000000000002",
    "pi": "72ab8af5-6bdd-ab33-b269-c5964b26620a",
}


class Machine:
    """Its home folder, a project in it, and an archive."""

    def __init__(self, home: Path, environment: pytest.MonkeyPatch) -> None:
        self.home, self.project, self.archive = home, home / "project", f"sqlite:///{home}/archive.db"
        self.project.mkdir()
        given = {"HOME": home, "XDG_DATA_HOME": home / "data", "XDG_STATE_HOME": home / "state"}
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "CLAUDE_CODE_SESSION_ID"):
            environment.delenv(name, raising=False)
        for name, value in given.items():
            environment.setenv(name, str(value))
        environment.setenv("UNABRIDGED_ARCHIVE", self.archive)

    def put(self, client: str, id_: str = "", *, file: str = "", folder: Path | None = None) -> Path:
        """One more session of the client, a made-up one that worked in the project."""
        id_ = id_ or IDS[client]
        source = FILES / (file or f"{client.replace('-', '_')}.jsonl")
        path = {
            "claude-code": self.home / ".claude/projects/-project" / f"{id_}.jsonl",
            "codex": self.home / ".codex/sessions/2026/03/02" / f"rollout-2026-03-02T09-00-00-{id_}.jsonl",
            "pi": self.home / ".pi/agent/sessions/--project--" / f"2026-03-02T09-00-00_{id_}.jsonl",
        }[client]
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [_moved(json.loads(line), str(folder or self.project)) for line in source.read_text().splitlines()]
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        path.chmod(0o600)
        return path


def _moved(entry: dict[str, Any], project: str) -> dict[str, Any]:
    if "cwd" in entry:
        entry["cwd"] = project
    if isinstance(entry.get("payload"), dict) and "cwd" in entry["payload"]:
        entry["payload"]["cwd"] = project
    return entry


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@contextmanager
def running(program: str, folder: Path) -> Iterator[int]:
    """A process that calls itself so, in this folder."""
    arguments = [program, "-c", "print(flush=True); input()"]
    with subprocess.Popen(
        arguments, executable=sys.executable, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.communicate(b"\n", timeout=PATIENCE)


def compacted(client: str) -> Ran:
    done = run("compact", f"{client}:{IDS[client][:4]}", "--write", "--json", *NOW)
    assert done.code == 0, done.err
    assert done.json["changed"]
    return done
