"""`unabridged compact`, as a person uses it: good files, bad files, and the file that is never touched."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_case import SESSION, SESSION_FILES, run
from conversations import assistant, long_chat, user
from unabridged import check
from unabridged.sessions import load

USER = {"role": "user", "content": "x"}
CODE = "from unabridged_cli.app import main; main()"


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("UNABRIDGED_ARCHIVE", "UNABRIDGED_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


def test_the_demo_ends_with_a_picture_the_summary_turn_and_the_receipt() -> None:
    done = run("compact", SESSION, "--window", "8k")
    assert done.code == 0
    first, second, *_ = done.out.splitlines()
    assert "before" in first
    assert "░" in first
    assert "after" in second
    assert second.count("█") + second.count("▓") < first.count("░") / 4
    assert "the summary turn" in done.out
    assert "[unabridged summary " in done.out
    assert "legal for openai-chat" in done.out
    assert "model-free" in done.out


def test_without_an_output_and_an_archive_it_is_only_a_look(tmp_path: Path) -> None:
    assert "only a look" in run("compact", SESSION, "--window", "8k").line
    assert list(tmp_path.iterdir()) == []


def test_json_holds_the_outcome_and_nothing_else_is_printed(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run("compact", SESSION, "--window", "8k", "--json", "-o", out)
    assert done.err == ""
    outcome = done.json
    assert outcome["tokens_before"] > 30_000
    assert outcome["tokens_after"] <= 7_000
    assert outcome["receipt"]["kind"] == "summary"
    written = json.loads(out.read_text())
    assert written["messages"] == outcome["messages"]
    assert written["tools"] == json.loads(SESSION.read_text())["tools"]
    assert check(written["messages"]) == []


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
    assert run("compact", file, "--window", "4000", "--json").json["changed"]


@pytest.mark.parametrize("file", SESSION_FILES, ids=lambda file: file.stem)
def test_a_clients_session_is_compacted_written_and_read_again(tmp_path: Path, file: Path) -> None:
    out = tmp_path / file.name
    done = run("compact", file, "--now", "--keep", "messages=2", "-o", out, "--json")
    assert done.code == 0, done.err
    before, after = load(file), load(out)
    assert (after.kind, after.format) == (before.kind, before.format)
    assert run("measure", out, "--json").json["messages"] == len(after.messages)
    if done.json["changed"]:
        assert any("[unabridged summary " in json.dumps(message) for message in after.messages)
        assert run("replay", out, "-o", tmp_path / "whole.jsonl").code == 0
    else:
        assert out.read_bytes() == file.read_bytes()


def test_a_second_compaction_folds_the_first_and_replay_takes_both_back(tmp_path: Path) -> None:
    first, longer, second, whole = (tmp_path / f"{name}.json" for name in ("first", "longer", "second", "whole"))
    start = long_chat(40)
    (tmp_path / "chat.json").write_text(json.dumps(start))
    assert run("compact", tmp_path / "chat.json", "--window", "4000", "-o", first).code == 0
    more = [assistant("Here it is."), *long_chat(40)]
    longer.write_text(json.dumps([*json.loads(first.read_text()), *more]))
    assert run("compact", longer, "--window", "4000", "-o", second).code == 0
    assert run("replay", second, "-o", whole).code == 0
    assert json.loads(whole.read_text()) == [*start, *more]


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (["--trigger", "messages=20"], True),
        (["--trigger", "messages=200"], False),
        (["--trigger", "tokens=5k+messages=200"], False),
        (["--trigger", "tokens=5k+messages=20"], True),
        (["--trigger", "90%", "--trigger", "messages=20"], True),
        (["--trigger", "never"], False),
        (["--trigger", "never", "--now"], True),
        (["--trigger", "0.2", "--keep", "messages=4", "--keep", "1%"], True),
    ],
)
def test_the_trigger_is_any_of_several_and_all_of_what_a_plus_joins(
    tmp_path: Path, options: list[str], changed: bool
) -> None:
    # R4
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(long_chat(20)))
    assert run("compact", file, "--window", "40k", "--json", *options).json["changed"] is changed


def test_a_dry_run_writes_nothing_and_stores_nothing(tmp_path: Path) -> None:
    done = run("compact", SESSION, "--window", "8k", "--dry-run", "-o", tmp_path / "out.json", "--json")
    assert done.json["changed"]
    assert done.json["out"] is None
    assert list(tmp_path.iterdir()) == []


def test_the_window_is_the_models_when_none_is_given() -> None:
    known = run("compact", SESSION, "--model", "claude-opus-4-5", "--json").json
    assert not known["changed"], "all fits into the window of the model"
    reason = run("compact", SESSION, "--json").json["receipt"]["reason"]
    assert reason.endswith("tokens, the trigger is 27,852")  # 85 % of 32,768


@pytest.mark.parametrize(
    ("content", "window", "code", "words"),
    [
        (b"{not json", "8k", 2, "is not JSON"),
        (b"", "8k", 2, "is empty"),
        (b'{"a": 1}', "8k", 2, "expected a list of messages"),
        (b"[1, 2]", "8k", 2, "expected a list of messages"),
        (b"\x00\x01\xff", "8k", 2, "is not text"),
        (b"\xff\xfe\xfa", "8k", 2, "UTF-8"),
        (json.dumps([USER]).encode(), "eight", 2, "write 32768, 32k or 1m"),
        (json.dumps([USER]).encode(), "5", 2, "at least 64"),
        (json.dumps([{"role": "system", "content": "word " * 9_000}]).encode(), "1k", 1, "can't be made smaller"),
        (json.dumps([USER, {"role": "tool", "tool_call_id": "a", "content": "?"}]).encode(), "8k", 1, "--repair -o"),
    ],
)
def test_bad_input_is_one_clear_line_and_the_file_is_untouched(
    tmp_path: Path, content: bytes, window: str, code: int, words: str
) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    done = run("compact", file, "--window", window, "-o", tmp_path / "out.json")
    assert done.code == code
    assert words in done.line
    assert done.out == ""
    assert file.read_bytes() == content
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "add a user message"),
        ([USER, {"role": "assistant", "content": [{"text": "hm"}]}], "is without content[0].type"),
    ],
)
def test_what_only_its_author_can_mend_is_not_said_to_be_mended_by_a_command(
    tmp_path: Path, messages: list[Any], words: str
) -> None:
    (file := tmp_path / "odd.json").write_text(json.dumps(messages))
    done = run("compact", file, "--window", "8k", "--format", "openai-chat")
    assert done.code == 1
    assert words in done.line
    assert "--repair" not in done.line
    again = run("check", file, "--repair", "-o", tmp_path / "out.json", "--format", "openai-chat")
    assert again.code == 1
    assert words in again.line


@pytest.mark.parametrize(
    "text", ["200%", "101%", "0%", "-5%", "1.5", "fraction=2", "many", "85 percent", "messages=many"]
)
@pytest.mark.parametrize("option", ["trigger", "keep"])
def test_a_size_that_can_not_be_read_is_told_with_every_form(tmp_path: Path, option: str, text: str) -> None:
    (file := tmp_path / "one.json").write_text(json.dumps([USER]))
    done = run("compact", file, "--window", "8k", f"--{option}={text}")
    assert done.code == 2
    for form in (f"a {option} of {text!r}", "at most 100 %", "85%", "0.85", "170k", "messages="):
        assert form in done.line


def test_a_truncated_last_line_is_said_and_left_out(tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl"
    lines = [json.dumps(message) for message in [user("a"), assistant("b"), user("c")]]
    content = "\n".join(lines)[:-7]
    file.write_text(content)
    done = run("measure", file, "--json")
    assert done.code == 0
    assert "line 3 is cut off" in done.line
    assert done.json["messages"] == 2
    assert file.read_text() == content


@pytest.mark.parametrize("name", ["none.json", "folder", "device"])
def test_what_is_no_file_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    path = Path(os.devnull) if name == "device" else tmp_path / name
    done = run("compact", path)
    assert done.code == 2
    assert {"none.json": "no such file", "folder": "is a folder", "device": "regular file"}[name] in done.line


def test_a_wrong_option_is_said(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps([USER]))
    for options in (["--format", "morse"], ["--trigger", "soon"], ["--keep", "words=3"], ["--max-size", "big"]):
        done = run("compact", file, *options)
        assert done.code == 2
        assert done.line.startswith("unabridged: ")
    assert run("compact", file, "--archive", "ftp://x").code == 2
    assert run("compact", file, "--no-such-option").code == 2


def test_the_output_is_never_the_file_that_was_read(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    content = json.dumps(long_chat(40))
    file.write_text(content)
    done = run("compact", file, "--window", "4000", "-o", file)
    assert done.code == 2
    assert "never changed" in done.line
    assert file.read_text() == content


def test_a_place_that_cant_be_written_is_said_before_anything_is_done(tmp_path: Path) -> None:
    for out, words in ((tmp_path / "none" / "x.json", "there is no folder"), (tmp_path, "it is a folder")):
        done = run("compact", SESSION, "--window", "8k", "-o", out)
        assert done.code == 2
        assert words in done.line
    assert list(tmp_path.iterdir()) == []  # not even an archive


def test_a_line_of_two_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "huge.jsonl"
    file.touch()
    os.truncate(file, 2_000_000_000)  # a hole: it takes no room
    for command in ("compact", "measure", "check", "watch"):
        done = run(command, file)
        assert done.code == 2
        assert "2,000,000,000 bytes, more than the 1,000,000,000 allowed" in done.line
    assert "more than the 2,000" in run("measure", SESSION, "--max-size", "2k").line


@pytest.mark.posix
def test_a_disk_that_is_full_leaves_no_half_file(tmp_path: Path) -> None:

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))

    out = tmp_path / "out.json"
    command = [
        sys.executable,
        "-B",  # of what it compiles it would leave half a file
        "-c",
        CODE,
        "compact",
        str(SESSION),
        "--window",
        "30k",
        "--archive",
        "memory:",
        "-o",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=small)
    assert done.returncode == 2
    assert "nothing was written" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="becomes another user, whom modes bind")
def test_no_permission_is_said(tmp_path: Path) -> None:
    file = tmp_path / "secret.json"
    file.write_text(json.dumps([USER]))
    file.chmod(0o600)
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(0o755)
    as_nobody = (
        "import os\nfrom unabridged_cli.app import main\n"
        "try: main(['compact', 'not-there'])\n"  # loads what it needs while it still may
        "except SystemExit: os.setuid(65534)\n"
        "main()"
    )
    command = [sys.executable, "-c", as_nobody, "compact", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "permission denied" in done.stderr


def test_colours_and_bars_stay_out_of_pipes_and_hostile_text_stays_text(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    hostile = "\x1b]0;owned\x07\x1b[2J [bold red]markup[/] \u202egnp.exe"
    file.write_text(json.dumps([user(hostile + " filler" * 900), *long_chat(40)]))
    command = [sys.executable, "-c", CODE, "compact", str(file), "--window", "4000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured = run("measure", file)
    for text in (done.stdout, done.stderr, measured.out):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "[bold red]markup[/]" in measured.out


def test_explain_says_what_would_become_of_each_message(tmp_path: Path) -> None:
    before = SESSION.read_bytes()
    ran = run("explain", SESSION, "--window", "8k", "--json")
    assert ran.code == 0
    messages = ran.json["messages"]
    assert [one["index"] for one in messages] == list(range(len(messages)))
    assert {"goes", "quoted", "stays"} <= {one["fate"] for one in messages}
    stays = sum(one["fate"] == "stays" for one in messages)
    compacted = run("compact", SESSION, "--window", "8k", "-o", tmp_path / "out.json", "--json").json
    assert compacted["messages_after"] == stays + 1, "and the summary turn"
    table = run("explain", SESSION, "--window", "8k").out
    assert "It would be compacted: " in table
    assert "the newest message of a person" in " ".join(table.replace("│", " ").split())
    below = run("explain", SESSION, "--window", "1m")
    assert "Nothing would be done." in below.out
    assert "the request is below the trigger" in " ".join(below.out.replace("│", " ").split())
    assert SESSION.read_bytes() == before
