"""Names of threads and namespaces: one rule, in every door and in every store."""

# ruff: noqa: SLF001 - the archive of a compactor is looked at

from __future__ import annotations

import asyncio
import sqlite3
import unicodedata
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from openai import OpenAI

import unabridged
from archive_support import new_schema, postgres_url
from cli_case import SESSION, run
from conversations import long_chat
from engine_case import compactor
from gateway_case import gateway
from provider_app import ProviderApp
from rows import rows
from unabridged import Compactor
from unabridged.adapters import kit
from unabridged.adapters.claude_agent_sdk import ArchiveSessionStore, compaction_callback
from unabridged.adapters.kit.threads import name_sub_thread
from unabridged.adapters.langchain import SummarizationMiddleware
from unabridged.adapters.strands import CompactingConversationManager
from unabridged.archive import open_archive, pins
from unabridged.archive.names import MAX_NAME_BYTES, check_name
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.postgres import open_postgres
from unabridged.errors import SettingsError
from unabridged.formats import get_format
from unabridged_cli import mcp_server
from unabridged_cli.copying import copy_archive
from unabridged_gateway.config_file import load_config
from unabridged_testing.loopback import LoopbackReply

NUMBER, ID = 7, UUID("0d5c1a52-7f1e-4f0c-9a7e-3a0a7a1f2b11")
TAKEN = {"text": ("é /..", "é /.."), "number": (NUMBER, "7"), "zero": (0, "0"), "uuid": (ID, str(ID))}
REFUSED: dict[str, Any] = {
    "bool": True, "bytes": b"t", "float": 1.5, "tuple": ("t",), "empty": "", "control": "a\nb", "delete": "\x7f",
    "c1": "\x85", "surrogate": "\ud800", "long": "x" * 513, "long in bytes": "é" * 257, "huge": 10**600,
}  # fmt: skip


