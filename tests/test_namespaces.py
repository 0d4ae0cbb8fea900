"""One compactor, many tenants: a namespace for each call, and nothing crosses from one to another."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from conversations import long_chat, user
from engine_case import compactor
from unabridged import Compactor
from unabridged.archive.memory import MemoryArchive
from unabridged.errors import SettingsError

TAKE_A_NAMESPACE = ("fit", "compact", "plan", "replay", "undo", "search", "read", "forget")


def told(who: str) -> list[Any]:
    return [user(f"I am {who}, and my word is secret{who}."), *long_chat(40)]


def test_every_method_that_takes_a_thread_takes_a_namespace() -> None:
    for name, method in inspect.getmembers(Compactor, inspect.isfunction):
        if name.startswith("_"):
            continue
        takes = inspect.signature(method).parameters
        assert ("thread" in takes) == ("namespace" in takes), name
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
    assert other.plan(told("ann"), thread="t", namespace="own").plan is not None


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


@pytest.mark.parametrize("wrong", [7, b"ann", ("ann",), True])
def test_a_namespace_is_a_text(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="namespace must be a text"):
        compactor().fit(told("ann"), thread="t", namespace=wrong)
