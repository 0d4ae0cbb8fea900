"""Every class of every SDK goes into the archive and comes back: equal, of the same class, with the same fields set."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pydantic
import pytest

from sdk_objects import build, classes_of
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


def state(value: Any) -> Any:
    """All that is in the value, with the class of everything: what must be the same."""
    if isinstance(value, pydantic.BaseModel):
        beside = (value.model_extra, value.__pydantic_private__, value.model_fields_set)
        return type(value), {name: state(item) for name, item in value.__dict__.items()}, state(beside)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
        return type(value), {name: state(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return type(value), [(key, state(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [state(item) for item in value]
    return type(value), value


@pytest.mark.parametrize("package", PACKAGES)
def test_every_class_of_the_package_comes_back_exactly(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [kind for kind in classes_of(package) if not inspect.isabstract(kind)]
    assert len(found) >= PACKAGES[package]
    for kind in found:
        value = build(kind)
        body = encode(value)
        with monkeypatch.context() as patch:
            patch.setattr(classes, "_written", {})  # as a process that has written nothing
            for back in (decode(body), decode(encode({"content": [value]}))["content"][0]):
                assert state(back) == state(value), kind
                assert back == value, kind
                assert encode(back) == body, kind
