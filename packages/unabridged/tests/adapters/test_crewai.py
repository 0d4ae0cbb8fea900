"""CrewAI beyond the adapter contract: crews, threads of tasks, refusals, its own summary, files, and the docs page."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("crewai", reason="CrewAI can't be installed beside the others: make versions WHAT=crewai")
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from crewai_files import ImageFile, PDFFile

import unabridged
from places import ROOT
from unabridged.adapters.crewai import CrewMessages, LLMCompaction, RequestTooLong
from unabridged.archive.protocol import Scope
from unabridged.formats import Slot
from unabridged_testing.loopback import Loopback, LoopbackReply

REPORTS, WINDOW = 45, 8_000
CALLS = [LoopbackReply("", [("read_report", {"number": i})]) for i in range(REPORTS)]
FORMAT = CrewMessages()


def read_report(number: int) -> str:
    """Read a report by its number."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


def read_then_answer(messages: Any) -> LoopbackReply:
    """Read the next report; what was read last is at the end of the request."""
    read = re.search(r"Report (\d+):", str(messages[-1]))
    number = int(read[1]) + 1 if read else 0
    return CALLS[number] if number < REPORTS else LoopbackReply("Pump 37.")


@pytest.fixture
def provider() -> Iterator[Loopback]:
    with Loopback(read_then_answer, window=WINDOW) as running:
        yield running


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., LLMCompaction]]:
    made: list[LLMCompaction] = []

    def opening(**keywords: Any) -> LLMCompaction:
        made.append(LLMCompaction(**{"archive": f"sqlite:///{tmp_path / 'crew.db'}", "window": WINDOW, **keywords}))
        return made[-1]

    yield opening
    for compaction in made:
        compaction.close()


def llm_at(provider: Loopback, **keywords: Any) -> Any:
    about = {"model": "openai/gpt-5-mini", "api_key": "none", "max_retries": 0, "api": "completions", **keywords}
    return LLM(base_url=provider.url, **about)


def reader(llm: Any, **keywords: Any) -> Agent:
    about = {"role": "Reader", "goal": "Read.", "backstory": "You read.", "max_iter": 100, **keywords}
    return Agent(**about, llm=llm, tools=[tool(read_report)])


def task_for(agent: Agent, about: str = "the reports") -> Task:
    return Task(description=f"Read {about}. Which pump leaks?", expected_output="The pump.", agent=agent)


def run(*tasks: Task, is_async: bool = False) -> str:
    crew = Crew(agents=[task.agent for task in tasks], tasks=list(tasks))
    return str(asyncio.run(crew.akickoff()) if is_async else crew.kickoff())


def kept_by(task: Task) -> list[Any]:
    """The list of the executor, as it is when the task is done."""
    return list(task.agent.agent_executor.messages)


def threads(compaction: LLMCompaction) -> set[str]:
    return set(compaction.history.archive.threads("default"))


@pytest.mark.parametrize("api", ["completions", "responses"])
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_of_many_calls_is_finished_without_a_refusal_and_comes_back_exactly(
    is_async: bool, streaming: bool, api: str, provider: Loopback, make: Callable[..., LLMCompaction]
) -> None:
    if streaming and api == "responses":
        pytest.skip("CrewAI loses the calls of a streamed response, with or without us")
    compaction = make()
    task = task_for(reader(compaction.around(llm_at(provider, stream=streaming, api=api))))
    assert run(task, is_async=is_async) == "Pump 37."
    assert (len(provider.requests), provider.refused, provider.too_long) == (REPORTS + 1, [], [])
    kept = kept_by(task)
    assert [message["role"] for message in kept] == ["system", "user", *["assistant", "tool"] * REPORTS, "assistant"]
    assert threads(compaction) == {str(task.id)}
    records = compaction.history.archive.records(Scope("default", str(task.id)))
    assert records
    assert compaction.history.replay(thread=str(task.id)) == kept[:-1]


def test_each_task_has_a_thread_of_its_own_inside_that_of_the_context(
    provider: Loopback, make: Callable[..., LLMCompaction]
) -> None:
    compaction = make()
    first, second = (task_for(reader(compaction.around(llm_at(provider)))) for _ in range(2))
    with unabridged.thread("t1"):
        assert run(first, second) == "Pump 37."
    assert threads(compaction) == {f"t1/{first.id}", f"t1/{second.id}"}
    for task in (first, second):
        assert compaction.history.replay(thread=f"t1/{task.id}") == kept_by(task)[:-1]
    assert (provider.refused, provider.too_long) == ([], [])


