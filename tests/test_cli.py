"""The command line, as a person uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conversations import long_chat
from unabridged import check

ROOT = Path(__file__).parent.parent
SESSION = ROOT / "examples" / "coding_session.json"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from unabridged.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"COLUMNS": "120", "NO_COLOR": "1"})


def test_the_demo_ends_with_a_legal_session_its_summary_and_its_receipt() -> None:
    done = run("compact", SESSION, "--window", "8k")
    assert done.returncode == 0
    assert "the summary turn" in done.stdout
    assert "[unabridged summary " in done.stdout
    assert "legal for openai-chat" in done.stdout
    assert "model-free" in done.stdout


def test_json_holds_the_outcome_and_nothing_else_is_printed(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run("compact", SESSION, "--window", "8k", "--json", "-o", out)
    outcome = json.loads(done.stdout)
    assert outcome["tokens_before"] > 30_000
    assert outcome["tokens_after"] <= 7_000
    assert outcome["receipt"]["kind"] == "summary"
    written = json.loads(out.read_text())
    assert written["messages"] == outcome["messages"]
    assert written["tools"] == json.loads(SESSION.read_text())["tools"]
    assert check(written["messages"]) == []
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("shape", ["list", "object", "lines"])
def test_a_conversation_may_be_a_list_an_object_or_lines(tmp_path: Path, shape: str) -> None:
    messages = long_chat(40)
    texts = {
        "list": json.dumps(messages),
        "object": json.dumps({"system": "be brief", "messages": messages}),
        "lines": "\n".join(json.dumps(message) for message in messages),
    }
    file = tmp_path / "chat.json"
    file.write_text(texts[shape])
    outcome: dict[str, Any] = json.loads(run("compact", file, "--window", "4000", "--json").stdout)
    assert outcome["changed"]


@pytest.mark.parametrize(
    ("content", "window", "code", "word"),
    [
        ("{not json", "8k", 2, "neither JSON nor JSON Lines"),
        ("", "8k", 2, "holds no messages"),
        ('{"a": 1}', "8k", 2, "holds no messages"),
        ("[1, 2]", "8k", 2, "holds no messages"),
        ("\x00\x01\xff", "8k", 2, ""),
        ('[{"role": "user", "content": "x"}]', "eight", 2, "write 32768, 32k or 1m"),
        ('[{"role": "user", "content": "x"}]', "5", 2, "at least 64"),
        (json.dumps([{"role": "system", "content": "word " * 9_000}]), "1k", 1, "can't be made smaller"),
    ],
)
def test_bad_input_is_one_clear_line_and_the_file_is_untouched(
    tmp_path: Path, content: str, window: str, code: int, word: str
) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content.encode("latin-1"))
    done = run("compact", file, "--window", window)
    assert done.returncode == code
    assert word in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == content.encode("latin-1")


def test_a_missing_file_and_a_directory_are_said(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        done = run("compact", path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_help_has_an_example() -> None:
    assert "unabridged compact session.json" in run("compact", "--help").stdout
