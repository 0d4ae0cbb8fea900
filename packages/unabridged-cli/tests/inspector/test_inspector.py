"""The inspector's door, and what it answers: nothing to strangers, nothing changed without a word, and what is true."""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from textwrap import shorten

import pytest

from hook_case import call, opencode_line, write
from hook_case import scope as session_scope
from inspector_case import PLANTED, SESSIONS, Door, inspecting, inspecting_alone, talk
from patience import PATIENCE
from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Scope
from unabridged.tokens.estimate import estimate
from unabridged_cli.clients.registry import CLIENTS
from unabridged_cli.inspector import pages
from unabridged_cli.inspector.listing import thread_id
from unabridged_cli.inspector.pages import build_frozen_page
from unabridged_cli.inspector.sessions import WORDS_CHARACTERS

MINE = Scope("mine", "talk")
PATHS = (
    "/", "/app.js", "/style.css", "/favicon.ico", "/api/archive", "/api/threads", "/api/thread?thread=x",
    f"/api/thread?thread={thread_id(MINE)}", f"/api/messages?thread={thread_id(MINE)}&first=0", "/api/nothing",
    "/api/search?query=heron", "/api/export?word=x", "/../etc/passwd", "//[", "/?", "/api/thread?thread=%00",
)  # fmt: skip


@pytest.fixture(scope="module")
def archive() -> Iterator[Archive]:
    made = open_archive("memory:")
    talk(made, *MINE, "the beginning")
    talk(made, "theirs", "other", "somebody else", rounds=60)
    yield made
    made.close()


def test_strangers_get_nothing_and_the_token_works_once(archive: Archive) -> None:
    with inspecting(archive) as door:
        for cookie in (
            "",
            "unabridged=1",
            f"{door.server.cookie}=x",
            f"{door.server.cookie}=",
            "\xff;;=",
            f"a=b; {door.server.cookie}",
        ):
            door.cookie = cookie
            for path in PATHS:
                answer = door.ask(path)
                assert answer.status == 401, (cookie, path)
                assert b"unabridged inspect" in answer.body
                assert PLANTED.encode() not in answer.body
                assert "Set-Cookie" not in answer.headers
            for token in ("", "x", door.server.url.partition("=")[2][:-1]):
                assert door.ask(f"/?token={token}").status == 401
            assert door.ask("/api/undo", "POST", {}, Origin=f"http://{door.host}").status == 401
        door.cookie = ""
        welcome = door.enter()
        assert welcome.status == 200
        name, _, rest = welcome.headers["Set-Cookie"].partition("=")
        assert name == door.server.cookie
        assert rest.partition("; ")[2] == "Path=/; HttpOnly; SameSite=Strict"
        assert rest.partition(";")[0] not in door.server.url
        assert door.ask("/").status == 200
        assert door.get("archive")["threads"] == 2
        stranger = Door(door.server)
        assert stranger.enter().status == 401
        assert door.enter().status == 200  # who has the cookie may open the address again
        assert "Set-Cookie" not in door.enter().headers


