"""A pinned text stands in every summary turn of its thread, byte for byte, and goes when the thread is forgotten."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from cli_case import run
from conversations import assistant, user
from rows import rows
from unabridged import Compactor, wrap
from unabridged.adapters.agent_framework import CompactionMiddleware
from unabridged.adapters.google_adk import CompactionPlugin
from unabridged.adapters.langchain import SummarizationMiddleware
from unabridged.adapters.llama_index import AgentCompaction
from unabridged.adapters.openai_agents import CompactingProvider
from unabridged.adapters.pydantic_ai import Compaction
from unabridged.adapters.strands import CompactingConversationManager
from unabridged.archive import open_archive
from unabridged.archive.encrypted import EncryptedArchive, new_key
from unabridged.archive.pins import LONGEST_PIN, MOST_PINS
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.errors import SettingsError
from unabridged_cli.copying import copy_archive

PIN = "Never push to main.\n## Not a heading\n~~~\n<system>éclair 漢字</system>"


def chat(turns: int, start: int = 0) -> list[dict[str, Any]]:
    said = [(user(f"Read part {i}."), assistant(f"Part {i} is fine. " * 40)) for i in range(start, start + turns)]
    return [message for pair in said for message in pair] + [user("And now?")]


def compactor(archive: Any = "memory:", **keywords: Any) -> Compactor:
    return Compactor(window=2_000, archive=archive, namespace="n", **keywords)


def summary(messages: list[dict[str, Any]]) -> str:
    return str(next(m["content"] for m in messages if m["content"].startswith("[unabridged summary")))


def test_a_pin_stands_in_the_turn_byte_for_byte_from_the_next_compaction_on() -> None:
    with compactor() as engine:
        first = engine.fit(chat(12), thread="t").messages
        engine.pin(PIN, thread="t")
        assert engine.fit(first, thread="t").messages == first, "below the trigger nothing changes"
        assert PIN not in summary(first)
        second = engine.fit([*first, *chat(12, 12)], thread="t").messages
        assert PIN in summary(second)
        assert list(engine.pins(thread="t")) == [PIN]
        assert engine.unpin(PIN, thread="t")
        assert not engine.unpin(PIN, thread="t")
        assert PIN not in summary(engine.fit([*second, *chat(12, 24)], thread="t").messages)


def test_a_pin_is_no_part_of_a_records_key() -> None:
    history = chat(12)
    with compactor() as engine:
        sent = engine.fit(history, thread="t").messages
        engine.pin(PIN, thread="t")
        again = compactor(engine._archive)  # noqa: SLF001 - another process on the same archive
        assert again.fit(list(history), thread="t").messages == sent


def test_a_pin_is_one_threads_and_one_namespaces() -> None:
    with compactor() as engine:
        engine.pin("here", thread="t")
        engine.pin("elsewhere", thread="t", namespace="other")
        assert list(engine.pins(thread="t")) == ["here"]
        assert list(engine.pins(thread="u")) == []
        assert list(engine.pins(thread="t", namespace="other")) == ["elsewhere"]
        engine.pin("here", thread="t")
        assert list(engine.pins(thread="t")) == ["here"], "pinned once"


@pytest.mark.parametrize("store", ["memory", "sqlite", "dir", "encrypted"])
def test_forgetting_a_thread_leaves_nothing_of_its_pins(store: str, tmp_path: Path) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path}/a.db", "dir": f"dir://{tmp_path}/a"}
    archive = EncryptedArchive(MemoryArchive(), new_key()) if store == "encrypted" else None
    with compactor(archive or open_archive(urls.get(store, "memory:"))) as engine:
        engine.fit(chat(12), thread="t")
        engine.pin("the pinned walrus", thread="t")
        engine.pin("the other seal", thread="u")
        engine.forget("t")
        assert list(engine.pins(thread="t")) == []
        assert list(engine.pins(thread="u")) == ["the other seal"]
        engine._archive.close()  # noqa: SLF001 - what is on disk is looked at
    left = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"walrus" not in left


def test_pins_are_copied_with_their_thread_and_with_no_other() -> None:
    source, one, all_ = MemoryArchive(), MemoryArchive(), MemoryArchive()
    with compactor(source) as engine:
        for thread in ("t", "u"):
            engine.fit(chat(12), thread=thread)
            engine.pin(f"pinned to {thread}", thread=thread)
    copy_archive(source, one, namespace="n", thread="t")
    copy_archive(source, all_)
    assert [list(compactor(one).pins(thread=thread)) for thread in ("t", "u")] == [["pinned to t"], []]
    assert [list(compactor(all_).pins(thread=thread)) for thread in ("t", "u")] == [["pinned to t"], ["pinned to u"]]


@rows("text", ["", "  \n", None, 7, b"x", "x" * (LONGEST_PIN + 1)])
def test_what_is_no_pin_is_refused_and_nothing_is_stored(text: Any) -> None:
    with compactor() as engine:
        with pytest.raises(SettingsError):
            engine.pin(text, thread="t")
        assert list(engine.pins(thread="t")) == []


def test_a_thread_has_a_bounded_number_of_pins() -> None:
    with compactor() as engine:
        for i in range(MOST_PINS):
            engine.pin(f"pin {i}", thread="t")
        with pytest.raises(SettingsError, match="unpin one first"):
            engine.pin("one more", thread="t")


async def _unblocked() -> list[str]:
    with compactor() as engine:
        await engine.apin("a", thread="t")
        await engine.apin("b", thread="t")
        assert await engine.aunpin("a", thread="t")
        return list(await engine.apins(thread="t"))


def test_an_event_loop_is_not_blocked() -> None:
    assert asyncio.run(_unblocked()) == ["b"]


def test_the_command_line_pins_lists_and_unpins(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    with Compactor(window=2_000, archive=url) as engine:
        engine.fit(chat(12), thread="t")
    where = ("--thread", "t", "--archive", url)
    assert run("pin", "Never push.", *where).out.startswith("Pinned. Thread t has 1 pin.")
    assert json.loads(run("pin", "Use tabs.", *where, "--json").out)["pins"] == ["Never push.", "Use tabs."]
    assert "- Never push.\n- Use tabs." in run("pins", *where).out
    assert run("unpin", "Never push.", *where).code == 0
    missing = run("unpin", "Never push.", *where)
    assert missing.code == 2
    assert "no pin with this text" in missing.err
    with Compactor(window=2_000, archive=url) as engine:
        assert list(engine.pins(thread="t")) == ["Use tabs."]


@pytest.mark.parametrize(
    "make",
    [
        lambda archive: SummarizationMiddleware(archive=archive, window=2_000),
        lambda archive: CompactingProvider(archive=archive),
        lambda archive: Compaction(archive=archive),
        lambda archive: CompactionPlugin(archive=archive),
        lambda archive: CompactingConversationManager(archive=archive),
        lambda archive: CompactionMiddleware(archive=archive),
        lambda archive: AgentCompaction(archive=archive),
    ],
    ids=["langchain", "openai_agents", "pydantic_ai", "google_adk", "strands", "agent_framework", "llama_index"],
)
def test_every_adapter_pins(make: Any) -> None:
    archive = MemoryArchive()
    door = make(archive)
    door.pin("a", thread="t")
    door.pin("b", thread="t")
    assert door.unpin("a", thread="t")
    assert list(door.pins(thread="t")) == ["b"]
    with Compactor(window=2_000, archive=archive) as engine:
        assert list(engine.pins(thread="t")) == ["b"]


def test_a_wrapped_client_pins_to_its_own_thread() -> None:
    archive = MemoryArchive()
    client: Any = wrap(OpenAI(api_key="none"), thread="t", archive=archive, window=2_000)
    client.unabridged.pin("a")
    client.unabridged.pin("b", thread="u")
    assert [list(client.unabridged.pins(thread=thread)) for thread in (None, "u")] == [["a"], ["b"]]
    assert client.unabridged.unpin("a")
