"""The code on Pydantic AI's page, run offline from its first block to its last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from places import ROOT

PAGE = ROOT / "docs" / "pydantic-ai.md"


def test_the_code_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 3
    known: dict[str, Any] = {"model": TestModel(), "tools": []}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)  # noqa: S102 - our own page
