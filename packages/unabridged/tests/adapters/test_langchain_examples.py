"""The LangChain examples, run with scripted chat models over small windows; and the code on the docs page."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from langchain_support import ScriptedChat, call, work, working
from places import ROOT

SAID = "Goals: find the broken pump. Facts: the logs so far say nothing of a pump; reading goes on."


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model(script: Any, window: int) -> ScriptedChat:
    """An agent's model that also writes the summaries: an ask for one comes without the agent's tools."""

    def answered(i: int, messages: list[Any]) -> Any:
        ask = len(messages) == 1 and len(str(messages[0].content)) > 1_500
        return SAID if ask else script(i, messages)

    return ScriptedChat(script=answered, window=window, profile={"max_input_tokens": window})


def test_the_agent_example_reads_more_logs_than_its_window_holds(tmp_path: Path) -> None:
    for i in range(30):
        tmp_path.joinpath(f"{i}.log").write_text(f"log {i}: " + "all is well " * 60)
    tmp_path.joinpath("29.log").write_text("pump 7 is broken")

    def script(_: int, messages: list[Any]) -> Any:
        if "pump 7 is broken" in str(messages[-1].content):
            return "It is 29.log."
        done = [m.tool_calls[0]["args"]["path"] for m in messages if getattr(m, "tool_calls", None)]
        last = int(Path(done[-1]).stem) if done else -1
        return call("read_file", last + 1, path=str(tmp_path / f"{last + 1}.log"))

    agent = example("langchain_agent")
    reading = model(script, 5_000)
    assert agent.ask(agent.build(reading, "memory:"), "Which log mentions the pump?") == "It is 29.log."
    assert reading.log.overflows == 0


def step(messages: list[Any]) -> int:
    """The number after the last one that was worked on."""
    numbers = [m.tool_calls[0]["args"]["number"] for m in messages if getattr(m, "tool_calls", None)]
    return max(numbers, default=-1) + 1


def test_the_deep_agent_example_goes_on_for_long() -> None:
    deep = example("langchain_deep_agent")
    going_on = model(lambda _, m: working(40, size=150)(step(m), m), 16_000)
    answer, stored, said = deep.ask(deep.build(going_on, [work]), "Work through all of it.")
    assert answer == "All done."
    assert stored <= said == 82
    assert going_on.log.overflows == 0
    assert going_on.log.calls > 40


def test_the_graph_example_compacts_by_itself_and_by_hand() -> None:
    graph = example("langchain_graph")
    chatting = model(lambda i, _: f"Answer {i}: " + "as was said before " * 20, 3_000)
    built, summarization = graph.build(chatting, "memory:")
    for i in range(40):
        graph.commands(built, summarization, f"Question {i}?")
    assert chatting.log.overflows == 0
    assert "became" in graph.commands(built, summarization, "/compact")
    assert graph.commands(built, summarization, "/undo") == "Taken back."


def test_the_example_of_moving_over_runs() -> None:
    moved = example("langchain_moving_over")
    working_on = model(lambda _, m: working(40)(step(m), m), 8_000)
    assert moved.ask(moved.build(working_on, [work], archive="memory:"), "Work through all of it.") == "All done."
    assert working_on.log.overflows == 0


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "langchain.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("index", range(len(blocks())))
def test_the_code_on_the_docs_page_runs(index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chatting = ScriptedChat(script=lambda i, _: f"Answer {i}.", profile={"max_input_tokens": 20_000})
    known: dict[str, Any] = {"model": chatting, "cheaper": chatting, "tools": [work], "my_logger": lambda _: None}
    exec(compile(blocks()[index], f"block {index}", "exec"), known)  # noqa: S102 - running the page is the test


def test_the_example_for_those_who_come_from_langchain_runs() -> None:
    # R53
    page = ROOT / "docs" / "coming-from-langchain.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    chatting = model(lambda i, _: f"Answer {i}: noted.", 20_000)
    known = {"model": chatting, "tools": [work]}
    exec(compile(code, page.name, "exec"), known)  # noqa: S102 - running the page is the test
