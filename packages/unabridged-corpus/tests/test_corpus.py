"""A corpus: the same bytes whatever the workers, the order and the kills; one bad session harms no other."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli_case import SESSION
from cli_case import run as command
from corpus_case import (
    DEADLY,
    FORMATS,
    corpus,
    end_the_driver,
    end_the_worker,
    results,
    rows,
    session,
    summarise,
    write_always,
    write_once,
)
from patience import PATIENCE
from places import HELPERS
from unabridged import Compactor
from unabridged.errors import NotInstalled, SettingsError
from unabridged.sessions import load
from unabridged_corpus import Check, Compact, Evaluate, Failure, Measure, Repair, pool, run
from unabridged_corpus.spending import Purse, SpendingLimit

SMALL = 20_000
"""Bytes of a shard, so that a small corpus has many."""
BAD = [("a/b/lines.jsonl", 4), ("a/b/lines.jsonl", 6), ("bad.json", 0)]


def places(failures: tuple[Failure, ...]) -> list[tuple[str, int]]:
    return [(failure.file, failure.line) for failure in failures]


def test_one_process_and_two_write_the_same_bytes_and_what_was_done_is_not_done_again(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")
    work = Repair()
    one = run(work, folder, tmp_path / "one", shard=SMALL)
    two = run(work, folder, tmp_path / "two", shard=SMALL, jobs=2)
    assert results(tmp_path / "one") == results(tmp_path / "two")
    assert places(two.failures) == BAD
    assert two.sessions == one.fresh == two.fresh == 42
    assert two.parts >= 10
    manifest = json.loads((tmp_path / "two" / "manifest.json").read_text())
    assert manifest["complete"]
    assert [failure["file"] for failure in manifest["failures"]] == [file for file, _ in BAD]
    assert {piece["file"] for part in manifest["parts"] for piece in part["inputs"]} >= {"a/0.json", "pi.jsonl"}
    assert run(work, folder, tmp_path / "two", shard=SMALL).fresh == 0

    changed = folder / "a" / "b" / "lines.jsonl"
    lines = changed.read_text().splitlines()
    lines[3], lines[7] = json.dumps(session(40)), json.dumps(session(41))
    changed.write_text("\n".join(lines))
    (folder / "a" / "0.json").unlink()
    (folder / "a" / "new.json").write_text(json.dumps(session(42)))
    again = run(work, folder, tmp_path / "two", shard=SMALL, jobs=2)
    run(work, folder, tmp_path / "anew", shard=SMALL)
    assert results(tmp_path / "two") == results(tmp_path / "anew")
    assert places(again.failures) == BAD[1:]
    assert 3 <= again.fresh < 20, "the two lines, the new file, and what shares a part with a file that came or went"


def test_a_driver_that_is_killed_is_resumed_to_the_same_bytes_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = corpus(tmp_path / "in"), tmp_path / "out"
    monkeypatch.setenv("CORPUS_OUT", str(out))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*sys.path, str(HELPERS)]))
    code = (
        "from unabridged_corpus import Compact, run; from corpus_case import end_the_driver\n"
        f"run(Compact(window=4_000, model=end_the_driver), {str(folder)!r}, {str(out)!r}, shard={SMALL}, jobs=2)"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    there = len(list(out.glob("part-*")))
    until = time.monotonic() + PATIENCE
    while _workers(out):
        assert time.monotonic() < until, "a worker outlived its driver"
        time.sleep(0.05)
    resumed = run(Compact(window=4_000, model=end_the_driver), folder, out, shard=SMALL, jobs=2)
    assert 0 < there < resumed.parts
    assert 0 < resumed.fresh < resumed.sessions
    assert places(resumed.failures)[:2] == BAD[:2]
    run(Compact(window=4_000, model=end_the_driver), folder, tmp_path / "at once", shard=SMALL)
    assert results(out) == results(tmp_path / "at once")
    assert not list(out.rglob("*.part"))


def _workers(out: Path) -> list[int]:
    """The processes that still have this name in their environment, but for this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get("CORPUS_OUT") == str(out):
                found.append(process.pid)
    return found


