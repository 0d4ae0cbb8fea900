"""pi's compaction: our summary in the place of its own, or none, and pi makes it itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unabridged.languages import get_labels
from unabridged_cli.clients.hook import events
from unabridged_cli.clients.hook.log import log_file_path

SESSION = "72ab8af5-6bdd-ab33-b269-c5964b26620a"
RULE = "Never edit anything under vendor/."


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", f"sqlite:///{tmp_path / 'archive.db'}")
    return tmp_path


def entry(number: int, role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": list(content), **more}
    parent = f"{number - 1:08x}" if number else None
    return {"type": "message", "id": f"{number:08x}", "parentId": parent, "message": message}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def session(rounds: int = 40) -> list[dict[str, Any]]:
    """A task with a rule, and rounds of a tool with long answers."""
    lines = [{"type": "session", "version": 3, "id": SESSION, "cwd": "/home/ada"}]
    lines.append(entry(0, "user", text(f"Port tides.py to the new API. {RULE}")))
    for number in range(1, 2 * rounds, 2):
        arguments = {"path": f"src/tide_{number}.py", "content": "new = True\n"}
        call = {"type": "toolCall", "id": f"call{number}", "name": "write", "arguments": arguments}
        lines.append(entry(number, "assistant", call))
        answer = text(f"station {number} " * 400)
        lines.append(entry(number + 1, "toolResult", answer, toolCallId=f"call{number}", toolName="write"))
    return lines


def summary_of(home: Path, lines: list[dict[str, Any]], **more: Any) -> str:
    path = home / f"2026-11-15T09-00-00-000Z_{SESSION}.jsonl"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    event = {"hook_event_name": "session_before_compact", "session_id": SESSION, "transcript_path": str(path)}
    answer = events.answer_hook_event(json.dumps({**event, "trigger": "auto", **more}).encode())
    return str(json.loads(answer)["compaction"]["summary"]) if answer else ""


def test_the_summary_quotes_people_and_tells_what_was_done_and_claims_no_state(home: Path) -> None:
    summary = summary_of(home, session())
    assert summary.startswith("[unabridged] Messages 0 to 80 ")
    assert f"- [0] user: “Port tides.py to the new API. {RULE}”" in summary
    assert "src/tide_79.py" in summary
    headings = [line.removeprefix("## ") for line in summary.splitlines() if line.startswith("## ")]
    words = {text.partition(" (")[0]: name for name, text in get_labels("en").items()}
    assert {words[heading.partition(" (")[0]] for heading in headings} == {"done", "files"}
    assert len(summary.encode()) <= 4 * 6_000


def test_the_next_summary_goes_on_from_the_last(home: Path) -> None:
    lines = session()
    first = summary_of(home, lines)
    number = len(lines) - 1
    made = {"type": "compaction", "summary": first, "firstKeptEntryId": lines[-1]["id"], "tokensBefore": 1}
    lines.append({**made, "id": f"{number:08x}", "parentId": lines[-1]["id"]})
    lines.append(entry(number + 1, "assistant", text("tides.py is ported.")))
    lines.append(entry(number + 2, "user", text("Now write the tests. Keep lines under 100 characters.")))
    second = summary_of(home, lines)
    assert RULE in second
    assert "Keep lines under 100 characters." in second
    assert "Now write the tests." in second


def test_pi_makes_its_own_where_nobody_asked_for_anything(home: Path) -> None:
    assert summary_of(home, [*session(1)[:1], entry(0, "assistant", text("Hello."))]) == ""
    assert "left to its client to sum up" in log_file_path({"XDG_STATE_HOME": str(home / "state")}).read_text()


def test_nothing_is_summed_up_that_could_not_be_archived(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", f"sqlite:///{home / 'nowhere' / 'at' / 'all'}")
    (home / "nowhere").write_text("a file, where a folder is needed")
    with pytest.raises(Exception, match="nowhere"):  # which the program logs, and ends clean
        summary_of(home, session(1))
