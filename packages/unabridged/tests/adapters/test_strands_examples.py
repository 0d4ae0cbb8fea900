"""The Strands example, run with a scripted model over a small window; and the code on the docs page."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from doors.strands import AskingModel
from places import ROOT
from strands_case import report
from unabridged_testing.adapter_contract import ModelReply, Seen


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("strands_agent", ROOT / "examples" / "strands_agent.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_reads_more_logs_than_its_window_holds_and_goes_on_tomorrow(tmp_path: Path) -> None:
    for i in range(20):
        tmp_path.joinpath(f"{i}.log").write_text(f"log {i}: " + "all is well " * 60)
    tmp_path.joinpath("19.log").write_text("pump 7 is broken")
    tokens: list[int] = []

    def script(seen: Seen) -> ModelReply:
        tokens.append(seen.tokens)
        if not seen.tools:
            return ModelReply("The assistant reads one log after the other; the logs say that all is well, up to now.")
        answers = [answer.text for answer in seen.views[-1].answers]
        if any("pump 7 is broken" in text for text in answers):
            return ModelReply("It is 19.log.")
        if "And yesterday?" in seen.views[-1].text:
            return ModelReply("Pump 7, as I said." if "pump 7" in seen.text else "I don't know.")
        last = int(answers[0].split()[1].rstrip(":")) if answers else -1
        return ModelReply(calls=(("read_file", {"path": str(tmp_path / f"{last + 1}.log")}),))

    logs = example()
    agent = logs.build(AskingModel(script, 6_000), tmp_path)
    assert logs.ask(agent, "Which log mentions the pump?") == "It is 19.log."
    assert max(tokens) < 6_000
    again = logs.build(AskingModel(script, 6_000), tmp_path)
    assert again.messages == agent.messages
    assert logs.ask(again, "And yesterday?") == "Pump 7, as I said."


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "strands.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("index", range(len(blocks())))
def test_the_code_on_the_docs_page_runs(index: int) -> None:
    def chatting() -> AskingModel:
        return AskingModel(lambda _: ModelReply("Hello yourself."), 20_000)

    known: dict[str, Any] = {"model": chatting(), "cheaper": chatting(), "tools": [report]}
    exec(compile(blocks()[index], f"block {index}", "exec"), known)  # noqa: S102 - running the page is the test