def eight(folder: Path) -> Path:
    """Eight sessions in files of their own; in the fourth stands what the models of these tests look for."""
    folder.mkdir()
    for number in range(8):
        one = session(4 * number + 1)
        if number == 3:
            one["messages"][0]["content"] = f"Beware of {DEADLY}. " * 3
        (folder / f"{number}.json").write_text(json.dumps(one))
    return folder


def test_input_that_changes_while_it_is_read_is_read_again_and_never_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = eight(tmp_path / "in")
    monkeypatch.setenv("CORPUS_FILE", str(folder / "3.json"))
    how: dict[str, Any] = {"window": 3_000, "now": True}
    once = run(Compact(model=write_once, **how), folder, tmp_path / "once")
    assert once.failures == ()
    (digest,) = [row["digest"] for row in rows(tmp_path / "once") if row["file"] == "3.json"]
    assert digest == f"sha256:{hashlib.sha256((folder / '3.json').read_bytes()).hexdigest()}"
    always = run(Compact(model=write_always, **how), folder, tmp_path / "always")
    assert places(always.failures) == [("3.json", 0)]
    assert "changes all the time" in always.failures[0].reason
    assert always.sessions == 7


def test_a_session_that_ends_its_process_is_left_out_and_the_rest_is_done(tmp_path: Path) -> None:
    folder = eight(tmp_path / "in")
    done = run(Compact(window=3_000, now=True, model=end_the_worker), folder, tmp_path / "out", jobs=2, shard=SMALL)
    assert places(done.failures) == [("3.json", 0)]
    assert "ended 3 times" in done.failures[0].reason
    assert done.sessions == 7


def test_many_sessions_of_one_shard_that_end_their_process_are_each_left_out(tmp_path: Path) -> None:
    folder = eight(tmp_path / "in")
    deadly = [number for number in range(8) if number not in {2, 6}]
    for number in deadly:
        one = json.loads((folder / f"{number}.json").read_text())
        one["messages"][0]["content"] = f"Beware of {DEADLY}. " * 3
        (folder / f"{number}.json").write_text(json.dumps(one))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "_MAX_BREAKS", 3)
        done = run(Compact(window=3_000, now=True, model=end_the_worker), folder, tmp_path / "out", jobs=2)
    assert places(done.failures) == [(f"{number}.json", 0) for number in deadly]
    assert done.sessions == 2


