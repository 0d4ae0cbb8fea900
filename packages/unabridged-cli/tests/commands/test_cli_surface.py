"""The command line reads as it is meant: numbers, names, standard input, namespaces, and whose words are whose."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_case import DESK, SESSION, run
from conversations import anthropic_round, chat_round, long_chat, user
from engine_case import rounds
from patience import PATIENCE
from unabridged import Compactor
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope
from unabridged_cli.screen import build_table, format_count, make_console

THREE = SESSION.parent / "three_conversations.jsonl"
TAKE_A_FILE = {
    "compact": ("compact", "-", "--window", "8k", "--thread", "t", "--json"),
    "measure": ("measure", "-", "--json"),
    "check": ("check", "-", "--json"),
}


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("UNABRIDGED_NAMESPACE", raising=False)
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", url)
    return url


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def give(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def talked(url: str, namespace: str, thread: str, word: str = "secret") -> list[Any]:
    """What `fit` left of a conversation that is now in the archive."""
    with Compactor(window=4_000, archive=url, namespace=namespace) as engine:
        return engine.fit([user(f"the word is {word}"), *long_chat(40)], thread=thread).messages


def test_no_flag_shows_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    for command in ([], ["compact"], ["measure"], ["check"], ["eval"], ["forget"], ["prune"], ["mcp"]):
        shown = run(*command, "--help").out
        assert "bool" not in shown
        assert "--help" in shown
    assert re.search(r"--version\s+Print the version", run("--help").out)


def test_one_is_one_and_two_are_two(url: str) -> None:
    assert [format_count(count, "message") for count in (0, 1, 2, 1_200)] == [
        "0 messages",
        "1 message",
        "2 messages",
        "1,200 messages",
    ]
    talked(url, "default", "t")
    assert "thread t: 1 compaction\n" in run("show", "t").out


def test_a_table_writes_numbers_and_shares_as_people_do(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print(
        build_table("[b]t[/b]", ["what", "tokens", "share", "none"], [["\x1b[2J", 1_200, 0.125, None]])
    )
    shown = capsys.readouterr().out
    assert "[b]t[/b]" in shown
    assert re.search(r"│ \\x1b\[2J +│ +1,200 │ +12\.5% │ +│", shown)


def test_why_says_the_size_and_the_trigger(url: str) -> None:
    talked(url, "default", "t")
    assert re.search(r"tokens; [\d,]+ tokens, the trigger is 3,400", run("show", "t").out)


@pytest.mark.parametrize("command", ["compact", "measure", "check"])
def test_several_conversations_name_the_option_that_chooses(command: str) -> None:
    said = run(command, THREE)
    assert said.code == 2
    assert "--which 0" in said.line
    assert run(command, THREE, "--which", "0", "--json").code in {0, 1}


@pytest.mark.parametrize("command", TAKE_A_FILE)
def test_a_dash_is_standard_input(command: str, piped: Callable[[bytes], None], url: str) -> None:
    piped(SESSION.read_bytes())
    through = run(*TAKE_A_FILE[command])
    named = run(*[SESSION if item == "-" else item for item in TAKE_A_FILE[command]])
    assert through.code == named.code
    for key in set(named.json) - {"file", "receipt"}:
        assert through.json[key] == named.json[key], key
    assert url


def test_what_was_compacted_from_standard_input_replays_from_it(
    piped: Callable[[bytes], None], url: str, tmp_path: Path
) -> None:
    short, whole = tmp_path / "short.json", tmp_path / "whole.json"
    piped(SESSION.read_bytes())
    assert run("compact", "-", "--window", "8k", "-o", short).code == 0
    piped(short.read_bytes())
    assert run("replay", "-", "-o", whole).code == 0
    assert json.loads(whole.read_text()) == json.loads(SESSION.read_text())
    piped(short.read_bytes())
    assert run("undo", "-", "-o", whole).code == 0
    assert url


def test_standard_input_has_its_limits(piped: Callable[[bytes], None]) -> None:
    piped(SESSION.read_bytes())
    assert "--max-size" in run("measure", "-", "--max-size", "1k").line
    piped(b"")
    assert run("measure", "-").code == 2
    assert "name one" in run("watch", "-", "--once").line


def test_nothing_of_standard_input_is_left_behind(tmp_path: Path) -> None:
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-c", "from unabridged_cli.app import main; main(['measure', '-'])"],
        input=DESK.read_bytes(), capture_output=True, check=True, env=environment,
    )  # fmt: skip
    assert b"stdin: 45 messages" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_repair_is_told_by_its_name() -> None:
    said = run("repair", SESSION)
    assert said.code == 2
    assert "unabridged check FILE --repair -o OUT" in said.line


def test_a_server_for_a_thread_that_is_not_there_says_so_and_waits_for_it(url: str) -> None:
    pytest.importorskip("mcp")
    talked(url, "default", "real")
    command = [sys.executable, "-c", "from unabridged_cli.app import main; main(['mcp', '--thread', 'nosuch'])"]
    done = subprocess.run(
        command, input=b"", capture_output=True, check=False, timeout=PATIENCE,
        env={"UNABRIDGED_ARCHIVE": url, "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert b"no thread 'nosuch'" in done.stderr
    assert b"it has real" in done.stderr


@pytest.mark.parametrize("port", ["-1", "70000", "99999"])
def test_a_port_that_there_is_not_is_said_in_one_line(port: str, url: str) -> None:
    said = run("mcp", "--http", port, "--archive", url)
    assert said.code == 2
    assert f"there is no port {port}" in said.line


@pytest.mark.parametrize("option", [("--token", "a-token-nobody-will-guess"), ("--host", "0.0.0.0")])  # noqa: S104
def test_what_is_for_http_is_refused_over_stdio(option: tuple[str, str], url: str) -> None:
    said = run("mcp", *option, "--archive", url)
    assert said.code == 2
    assert f"{option[0]} is for HTTP" in said.line


def test_results_of_tools_are_not_the_users(tmp_path: Path) -> None:
    messages = [user("do it"), *anthropic_round("read_file", "line " * 2_000), *anthropic_round("bash", "out " * 900)]
    file = tmp_path / "anthropic.json"
    file.write_text(json.dumps(messages))
    told = run("measure", file, "--json").json
    assert [item["whose"] for item in told["largest"][:2]] == ["results of read_file", "results of bash"]
    assert told["shares"]["user"]["tokens"] < 50
    assert "results of read_file" in run("measure", file).out


@pytest.mark.parametrize(("file", "window"), [(SESSION, 8_000), (SESSION, 16_000), (DESK, 6_000), (DESK, 8_000)])
def test_the_summary_and_the_receipt_count_the_same_turns(file: Path, window: int) -> None:
    done = run("compact", file, "--window", str(window), "--json").json
    turns = done["receipt"]["turns"]
    (said,) = re.findall(r"Messages (\d+) to (\d+) of this conversation", json.dumps(done["messages"]))
    assert (int(said[0]), int(said[1])) == (turns[0][0], turns[-1][1] - 1)
    gone = {turn for first, stop in turns for turn in range(first, stop)}
    edited = {turn for first, stop in done["receipt"]["edited"] for turn in range(first, stop)}
    assert not gone & edited
    assert done["messages_before"] - len(gone) == sum(
        message in json.loads(file.read_text())["messages"] for message in done["messages"]
    ) + len(edited)


def test_what_stays_and_is_shortened_is_counted_apart(tmp_path: Path) -> None:
    messages = [*rounds(30), *chat_round("read_last", "word " * 6_000, path="x.py")]
    file = tmp_path / "long.json"
    file.write_text(json.dumps(messages))
    done = run("compact", file, "--window", "4k", "--json").json
    assert done["receipt"]["turns"] == [[1, 61]]
    assert done["receipt"]["edited"] == [[62, 63]]
    assert "Messages 1 to 60 of this conversation" in json.dumps(done["messages"])
    shown = run("compact", file, "--window", "4k").out
    assert re.search(r"turns compacted\s+│ 1-60 ", shown)
    assert re.search(r"turns shortened\s+│ 62 ", shown)


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_all_namespaces_are_listed_unless_one_is_named(url: str) -> None:
    for namespace, thread in (("default", "a"), ("tenant-7", "b"), ("cli", "c")):
        talked(url, namespace, thread)
    listed = [(one["namespace"], one["thread"]) for one in run("threads", "--json").json["threads"]]
    assert listed == [("cli", "c"), ("default", "a"), ("tenant-7", "b")]
    shown = run("threads").out
    assert all(word in shown for word in ("tenant-7", "cli", "default"))
    assert [one["thread"] for one in run("threads", "--namespace", "cli", "--json").json["threads"]] == ["c"]
    assert {hit["namespace"] for hit in run("search", "secret", "--json").json["results"]} == {
        "cli",
        "default",
        "tenant-7",
    }


def test_a_thread_of_an_older_namespace_is_still_found(url: str, tmp_path: Path) -> None:
    """The command line kept its own in `cli`, programs in one of their own: both are found without a word."""
    fitted = talked(url, "agent-1f3b9c2d", "mine")
    assert run("show", "mine", "--json").json["namespace"] == "agent-1f3b9c2d"
    assert "secret" in run("read", "0", "--thread", "mine").out
    short, whole = tmp_path / "short.json", tmp_path / "whole.json"
    short.write_text(json.dumps(fitted))
    assert run("replay", short, "-o", whole).code == 0
    assert json.loads(whole.read_text()) == [user("the word is secret"), *long_chat(40)]
    assert "no thread 'mine' in namespace 'default'" in run("show", "mine", "--namespace", "default").line


def test_the_same_name_in_several_namespaces_is_asked_for(url: str) -> None:
    for namespace in ("ann", "bob"):
        talked(url, namespace, "t", namespace)
    assert "say --namespace, one of 'ann', 'bob'" in run("show", "t").line
    talked(url, "default", "t")
    assert run("show", "t", "--json").json["namespace"] == "default"


def test_programs_and_the_command_line_share_the_default_namespace(url: str, tmp_path: Path) -> None:
    assert run("compact", SESSION, "--window", "8k", "--thread", "t", "-o", tmp_path / "short.json").code == 0
    with Compactor(archive=url, namespace="default") as engine:
        assert engine.search("Oddvar", thread="t")


# --- forgetting -------------------------------------------------------------------------------------------------------


def test_a_namespace_is_forgotten_whole_with_a_yes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for namespace, thread in (("ann", "a"), ("ann", "b"), ("bob", "b")):
        talked(url, namespace, thread)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "--yes" in run("forget", "--namespace", "ann").err
    done = run("forget", "--namespace", "ann", "--yes", "--json").json["forgotten"]
    assert done == [{"namespace": "ann", "thread": "a"}, {"namespace": "ann", "thread": "b"}]
    assert [one["namespace"] for one in run("threads", "--json").json["threads"]] == ["bob"]


def test_a_namespace_from_the_environment_is_never_forgotten_whole(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    talked(url, "ann", "a")
    for given in ((), ("t", "--older-than", "3d")):
        assert run("forget", *given, "--yes").code == 2
    monkeypatch.setenv("UNABRIDGED_NAMESPACE", "ann")
    assert "name a thread" in run("forget", "--yes").line
    assert len(run("threads", "--json").json["threads"]) == 1


def test_what_is_old_is_forgotten_everywhere_or_in_one_namespace(url: str) -> None:
    ages = {("ann", "old"): 40, ("ann", "new"): 1, ("bob", "old"): 40}
    for (namespace, thread), days in ages.items():
        aged(url, Scope(namespace, thread), days)
    one = run("forget", "--older-than", "30d", "--namespace", "ann", "--yes", "--json").json["forgotten"]
    assert one == [{"namespace": "ann", "thread": "old"}]
    rest = run("forget", "--older-than", "30d", "--yes")
    assert "1 of 2 threads have not been compacted for 30d." in rest.out
    assert "1 thread forgotten." in rest.out
    assert [one["thread"] for one in run("threads", "--json").json["threads"]] == ["new"]
    assert run("forget", "--older-than", "30d", "--yes").code == 0


def aged(url: str, scope: Scope, days: float) -> None:
    """A thread whose only compaction is so old."""
    archive = open_archive("memory:")
    with Compactor(window=4_000, archive=archive, namespace=scope.namespace) as engine:
        engine.fit([user("the word is secret"), *long_chat(40)], thread=scope.thread)
        (record,) = archive.records(scope)
        parts = archive.parts(scope)
    gone = tuple(part.hash for part in parts)
    store = open_archive(url)
    made = time.time() - days * 86_400
    store.store(replace(record, created=made, before=gone, after=()), parts)
    store.close()
