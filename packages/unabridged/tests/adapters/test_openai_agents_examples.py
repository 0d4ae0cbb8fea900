"""The code on the page about OpenAI Agents runs as it stands there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from places import ROOT

PAGE = ROOT / "docs" / "openai-agents.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_whole_example_finds_the_pump_and_keeps_all_reports(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[-1], PAGE.name, "exec"), {"__name__": "example"})  # noqa: S102 - that is the test
    answer, sizes = capsys.readouterr().out.splitlines()
    read, whole = map(int, sizes.split())
    assert answer == "It is report 29."
    assert read < whole / 2


def test_the_short_blocks_need_nothing_but_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"tools": [], "__name__": "example"}
    for block in BLOCKS[:-1]:
        exec(compile(block, PAGE.name, "exec"), names)  # noqa: S102 - that is the test
    assert {"ask", "ask_without_session", "config"} <= set(names)
    provider = names["provider"]
    asyncio.run(provider.aclose())  # type: ignore[attr-defined]
    names["session"].close()  # type: ignore[attr-defined]