@given(st.text())
def test_text_is_a_name_if_it_is_short_and_holds_no_control_character(text: str) -> None:
    kinds = {unicodedata.category(sign) for sign in text}
    if kinds & {"Cc", "Cs"} or not 1 <= len(text.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES:
        with pytest.raises(SettingsError, match=r"^namespace .* 1 to 512 bytes"):
            check_name(text, "namespace")
    else:
        assert check_name(text) == text
        assert type(check_name(text)) is str


@given(st.integers())
def test_a_number_is_its_digits(number: int) -> None:
    assert check_name(number) == str(number)


# -- every door: what it makes of a name, in an archive that is looked at afterwards -----------------------------------

TALK = long_chat(40)


def _thread_of_langgraph(name: Any, archive: Any) -> None:
    from langchain.agents import create_agent  # slow
    from langgraph.checkpoint.memory import InMemorySaver

    replies = GenericFakeChatModel(messages=iter([AIMessage("Done.")] * 3))
    middleware = SummarizationMiddleware(model=None, window=4_000, archive=archive)
    agent: Any = create_agent(replies, middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke({"messages": TALK}, {"configurable": {"thread_id": name}})


def _wrapped(name: Any, archive: Any) -> None:
    client = unabridged.wrap(OpenAI(api_key="k"), thread=name, model=None, window=4_000, archive=archive)
    client.unabridged.compactor(messages=TALK).fit(TALK, thread=client.unabridged.thread)  # type: ignore[attr-defined]


def _in_context(name: Any, archive: Any) -> None:
    with kit.thread(name) as inside:
        Compactor(window=4_000, archive=archive).fit(TALK, thread=inside)


def _strands(name: Any, archive: Any) -> None:
    manager = CompactingConversationManager(thread=name, model=None, window=4_000, archive=archive)
    manager.engine.compactor_for_records()
    Compactor(window=4_000, archive=archive).fit(TALK, thread=manager.thread)


def _by_request(name: Any, archive: Any) -> None:
    engine = kit.Engine(get_format("openai-chat"), window=4_000, archive=archive)
    kit.run(engine.request(TALK, kit.Agent(), thread=name).fit())


def _by_callback(name: Any, archive: Any) -> None:
    compaction_callback(archive, namespace=name)
    Compactor(window=4_000, archive=archive, namespace=name).fit(TALK, thread="t")


def _by_store(name: Any, archive: Any) -> None:
    pytest.importorskip("claude_agent_sdk")
    store = ArchiveSessionStore(archive, namespace=name)
    key: Any = {"project_key": "p", "session_id": "t"}
    asyncio.run(store.append(key, [{"type": "x", "uuid": "1"}]))


def _conversation_of_pydantic_ai(name: Any, archive: Any, *, by: str = "conversation_id") -> None:
    from pydantic_ai import Agent  # slow
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.test import TestModel

    from unabridged.adapters.pydantic_ai import Compaction

    history: list[ModelMessage] = [
        ModelRequest([UserPromptPart(said["content"])]) if said["role"] == "user" else ModelResponse([TextPart("Yes.")])
        for said in TALK
    ]
    thread: dict[str, Any] = {"thread": lambda _: name} if by == "thread" else {}
    agent = Agent(TestModel(), capabilities=[Compaction(window=2_000, archive=archive, model=None, **thread)])
    more = {} if thread else {"conversation_id": name}
    asyncio.run(agent.run("And now?", message_history=history, **more))


def _session_of_openai_agents(name: Any, archive: Any) -> None:
    from agents import SQLiteSession  # slow

    from unabridged.adapters.openai_agents import CompactingProvider, CompactingSession

    with closing(SQLiteSession("t")) as inner:
        inner.session_id = name
        session = CompactingSession(inner, CompactingProvider(window=4_000, archive=archive, model=None))
        Compactor(window=4_000, archive=archive).fit(TALK, thread=session.session_id)


def _session_of_adk(name: Any, archive: Any) -> None:
    from google.adk.sessions import Session  # slow

    from unabridged.adapters.google_adk import CompactionPlugin

    session = Session.model_construct(id=name, app_name="a", user_id="u")
    scope = CompactionPlugin(window=4_000, archive=archive, model=None, namespace="default").scope(session)
    Compactor(window=4_000, archive=archive).fit(TALK, thread=scope.thread)


def _session_of_agent_framework(name: Any, archive: Any) -> None:
    from agent_framework import AgentSession  # slow

    from unabridged.adapters.agent_framework import CompactionMiddleware

    compaction, session = CompactionMiddleware(window=4_000, archive=archive, model=None), AgentSession(session_id="t")
    session._session_id = name
    Compactor(window=4_000, archive=archive).fit(TALK, thread=compaction.thread_of(session))


def _memory_of_llama_index(name: Any, archive: Any) -> None:
    from llama_index.core.memory import ChatMemoryBuffer  # slow

    from unabridged.adapters.llama_index import AgentCompaction

    compaction, memory = AgentCompaction(window=4_000, archive=archive, model=None), ChatMemoryBuffer.from_defaults()
    memory.chat_store_key = name
    Compactor(window=4_000, archive=archive).fit(TALK, thread=compaction.thread_of(memory))


THREADS: dict[str, Callable[[Any, Any], object]] = {
    "fit": lambda name, archive: Compactor(window=4_000, archive=archive).fit(TALK, thread=name),
    "compact": lambda name, archive: Compactor(window=4_000, archive=archive).compact(TALK, thread=name),
    "afit": lambda name, archive: asyncio.run(Compactor(window=4_000, archive=archive).afit(TALK, thread=name)),
    "LangGraph": _thread_of_langgraph,
    "wrap": _wrapped,
    "with thread": _in_context,
    "Strands": _strands,
    "Engine.request": _by_request,
    "Pydantic AI": _conversation_of_pydantic_ai,
    "Pydantic AI, thread=": partial(_conversation_of_pydantic_ai, by="thread"),
    "OpenAI Agents": _session_of_openai_agents,
    "Google ADK": _session_of_adk,
    "Agent Framework": _session_of_agent_framework,
    "LlamaIndex": _memory_of_llama_index,
}
NAMESPACES: dict[str, Callable[[Any, Any], object]] = {
    "fit": lambda name, archive: compactor(archive=archive).fit(TALK, thread="t", namespace=name),
    "Compactor": lambda name, archive: compactor(archive=archive, namespace=name).fit(TALK, thread="t"),
    "Engine": lambda name, archive: (
        kit.Engine(get_format("openai-chat"), window=4_000, archive=archive, namespace=name)
        .compactor_for_records()
        .fit(TALK, thread="t")
    ),
    "callback": _by_callback,
    "session store": _by_store,
}
DOORS = [("thread", name) for name in THREADS] + [("namespace", name) for name in NAMESPACES]


def open_door(what: str, door: str) -> Callable[[Any, Any], object]:
    return (THREADS if what == "thread" else NAMESPACES)[door]


@rows("kind", TAKEN)
@rows(("what", "door"), DOORS)
def test_a_name_is_the_same_text_through_every_door(what: str, door: str, kind: str) -> None:
    archive = MemoryArchive()
    name, text = TAKEN[kind]
    open_door(what, door)(name, archive)
    assert [*archive.namespaces()] == ([text] if what == "namespace" else ["default"])
    assert what == "namespace" or [*archive.threads("default")] == [text]


@rows("kind", REFUSED)
@rows(("what", "door"), DOORS)
def test_what_is_no_name_is_refused_by_every_door_and_nothing_is_stored(what: str, door: str, kind: str) -> None:
    archive = MemoryArchive()
    with pytest.raises(SettingsError, match="1 to 512 bytes"):
        open_door(what, door)(REFUSED[kind], archive)
    assert not archive.namespaces()
    assert not archive.notes()


@pytest.mark.parametrize("field", ["project_key", "session_id", "subpath"])
def test_the_session_store_of_the_claude_agent_sdk_takes_the_same_names(field: str) -> None:
    archive = MemoryArchive()
    store = ArchiveSessionStore(archive)
    key: Any = {"project_key": "p", "session_id": "s", "subpath": "x"}
    for kind, name in REFUSED.items():
        if (field, kind) == ("subpath", "empty"):  # the session itself
            continue
        with pytest.raises(SettingsError, match=f"^{field} .*1 to 512 bytes"):
            asyncio.run(store.append({**key, field: name}, [{"type": "x", "uuid": "1"}]))
    assert not archive.namespaces()
    for name, text in TAKEN.values():
        if (field, name) == ("subpath", 0):
            continue
        asyncio.run(store.append({**key, field: name}, [{"type": "x", "uuid": "1"}]))
        assert asyncio.run(store.load({**key, field: text})) == [{"type": "x", "uuid": "1"}]


READS: dict[str, Callable[[Compactor, Any], object]] = {
    "search": lambda engine, name: engine.search("w", thread=name),
    "read": lambda engine, name: engine.read(0, thread=name),
    "pin": lambda engine, name: engine.pin("text", thread=name),
    "unpin": lambda engine, name: engine.unpin("text", thread=name),
    "pins": lambda engine, name: engine.pins(thread=name),
    "plan": lambda engine, name: engine.plan(TALK, thread=name),
    "replay": lambda engine, name: engine.replay(TALK, thread=name),
    "undo": lambda engine, name: engine.undo(TALK, thread=name),
    "forget": lambda engine, name: engine.forget(name),
    "threads": lambda engine, name: engine.threads(namespace=name),
    "forget a namespace": lambda engine, name: engine.forget(namespace=name),
    "copy": lambda engine, name: copy_archive(engine._archive, MemoryArchive(), namespace="n", thread=name),
    "mcp": lambda engine, name: mcp_server.serve(engine._archive, "n", name),
    "pin by hand": lambda engine, name: pins.pin(engine._archive, Scope("n", name), "text"),
    "recall": lambda engine, name: kit.Engine(get_format("openai-chat"), archive=engine._archive).scope(name),
}


@rows("kind", REFUSED)
@rows("method", READS)
def test_what_is_no_name_is_refused_by_what_reads_too(method: str, kind: str) -> None:
    with compactor() as engine, pytest.raises(SettingsError, match=r"1 to 512 bytes|must be text"):
        READS[method](engine, REFUSED[kind])


@pytest.mark.parametrize("kind", ["number", "zero", "uuid"])
def test_every_method_finds_what_was_stored_under_a_number_or_an_id(kind: str) -> None:
    name: Any
    name, text = TAKEN[kind]
    with compactor() as engine:
        fitted = engine.fit(TALK, thread=name, namespace=name)
        assert (fitted.thread, fitted.namespace) == (text, text)
        assert list(engine.threads(namespace=name)) == [text]
        assert engine.replay(fitted.messages, thread=name, namespace=name) == TALK
        engine.pin("Keep this.", thread=name, namespace=name)
        assert list(engine.pins(thread=text, namespace=text)) == ["Keep this."]
        assert list(engine.forget(name, namespace=name)) == [text]
        assert not engine.threads(namespace=text)


# -- the command line and the gateway ----------------------------------------------------------------------------------


@rows("option", ["--thread", "--namespace"])
@rows("name", ["", "a\nb", "x" * 513])
def test_the_command_line_refuses_what_is_no_name(option: str, name: str, tmp_path: Path) -> None:
    archive = f"sqlite:///{tmp_path / 'a.db'}"
    made = run("compact", SESSION, "--window", "8k", "--archive", archive, "-o", tmp_path / "o.json", option, name)
    assert (made.code, "1 to 512 bytes" in made.line) == (2, True), made.err
    with closing(open_archive(archive)) as opened:
        assert not opened.namespaces()
    for command in (("search", "word"), ("pin", "text", "--thread", "t")):
        told = run(*command, "--archive", archive, option, name)
        assert (told.code, "1 to 512 bytes" in told.err) == (2, True), told.err


def test_the_gateway_refuses_a_thread_that_is_no_name_and_takes_one_beyond_ascii(tmp_path: Path) -> None:
    provider = ProviderApp(lambda _: LoopbackReply("Hello."), window=8_000)
    body = {"model": "gpt-5", "messages": TALK}
    with (
        gateway(provider, tmp_path, window=4_000, summariser="none") as case,
        httpx.Client(base_url=case.url) as client,
    ):
        client.headers["authorization"] = "Bearer sk-1"
        for sent in (b"", b"a\tb", b"\xc2\x85", b"\xff", b"x" * 513):
            answer = client.post("/v1/chat/completions", json=body, headers=[(b"x-unabridged-thread", sent)])
            assert (answer.status_code, "1 to 512 bytes" in answer.text) == (400, True), answer.text
        assert not provider.raw
        assert not case.records()
        named = client.post("/v1/chat/completions", json=body, headers=[(b"x-unabridged-thread", "Zürich 数".encode())])
        assert named.status_code == 200, named.text
        assert {record.scope.thread for record in case.records()} == {"Zürich 数"}


def test_the_gateways_namespace_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    for text in ("''", "true", "'a\\tb'", f"'{'x' * 513}'"):
        path.write_text(f"upstream = 'https://api.openai.com'\nnamespace = {text.replace(chr(39), chr(34))}\n")
        with pytest.raises(SettingsError, match=r"namespace in .* 1 to 512 bytes"):
            load_config(path)


# -- stores ------------------------------------------------------------------------------------------------------------


@rows("table", ["namespaces", "threads", "leases", "notes"])
@rows("value", [7, 1.5, "text"])
def test_the_tables_of_sqlite_refuse_a_name_of_another_type(table: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Compactor(window=4_000, archive=f"sqlite:///{path}") as engine:
        engine.fit(TALK, thread="t")
        engine.pin("text", thread="t")
    with closing(sqlite3.connect(path)) as database:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[1] in NAMED[table]]
        for column in columns:
            with pytest.raises(sqlite3.IntegrityError, match="must be text"):
                database.execute(*INSERTS[table](column, value))
        if table != "leases":
            with pytest.raises(sqlite3.IntegrityError, match="must be text"):
                database.execute(f"UPDATE {table} SET {columns[0]} = ?", [value])  # noqa: S608 - the test's own
    assert set(columns) == NAMED[table]


NAMED = {"namespaces": {"name"}, "threads": {"name"}, "leases": {"namespace", "thread"}, "notes": {"namespace"}}
INSERTS: dict[str, Callable[[str, Any], tuple[str, list[Any]]]] = {
    "namespaces": lambda _, value: ("INSERT INTO namespaces (name) VALUES (?)", [value]),
    "threads": lambda _, value: ("INSERT INTO threads (namespace, name) VALUES (1, ?)", [value]),
    "leases": lambda column, value: (
        "INSERT INTO leases VALUES (?, ?, x'00', x'00', 0)",
        [value if column == "namespace" else b"n", value if column == "thread" else b"t"],
    ),
    "notes": lambda _, value: ("INSERT INTO notes VALUES (?, x'00', x'00')", [value]),
}


@rows("value", [7, 1.5, True])
@rows("column", ["namespaces (name)", "leases (namespace)", "leases (thread)", "notes (namespace)"])
def test_the_tables_of_postgres_refuse_a_name_of_another_type(column: str, value: Any) -> None:
    url, schema = postgres_url(), new_schema()
    with closing(open_postgres(url, schema=schema)) as archive, psycopg.connect(url) as connection:
        archive.probe()
        with pytest.raises(psycopg.errors.DatatypeMismatch):
            connection.execute(f"INSERT INTO {schema}.{column} VALUES (%s)", [value])  # noqa: S608


# -- names that are made of others -------------------------------------------------------------------------------------


def test_a_sub_agents_thread_has_a_legal_name_whatever_its_messages_say() -> None:
    assert name_sub_thread("t", "m1") == "t/m1"
    assert name_sub_thread("t", "m1", "t/before") == "t/before"
    assert name_sub_thread("t", "m1", "other/before") == "t/m1"
    assert name_sub_thread("t", "m1", "t/a\nb") == "t/m1"
    for first in ("a\nb", "x" * 600, "\ud800"):
        assert check_name(name_sub_thread("t", first)).startswith("t/")
    assert name_sub_thread("t", "x" * 600) != name_sub_thread("t", "y" * 600)
    assert name_sub_thread("x" * MAX_NAME_BYTES, "m1") == "x" * MAX_NAME_BYTES
