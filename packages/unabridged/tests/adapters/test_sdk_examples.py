"""The code on the page about SDKs, run by the real clients against providers on loopback with a small window."""

from __future__ import annotations

import itertools
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import unabridged
from places import ROOT
from rows import rows
from unabridged_testing.loopback import Loopback, LoopbackReply

PAGE = ROOT / "docs" / "sdk.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
WINDOW = 6_000
DEFINED = BLOCKS[0].partition("client = ")[0]
"""What the other blocks use of the first."""
LOG = "12:00 pump 7 pressure 37, as it should be. " * 90


def script(calls: int) -> Any:
    """A model that reads so many logs before it answers, where it has a tool."""
    numbers = itertools.count()

    def answer(_: Any) -> LoopbackReply:
        number = next(numbers)
        return (
            LoopbackReply("It is log 7.") if number >= calls else LoopbackReply("", [("read_log", {"number": number})])
        )

    return answer


@rows("index", range(len(BLOCKS)))
def test_the_code_on_the_page_runs(index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = BLOCKS[index]
    loops = "read_log" in code
    with Loopback(script(9 if loops else 0), window=WINDOW) as provider:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            monkeypatch.setenv(name, provider.url)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.setenv(name, "none")
        monkeypatch.setattr(unabridged, "wrap", partial(unabridged.wrap, window=WINDOW))
        known: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
        exec(DEFINED, known)  # noqa: S102 - running the page is the test
        exec(compile(code, f"{PAGE.name}: block {index}", "exec"), known)  # noqa: S102 - running the page is the test
        if "client" in known:
            known["client"].close()
    assert (provider.refused, provider.too_long) == ([], [])
    if loops:
        assert len(provider.requests) == 10
        assert len(json.dumps(provider.requests[-1])) < 9 * len(LOG)
