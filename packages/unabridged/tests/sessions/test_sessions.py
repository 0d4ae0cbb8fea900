"""Reading conversations from files: what the client would send now, and one clear line where there is none."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from places import HELPERS, ROOT
from rows import rows
from unabridged.errors import SettingsError, UnabridgedError
from unabridged.formats import get_format
from unabridged.legality import check
from unabridged.sessions import LoadedFile, SessionFileError, load

FILES = HELPERS / "session_files"
SAID = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


def written(folder: Path, *lines: Any, name: str = "session.jsonl", end: str = "\n") -> Path:
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end)
    return path


def told(loaded: LoadedFile) -> list[str]:
    """Each message as one short string: role, text, +call, =answer, *thinking, !image."""
    shown = []
    for message in loaded.messages:
        view = get_format(loaded.format).read(message)
        marks = [f"*{r.text.split('.')[0]}" for r in view.reasoning] + [f"+{c.id}" for c in view.calls]
        marks += [f"={a.call_id}{'?' if a.error else ''}" for a in view.answers] + ["!" for _ in view.media]
        shown.append(" ".join(filter(None, [view.role, view.text[:20].split("\n")[0].strip(), *marks])))
    return shown


# --- plain files ------------------------------------------------------------------------------------------------


@rows(
    ("name", "text", "kind"),
    [
        ("a bare list", json.dumps(SAID), "json"),
        ("an indented list", json.dumps(SAID, indent=2), "json"),
        ("an object", json.dumps({"messages": SAID}), "json"),
        ("an indented object", json.dumps({"model": "m", "messages": SAID}, indent=1), "json"),
        ("a message a line", "\n".join(map(json.dumps, SAID)), "jsonl"),
        ("a message a line, with blank lines", "\n\n".join(map(json.dumps, SAID)) + "\n\n", "jsonl"),
        ("a conversation a line", json.dumps({"messages": SAID}) + "\n", "json"),
        ("a byte-order mark", "\ufeff" + json.dumps(SAID), "json"),
        ("a byte-order mark before lines", "\ufeff" + "\n".join(map(json.dumps, SAID)), "jsonl"),
    ],
)
def test_plain_conversations_are_read_however_they_are_laid_out(
    name: str, text: str, kind: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text, end="")
    loaded = load(path)
    assert (loaded.messages, loaded.kind, loaded.format) == (SAID, kind, "openai-chat"), name


def test_system_tools_and_model_beside_the_list_are_read(tmp_path: Path) -> None:
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    loaded = load(written(tmp_path, {"system": "Be brief.", "tools": tools, "model": "m-1", "messages": SAID}))
    assert (loaded.system, loaded.tools, loaded.model) == ("Be brief.", tools, "m-1")
    assert loaded.format == "anthropic", "tools with an input_schema are Anthropic's"


def test_a_responses_request_is_read_by_its_own_names(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, {"instructions": "Be brief.", "input": SAID}))
    assert (loaded.system, loaded.format, loaded.messages) == ("Be brief.", "openai-responses", SAID)


def test_the_format_can_be_forced(tmp_path: Path) -> None:
    assert load(written(tmp_path, json.dumps(SAID)), format="anthropic").format == "anthropic"
    with pytest.raises(SettingsError, match="unknown format 'antropic': choose one of openai-chat"):
        load(written(tmp_path, json.dumps(SAID)), format="antropic")


def test_one_of_several_conversations_is_chosen_by_index_or_id(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": "a", "messages": SAID}, {"id": "b", "messages": SAID[:1]})
    assert load(path, which=1).messages == load(path, which="b").messages == SAID[:1]
    assert load(path, which=0).messages == SAID
    with pytest.raises(SessionFileError, match="more than one conversation: choose one by its index"):
        load(path)
    with pytest.raises(SessionFileError, match="has no conversation 'c': it holds 2"):
        load(path, which="c")


@pytest.mark.parametrize("name", ["coding_session.json", "service_desk.json"])
def test_the_examples_are_legal_conversations(name: str) -> None:
    loaded = load(ROOT / "examples" / name)
    assert loaded.format == {"coding_session.json": "openai-chat", "service_desk.json": "anthropic"}[name]
    assert loaded.system
    assert loaded.tools
    assert check(loaded.messages, loaded.format) == []


# --- Claude Code ------------------------------------------------------------------------------------------------


def test_claude_code_blocks_are_joined_and_side_chains_left_out() -> None:
    loaded = load(FILES / "claude_code.jsonl")
    assert told(loaded) == [
        "user <local-command-cavea",
        "user The tide table is an",
        "assistant I'll look at the con *Summer only: a clock change +toolu_01A +toolu_01B",
        "user =toolu_01A =toolu_01B",
        "assistant The offset is a cons +toolu_02A",
        "user =toolu_02A",
        "assistant Done: tide/clock.py",
        "user This is how the char !",
        "assistant +toolu_04A",
        "user [Request interrupted",
        "user No, don't run it. Re",
        "assistant *They want reading, not running +toolu_05A",
        "user =toolu_05A",
        "assistant The axis formats UTC",
    ]
    assert (loaded.kind, loaded.format, loaded.model) == ("claude-code", "anthropic", "claude-opus-4-5")
    assert loaded.origin_of()(loaded.messages[0]) == "host"
    assert loaded.origin_of()(loaded.messages[1]) is None


def test_claude_code_side_chains_at_the_end_are_not_the_conversation(tmp_path: Path) -> None:
    lines = (FILES / "claude_code.jsonl").read_text().splitlines()
    side = [line for line in lines if '"isSidechain":true' in line]
    loaded = load(written(tmp_path, *lines, *(line.replace("7d1f", "90c2") for line in side)))
    assert loaded.messages == load(FILES / "claude_code.jsonl").messages


def test_claude_code_usage_is_given_once_for_each_reply() -> None:
    usage = load(FILES / "claude_code.jsonl").usage
    assert [reported.index for reported in usage] == [2, 4, 6, 8, 11, 13]
    assert usage[0].usage["cache_read_input_tokens"] == 18_000


def test_claude_code_begins_at_the_last_compaction_and_skips_api_errors() -> None:
    assert told(load(FILES / "claude_code_compacted.jsonl")) == [
        "user This session is bein",
        "user Now the chart: it st",
        "assistant +toolu_07A",
        "user =toolu_07A",
        "assistant `hours` is handed UT +toolu_08A",
        "user =toolu_08A?",
        "assistant The line changed mea",
    ]


def test_claude_code_follows_the_newest_branch_past_a_parent_that_was_never_written() -> None:
    assert told(load(FILES / "claude_code_rewound.jsonl")) == [
        "user Rename the package t",
        "assistant Renamed in 14 files.",
        "user Undo that, and renam",
        "assistant Only the folder src/",
        "user Thanks. And the READ",
    ]


def test_claude_code_puts_what_a_compaction_preserved_behind_its_summary() -> None:
    assert told(load(FILES / "claude_code_preserved.jsonl")) == [
        "user Summary: a fixed off",
        "assistant The offset is a cons +toolu_02A",
        "user =toolu_02A",
        "assistant Done: tide/clock.py",
        "user Which files did you",
        "assistant Only tide/clock.py.",
    ]


# --- Codex ------------------------------------------------------------------------------------------------------


def test_codex_items_are_read_without_events_and_snapshots() -> None:
    loaded = load(FILES / "codex.jsonl")
    assert told(loaded)[:9] == [
        "system <permissions instruc",
        "user <environment_context",
        "user Load the stone price",
        "assistant ***Finding the loader**",
        "assistant +call_k1",
        "assistant +call_k2",
        "tool =call_k1",
        "tool =call_k2",
        "assistant +call_k3",
    ]
    assert len(loaded.messages) == 19
    assert (loaded.system, loaded.model) == ("You are a coding agent in a terminal. Be brief.", "gpt-5.1-codex")
    assert loaded.origins == {1: "host", 14: "host"}
    assert [reported.index for reported in loaded.usage] == [7, 10, 18]


def test_codex_starts_over_from_what_a_compaction_left() -> None:
    assert told(load(FILES / "codex_compacted.jsonl"))[:4] == [
        "system <permissions instruc",
        "user Load the stone price",
        "user Summary: prices() re",
        "user The report looks wro !",
    ]


def test_codex_old_compactions_keep_what_people_said_and_turns_taken_back_are_gone() -> None:
    loaded = told(load(FILES / "codex_old_compaction.jsonl"))
    assert loaded[2:4] == ["user Load the stone price", "user Summary: prices() re"]
    assert loaded[-2:] == ["assistant The total is in øre", "user Yes, divide by 100."]
    assert not any("Rust" in line for line in loaded)


# --- pi ---------------------------------------------------------------------------------------------------------


def test_pi_follows_the_newest_branch_and_keeps_aborted_calls() -> None:
    loaded = load(FILES / "pi.jsonl")
    assert told(loaded) == [
        "user The kiln log has gap",
        "assistant Looking at the logge *Two places to look +toolu_p1 +toolu_p2",
        "user =toolu_p1 =toolu_p2?",
        "assistant It opens the log wit",
        "user Ran `ls -la kiln.log",
        "user A systemd unit was s",
        "user Just open it with 'a !",
        "assistant +toolu_p3",
        "user Sorry, wrong key. Go",
        "assistant *Again +toolu_p4",
        "user =toolu_p4",
        "assistant kiln/logger.py appen",
    ]
    assert (loaded.kind, loaded.format, loaded.model) == ("pi", "anthropic", "claude-sonnet-4-5")
    assert loaded.usage[0].usage["cache_creation_input_tokens"] == 120
    assert "KEY" not in json.dumps(loaded.messages), "what the person kept out of the context stays out"


def test_pi_sends_the_summary_first_then_what_was_kept_then_what_came_after() -> None:
    assert told(load(FILES / "pi_compacted.jsonl")) == [
        "user ## Goal",
        "user Sorry, wrong key. Go",
        "assistant *Again +toolu_p4",
        "user =toolu_p4",
        "assistant kiln/logger.py appen",
        "user Add a test for it.",
        "user Tests live in tests/",
        "assistant +toolu_p5",
        "user =toolu_p5",
    ]


def test_pi_files_of_the_first_version_are_read_in_a_row() -> None:
    assert len(load(FILES / "pi_first_version.jsonl").messages) == 7


# --- bad input --------------------------------------------------------------------------------------------------


@rows(
    ("content", "message"),
    [
        (b"", "is empty: there is no conversation in it"),
        (b"  \n\n ", "is empty: there is no conversation in it"),
        (b"hello there", "is not JSON: "),
        (b'[{"role": "user", "content": "hel', "is not JSON: "),
        (b'{"messages": [}', "is not JSON: "),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not text: expected JSON or JSON Lines in UTF-8"),
        (b'\xff\xfe["caf\xe9"]', "is not UTF-8 text: save it as UTF-8"),
        (b'{"a": 1}', "is not a conversation: expected a list of messages"),
        (b"[1, 2, 3]", "is not a conversation: expected a list of messages"),
        (b'[{"role": "wizard"}]', "is not a conversation: expected a list of messages"),
        (b'"text"', "is not a conversation: expected a list of messages"),
        (b'{"a": 1}\n{"b": 2}\n', "is JSON, but no conversation: expected messages, or a session of"),
        (
            b'{"role":"user","content":"a"}\n{"x":1}\n',
            "line 2 of .* is not a message: expected a role or a type, found x",
        ),
        (
            b'{"role":"user","content":"a"}\n{"rol\n{"role":"user","content":"b"}\n',
            "line 2 is not JSON .*: mend or remove",
        ),
        (b"[" * 200_000, "is nested too deeply"),
    ],
)
def test_a_file_that_holds_no_conversation_is_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(content)
    with pytest.raises(SessionFileError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, UnabridgedError)
    assert path.read_bytes() == content


def test_a_missing_file_a_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionFileError, match="no such file or directory"):
        load(tmp_path / "none.json")
    with pytest.raises(SessionFileError, match="is a folder: name the session file inside it"):
        load(tmp_path)
    with pytest.raises(SessionFileError, match="is not a regular file"):
        load("/dev/null")


@pytest.mark.posix
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(SAID))
    path.chmod(0)
    me = os.geteuid()
    try:
        if me == 0:  # root ignores modes
            os.seteuid(65534)
        with pytest.raises(SessionFileError, match="permission denied"):
            load(path)
    finally:
        os.seteuid(me)


def test_a_file_above_the_maximum_size_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as stream:
        stream.truncate(3_000_000_000)  # one line of 3 GB that takes no room on the disk
    with pytest.raises(SessionFileError, match="has 3,000,000,000 bytes, more than the 1,000,000,000 allowed"):
        load(path)


@pytest.mark.parametrize("name", ["claude_code.jsonl", "codex.jsonl", "pi.jsonl"])
def test_a_cut_off_last_line_is_tolerated_with_a_warning(name: str, tmp_path: Path) -> None:
    whole = load(FILES / name)
    path = tmp_path / name
    path.write_bytes((FILES / name).read_bytes() + b'{"type":"assis')
    loaded = load(path)
    assert loaded.messages == whole.messages
    assert len(loaded.warnings) == 1
    assert "is cut off and was left out" in loaded.warnings[0]


def test_a_cut_off_last_line_of_plain_messages_is_tolerated_too(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, *SAID, '{"role": "user", "cont', end=""))
    assert loaded.messages == SAID
    assert "line 3 is cut off" in loaded.warnings[0]


def test_a_broken_line_in_the_middle_of_a_session_is_left_alone_with_a_warning(tmp_path: Path) -> None:
    lines = (FILES / "claude_code.jsonl").read_text().splitlines()
    path = written(tmp_path, *lines[:7], "}{", *lines[7:])
    loaded = load(path)
    assert loaded.messages == load(FILES / "claude_code.jsonl").messages
    assert "line 8 is not JSON and was left alone" in loaded.warnings[0]


# --- size -------------------------------------------------------------------------------------------------------


def peak_of_loading(path: Path) -> int:
    tracemalloc.start()
    try:
        load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_lines_are_streamed_and_only_messages_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("w") as stream:
        for number in range(2000):
            role = "assistant" if number % 2 else "user"
            stream.write(json.dumps({"role": role, "content": f"{number} " + "x" * 5000}) + "\n")
    assert peak_of_loading(path) < 1.25 * path.stat().st_size


def test_a_session_full_of_progress_takes_little_memory(tmp_path: Path) -> None:
    lines = (FILES / "claude_code.jsonl").read_text()
    path = tmp_path / "progress.jsonl"
    with path.open("w") as stream:
        for number in range(2000):
            noise = {"type": "progress", "uuid": f"n{number}", "parentUuid": None, "data": "x" * 5000, "sessionId": "s"}
            stream.write(json.dumps(noise) + "\n")
        stream.write(lines)
    assert peak_of_loading(path) < 0.2 * path.stat().st_size


def test_progress_is_reported_up_to_the_size_of_the_file() -> None:
    seen: list[tuple[int, int]] = []
    path = FILES / "codex.jsonl"
    load(path, progress=lambda done, size: seen.append((done, size)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
