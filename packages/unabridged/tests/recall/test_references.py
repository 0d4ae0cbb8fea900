"""One kind of reference: what any surface prints, every surface takes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_case import SESSION, run
from conversations import long_chat, user
from engine_case import compactor, texts
from rows import rows
from unabridged import Compactor, Settings, recall
from unabridged.archive import codec, open_archive
from unabridged.archive.protocol import Scope
from unabridged.archive.references import REFERENCE_FORMS, find_part, make_reference
from unabridged.errors import ArchiveError
from unabridged.recall.tools import tools

SCOPE = Scope("shop", "t")
WORDS = ("Oddvar", "ferry", "FB-412", "import", "test")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('references')}/archive.db"


@pytest.fixture(scope="module")
def engine(url: str) -> Compactor:
    return Compactor(window=8_000, archive=url, namespace="shop", settings=Settings(recall=True))


@pytest.fixture(scope="module")
def printed(url: str, engine: Compactor, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every reference that a surface prints for one compacted conversation, by surface."""
    messages = json.loads(SESSION.read_text())["messages"]
    fitted = engine.fit(messages, thread="t")
    archive = open_archive(url)
    agent, page = tools(archive, SCOPE), tmp_path_factory.mktemp("page") / "page.html"
    command = ("--archive", url, "--namespace", "shop")
    found: dict[str, set[str]] = {name: set() for name in ("hits", "hashes", "recall", "tools", "command line", "page")}
    for word in WORDS:
        for hit in engine.search(word, thread="t"):
            found["hits"].add(hit.ref)
            found["hashes"].add(hit.hash)
        for result in recall.search(archive, SCOPE, word).results:
            near = (result.before, result.after, *result.more)
            found["recall"] |= {result.ref, *(one.ref for one in near if one is not None)}
        found["tools"] |= set(re.findall(r"ref (\S+?),", agent.call("search_history", {"query": word})))
        shown = run("search", word, "--thread", "t", *command).out
        found["command line"] |= set(re.findall(r"ref (\S+)", shown))
        found["command line"] |= set(re.findall(r"^(\[\d+\])", shown, re.MULTILINE))
        hits = run("search", word, "--thread", "t", *command, "--json").json["results"]
        found["command line"] |= {hit["ref"] for hit in hits}
    assert run("show", "t", *command, "--html", page).code == 0
    found["page"] = set(re.findall(r'"ref":"(\d+-\w+)"', page.read_text()))
    found["summary"] = set(re.findall(r"(\[\d+\])", texts(fitted.messages)))
    found["stored"] = {digest for record in archive.records(SCOPE) for digest in record.after if digest is not None}
    archive.close()
    return found


def readers(url: str, engine: Compactor) -> dict[str, Callable[[str], Any]]:
    """Every surface that takes a reference; each gives the message, or what tells which it is."""
    archive = open_archive(url)
    command = ("--thread", "t", "--archive", url, "--namespace", "shop", "--json")

    def over_mcp(ref: str) -> str:
        mcp, server = pytest.importorskip("mcp"), pytest.importorskip("unabridged_cli.mcp_server").build_server

        async def ask() -> str:
            async with mcp.Client(server(tools(archive, SCOPE))) as client:
                answer = await client.call_tool("read_history", {"ref": ref})
                assert not answer.is_error
                return str(answer.content[0].text)

        return asyncio.run(ask())

    return {
        "Compactor.read": lambda ref: engine.read(ref, thread="t"),
        "recall.original": lambda ref: recall.original(archive, SCOPE, ref),
        "command line": lambda ref: run("read", ref, *command).json["message"],
        "tools": lambda ref: tools(archive, SCOPE).call("read_history", {"ref": ref}),
        "MCP": over_mcp,
    }


