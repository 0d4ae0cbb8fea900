"""What the real Claude Code and Codex gave to hook commands, recorded by `make clients WHAT=record`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from places import HELPERS
from unabridged.sessions import load, save

FIXTURES = HELPERS / "fixtures" / "hooks"
CLIENTS = ("claude_code", "codex")


def inputs(client: str) -> list[tuple[dict[str, Any], int]]:
    """Each hook input, with how many lines the transcript had when it came."""
    lines = (FIXTURES / f"{client}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(kept["input"], kept["transcript_lines"]) for kept in map(json.loads, lines)]


def transcript(client: str, count: int, folder: Path) -> Path:
    """The transcript as it was then."""
    lines = (FIXTURES / f"{client}_transcript.jsonl").read_bytes().splitlines(keepends=True)
    path = folder / "transcript.jsonl"
    path.write_bytes(b"".join(lines[:count]))
    return path


@pytest.mark.parametrize("client", CLIENTS)
def test_every_input_names_the_event_the_session_and_its_transcript(client: str) -> None:
    for given, _ in inputs(client):
        assert given["hook_event_name"] in {"PreCompact", "PostCompact", "SessionStart"}
        assert Path(given["transcript_path"]).name.endswith(f"{given['session_id']}.jsonl")
        assert given["cwd"] == "/home/ada/project"


def test_claude_code_starts_the_session_anew_before_it_tells_its_summary_and_codex_after() -> None:
    def order(client: str) -> list[str]:
        named = [(given["hook_event_name"], given.get("source")) for given, _ in inputs(client)]
        start = next(index for index, (event, _) in enumerate(named) if event == "PreCompact")
        return [event for event, _ in named[start : start + 3]]

    assert order("claude_code") == ["PreCompact", "SessionStart", "PostCompact"]
    assert order("codex") == ["PreCompact", "PostCompact", "SessionStart"]
    summaries = {client: [given.get("compact_summary") for given, _ in inputs(client)] for client in CLIENTS}
    assert any(summaries["claude_code"])
    assert not any(summaries["codex"]), "Codex's summary stands in its transcript only"


@pytest.mark.parametrize("client", CLIENTS)
def test_before_a_compaction_the_transcript_holds_all_that_was_said(client: str, tmp_path: Path) -> None:
    count = next(lines for given, lines in inputs(client) if given["hook_event_name"] == "PreCompact")
    loaded = load(transcript(client, count, tmp_path))
    assert loaded.kind.replace("-", "_") == client
    text = json.dumps(loaded.messages)
    assert "Never edit anything under vendor/." in text
    for station in ("Brest", "Cuxhaven", "Dover"):
        assert text.count(station) >= 2, "the call, and its result"


def test_when_the_session_starts_anew_only_codex_has_written_its_summary(tmp_path: Path) -> None:
    def conversation(client: str) -> str:
        count = next(lines for given, lines in inputs(client) if given.get("source") == "compact")
        return json.dumps(load(transcript(client, count, tmp_path)).messages)

    assert "Oban is next." in conversation("codex")
    assert "Oban is next." not in conversation("claude_code"), "its transcript still ends before the compaction"
    assert "Brest" in conversation("claude_code")


@pytest.mark.parametrize("client", CLIENTS)
def test_the_whole_transcript_reads_as_what_the_client_sends_now(client: str, tmp_path: Path) -> None:
    loaded = load(transcript(client, 1000, tmp_path))
    text = json.dumps(loaded.messages)
    assert "Oban is next." in text
    assert text.count("echo Brest") == 0, "what was compacted away is not sent again"


def test_a_codex_session_says_how_large_it_is_after_our_compaction(tmp_path: Path) -> None:
    """Resumed, Codex goes by the last `token_count`: with the old one it compacted again at once."""
    count = next(lines for given, lines in inputs("codex") if given["hook_event_name"] == "PreCompact")
    path = transcript("codex", count, tmp_path)
    loaded = load(path)
    save(loaded, loaded.messages[-2:], tmp_path / "new.jsonl", tokens_before=100_000)
    last = json.loads((tmp_path / "new.jsonl").read_bytes().splitlines()[-1])
    assert last["payload"]["type"] == "token_count"
    assert 0 < last["payload"]["info"]["last_token_usage"]["total_tokens"] < 2_000
    assert load(tmp_path / "new.jsonl").usage == (), "an estimate is not what a provider reported"


def test_what_codex_estimates_after_a_compaction_is_no_report_of_its_provider(tmp_path: Path) -> None:
    count = next(lines for given, lines in inputs("codex") if given.get("source") == "compact")
    assert load(transcript("codex", count, tmp_path)).usage == ()
