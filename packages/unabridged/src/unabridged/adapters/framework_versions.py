"""Check that the framework of an adapter is installed in a version that it works with."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from typing import Final

from unabridged.errors import NotInstalled

LOWEST_VERSIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "agent-framework": {"agent-framework-core": "1.19.0"},
    "claude-agent-sdk": {"claude-agent-sdk": "0.2.150"},
    "crewai": {"crewai": "1.15.20"},
    "google-adk": {"google-adk": "2.9.0"},
    "langchain": {"langchain": "1.3.15", "langgraph": "1.2.11"},
    "litellm": {"litellm": "1.74.9"},
    "llama-index": {"llama-index-core": "0.14.7"},
    "openai-agents": {"openai-agents": "0.21.0"},
    "pydantic-ai": {"pydantic-ai-slim": "2.66.0"},
    "strands": {"strands-agents": "1.47.0"},
}
"""By extra, the lowest versions that pass the adapter contract (`make versions`); pyproject.toml asks for the same."""

log = logging.getLogger("unabridged")


@contextmanager
def check_framework(extra: str, part: str) -> Iterator[None]:
    """Check the installed version of a framework around its import; raise `NotInstalled` if the import fails.

    A framework that is too old but can be imported is used, with a warning in the log.
    """
    old = "; ".join(filter(None, (_describe_too_old(*requirement) for requirement in LOWEST_VERSIONS[extra].items())))
    try:
        yield
    except ImportError as error:
        raise NotInstalled(part, f"unabridged[{extra}]", f"{old}: {error}" if old else error) from error
    if old:
        log.warning("%s may not work: %s: pip install 'unabridged[%s]'", part, old, extra)


def _describe_too_old(package: str, lowest: str) -> str:
    """Return both versions in words where an older one is installed, else ""."""
    try:
        installed = version(package)
    except PackageNotFoundError:
        return ""  # the import itself says what is missing
    has, needs = zip(*zip_longest(_parse_version(installed), _parse_version(lowest), fillvalue=0), strict=True)
    return f"{package} {installed} is installed, and {lowest} or newer is needed" if has < needs else ""


def _parse_version(text: str) -> list[int]:
    """Return the numbers of a release, without what marks it as a pre-release or a local one."""
    release = re.match(r"\d+(\.\d+)*", text)
    return [int(number) for number in release[0].split(".")] if release else []
