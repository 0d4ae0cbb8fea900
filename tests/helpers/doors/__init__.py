"""One door a framework, named as its adapter: each module has a `DOOR`, and the adapter contract runs over all."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from unabridged_testing.adapter_contract import Door

APART = {"crewai": "crewai", "crewai_async": "crewai", "litellm": "litellm", "litellm_completion": "litellm"}
"""Doors whose framework can't be installed beside the others, with its name: `make versions` runs them."""


def door_named(name: str) -> Door:
    return cast("Door", import_module(f"doors.{name}").DOOR)
