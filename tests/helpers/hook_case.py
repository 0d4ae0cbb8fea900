"""What the tests of the hook share: a machine of its own, lines of each client, and an event handed over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from places import HELPERS
from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Scope
from unabridged_cli.clients.hook import events
from unabridged_cli.clients.threads import build_session_thread

RECORDED = HELPERS / "fixtures" / "hooks"
SESSION = "0d5c1a52-7f1e-4f0c-9a7e-3a0a7a1f2b11"
RULE = "Never edit anything under vendor/."

Line = dict[str, Any]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", f"sqlite:///{tmp_path / 'archive.db'}")
    monkeypatch.setattr("unabridged_cli.clients.hook.background.start_process", lambda _: None)
    return tmp_path


@pytest.fixture
def archive(home: Path) -> Iterator[Archive]:
    opened = open_archive(f"sqlite:///{home / 'archive.db'}")
    yield opened
    opened.close()


def claude_line(role: str, content: Any, **more: Any) -> Line:
    message = {"role": role, "content": content}
    return {"type": role, "sessionId": SESSION, "parentUuid": None, "isSidechain": False, "message": message, **more}


def codex_line(role: str, text: str) -> Line:
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return {"type": "response_item", "payload": {"type": "message", "role": role, "content": [part]}}


def pi_line(role: str, text: str) -> Line:
    part = {"type": "text", "text": text}
    return {"type": "message", "id": "a", "parentId": None, "message": {"role": role, "content": [part]}}


def opencode_line(role: str, text: str, **more: Any) -> Line:
    return {"opencode": "msg_1", "role": role, "content": [{"type": "text", "text": text}], **more}


TALK = (("user", f"Fix the tide table. {RULE}"), ("assistant", "I look at tides.py first."), ("user", "And the tests."))
SAID: dict[str, Callable[[str, str], Line]] = {
    "claude-code": claude_line,
    "codex": codex_line,
    "pi": pi_line,
    "opencode": opencode_line,
}


def write(path: Path, lines: list[Line]) -> Path:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return path


def call(path: Path, event: str, **more: Any) -> str:
    """What the hook answers to this event: the text for the context, or nothing."""
    given = {"hook_event_name": event, "session_id": SESSION, "transcript_path": str(path), "cwd": "/home/ada", **more}
    said = events.answer_hook_event(json.dumps(given).encode())
    return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""


def scope(client: str = "claude-code", session: str = SESSION) -> Scope:
    return Scope("default", build_session_thread(client, session))


def texts(archive: Archive, where: Scope) -> list[str]:
    return [part.text for part in archive.parts(where)]


def long_session(home: Path) -> Path:
    """A rule at the beginning, much work behind it, and a request at the end."""
    lines = [claude_line("user", f"Count the stations. {RULE}")]
    for i in range(30):
        use = [{"type": "tool_use", "id": f"a{i}", "name": "Bash", "input": {"command": f"count {i}"}}]
        lines += [claude_line("assistant", f"Number {i} is next."), claude_line("assistant", use)]
        lines += [claude_line("user", [{"type": "tool_result", "tool_use_id": f"a{i}", "content": "x" * 500}])]
    lines += [claude_line("assistant", "All are counted."), claude_line("user", "Now draw the map.")]
    return write(home / "session.jsonl", lines)
