"""`measure`, `check` and `watch`: what fills a file, what is wrong with it, how it grows."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_case import DESK, SESSION, SESSION_FILES, run
from conversations import anthropic_round, assistant, chat_round, long_chat, user
from patience import PATIENCE
from unabridged.errors import SettingsError
from unabridged.sessions import load
from unabridged.sizes import keep_from_texts, parse_size, trigger_from_texts
from unabridged.tokens.models import find_model_info
from unabridged_cli.options import parse_age

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_what_fills_the_window_adds_up_and_is_told_by_tool() -> None:
    report = run("measure", SESSION, "--model", "gpt-5-mini", "--json").json
    shares = report["shares"]
    assert sum(share["tokens"] for share in shares.values()) == report["tokens"]
    assert shares["results of read_file"]["count"] == 14
    assert {"system", "tools", "user", "assistant", "results of shell"} <= set(shares)
    compacted = run("compact", SESSION, "--model", "gpt-5-mini", "--window", "8k", "--json").json
    assert compacted["tokens_before"] == report["tokens"]


def test_images_and_thinking_have_their_own_share(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    rounds = anthropic_round("look", "seen", thinking="hm " * 50)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 500}}
    file.write_text(json.dumps([{"role": "user", "content": [picture]}, *rounds]))
    shares = run("measure", file, "--json").json["shares"]
    assert shares["images and files"]["count"] == 1
    assert shares["thinking"]["tokens"] > 50
    assert shares["results of look"]["count"] == 1


def test_the_ten_largest_messages_come_first() -> None:
    largest = run("measure", SESSION, "--json").json["largest"]
    assert len(largest) == 10
    assert [item["tokens"] for item in largest] == sorted((item["tokens"] for item in largest), reverse=True)
    assert largest[0]["index"] == 6
    shown = run("measure", SESSION).out
    assert "the largest messages" in shown
    assert "│       6 │ results of " in shown


def test_where_a_window_would_have_been_crossed(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    messages = long_chat(60)
    file.write_text(json.dumps(messages))
    crossed = run("measure", file, "--json").json["crossed"]
    index = crossed["32000"]
    assert crossed["1000000"] is None
    for count, over in ((index, False), (index + 1, True)):
        file.write_text(json.dumps(messages[:count]))
        assert (run("measure", file, "--json").json["tokens"] > 32_000) is over


def test_the_cost_is_at_the_models_prices_with_and_without_a_cache(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps([user("one"), assistant("two"), user("three"), assistant("four"), user("five")]))
    report = run("measure", file, "--model", "gpt-5-mini", "--json").json
    info = find_model_info("gpt-5-mini")
    assert info is not None
    assert report["requests"] == 2
    price = report["cost"]
    assert price["next_cold"] == pytest.approx(report["tokens"] * info.input / 1e6)
    assert price["cached"] < price["uncached"]
    assert price["reported"] is None
    assert run("measure", file, "--json").json["cost"] is None


def test_what_a_session_has_cost_is_taken_from_its_own_reports() -> None:
    claude = next(file for file in SESSION_FILES if file.stem == "claude_code")
    report = run("measure", claude, "--json").json
    assert report["kind"] == "claude-code"
    assert report["cost"]["reports"] == len(load(claude).usage)
    assert report["cost"]["reported"] > 0
    assert "as reported" in run("measure", claude).out


def test_what_a_provider_refuses_is_told_by_message_and_rule(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps([user("go"), chat_round("look", "x")[0], user("well?")]))
    done = run("check", file, "--json")
    assert done.code == 1
    (finding,) = done.json["findings"]["openai-chat"]
    assert (finding["rule"], finding["index"]) == ("unanswered-call", 1)
    assert "unanswered-call" in run("check", file).out
    several = run("check", DESK, "--provider", "gemini", "--provider", "anthropic")
    assert several.code == 0
    assert "gemini takes them" in several.out


def test_the_repaired_copy_passes_and_nothing_else_changes(tmp_path: Path) -> None:
    file, out = tmp_path / "chat.json", tmp_path / "mended.json"
    messages = [user("go"), chat_round("look", "x")[0], user("well?"), assistant("so")]
    file.write_text(json.dumps({"tools": [], "messages": messages, "note": "mine"}, indent=3))
    before = file.read_bytes()
    done = run("check", file, "--repair", "-o", out)
    assert done.code == 0
    assert "mended" in done.out
    assert run("check", out).code == 0
    written = json.loads(out.read_text())
    assert written["note"] == "mine"
    assert [message for message in written["messages"] if message in messages] == messages
    assert len(written["messages"]) == len(messages) + 1
    assert file.read_bytes() == before


def test_repair_needs_a_place_and_one_provider(tmp_path: Path) -> None:
    assert "-o OUT" in run("check", DESK, "--repair").line
    assert "--repair" in run("check", DESK, "-o", tmp_path / "x.json").line
    two = run("check", DESK, "--repair", "-o", tmp_path / "x", "--provider", "gemini", "--provider", "strict")
    assert two.code == 2
    assert "choose one of" in run("check", DESK, "--provider", "morse").line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", SESSION_FILES, ids=lambda file: file.stem)
def test_a_clients_session_is_mended_into_one_that_passes(tmp_path: Path, file: Path) -> None:
    out = tmp_path / file.name
    assert run("check", file, "--repair", "-o", out).code == 0
    assert run("check", out).code == 0
    if run("check", file).code == 0:
        assert out.read_bytes() == file.read_bytes()


def interruptible() -> None:
    """Where the suite runs in the background of a shell, an interrupt is ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_watch_follows_a_file_that_grows_and_ends_when_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text("".join(json.dumps(m) + "\n" for m in long_chat(3)[:-1]))
    code = "from unabridged_cli.app import main; main()"
    command = [sys.executable, "-u", "-c", code, "watch", str(file), "--interval", "0.05", "--json", "--window", "8k"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, preexec_fn=interruptible) as child:  # noqa: PLW1509 - one thread, no locks
        assert child.stdout is not None
        first = json.loads(child.stdout.readline())
        with file.open("a") as stream:
            stream.write(json.dumps(user("more " * 200)) + "\n" + '{"role": "assis')  # a write under way
        second = json.loads(child.stdout.readline())
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=PATIENCE) == 0
        assert child.stderr is not None
        assert child.stderr.read() == ""
    assert second["messages"] == first["messages"] + 1
    assert second["tokens_after"] > first["tokens_after"]
    assert second["window"] == 8_000


