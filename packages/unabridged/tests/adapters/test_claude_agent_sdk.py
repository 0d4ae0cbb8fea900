"""Sessions of the Claude Agent SDK in the archive, by the SDK's own conformance suite where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archive_support import new_schema, postgres_url
from unabridged.adapters.claude_agent_sdk import NAMESPACE, ArchiveSessionStore
from unabridged.archive import open_archive
from unabridged.archive.opening import open_or_keep_archive
from unabridged.archive.protocol import Archive, Scope
from unabridged.archive.stores.postgres import open_postgres

KEY = {"project_key": "-home-ada-tides", "session_id": "s1", "subpath": "subagents/agent-1"}
"""A sub-agent's: its lines are mirrored without a summary, which only the SDK can fold."""
SAID = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "The depot code is KESTREL-7319."}}
REPLY = {
    "type": "assistant",
    "uuid": "u2",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]},
}


def run(call: Any) -> Any:
    return asyncio.run(call)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "directory", "postgres"])
def test_the_sdks_own_conformance_suite_passes(kind: str, tmp_path: Path) -> None:
    suite = pytest.importorskip("claude_agent_sdk.testing", reason="the extra `claude-agent-sdk` brings it")
    made = iter(range(1000))
    stores: dict[str, Callable[[], str | Archive]] = {
        "memory": lambda: "memory:",
        "sqlite": lambda: f"sqlite:///{tmp_path}/{next(made)}.db",
        "directory": lambda: f"dir://{tmp_path}/{next(made)}",
        "postgres": lambda: open_postgres(postgres_url(), schema=new_schema()),
    }
    opened = list[Archive]()

    def new_store() -> ArchiveSessionStore:
        opened.append(open_or_keep_archive(stores[kind]()))
        return ArchiveSessionStore(opened[-1])

    try:
        run(suite.run_session_store_conformance(new_store))
    finally:
        for archive in opened:
            archive.close()
    assert len(opened) > 10, "one for each contract"


def test_sessions_that_are_no_longer_in_memory_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unabridged.adapters.claude_agent_sdk.store._MAX_SESSIONS", 2)
    store = ArchiveSessionStore(f"sqlite:///{tmp_path}/a.db")
    keys = [KEY | {"session_id": f"s{number}"} for number in range(4)]
    for key in (*keys, *keys):
        run(store.append(key, [SAID]))
    assert [run(store.load(key)) for key in keys] == [[SAID]] * 4


def test_what_was_said_is_found_by_a_search(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    run(ArchiveSessionStore(url).append(KEY, [SAID, REPLY, {"type": "mode", "mode": "plan"}]))
    archive = open_archive(url)
    (thread,) = archive.threads(NAMESPACE)
    (hit,) = archive.search(Scope(NAMESPACE, thread), "KESTREL-7319")
    assert (hit.turn, hit.role) == (0, "user")
    archive.close()


def test_a_batch_that_comes_again_is_kept_once_also_by_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    first, second = ArchiveSessionStore(url), ArchiveSessionStore(url)
    for store in (first, first, second):
        run(store.append(KEY, [SAID]))
    run(first.append(KEY, [SAID, REPLY]))
    run(second.append(KEY, [REPLY]))
    assert run(ArchiveSessionStore(url).load(KEY)) == [SAID, REPLY]


def test_lines_without_a_uuid_are_all_kept_in_order(tmp_path: Path) -> None:
    store = ArchiveSessionStore(f"sqlite:///{tmp_path}/a.db")
    mode = {"type": "mode", "mode": "plan"}
    run(store.append(KEY, [mode, SAID, mode]))
    assert run(store.load(KEY)) == [mode, SAID, mode]


def test_keys_with_slashes_do_not_meet(tmp_path: Path) -> None:
    store = ArchiveSessionStore(f"sqlite:///{tmp_path}/a.db")
    run(store.append({"project_key": "a", "session_id": "b", "subpath": "c/d"}, [SAID]))
    assert run(store.load({"project_key": "a", "session_id": "b/c", "subpath": "d"})) is None
    assert run(store.load({"project_key": "a/b", "session_id": "c", "subpath": "d"})) is None
    assert run(store.list_subkeys({"project_key": "a", "session_id": "b"})) == ["c/d"]


def test_a_line_of_any_shape_is_kept(tmp_path: Path) -> None:
    store = ArchiveSessionStore(f"sqlite:///{tmp_path}/a.db")
    odd: list[dict[str, Any]] = [
        {"type": "user", "message": {"content": 7}},
        {"type": "assistant", "message": {}},
        {"type": "user"},
    ]
    odd.append({"type": "user", "message": {"content": [None, {"type": "text"}, {"type": "tool_result"}]}})
    run(store.append(KEY, odd))
    assert run(store.load(KEY)) == odd