def test_another_host_name_or_origin_is_refused_even_with_the_cookie(archive: Archive) -> None:
    with inspecting(archive, write=True) as door:
        port = door.host.rpartition(":")[2]
        door.enter()
        kept = door.cookie
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1",
            "127.0.0.1:1",
            f"127.0.0.1.evil:{port}",
            "",
            None,
        ):
            for path in PATHS:
                answer = door.ask(path, Host=host)
                assert answer.status in {400, 421}, (host, path)
                assert PLANTED.encode() not in answer.body
        for origin in (
            "http://evil.example",
            "null",
            f"https://{door.host}",
            "http://127.0.0.1:1",
            f"http://localhost:{port}",
        ):
            for method in ("GET", "POST"):
                assert door.ask("/api/threads", method, {}, Origin=origin).status == 403, origin
        for site in ("cross-site", "same-site"):
            assert door.ask("/api/threads", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403
            assert door.ask("/app.js", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors").status == 403
        assert door.ask("/api/undo", "POST", {"thread": thread_id(MINE)}).status == 403, "a POST says whose it is"
        assert door.ask("/api/undo", "POST", {}, Origin=f"http://{door.host}", Content_Type="text/plain").status == 415
        assert door.ask("/api/undo", "DELETE").status == 501
        connection = http.client.HTTPConnection(door.host, timeout=PATIENCE)
        connection.putrequest("GET", "/api/archive", skip_host=True)
        for host in (door.host, "evil.example"):
            connection.putheader("Host", host)
        connection.putheader("Cookie", kept)
        connection.endheaders()
        assert connection.getresponse().status == 421
        connection.close()
        answer = door.ask("/")
        assert answer.status == 200
        assert answer.headers["Content-Security-Policy"] == pages.CONTENT_SECURITY_POLICY
        assert "unsafe" not in pages.CONTENT_SECURITY_POLICY
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert door.ask("/api/archive", Host=f"localhost:{port}").status == 200


def test_nothing_changes_without_write_and_with_it_only_by_a_word_that_works_once() -> None:
    archive = open_archive("memory:")
    talk(archive, *MINE, "the beginning")
    count = len(archive.records(MINE))
    name = thread_id(MINE)
    with inspecting(archive) as door:
        door.enter()
        for what in ("undo", "forget"):
            refused = door.post(what, thread=name)
            assert refused.status == 403
            assert "--write" in refused.json["error"]
        assert door.post("answer", word="x").status == 400
        assert door.post("nothing", thread=name).status == 400
        word = door.post("export", thread=name).json["word"]
        saved = door.ask(f"/api/export?word={word}")
        assert saved.headers["Content-Disposition"].startswith("attachment")
        assert [json.loads(line)["content"] for line in saved.body.splitlines()][1] == f"I note that {PLANTED}."
        assert door.ask(f"/api/export?word={word}").status == 400
    assert len(archive.records(MINE)) == count
    with inspecting(archive, write=True) as door:
        door.enter()
        newest = archive.records(MINE)[-1]
        asked = door.post("undo", thread=name).json
        assert newest.id in asked["question"]
        assert len(archive.records(MINE)) == count, "asked is not done"
        assert door.ask(f"/api/export?word={asked['word']}").status == 400, "a look changes nothing"
        assert door.post("answer", word=asked["word"]).json == {"undone": newest.id}
        assert door.post("answer", word=asked["word"]).status == 400
        assert [record.id for record in archive.records(MINE)][-1] != newest.id
        first, second = (door.post("undo", thread=name).json["word"] for _ in range(2))
        assert door.post("answer", word=first).status == 200
        assert "compacted again" in door.post("answer", word=second).json["error"]
        assert len(archive.records(MINE)) == count - 2
        word = door.post("forget", thread=name).json["word"]
        assert door.post("answer", word=word).json == {"forgotten": True}
        assert archive.namespaces() == []
        assert door.get("threads")["total"] == 0
        assert "no such thread" in door.ask(f"/api/thread?thread={name}").json["error"]
    archive.close()


def test_what_is_told_is_what_the_archive_has(archive: Archive) -> None:
    with inspecting(archive) as door:
        door.enter()
        name = thread_id(MINE)
        rows = door.get("threads", order="name")["rows"]
        assert [row["name"] for row in rows] == ["talk", "other"]
        assert [row["name"] for row in door.get("threads", contains="ALK")["rows"]] == ["talk"]
        space = door.get("archive")["namespaces"][1]["id"]
        assert [row["name"] for row in door.get("threads", namespace=space)["rows"]] == ["other"]
        assert door.get("threads", first=1, count=1)["total"] == 2
        thread = door.get("thread", thread=name)
        records = archive.records(MINE)
        assert [one["id"] for one in thread["compactions"]] == [record.id for record in records]
        assert thread["limits"] == {"window": 8_000, "budget": 7_200, "trigger": 6_800}
        turns = [one["turn"] for one in thread["compactions"]]
        assert turns == sorted(turns)
        parts = {(part.turn, part.hash) for part in archive.parts(MINE)}
        put_in: set[str | None] = set()
        for record in records:
            told = door.get("record", thread=name, record=record.id)
            # Every message that went, and no other, stands on the left; the turns are the archive's own.
            gone = [(turn, digest) for fate, turn, digest, _ in told["before"] if fate != "stayed"]
            assert [digest for _, digest in gone] == [item for item in record.before if isinstance(item, str)]
            assert all(row in parts or row[1] in put_in for row in gone), "an original, or what stood for one"
            put_in.update(record.after)
            assert [row[2] if row[0] != "stayed" else None for row in told["after"]] == list(record.after)
            for i, (fate, _, _, j) in enumerate(told["before"]):
                assert (fate == "went") == (j is None)
                assert j is None or told["after"][j][3] == i
            after = door.get("context", thread=name, record=record.id)
            assert [turn for turn, _ in after["rows"]] == record.data["turns"]
            assert all(
                digest in put_in if turn < 0 else digest is None or digest in put_in for turn, digest in after["rows"]
            )
            assert told["live"] is True
        assert told["summary"]["text"].startswith(f"[unabridged summary {told['id']}]")
        details = [door.get("record", thread=name, record=record.id) for record in records]
        fates = {fate for told in details for side in ("before", "after") for fate, *_ in told[side]}
        assert fates == {"stayed", "cleared", "went", "put in"}
        message = door.get("message", thread=name, turn=1)["message"]
        assert message["pieces"] == [{"whose": "the assistant wrote", "text": f"I note that {PLANTED}.", "length": 40}]
        hits, part = [], door.get("search", query="green heron")
        hits += part["found"]
        while part["next"] is not None:  # a slow machine answers in parts
            part = door.get("search", query="green heron", first=part["next"])
            hits += part["found"]
        assert {(hit["name"], hit["turn"]) for hit in hits} == {("talk", 1), ("other", 1)}
        tried = door.get("trial", thread=name, window="4k", trigger="0.5", keep="0.1")
        assert len(tried["compactions"]) > len(records)
        assert tried["limits"]["trigger"] == 2_000
        for one in tried["compactions"]:
            assert {"goes", "stays"} <= {run["fate"] for run in one["messages"]}
            assert all(run["why"] and run["count"] > 0 for run in one["messages"])
        went = [run["turns"] for run in tried["compactions"][0]["messages"] if run["fate"] in {"goes", "quoted"}]
        assert went[0][0] == 0
        assert "can't read a window" in door.ask(f"/api/trial?thread={name}&window=big").json["error"]
        for odd in ("thread=%ff", "thread=", "first=x", f"thread={name}&first=-9", f"thread={name}&first=" + "9" * 400):
            assert door.ask(f"/api/messages?{odd}").status in {200, 400, 404}


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    """The archive that hooks write to."""
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("UNABRIDGED_ARCHIVE", url)
    made = open_archive(url)
    yield made
    made.close()


@pytest.mark.parametrize("client", SESSIONS)
def test_a_session_is_told_by_client_project_first_words_and_the_clients_own_compactions(
    hooks: Archive, tmp_path: Path, client: str
) -> None:
    recorded, project, summaries = SESSIONS[client]
    lines = recorded.read_bytes().splitlines(keepends=True)
    path = tmp_path / recorded.name
    for stop in (len(lines) // 2, len(lines)):  # in two copies, as it grew
        path.write_bytes(b"".join(lines[:stop]))
        call(path, "PreCompact")
    scope = session_scope(client)
    with inspecting(hooks) as door:
        door.enter()
        (row,) = door.get("threads")["rows"]
        thread = door.get("thread", thread=row["id"])
        for told in (row, thread):
            assert told["session"]["client"] == CLIENTS[client].title
            assert told["session"]["project"] == project
            first = next(part for part in hooks.parts(scope) if part.origin == "person")
            assert told["words"] == shorten(first.text, WORDS_CHARACTERS, placeholder="…") != ""
        assert row["compactions"] == len(summaries)
        assert thread["count"] == len(summaries)
        made = thread["compactions"]
        assert tuple(one["summary"] for one in made) == summaries
        assert [one["turn"] for one in made] == [turn + 1 for turn in summaries]
        assert all(one["before"] > 0 and one["after"] > 0 for one in made)
        assert [one["created"] for one in made] == written(lines)
        texts = [part.text for part in hooks.parts(scope, summaries[-1])]
        assert thread["tokens"] == sum(map(estimate, texts))
        hits = door.get("search", query=row["words"].split()[0])["found"]
        assert hits[0]["session"] == row["session"]
        assert hits[0]["words"] == row["words"]
    assert build_frozen_page(hooks, scope).count("<script") == 2


def written(lines: list[bytes]) -> list[float]:
    """When the client's summaries were written, as the file says it."""
    summaries = [raw for raw in lines if re.search(rb'"(isCompactSummary": ?true|type": ?"compact(ed|ion)")', raw)]
    return [datetime.fromisoformat(json.loads(raw)["timestamp"]).timestamp() for raw in summaries]


def test_a_session_of_opencode_has_its_project_from_the_event(hooks: Archive, tmp_path: Path) -> None:
    said = [opencode_line("user", "Fix the tides."), opencode_line("assistant", "All is said.", **{"from": "summary"})]
    call(write(tmp_path / "s.jsonl", said), "PreCompact")
    with inspecting(hooks) as door:
        door.enter()
        (row,) = door.get("threads")["rows"]
        assert row["session"]["project"] == "/home/ada"
        assert row["compactions"] == 1
        assert door.get("thread", thread=row["id"])["compactions"][0]["created"] is None, "its lines have no times"


def test_a_thread_that_only_has_a_sessions_name_is_none() -> None:
    archive = open_archive("memory:")
    talk(archive, "mine", "claude-code:3f2a", "the beginning", rounds=60)
    with inspecting(archive) as door:
        door.enter()
        (row,) = door.get("threads")["rows"]
        assert row["session"] is None
        assert row["words"].startswith("the beginning")
        assert row["compactions"] == len(archive.records(Scope("mine", "claude-code:3f2a")))
    archive.close()


def test_a_thread_that_was_forgotten_elsewhere_is_said_to_be_gone() -> None:
    made = open_archive("memory:")
    talk(made, *MINE, "the beginning", rounds=60)
    with inspecting(made) as door:
        door.enter()
        name = door.get("threads")["rows"][0]["id"]
        made.forget(MINE)
        answer = door.ask(f"/api/thread?thread={name}")
        assert answer.status == 404
        assert "forgotten" in answer.json["error"]
    made.close()


def test_the_command_prints_its_address_before_it_serves(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    made = open_archive(url)
    talk(made, *MINE, "the beginning", rounds=60)
    made.close()
    with inspecting_alone(url, tmp_path) as (address, _):
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:  # noqa: S310 - ours
            assert "HttpOnly" in answer.headers["Set-Cookie"]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address, timeout=PATIENCE)  # noqa: S310 - ours


def test_the_scripts_are_joined_whole_and_name_nothing_twice() -> None:
    script = pages.build_script()
    assert "import {" not in script
    assert "\nexport " not in script
    assert "innerHTML" not in script
    assert "eval(" not in script
    names = [
        line.split()[-1 if " " not in line else 1]
        for line in script.splitlines()
        if line.startswith(("class ", "const "))
    ]
    assert len(names) == len(set(names))
    folder = Path(pages.__file__).parent / "web"
    assert {path.name for path in folder.glob("*.js")} == set(pages.SCRIPTS)