def test_summaries_take_no_more_than_all_workers_may_and_go_on_with_a_larger_budget(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")
    how: dict[str, Any] = {"shard": SMALL, "jobs": 2}
    small = Compact(window=4_000, model=summarise, limit=SpendingLimit(tokens=60_000))
    first = run(small, folder, tmp_path / "out", **how)
    spent = [failure for failure in first.failures if "budget" in failure.reason]
    assert spent
    assert first.counts["by summarise"] >= 1
    large = Compact(window=4_000, model=summarise, limit=SpendingLimit(tokens=10_000_000, rate=1e9))
    second = run(large, folder, tmp_path / "out", **how)
    assert second.fresh == len(spent)
    assert places(second.failures) == [place for place in places(first.failures) if place not in places(tuple(spent))]
    run(Compact(window=4_000, model=summarise), folder, tmp_path / "without", shard=SMALL)
    assert results(tmp_path / "out") == results(tmp_path / "without")


@pytest.mark.filterwarnings("default")  # Ray's own
def test_a_cluster_writes_the_same_bytes_and_has_one_purse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is an extra: pip install 'unabridged[ray]'; make ray shows a cluster that is killed")
    import ray

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else it leaves a token in the home folder
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    folder = corpus(tmp_path / "in")
    run(Repair(), folder, tmp_path / "here", shard=SMALL)
    with pytest.raises(SettingsError, match="no Ray cluster at 127"):
        run(Repair(), folder, tmp_path / "nowhere", ray="127.0.0.1:1")
    ray.init(address="local", num_cpus=2, log_to_driver=False, include_dashboard=False)
    try:
        run(Repair(), folder, tmp_path / "there", shard=SMALL, ray="auto")
        limited = Compact(window=4_000, model=summarise, limit=SpendingLimit(tokens=60_000, rate=1e9))
        told = run(limited, folder, tmp_path / "told", shard=SMALL, ray="auto")
    finally:
        ray.shutdown()
    assert results(tmp_path / "here") == results(tmp_path / "there")
    assert told.counts["by summarise"] >= 1
    assert any("budget" in failure.reason for failure in told.failures)


def test_a_purse_gives_turns_and_holds_back_what_a_call_may_take() -> None:
    purse = Purse(SpendingLimit(rate=1, tokens=1_000, dollars=1.0))
    waits = [purse.take(400, 0.4), purse.take(400, 0.4)]
    assert waits[0] == 0
    assert 30 < waits[1] <= 60
    assert purse.take(400, 0.0) < 0
    assert purse.take(0, 0.4) < 0
    purse.settle(-300, -0.3)
    assert 60 < purse.take(400, 0.4) <= 120
    assert purse.spent()[0] == 900
    assert purse.spent()[1] == pytest.approx(0.9)
    for wrong in ({"rate": 0}, {"tokens": -1}, {"dollars": 0}):
        with pytest.raises(SettingsError, match="above 0"):
            SpendingLimit(**wrong)


def test_however_a_corpus_is_named_and_split_every_session_is_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [json.dumps(session(number), ensure_ascii=number % 2 == 0) for number in range(24)]
    (folder / "all.jsonl").write_text("\r\n".join(lines[:9]) + "\n\n" + "\n".join(lines[9:]), encoding="utf-8")
    whole: Any = None
    for source in (folder, folder / "all.jsonl", folder / "*.jsonl", tmp_path / "**" / "a*.jsonl"):
        for size in (1, 9_999, 10**9) if source == folder else (50_000,):
            out = tmp_path / f"{abs(hash((str(source), size)))}"
            report = run(Measure(), str(source), out, shard=size)
            found = sorted((row["id"], row["line"], row["digest"], row["tokens"]) for row in rows(out))
            whole = whole or found
            assert found == whole or str(source).startswith(str(tmp_path / "**"))
            assert (report.sessions, report.failures) == (24, ())
    assert [line for _, line, _, _ in sorted(whole, key=lambda row: row[1])] == [*range(1, 10), *range(11, 26)]


def test_a_parquet_row_is_a_session(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        (tmp_path / "x.parquet").touch()
        with pytest.raises(NotInstalled, match=r"unabridged\[corpus\]"):
            run(Measure(), tmp_path / "x.parquet", tmp_path / "out")
        pytest.skip("Parquet is read with pyarrow: pip install 'unabridged[corpus]'")
    import pyarrow as pa
    from pyarrow import parquet

    chats = [session(number) for number in (0, 4, 8, 12)]  # OpenAI's Chat
    folder = tmp_path / "in"
    folder.mkdir()
    parquet.write_table(pa.Table.from_pylist(chats), folder / "structs.parquet", row_group_size=3)
    texts = [{**chat, "messages": json.dumps(chat["messages"])} for chat in (*chats, session(1))]
    parquet.write_table(pa.Table.from_pylist(texts), folder / "texts.parquet")
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, (*chats, session(1)))))
    (folder / "broken.parquet").write_bytes(b"PAR1 no")
    report = run(Repair(), folder, tmp_path / "out", jobs=2)
    assert places(report.failures) == [("broken.parquet", 0)]
    by_file: dict[str, list[Any]] = {}
    for row in rows(tmp_path / "out"):
        by_file.setdefault(row["file"], []).append((row["id"], row["line"], row["format"], row["messages"]))
    assert by_file["texts.parquet"] == by_file["lines.jsonl"]
    assert [row[:3] for row in by_file["structs.parquet"]] == [row[:3] for row in by_file["lines.jsonl"][:4]]
    assert all(len(row[3]) == len(session(4 * i)["messages"]) for i, row in enumerate(by_file["structs.parquet"]))