def test_every_reference_that_a_surface_prints_is_taken_by_every_other(
    url: str, engine: Compactor, printed: dict[str, set[str]]
) -> None:
    archive, doors = open_archive(url), readers(url, engine)
    for surface, refs in printed.items():
        assert refs, f"{surface} printed no reference"
        for number, ref in enumerate(sorted(refs)[:: 1 + len(refs) // 12]):
            if (turn := re.fullmatch(r"\[(\d+)\]", ref)) is not None and not archive.parts(
                SCOPE, int(turn[1]), int(turn[1]) + 1
            ):
                continue  # a turn that still stands in the context, or of which only a part was cleared
            part = find_part(archive, SCOPE, ref)
            message = codec.decode(part.body)
            for name, read in doors.items():
                if name in {"MCP", "command line"} and number % 5:
                    continue  # the same code behind a slower door
                got = read(ref)
                if isinstance(got, str):
                    assert f"ref {make_reference(SCOPE, part.turn, part.hash)}" in got, (surface, ref, name)
                else:
                    assert got == message, (surface, ref, name)
    archive.close()


def test_a_hit_says_what_read_takes() -> None:
    engine = compactor(namespace="n")
    engine.fit([user("the invoice is INV-2291"), *long_chat(40)], thread="t")
    (hit, *_) = engine.search("INV-2291", thread="t")
    assert hit.ref == make_reference(Scope("n", "t"), hit.turn, hit.hash)
    for ref in (hit.ref, hit.hash, hit.hash.removeprefix("sha256:"), hit.turn, str(hit.turn), f"[{hit.turn}]"):
        assert engine.read(ref, thread="t") == user("the invoice is INV-2291")


def test_what_a_stub_names_is_read_as_it_stands_there() -> None:
    engine = compactor(30_000, namespace="n", settings=Settings(recall=True))
    messages = json.loads(SESSION.read_text())["messages"]
    fitted = engine.fit(messages, thread="t")
    named = set(re.findall(r"full text: (\[\d+\])", texts(fitted.messages)))
    assert len(named) > 3
    assert all(engine.read(ref, thread="t") == messages[int(ref.strip("[]"))] for ref in named)
    records = set(re.findall(r"; (record [0-9a-f]{12}/\d+)", texts(fitted.messages)))
    assert len(records) > 3
    for ref in (*records, *(one.removeprefix("record ") for one in records)):
        assert engine.read(ref, thread="t") == messages[int(ref.rpartition("/")[2])]
        with pytest.raises(ArchiveError, match="no such reference in this thread"):  # a record of another thread
            engine.read(ref, thread="another")


def test_a_put_in_message_is_read_by_its_hash() -> None:
    engine = compactor(namespace="n")
    fitted = engine.fit(long_chat(40), thread="t")
    archive = engine._archive  # noqa: SLF001 - what was put in stands in the record
    (record,) = archive.records(Scope("n", "t"))
    (digest, *_) = [item for item in record.after if item is not None]
    assert engine.read(digest, thread="t") in fitted.messages
    assert "a summary said" in tools(archive, Scope("n", "t")).call("read_history", {"ref": digest})


@rows("ref", ["", "12-zz", "nonsense", "sha256:00", "0-0123456789", "x" * 500, "12 or 13", "../t", "0123456789ab/12"])
def test_what_leads_nowhere_says_what_would(ref: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    engine = Compactor(window=4_000, archive=url, namespace="n")
    engine.fit(long_chat(40), thread="t")
    with pytest.raises(ArchiveError, match="no such reference in this thread") as caught:
        engine.read(ref, thread="t")
    assert REFERENCE_FORMS in str(caught.value)
    if ref:
        said = run("read", ref, "--thread", "t", "--archive", url, "--namespace", "n")
        assert said.code == 2
        assert REFERENCE_FORMS in said.line
        assert REFERENCE_FORMS in tools(engine._archive, Scope("n", "t")).call("read_history", {"ref": ref})  # noqa: SLF001 - likewise
    engine.close()


@pytest.mark.parametrize("ref", [None, 1.5, True, b"12", ["12"]])
def test_a_reference_of_a_wrong_type_is_said(ref: Any) -> None:
    engine = compactor()
    engine.fit(long_chat(40), thread="t")
    with pytest.raises(ArchiveError, match="a reference is a text") as caught:
        engine.read(ref, thread="t")
    assert REFERENCE_FORMS in str(caught.value)


def test_a_range_of_turns_is_no_reference_to_one_message() -> None:
    engine = compactor()
    engine.fit(long_chat(40), thread="t")
    with pytest.raises(ArchiveError, match="3-9 is several turns: read one at a time, such as 3"):
        engine.read("[3-9]", thread="t")
