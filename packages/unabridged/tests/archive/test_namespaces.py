"""One compactor, many tenants: a namespace for each call, and nothing crosses from one to another."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conversations import long_chat, user
from engine_case import compactor
from rows import rows
from unabridged import Compactor
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.errors import ArchiveError, SettingsError

TAKE_A_NAMESPACE = ("fit", "compact", "plan", "replay", "undo", "search", "read", "forget")


def told(who: str) -> list[Any]:
    return [user(f"I am {who}, and my word is secret{who}."), *long_chat(40)]


def test_every_method_that_takes_a_thread_takes_a_namespace() -> None:
    for name, method in inspect.getmembers(Compactor, inspect.isfunction):
        if name.startswith("_"):
            continue
        takes = inspect.signature(method).parameters
        assert "thread" not in takes or "namespace" in takes, name
    for name in TAKE_A_NAMESPACE:
        assert "namespace" in inspect.signature(getattr(Compactor, name)).parameters


def test_tenants_of_one_compactor_share_a_thread_name_and_nothing_else() -> None:
    engine = compactor(archive=MemoryArchive())
    fitted = {who: engine.fit(told(who), thread="t", namespace=who) for who in ("ann", "bob")}
    for who, other in (("ann", "bob"), ("bob", "ann")):
        assert fitted[who].namespace == who
        assert [hit.text for hit in engine.search(f"secret{who}", thread="t", namespace=who)]
        assert not engine.search(f"secret{other}", thread="t", namespace=who)
        assert not engine.search(f"secret{who}", thread="t")
        assert engine.replay(fitted[who].messages, thread="t", namespace=who) == told(who)
        assert engine.replay(fitted[who].messages, namespace=who) == told(who)
    engine.forget("t", namespace="ann")
    assert not engine.search("secretann", thread="t", namespace="ann")
    assert engine.undo(fitted["bob"].messages, thread="t", namespace="bob") == told("bob")


def test_a_call_without_a_namespace_is_in_the_compactors_own() -> None:
    archive = MemoryArchive()
    own, other = compactor(archive=archive, namespace="own"), compactor(archive=archive, namespace="other")
    fitted = own.fit(told("ann"), thread="t")
    assert fitted.namespace == "own"
    assert other.replay(fitted.messages, thread="t", namespace="own") == told("ann")
    assert other.plan(told("ann"), thread="t", namespace="own").why == "what was recorded of it is applied again"


def test_the_async_forms_take_it_too() -> None:
    async def everything() -> None:
        engine = compactor()
        fitted = await engine.afit(told("ann"), thread="t", namespace="ann")
        assert await engine.areplay(fitted.messages, thread="t", namespace="ann") == told("ann")
        (hit, *_) = await engine.asearch("secretann", thread="t", namespace="ann")
        assert await engine.aread(hit.hash, thread="t", namespace="ann") == told("ann")[0]
        assert await engine.aundo(fitted.messages, thread="t", namespace="ann") == told("ann")
        again = await engine.acompact(told("ann"), thread="t", namespace="ann")
        assert again is not None
        assert again.namespace == "ann"

    asyncio.run(everything())


def test_what_was_refused_is_compacted_again_in_its_own_namespace() -> None:
    archive = MemoryArchive()
    engine = compactor(archive=archive)
    fitted = engine.fit(told("ann"), thread="t", namespace="ann")
    again = engine.overflowed(fitted, "prompt is too long: 3900 tokens > 2000 maximum")
    assert again.namespace == "ann"
    assert archive.threads("ann") == ["t"]
    assert engine.replay(again.messages, thread="t", namespace="ann") == told("ann")


def aged(archive: Any, engine: Compactor, ages: dict[str, float], namespace: str = "n") -> dict[str, Any]:
    """A thread of each name, whose only compaction is so many days old; what `fit` gave for each."""
    made = MemoryArchive()
    fitted = {}
    for name, days in ages.items():
        one = compactor(archive=made, namespace=namespace)
        fitted[name] = one.fit(told(name), thread=name)
        (record,) = made.records(Scope(namespace, name))
        parts = [*made.parts(record.scope), *_put_in(made, record)]
        archive.store(replace(record, created=time.time() - days * 86_400), parts)
    assert set(ages) <= set(engine.threads(namespace=namespace))
    return fitted


def _put_in(archive: MemoryArchive, record: Any) -> list[Any]:
    from unabridged.archive.references import find_part

    return [find_part(archive, record.scope, digest) for digest in record.after if digest is not None]


def test_a_tenant_is_forgotten_whole() -> None:
    engine = compactor()
    for who in ("ann", "bob"):
        for thread in ("one", "two"):
            engine.fit(told(who), thread=thread, namespace=who)
    assert list(engine.namespaces()) == ["ann", "bob"]
    assert list(engine.threads(namespace="ann")) == ["one", "two"]
    assert list(engine.forget(namespace="ann")) == ["one", "two"]
    assert list(engine.namespaces()) == ["bob"]
    assert not engine.search("secretann", thread="one", namespace="ann")
    assert engine.search("secretbob", thread="one", namespace="bob")
    assert list(engine.forget(namespace="ann")) == []
    assert list(engine.forget("one", namespace="bob")) == ["one"]
    assert list(engine.forget("one", namespace="bob")) == []


@pytest.mark.parametrize(
    "older_than",
    [
        timedelta(days=30),
        datetime.now(UTC) - timedelta(days=30),
        datetime.now().astimezone().replace(tzinfo=None) - timedelta(days=30),
    ],
)
def test_what_is_older_is_forgotten_and_the_rest_still_replays(older_than: Any) -> None:
    archive = MemoryArchive()
    engine = compactor(archive=archive, namespace="n")
    fitted = aged(archive, engine, {"fresh": 1, "month": 29, "old": 31, "ancient": 400})
    aged(archive, engine, {"other": 400}, "elsewhere")
    assert list(engine.forget(older_than=older_than)) == ["ancient", "old"]
    assert list(engine.threads()) == ["fresh", "month"]
    assert list(engine.threads(namespace="elsewhere")) == ["other"]
    assert engine.replay(fitted["month"].messages, thread="month") == told("month")
    assert list(engine.forget(namespace="elsewhere", older_than=older_than)) == ["other"]
    assert not archive.verify()


@rows(
    ("given", "says"),
    [
        ({}, "without any it would be everything"),
        ({"older_than": 30}, "timedelta or a datetime"),
        ({"older_than": "30d"}, "timedelta or a datetime"),
        ({"older_than": timedelta(0)}, "not in the past"),
        ({"older_than": timedelta(days=-1)}, "not in the past"),
        ({"older_than": datetime.now(UTC) + timedelta(days=1)}, "not in the past"),
        ({"thread": "t", "older_than": timedelta(days=1)}, "one thread's name, or older_than"),
        ({"thread": ("t",)}, "thread must be text"),
    ],
)
def test_what_would_forget_too_much_or_nothing_is_refused(given: dict[str, Any], says: str) -> None:
    engine = compactor()
    engine.fit(told("ann"), thread="t")
    with pytest.raises(SettingsError, match=says):
        engine.forget(**given)
    assert list(engine.threads()) == ["t"]


def test_a_namespace_that_can_not_go_whole_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    archive = open_sqlite(path)
    engine = compactor(archive=archive, namespace="n")
    aged(archive, engine, {"a": 1, "b": 1, "c": 1})
    with sqlite3.connect(path) as connection:
        stop = "CREATE TRIGGER stop BEFORE DELETE ON threads WHEN OLD.name = CAST('c' AS BLOB) BEGIN SELECT RAISE"
        connection.execute(f"{stop}(ABORT, 'not this one'); END")
    connection.close()
    with pytest.raises(ArchiveError, match="not this one"):
        engine.forget(namespace="n")
    assert list(engine.threads()) == ["a", "b", "c"]
    assert not archive.verify()
    assert all(engine.search(f"secret{name}", thread=name) for name in "abc")
    archive.close()
