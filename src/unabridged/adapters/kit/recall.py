"""The recall tools for a framework: what they are called, take and answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unabridged.archive.protocol import Archive, Scope
from unabridged.formats import Format
from unabridged.recall.tools import DESCRIPTIONS, PARAMETERS, READ, SEARCH, tools

__all__ = ["DESCRIPTIONS", "PARAMETERS", "READ", "SEARCH", "look_up"]


def look_up(
    archive: Archive, scope: Scope | None, name: str, arguments: Mapping[str, Any] | str, format_: Format | None = None
) -> str:
    """What a recall tool answers in the conversation of the run that calls it: `scope`, None where it has no name."""
    if scope is None:
        return "[recall] This run has no thread, so nothing of it is kept under a name."
    return tools(archive, scope, format=format_).call(name, arguments)
