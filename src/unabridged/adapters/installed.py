"""Which version of its framework each adapter needs, and what is said where an older one is installed, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from typing import Final

from unabridged.errors import NotInstalled

LOWEST: Final[Mapping[str, Mapping[str, str]]] = {
    "claude-agent-sdk": {"claude-agent-sdk": "0.2.150"},
    "google-adk": {"google-adk": "2.13"},
    "langchain": {"langchain": "1.3.15", "langgraph": "1.0"},
    "openai-agents": {"openai-agents": "0.24"},
    "pydantic-ai": {"pydantic-ai-slim": "2.62"},
    "strands": {"strands-agents": "1.60"},
}
"""By extra, the lowest versions that pass the adapter contract (`make versions`); pyproject.toml asks for the same."""


@contextmanager
def needed(extra: str, part: str) -> Iterator[None]:
    """Import within what an adapter needs; raise what to install where that is missing or too old."""
    try:
        for package, lowest in LOWEST[extra].items():
            _check_version(package, lowest)
        yield
    except ImportError as error:
        raise NotInstalled(part, f"unabridged[{extra}]", error) from error


def _check_version(package: str, lowest: str) -> None:
    try:
        found = version(package)
    except PackageNotFoundError:
        return  # the import itself says what is missing
    has, needs = zip(*zip_longest(_numbers(found), _numbers(lowest), fillvalue=0), strict=True)
    if has < needs:
        raise ImportError(f"{package} {found} is installed, and {lowest} or newer is needed")


def _numbers(text: str) -> list[int]:
    """The numbers of a release, without what marks it as a pre-release or a local one."""
    release = re.match(r"\d+(\.\d+)*", text)
    return [int(number) for number in release[0].split(".")] if release else []