def test_every_work_does_what_its_command_does_with_one_session(tmp_path: Path) -> None:
    for number in (0, 1, 2):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{FORMATS[number]}.json").write_text(json.dumps(session(number)))
    for work, arguments in (
        (Compact(window=4_000), ("--window", "4k")),
        (Check(providers=("anthropic",)), ("--provider", "anthropic")),
        (Measure(), ()),
    ):
        run(work, tmp_path / "in", tmp_path / work.name)
        for row in rows(tmp_path / work.name):
            alone = command(
                work.name,
                tmp_path / "in" / row["file"],
                "--json",
                *arguments,
                *(["--thread", row["receipt"]["thread"]] if row.get("receipt") else ()),
            ).json
            same = {"messages", "tokens", "tokens_before", "tokens_after", "findings", "shares", "crossed"} & set(row)
            assert {name: row[name] for name in same} == {name: alone[name] for name in same}
            assert same
    scored = run(Evaluate(window=8_000, budgets=(200,), arms=("tail",)), SESSION, tmp_path / "eval")
    alone = command("eval", SESSION, "--window", "8k", "--budget", "200", "--arm", "tail", "--json", "-").json
    assert [row["needs"] for row in rows(tmp_path / "eval")] == [alone["needs"]]
    assert scored.counts["tail 200: cuts"] == alone["needs"][0]["cuts"]


def test_an_archive_gets_the_originals_and_gives_them_back(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    work = Compact(window=4_000, archive=url, namespace="corpus")
    first = run(work, folder, tmp_path / "out", shard=SMALL, jobs=2)
    assert first.counts["changed"] >= 10
    run(work, folder, tmp_path / "again", shard=SMALL)
    assert results(tmp_path / "out") == results(tmp_path / "again"), "what is in the archive is found there"
    with Compactor(archive=url, namespace="corpus") as compactor:
        for row in rows(tmp_path / "out"):
            if row["changed"] and not row["line"]:
                original = load(folder / row["file"])
                assert compactor.replay(row["messages"], thread=row["receipt"]["thread"]) == original.messages


def test_what_an_engine_prints_stays_out_of_the_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prints(*given: Any, **how: Any) -> Any:
        sys.stdout.write("(raylet) A worker died\n")
        return run(*given, **how)

    monkeypatch.setattr("unabridged_cli.commands.corpus.run", prints)
    done = command("corpus", "measure", corpus(tmp_path / "in") / "a", tmp_path / "out", "-j", "1", "--json")
    assert done.json["sessions"] > 0
    assert "A worker died" in done.err


def test_the_command_tells_what_failed_and_refuses_what_it_would_spoil(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in")
    done = command("corpus", "check", folder, tmp_path / "out", "--jobs", "1", "--json")
    assert done.code == 1
    assert [(one["file"], one["line"]) for one in done.json["failures"]] == BAD
    shown = command("corpus", "measure", folder, tmp_path / "measured", "-j", "1")
    assert shown.code == 1
    assert "bad.json: bad.json is not JSON" in shown.err
    assert "3 sessions failed, and the rest is done" in shown.err
    good = command("corpus", "measure", str(folder / "a" / "*.json"), tmp_path / "good", "-j", "1")
    assert (good.code, good.err) == (0, "")
    assert "16 sessions, 16 of them now" in good.out
    assert command("corpus", "check", str(folder / "codex.jsonl"), tmp_path / "refused", "-j", "1").code == 1
    for arguments, said in (
        ((folder, tmp_path / "out"), "another work"),
        ((folder, folder), "another folder for the results"),
        ((folder / "a", folder), "another folder for the results"),
        ((folder / "a", folder / "a" / "b"), "holds other files"),
        ((folder, folder / "bad.json"), "is a file"),
        ((tmp_path / "nowhere", tmp_path / "new"), "there is no file or folder"),
        ((folder / "*.txt", tmp_path / "new"), "matches no file"),
        ((folder, tmp_path / "new", "--shard", "much"), "a size"),
        ((folder, tmp_path / "new", "--format", "carrier-pigeon"), "unknown format"),
    ):
        refused = command("corpus", "measure", *arguments)
        assert refused.code == 2
        assert said in refused.line
    assert "name one" in command("corpus", "compact", folder, tmp_path / "new", "--rate", "5").line
    assert not (tmp_path / "new").exists()
    if importlib.util.find_spec("ray") is None:
        assert (
            "pip install 'unabridged[ray]'"
            in command("corpus", "measure", folder, tmp_path / "ray", "--ray", "auto").line
        )
