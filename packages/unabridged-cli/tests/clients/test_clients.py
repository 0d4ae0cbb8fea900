"""Where each client keeps its things, by the environment that it would run in."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from unabridged_cli.clients.registry import CLIENTS

ID = "0198c7a1-3e2b-7c11-9d52-6f0e4a1b2c3d"
PLACES = {
    "claude-code": f".claude/projects/-home-me-app/{ID}.jsonl",
    "codex": f".codex/sessions/2026/11/15/rollout-2026-11-15T09-30-00-{ID}.jsonl",
    "pi": f".pi/agent/sessions/--home-me-app--/2026-11-15T09-30-00-000Z_{ID}.jsonl",
    "opencode": ".local/share/opencode/storage/session/0a1b/ses_0198.json",
}
FOLDERS = {"claude-code": ".claude", "codex": ".codex", "pi": ".pi/agent", "opencode": ".config/opencode"}
VARIABLES = {
    "claude-code": "CLAUDE_CONFIG_DIR",
    "codex": "CODEX_HOME",
    "pi": "PI_CODING_AGENT_DIR",
    "opencode": "OPENCODE_CONFIG_DIR",
}

clients = pytest.mark.parametrize("name", sorted(CLIENTS))


def touch(path: Path, text: str = "{}\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_client_is_found_by_its_name() -> None:
    assert {name: client.name for name, client in CLIENTS.items()} == {name: name for name in PLACES}


@clients
def test_a_clients_folder_is_below_the_home_of_the_environment(name: str, tmp_path: Path) -> None:
    assert CLIENTS[name].home({"HOME": str(tmp_path)}) == tmp_path / FOLDERS[name]


@clients
def test_a_clients_own_variable_moves_its_folder(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    assert client.home({"HOME": "/nowhere", VARIABLES[name]: str(tmp_path / "other")}) == tmp_path / "other"
    assert client.home({"HOME": str(tmp_path), VARIABLES[name]: "~/other"}) == tmp_path / "other"
    assert client.home({"HOME": str(tmp_path), VARIABLES[name]: ""}) == tmp_path / FOLDERS[name], "empty is unset"


@clients
def test_a_machine_without_the_client_has_no_sessions(name: str, tmp_path: Path) -> None:
    assert list(CLIENTS[name].sessions({"HOME": str(tmp_path)})) == []


@clients
def test_a_session_is_listed_with_its_id_and_size(name: str, tmp_path: Path) -> None:
    path = touch(tmp_path / PLACES[name])
    (found,) = CLIENTS[name].sessions({"HOME": str(tmp_path)})
    assert (found.client, found.path, found.size) == (name, path, 3)
    assert found.id == ("ses_0198" if name == "opencode" else ID)
    assert found.modified == path.stat().st_mtime


def test_the_files_of_sub_agents_are_not_sessions(tmp_path: Path) -> None:
    project = (tmp_path / PLACES["claude-code"]).parent
    touch(project / "agent-a1b2c3.jsonl")
    touch(project / ID / "subagents" / "agent-a1b2c3.jsonl")
    assert list(CLIENTS["claude-code"].sessions({"HOME": str(tmp_path)})) == []


def test_sessions_that_codex_put_aside_are_listed_too(tmp_path: Path) -> None:
    touch(tmp_path / ".codex" / "archived_sessions" / Path(PLACES["codex"]).name)
    assert [found.id for found in CLIENTS["codex"].sessions({"HOME": str(tmp_path)})] == [ID]


@clients
def test_a_link_to_nothing_is_no_session(name: str, tmp_path: Path) -> None:
    path = tmp_path / PLACES[name]
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "gone")
    assert list(CLIENTS[name].sessions({"HOME": str(tmp_path)})) == []


@pytest.mark.posix
@clients
def test_a_pipe_is_no_session(name: str, tmp_path: Path) -> None:
    path = touch(tmp_path / PLACES[name])
    path.unlink()
    os.mkfifo(path)
    assert list(CLIENTS[name].sessions({"HOME": str(tmp_path)})) == []


def test_the_sessions_of_opencode_are_in_a_database_that_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript("""
            create table session (id text, parent_id text, time_updated integer);
            create table message (session_id text, data text);
            create table part (session_id text, data text);
            insert into session values ('ses_a', null, 1700000000500), ('ses_sub', 'ses_a', 1);
            insert into message values ('ses_a', '{"role":1}');
            insert into part values ('ses_a', '12345'), ('ses_sub', '1');
        """)
    before = path.read_bytes()
    (found,) = CLIENTS["opencode"].sessions({"HOME": str(tmp_path)})
    assert (found.id, found.path, found.size, found.modified) == ("ses_a", path, 15, 1_700_000_000.5)
    assert path.read_bytes() == before
    path.write_text("not a database at all")
    assert list(CLIENTS["opencode"].sessions({"HOME": str(tmp_path)})) == []


def test_a_folder_for_pis_sessions_alone_is_honoured(tmp_path: Path) -> None:
    touch(tmp_path / "own" / Path(PLACES["pi"]).name)
    environ = {"HOME": str(tmp_path), "PI_CODING_AGENT_SESSION_DIR": str(tmp_path / "own")}
    assert [found.id for found in CLIENTS["pi"].sessions(environ)] == [ID]
