"""The files of this folder as they are read: by language code, English where a file lacks an entry."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any


@cache
def tables() -> MappingProxyType[str, dict[str, Any]]:
    """Everything the files hold, by language code; a file need not have every entry."""
    files = sorted(Path(__file__).parent.glob("*.json"))
    return MappingProxyType({file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files})


@cache
def labels(language: str) -> MappingProxyType[str, str]:
    """Our headings and labels in this language, each in English where there is none."""
    return MappingProxyType({**tables()["en"]["words"], **tables().get(language, {}).get("words", {})})


def language_name(code: str) -> str:
    """What a language is called in English; "" for one that no file tells of."""
    name: str = tables().get(code, {}).get("name", "")
    return name
