"""Every class of every SDK goes into the archive and comes back: equal, of the same class, with the same fields set."""

from __future__ import annotations

import inspect

import pytest

from rows import rows
from sdk_objects import build, classes_of, state
from unabridged.archive.codec import classes, decode, encode

PACKAGES = {
    "openai.types.chat": 90,
    "openai.types.responses": 600,
    "anthropic.types": 1_800,
    "google.genai.types": 500,
    "langchain_core.messages": 35,
    "pydantic_ai.messages": 60,
}
"""Where the SDKs' messages are, and how many classes a walk must find at the least: so that none walks past them."""


WRITTEN = {
    "agents.items": 15,
    "agents.usage": 2,
    "google.adk.events": 6,
    "strands.types.content": 15,
    "strands.types.media": 10,
}
"""Where SDKs keep classes beside what goes over the wire: themselves in the process that wrote them."""


@rows("package", PACKAGES)
def test_every_class_of_the_package_comes_back_exactly(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [kind for kind in classes_of(package) if not inspect.isabstract(kind)]
    assert len(found) >= PACKAGES[package]
    for kind in found:
        value = build(kind)
        body = encode(value)
        with monkeypatch.context() as patch:
            patch.setattr(classes, "_classes_by_name", {})  # as a process that has written nothing
            for back in (decode(body), decode(encode({"content": [value]}))["content"][0]):
                assert state(back) == state(value), kind
                assert back == value, kind
                assert encode(back) == body, kind


@pytest.mark.parametrize("package", WRITTEN)
def test_every_class_of_other_packages_comes_back_exactly_where_it_was_written(package: str) -> None:
    found = [kind for kind in classes_of(package) if not inspect.isabstract(kind)]
    assert len(found) >= WRITTEN[package]
    for kind in found:
        value = build(kind)
        body = encode(value)
        assert state(decode(body)) == state(value), kind
        assert encode(decode(body)) == body, kind