def test_watch_once_is_a_line() -> None:
    done = run("watch", SESSION, "--once", "--window", "100k")
    assert re.search(r"105 messages, 52,\d{3} of 100,000 tokens, 52% full", done.out)


def test_sizes_ages_and_conditions_are_written_as_people_write_them() -> None:
    assert [parse_size(text, "x") for text in ("32768", "32k", "1.5m", "1_000", "32,768", "2G")] == [
        32_768, 32_000, 1_500_000, 1_000, 32_768, 2_000_000_000,
    ]  # fmt: skip
    assert [parse_age(text) for text in ("36h", "2d", "1w")] == [129_600, 172_800, 604_800]
    assert trigger_from_texts(["85%", "170k", "messages=300"]) == [
        {"fraction": 0.85}, {"tokens": 170_000}, {"messages": 300},
    ]  # fmt: skip
    assert trigger_from_texts(["fraction=0.5+messages=10"]) == [{"fraction": 0.5, "messages": 10}]
    assert keep_from_texts(["0.1", "1"]) == [("fraction", 0.1), ("fraction", 1.0)]
    for wrong in ("-3", "", "k", "1x", "1.2.3"):
        with pytest.raises(SettingsError):
            parse_size(wrong, "x")
    with pytest.raises(SettingsError):
        parse_age("soon")
