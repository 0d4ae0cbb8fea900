"""The record's commands: list, show, search, read, verify, replay, undo, export, forget, prune."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from cli_case import SESSION, run
from unabridged import Compactor
from unabridged.archive import codec, open_archive
from unabridged.archive.protocol import Part, Record, Scope


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The coding session, compacted; its originals are in the archive that the environment names."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", f"sqlite:///{tmp_path / 'archive.db'}")
    monkeypatch.delenv("UNABRIDGED_NAMESPACE", raising=False)
    out = tmp_path / "short.json"
    done = run("compact", SESSION, "--window", "8k", "--thread", "ferry", "-o", out)
    assert done.code == 0
    return out


@pytest.mark.usefixtures("short")
def test_threads_and_their_compactions_are_listed() -> None:
    (thread,) = run("threads", "--json").json["threads"]
    assert (thread["thread"], thread["compactions"], thread["kept"]) == ("ferry", 1, 101)
    assert "ferry" in run("threads").out
    (receipt,) = run("show", "ferry", "--json").json["compactions"]
    assert receipt["tokens_before"] > 50_000
    assert receipt["id"] in run("show", "ferry").out
    assert "holds no threads" in run("threads", "--namespace", "other").out


@pytest.mark.usefixtures("short")
def test_what_a_search_finds_can_be_read_in_full() -> None:
    (hit,) = run("search", "Oddvar", "--thread", "ferry", "--limit", "1", "--json").json["results"]
    assert "Oddvar" in hit["excerpt"]
    message = run("read", hit["ref"], "--thread", "ferry", "--json").json["message"]
    assert message in json.loads(SESSION.read_text())["messages"]
    assert "Oddvar" in run("read", hit["ref"], "--thread", "ferry").out
    assert "Oddvar" in run("read", str(hit["turn"]), "--thread", "ferry").out
    assert "[0] ferry" in run("search", "Oddvar", "--limit", "1").out + run("search", "FB-412").out
    assert "Nothing that left" in run("search", "zzzzqq").out


def test_replay_gives_the_very_bytes_back(short: Path, tmp_path: Path) -> None:
    # R40
    out = tmp_path / "whole.json"
    done = run("replay", short, "-o", out, "--json")
    assert done.json["messages_after"] == 105
    assert json.loads(out.read_text()) == json.loads(SESSION.read_text())


def test_undo_takes_the_newest_compaction_back_and_retires_it(short: Path, tmp_path: Path) -> None:
    out = tmp_path / "before.json"
    assert run("undo", short, "-o", out).code == 0
    assert json.loads(out.read_text()) == json.loads(SESSION.read_text())
    assert run("threads", "--json").json["threads"][0]["compactions"] == 0
    assert "stands in" in run("undo", SESSION, "-o", out, "--thread", "ferry").line


@pytest.mark.parametrize("layout", ["messages", "text", "all"])
@pytest.mark.usefixtures("short")
def test_export_writes_what_left_the_context(tmp_path: Path, layout: str) -> None:
    # R41
    out = tmp_path / "out"
    assert run("export", "ferry", "--as", layout, "-o", out, "--json").json["messages"] == 101
    text = out.read_text()
    originals = json.loads(SESSION.read_text())["messages"]
    if layout == "messages":
        lines = [json.loads(line) for line in text.splitlines()]
        assert all(line in originals for line in lines)
        assert lines == [message for message in originals if message in lines]
    elif layout == "all":
        whole = json.loads(text)
        assert len(whole["records"]) == 1
        assert whole["messages"][0]["message"] == originals[0]
    else:
        assert text.startswith("[0] person (user)\nKiosk 7")
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("short")
def test_export_says_which_turns_had_not_left_the_context(tmp_path: Path) -> None:
    out = tmp_path / "out"
    listed = run("export", "ferry", "--as", "all", "-o", out, "--json").json["stayed"]
    archived = {message["turn"] for message in json.loads(out.read_text())["messages"]}
    stayed = [turn for first, last in listed for turn in range(first, last)]
    assert stayed == sorted(set(range(max(archived))) - archived)
    assert f"all after turn {max(archived)}." in run("export", "ferry", "-o", out).line

    system, task = {"role": "system", "content": "You read logs."}, {"role": "user", "content": "Read all logs."}
    work: list[Any] = [system, task]
    for number in range(200):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {number}}}'}}
        work.append({"role": "assistant", "tool_calls": [call]})
        work.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"Log {number}: " + "nothing. " * 50})
    with Compactor(window=8_000, archive=os.environ["UNABRIDGED_ARCHIVE"]) as compactor:
        compactor.fit(work, thread="work")
    done = run("export", "work", "-o", out)
    count = len(out.read_text().splitlines())
    assert done.line.endswith(f"had not left the context: turns 0-1, and all after turn {count + 1}.")


@pytest.mark.usefixtures("short")
def test_forget_asks_and_in_a_script_needs_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        done = run("forget", "ferry")
    assert done.code == 2
    assert "--yes" in done.line
    assert len(run("threads", "--json").json["threads"]) == 1
    assert run("forget", "ferry", "--yes", "--json").json == {
        "forgotten": [{"namespace": "default", "thread": "ferry"}],
        "staying": [],
    }
    assert run("threads", "--json").json["threads"] == []


def _part(message: dict[str, str], turn: int) -> Part:
    body = codec.encode(message)
    return Part(codec.digest(body), body, turn, "user", "person", message["content"])


@pytest.mark.usefixtures("short")
def test_prune_forgets_only_what_is_old(tmp_path: Path) -> None:
    assert run("prune", "--older-than", "1d", "--yes", "--json").json["forgotten"] == []
    left, put = _part({"role": "user", "content": "long ago"}, 0), _part({"role": "user", "content": "a summary"}, -1)
    with contextlib.closing(open_archive(f"sqlite:///{tmp_path / 'archive.db'}")) as archive:
        scope, created = Scope("cli", "old"), time.time() - 3 * 86_400
        archive.store(
            Record("0" * 12, scope, "key", 1, 0, (left.hash,), (put.hash,), "summary", created=created), [left, put]
        )
    dry = run("prune", "--older-than", "1d", "--dry-run", "--json").json
    assert (dry["would_go"], dry["forgotten"]) == ([{"namespace": "cli", "thread": "old"}], [])
    assert "1 of 2 threads" in run("prune", "--older-than", "1d", "--dry-run").out
    assert run("prune", "--older-than", "1d", "--yes", "--json").json["forgotten"] == dry["would_go"]
    assert run("threads", "--json").json["threads"][0]["thread"] == "ferry"
    assert "write 36h" in run("prune", "--older-than", "soon").line
    assert "--to-size 500m" in run("prune", "--yes").line
    assert run("prune", "--to-size", "1g", "--yes", "--json").json["forgotten"] == []
    assert run("prune", "--to-size", "1k", "--yes", "--json").json["forgotten"] == [
        {"namespace": "default", "thread": "ferry"}
    ]


@pytest.mark.usefixtures("short")
def test_verify_ends_with_1_when_something_is_damaged(tmp_path: Path) -> None:
    assert run("verify").code == 0
    assert run("verify", "ferry", "--json").json["problems"] == []
    with sqlite3.connect(tmp_path / "archive.db") as database:
        (table,) = database.execute(
            "select name from sqlite_master where sql like '%body%' and type='table'"
        ).fetchone()
        database.execute(f"update {table} set body = x'7b7d' where rowid = 3")  # noqa: S608 - a name from the schema
    database.close()
    done = run("verify")
    assert done.code == 1
    assert "1 problem in" in done.out


def test_an_archive_that_is_not_there_is_said_and_not_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'typo.db'}"
    for command in (["threads"], ["show", "t"], ["verify"], ["search", "x"], ["replay", str(SESSION), "-o", "x"]):
        done = run(*command, "--archive", url)
        assert done.code == 2
        assert "there is no archive at" in done.line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("short")
def test_a_thread_or_reference_that_is_not_there_is_said() -> None:
    for command in (["show", "x"], ["verify", "x"], ["export", "x", "-o", "x"], ["forget", "x", "-y"]):
        done = run(*command)
        assert done.code == 2
        assert "it has ferry" in done.line
    assert "no such reference" in run("read", "9999", "--thread", "ferry").line


def test_names_that_look_like_markup_are_only_names(tmp_path: Path) -> None:
    file, name = tmp_path / "[red]x[", "[/bold][2J"
    file.write_text(SESSION.read_text())
    options = ["--archive", f"sqlite:///{tmp_path / 'a.db'}", "--namespace", name]
    assert run("compact", file, "--window", "8k", "-o", tmp_path / "[y]", "--thread", name, *options).code == 0
    for command in (["threads"], ["show", name], ["search", "kiosk"], ["verify", name], ["forget", name, "-y"]):
        done = run(*command, *options)
        assert done.code == 0
        assert "\x1b" not in done.out
        assert command[0] == "search" or "[/bold]" in done.out


def test_the_records_of_a_program_are_read_as_well(tmp_path: Path) -> None:
    url = f"dir://{tmp_path / 'folder'}"
    messages = json.loads(SESSION.read_text())["messages"]
    with Compactor(window=8_000, archive=url, namespace="my-app") as compactor:
        assert compactor.fit(messages, thread="t1").changed
    found = run("threads", "--archive", url, "--namespace", "my-app", "--json").json
    assert [thread["thread"] for thread in found["threads"]] == ["t1"]
    assert run("verify", "t1", "--archive", url, "--namespace", "my-app").code == 0