def test_a_refused_request_is_sent_once_more_and_the_executor_keeps_all(
    provider: Loopback, make: Callable[..., LLMCompaction]
) -> None:
    compaction = make(window=100_000)
    task = task_for(reader(compaction.around(llm_at(provider))))
    assert run(task) == "Pump 37."
    assert (len(provider.requests), len(provider.too_long), provider.refused) == (REPORTS + 1, 1, [])
    assert len(kept_by(task)) == 2 * REPORTS + 3


@pytest.mark.parametrize("respect", [False, True])
def test_what_can_not_be_made_shorter_is_an_error_and_no_summary_of_crewais(
    respect: bool, provider: Loopback, make: Callable[..., LLMCompaction]
) -> None:
    provider.window = 10
    agent = reader(make().around(llm_at(provider)), respect_context_window=respect, max_retry_limit=0)
    with pytest.raises((RequestTooLong, unabridged.WontFit)):
        run(task_for(agent))
    assert (provider.requests, len(provider.too_long) <= 2) == ([], True)


def test_crewais_own_summary_does_not_come_before_ours(provider: Loopback, make: Callable[..., LLMCompaction]) -> None:
    provider.window = 100_000
    task = task_for(reader(make(window=100_000).around(llm_at(provider, model="openai/asking", custom_openai=True))))
    assert run(task) == "Pump 37."
    assert len(provider.requests) == REPORTS + 1, "CrewAI asked for a summary"
    assert len(kept_by(task)) == 2 * REPORTS + 3


def test_around_returns_the_same_class_and_leaves_the_llm_alone(
    provider: Loopback, make: Callable[..., LLMCompaction]
) -> None:
    compaction, llm = make(), llm_at(provider)
    fitted = compaction.around(llm)
    assert isinstance(fitted, type(llm))
    assert type(llm).call is not type(fitted).call
    assert "unabridged" not in repr(llm)
    assert type(reader(fitted).copy().llm) is type(fitted)
    with pytest.raises(TypeError, match="around takes an LLM of CrewAI's"):
        compaction.around("gpt-5-mini")


def test_direct_calls_are_fitted_and_a_text_is_sent_as_it_is(
    provider: Loopback, make: Callable[..., LLMCompaction]
) -> None:
    provider.script = lambda _: LoopbackReply("Noted.")
    compaction = make(thread="own")
    llm = compaction.around(llm_at(provider))
    said = [{"role": "user", "content": f"Turn {i}. " + "All is quiet in the hall. " * 30} for i in range(60)]
    listed = [message for one in said for message in (one, {"role": "assistant", "content": "Noted."})]
    asked = [*listed, {"role": "user", "content": "And now?"}]
    assert llm.call("Hello.") == "Noted."
    assert llm.call(asked) == "Noted."
    with unabridged.thread("t1"):
        assert asyncio.run(llm.acall(asked)) == "Noted."
        assert compaction.history.replay() == asked
    assert provider.requests[0]["messages"] == [{"role": "user", "content": "Hello."}]
    assert (threads(compaction), provider.too_long) == ({"own", "t1"}, [])


def test_files_are_read_as_media_and_leave_one_by_one() -> None:
    pdf, picture = PDFFile(source=b"%PDF-1.4 pages"), ImageFile(source="https://example.com/hall.png")
    message = {"role": "user", "content": "Look.", "files": {"pages": pdf, "hall": picture}}
    view = FORMAT.read(message)
    assert view.text == "Look."
    assert [(media.kind, media.mime) for media in view.media] == [("document", "application/pdf"), ("image", "")]
    assert FORMAT.edit(message, lambda _, text: text) is message

    def without_pictures(slot: Slot, text: str) -> str:
        return "[a picture]" if slot.kind == "media" and text.startswith("https:") else text

    edited = FORMAT.edit(message, without_pictures)
    assert edited["files"] == {"pages": pdf}
    assert FORMAT.read(edited).text == "Look.\n[a picture]"
    assert "files" not in FORMAT.edit(edited, lambda slot, text: "[gone]" if slot.kind == "media" else text)


# -- the page ---------------------------------------------------------------------------------------------------------


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "crewai.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_code_on_the_docs_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answers = itertools.cycle([*CALLS, LoopbackReply("37.")])
    with Loopback(lambda _: next(answers), window=WINDOW) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        known: dict[str, Any] = {"__name__": "crewai_page"}
        for block in blocks():
            exec(compile(block, "a block", "exec"), known)  # noqa: S102 - running the page is the test
        assert known["answer"] == "37."
        assert (provider.refused, len(provider.too_long)) == ([], 1)
        roles = [message["role"] for message in known["original"]]
        assert roles == ["system", "user", *["assistant", "tool"] * REPORTS]
    for name in ("compaction", "written"):
        known[name].close()
