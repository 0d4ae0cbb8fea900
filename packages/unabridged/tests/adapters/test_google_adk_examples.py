"""The code on ADK's page, run with a scripted model over a small window."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from google_adk_case import Scripted, calls
from places import ROOT
from unabridged.archive import open_archive
from unabridged.archive.protocol import Scope

PAGE = ROOT / "docs" / "google-adk.md"
LOGS = 20


def read_log(number: int) -> str:
    """Read one log."""
    return f"{number}: " + ("pump 7 is broken" if number == LOGS else "all is well in this log " * 150)


def answer(asked: LlmRequest) -> Any:
    if not asked.tools_dict:
        return "The assistant reads one log after the other; all is well in those that it has read so far."
    last: Any = (asked.contents[-1].parts or [])[0]
    told = last.function_response.response["result"] if last.function_response else "-1"
    if "broken" in told:
        return f"It is log {LOGS}."
    return read(int(told.split(":")[0]) + 1)


def read(number: int) -> Any:
    call = types.FunctionCall(name="read_log", args={"number": number})
    return calls(0).model_copy(update={"content": types.Content(role="model", parts=[types.Part(function_call=call)])})


def test_the_code_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    model = Scripted(model="gpt-4", answering=answer, asked=[])  # which has a small window
    names: dict[str, Any] = {"model": model, "read_log": read_log}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)  # noqa: S102 - that is the test
    assert names["answer"] == f"It is log {LOGS}."
    archive = open_archive(f"sqlite:///{tmp_path / 'desk.db'}")
    assert archive.records(Scope("desk/ada", "s1"))
    archive.close()
