"""The hooks as callbacks of the Claude Agent SDK, with what the real client says around a compaction."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from places import HELPERS
from unabridged.adapters.claude_agent_sdk import compaction_callback
from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Scope
from unabridged_cli.clients.hook import actions

FIXTURES = HELPERS / "fixtures" / "hooks"
RULE = "Never edit anything under vendor/."


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def recorded(folder: Path, name: str, source: str | None = None) -> dict[str, Any]:
    """The first event of this name, with the transcript as it was then."""
    lines = (FIXTURES / "claude_code.jsonl").read_text(encoding="utf-8").splitlines()
    kept = next(
        event
        for event in map(json.loads, lines)
        if event["input"]["hook_event_name"] == name and event["input"].get("source") == source
    )
    path = folder / "transcript.jsonl"
    transcript = (FIXTURES / "claude_code_transcript.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(transcript[: kept["transcript_lines"]]))
    event: dict[str, Any] = kept["input"] | {"transcript_path": str(path)}
    return event


def call(archive: str | Archive, event: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    answer: Any = compaction_callback(archive, namespace=namespace)(event, None, {"signal": None})
    said: dict[str, Any] = asyncio.run(answer)
    return said


def kept(archive: Archive, event: dict[str, Any], namespace: str = "default") -> str:
    parts = archive.parts(Scope(namespace, f"claude-code:{event['session_id']}"))
    return "\n".join(part.text for part in parts)


def test_before_a_compaction_the_session_is_archived_and_the_client_told_nothing(tmp_path: Path) -> None:
    archive, event = open_archive("memory:"), recorded(tmp_path, "PreCompact")
    assert call(archive, event) == {}
    for said in (RULE, "Brest", "Cuxhaven", "Dover"):
        assert said in kept(archive, event)


def test_after_it_the_context_gets_the_rules_word_for_word(tmp_path: Path) -> None:
    said = call(open_archive("memory:"), recorded(tmp_path, "SessionStart", "compact"))["hookSpecificOutput"]
    assert said["hookEventName"] == "SessionStart"
    assert RULE in said["additionalContext"]


def test_the_clients_summary_is_held_against_the_record(tmp_path: Path) -> None:
    archive, event = open_archive("memory:"), recorded(tmp_path, "PostCompact")
    assert call(archive, event) == {}
    records = archive.records(Scope("default", f"claude-code:{event['session_id']}"))
    assert "claims" in {record.kind for record in records}


def test_other_starts_of_a_session_are_told_nothing(tmp_path: Path) -> None:
    assert call("memory:", recorded(tmp_path, "SessionStart", "resume")) == {}


def test_tenants_have_a_namespace_each(tmp_path: Path) -> None:
    archive, event = open_archive("memory:"), recorded(tmp_path, "PreCompact")
    call(archive, event, "tenant-1")
    assert RULE in kept(archive, event, "tenant-1")
    assert not archive.threads("default")


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/a.db", "dir://{}/archive"])
def test_agents_of_one_program_are_archived_at_the_same_time(url: str, tmp_path: Path) -> None:
    archive, event = open_archive(url.format(tmp_path)), recorded(tmp_path, "PreCompact")
    callback: Any = compaction_callback(archive)
    events = [event | {"session_id": f"s{number}"} for number in range(6)]

    async def all_at_once() -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = await asyncio.gather(*(callback(one, None, {}) for one in (*events, *events)))
        return said

    assert asyncio.run(all_at_once()) == [{}] * 12
    assert {kept(archive, one).count(RULE) for one in events} == {kept(archive, events[0]).count(RULE)}
    assert len(archive.threads("default")) == 6
    archive.close()


@pytest.mark.parametrize("event", [{}, {"hook_event_name": "PreCompact", "session_id": "s1"}, {"hook_event_name": 7}])
def test_an_event_that_can_not_be_read_stops_no_agent(
    event: dict[str, Any], caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with caplog.at_level(logging.WARNING, "unabridged"):
        assert call("memory:", event) == {}
    assert len(caplog.records) == 1


def test_an_archive_that_fails_stops_no_agent_and_the_context_is_still_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = open_archive(f"sqlite:///{tmp_path}/a.db", wait=0.1)
    blocker = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    blocker.execute("begin exclusive")
    with caplog.at_level(logging.WARNING, "unabridged"):
        assert call(archive, recorded(tmp_path, "PreCompact")) == {}
    assert "PreCompact" in caplog.text
    told = call(archive, recorded(tmp_path, "SessionStart", "compact"))
    assert RULE in told["hookSpecificOutput"]["additionalContext"]
    blocker.close()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """No time before a compaction; what is left to do is in this list, and not begun."""
    monkeypatch.setattr(actions, "BEFORE_COMPACTION_SECONDS", -1.0)
    monkeypatch.setattr("unabridged_cli.clients.hook.session_copy._STRETCH_BYTES", 1)
    started: list[Any] = []

    class Later:
        def __init__(self, *, target: Any, **_: Any) -> None:
            started.append(target)

        def start(self) -> None:
            """Not before the test looked."""

    monkeypatch.setattr("unabridged_cli.clients.hook.callback.threading", SimpleNamespace(Thread=Later))
    return started


def test_what_there_was_no_time_for_is_archived_while_the_agent_goes_on(later: list[Any], tmp_path: Path) -> None:
    archive, event = open_archive("memory:"), recorded(tmp_path, "PreCompact")
    assert call(archive, event) == {}
    assert "Dover" not in kept(archive, event)
    (work,) = later
    work()
    assert "Dover" in kept(archive, event)


def test_a_program_that_ends_meanwhile_only_logs_it(
    later: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call("memory:", recorded(tmp_path, "PreCompact"))
    (tmp_path / "transcript.jsonl").unlink()
    with caplog.at_level(logging.WARNING, "unabridged"):
        later[0]()
    assert "the rest of claude-code:" in caplog.text
