"""What LangChain's and Deep Agents' own middleware get wrong: each defect shown with theirs, and gone with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend, StateBackend
from deepagents.middleware.summarization import SummarizationMiddleware as DeepAgentsOwn
from deepagents.middleware.summarization import SummarizationToolMiddleware as TheirTool
from langchain.agents.middleware import SummarizationMiddleware as LangChainsOwn
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_support import (
    ScriptedChat,
    call,
    characters,
    create_agent,
    long_chat,
    refuse_illegal,
    rounds,
    work,
    working,
)
from unabridged.adapters.langchain import SummarizationMiddleware as Ours
from unabridged.adapters.langchain import SummarizationToolMiddleware, replay

RUN: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 300}
GOOD = "Goals: answer the person's questions. Facts: every detail was told and noted, nothing is left open."


def chat(said: Any = GOOD, window: int = 8_000, **fields: Any) -> ScriptedChat:
    return ScriptedChat(script=lambda _i, _m: said, profile={"max_input_tokens": window}, **fields)


def ours(model: Any = None, **options: Any) -> Ours:
    return Ours(model, archive="memory:", **options)


def state(update: dict[str, Any] | None) -> list[BaseMessage]:
    """The messages after a bare update; none when nothing was to be done."""
    return [m for m in (update or {"messages": []})["messages"] if not isinstance(m, RemoveMessage)]


def texts(messages: list[BaseMessage]) -> str:
    return "\n".join(str(message.content) for message in messages)


def agent_with(middleware: Any, model: ScriptedChat, **options: Any) -> Any:
    return create_agent(model, [work], middleware=[middleware], checkpointer=InMemorySaver(), **options)


def ask(agent: Any, text: str = "Work through all of it.") -> list[BaseMessage]:
    messages: list[BaseMessage] = agent.invoke({"messages": [HumanMessage(text)]}, RUN)["messages"]
    return messages


# -- what the summariser sees ------------------------------------------------------------------------------------------


def shown_of(middleware: Any, model: ScriptedChat, messages: list[BaseMessage]) -> set[str]:
    """Which of the details that went the summariser was shown."""
    kept = texts(state(middleware.before_model({"messages": messages}, None))[1:])
    went = [f"detail{i}x1 " for i in range(200) if f"detail{i}x1 " in texts(messages) and f"detail{i}x1 " not in kept]
    return {detail for detail in went if detail not in model.log.text}


def test_the_summariser_is_shown_only_the_end_of_what_goes() -> None:  # R23
    messages = long_chat(60, words=60)
    theirs, model = LangChainsOwn(seeing := chat(), trigger=("tokens", 6_000), keep=("messages", 6)), seeing
    assert len(shown_of(theirs, model, messages)) > 30
    own, model = ours(seeing := chat(), trigger=("tokens", 6_000), keep=("messages", 6)), seeing
    assert shown_of(own, model, messages) == set()


def test_a_single_turn_of_tools_loses_its_task_without_a_model_call() -> None:  # R16, R36
    messages = rounds(8, words=2_000, first="Find the leak in pump 7.")
    theirs: Any = LangChainsOwn(model := chat(), trigger=("tokens", 6_000), keep=("messages", 2))
    lost = texts(state(theirs.before_model({"messages": messages}, None)))
    assert "Previous conversation was too long to summarize" in lost
    assert "pump 7" not in lost
    assert model.log.calls == 0
    own = ours(chat(), trigger=("tokens", 6_000), keep=("messages", 2))
    kept = state(own.before_model({"messages": rounds(8, words=2_000, first="Find the leak in pump 7.")}, None))
    assert "Find the leak in pump 7." in [message.content for message in kept]


# -- what a summary may be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["", "   \n "], ids=["empty", "blank"])
def test_a_blank_summary_replaces_history(said: str) -> None:  # R36
    messages = long_chat(30)
    theirs: Any = LangChainsOwn(chat(said), trigger=("messages", 10), keep=("messages", 4))
    assert "detail3x" not in texts(state(theirs.before_model({"messages": messages}, None)))
    own = ours(asked := chat(said, window=24_000), settings=quick(trigger=("messages", 10), keep=("messages", 4)))
    assert own.before_model({"messages": long_chat(30)}, None) is None
    assert asked.log.calls >= 1


def test_a_summary_may_be_larger_than_what_it_replaces() -> None:  # R35
    before, long = long_chat(12), "And so on, and so forth. " * 3_000
    size = sum(map(characters, before))
    theirs: Any = LangChainsOwn(chat(long), trigger=("messages", 10), keep=("messages", 4))
    assert sum(map(characters, state(theirs.before_model({"messages": before}, None)))) > 5 * size
    own = ours(chat(long), trigger=("messages", 10), keep=("messages", 4))
    assert sum(map(characters, state(own.before_model({"messages": long_chat(12)}, None)))) < size


def test_a_summariser_that_is_down_ends_the_run() -> None:  # R33
    down = chat(TimeoutError("nobody there"), window=4_000)
    model = ScriptedChat(script=working(30), profile={"max_input_tokens": 4_000})
    theirs: Any = LangChainsOwn(down, trigger=("tokens", 2_000), keep=("messages", 4))
    with pytest.raises(TimeoutError):
        ask(agent_with(theirs, model))
    model = ScriptedChat(script=working(30), profile={"max_input_tokens": 4_000}, window=4_000)
    own = ours(down, settings=quick(trigger=("tokens", 2_000), keep=("messages", 4)))
    assert ask(agent_with(own, model))[-1].content == "All done."
    assert model.log.overflows == 0


def quick(**changes: Any) -> Any:
    """Settings that don't wait between retries."""
    from unabridged import Settings

    return Settings(retries=0, cool_down=0.0, **changes)


def test_literal_braces_in_a_prompt() -> None:  # R21
    prompt = 'Answer as JSON: {"facts": []}. <messages>{messages}</messages>'
    theirs: Any = LangChainsOwn(chat(), trigger=("messages", 10), keep=("messages", 4), summary_prompt=prompt)
    with pytest.raises(KeyError):
        theirs.before_model({"messages": long_chat(30)}, None)
    own = ours(model := chat(), trigger=("messages", 10), keep=("messages", 4), summary_prompt=prompt)
    assert state(own.before_model({"messages": long_chat(30)}, None))
    assert '{"facts": []}' in model.log.text


# -- what is counted ---------------------------------------------------------------------------------------------------


@tool
def heavy(number: int) -> str:
    """Placeholder."""
    return f"fact {number}"


heavy.description = "Reads one number from the plant's ledger. " * 150


def test_system_prompt_and_tools_are_not_counted() -> None:  # R7
    prompt = "Always be exact. " * 400
    for own, overflows in (
        (LangChainsOwn(chat(), trigger=("tokens", 9_000), keep=("messages", 4)), True),
        (ours(), False),
    ):
        model = ScriptedChat(script=working(60), window=11_000, profile={"max_input_tokens": 11_000})
        agent = create_agent(model, [work, heavy], middleware=[own], system_prompt=prompt)
        if overflows:
            with pytest.raises(ContextOverflowError):
                ask(agent)
        else:
            assert ask(agent)[-1].content == "All done."
            assert model.log.overflows == 0


def test_few_but_large_messages_are_never_compacted() -> None:  # R17
    large = [
        HumanMessage("Read this: " + "word " * 6_000, id="h"),
        AIMessage("Read.", id="a"),
        HumanMessage("And?", id="b"),
    ]
    theirs: Any = LangChainsOwn(chat(), trigger=("tokens", 2_000))
    assert theirs.before_model({"messages": list(large)}, None) is None
    assert sum(map(characters, state(ours(chat()).before_model({"messages": large}, None)))) < 8_000 * 4


def test_chinese_is_counted_as_if_it_were_english() -> None:  # R10
    text = "上下文窗口已经用完了我们必须压缩对话" * 800
    messages: list[BaseMessage] = [HumanMessage(text), AIMessage("好。"), HumanMessage("继续")]
    assert LangChainsOwn(chat(), trigger=("tokens", 8_000)).token_counter(messages) < 4_000
    from unabridged import Compactor
    from unabridged.adapters.langchain import LangChain

    assert Compactor(window=100_000, archive="memory:", format=LangChain()).plan(messages).tokens > 9_000


def pdf() -> list[BaseMessage]:
    block = {"type": "file", "base64": "JVBERi0xLjcK" + "A" * 600_000, "mime_type": "application/pdf"}
    text = {"type": "text", "text": "What does the contract say?"}
    return [
        HumanMessage([text, block], id="pdf"),
        AIMessage("It runs for a year.", id="a"),
        HumanMessage("Thanks", id="b"),
    ]


def test_a_pdf_is_counted_as_text() -> None:  # R12
    counted = DeepAgentsOwn(chat(), backend=StateBackend(), trigger=("tokens", 100)).token_counter(pdf())
    assert counted > 140_000
    from unabridged import Compactor
    from unabridged.adapters.langchain import LangChain

    assert Compactor(window=100_000, archive="memory:", format=LangChain()).plan(pdf()).tokens < counted / 2


def test_a_pdf_is_refused_without_a_model_call() -> None:  # R12
    def asked(middleware: Any) -> ScriptedChat:
        model = ScriptedChat(script=lambda _i, _m: "A year.", profile={"max_input_tokens": 130_000})
        agent: Any = create_deep_agent(model, middleware=[middleware])
        agent.invoke({"messages": pdf()[:1]}, RUN)
        return model

    with pytest.raises(ContextOverflowError):
        asked(DeepAgentsOwn(chat(), backend=StateBackend(), trigger=("fraction", 0.85)))
    assert asked(ours(window=130_000)).log.calls == 1


def test_a_request_that_is_too_long_all_the_same_ends_the_run() -> None:
    def run(middleware: Any) -> list[BaseMessage]:
        return ask(agent_with(middleware, ScriptedChat(script=working(30), window=2_000)))

    with pytest.raises(ContextOverflowError):
        run(LangChainsOwn(chat(), trigger=("tokens", 6_000), keep=("messages", 4)))
    assert run(ours(trigger=("tokens", 6_000), keep=("messages", 4)))[-1].content == "All done."


# -- where it is cut ---------------------------------------------------------------------------------------------------


def test_keep_near_the_trigger_summarises_at_every_call() -> None:
    def calls(middleware: Any, summariser: ScriptedChat) -> int:
        ask(agent_with(middleware, ScriptedChat(script=working(40), profile={"max_input_tokens": 16_000})))
        return summariser.log.calls

    theirs = calls(LangChainsOwn(busy := chat(), trigger=("tokens", 4_000), keep=("tokens", 3_950)), busy)
    calm = chat(window=16_000)  # as large as the window it summarises
    own = calls(ours(calm, trigger=("tokens", 4_000), keep=("tokens", 3_950)), calm)
    assert theirs >= 12
    assert own <= theirs / 3


@pytest.mark.parametrize("mode", ["replaced", "kept"])
def test_after_a_message_is_removed_the_new_one_never_reaches_the_model(mode: Any) -> None:
    def scenario(middleware: Any) -> list[BaseMessage]:
        model = ScriptedChat(script=lambda _i, _m: "Noted.", profile={"max_input_tokens": 30_000}, checked=False)
        agent = create_deep_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        agent.invoke({"messages": long_chat(30)}, RUN)
        stored = agent.get_state(RUN).values["messages"]
        gone = [RemoveMessage(id=str(m.id)) for m in stored[: len(stored) - 1]]
        agent.update_state(RUN, {"messages": gone})
        agent.invoke({"messages": [HumanMessage("The new question.")]}, RUN)
        return model.log.requests[-1]

    theirs = DeepAgentsOwn(chat(), backend=StateBackend(), trigger=("messages", 20), keep=("messages", 2))
    assert "The new question." not in texts(scenario(theirs))
    own = ours(chat(), trigger=("messages", 20), keep=("messages", 2), state=mode)
    assert "The new question." in texts(scenario(own))


def test_after_a_message_is_removed_results_are_sent_without_their_calls() -> None:
    def sent(middleware: Any) -> list[BaseMessage]:
        script = lambda i, m: working(11)(i, m) if i < 12 else "Noted."  # noqa: E731
        model = ScriptedChat(script=script, profile={"max_input_tokens": 60_000}, checked=False)
        agent = create_deep_agent(model, [work], middleware=[middleware], checkpointer=InMemorySaver())
        agent.invoke({"messages": [HumanMessage("A remark.", id="remark"), HumanMessage("Work.")]}, RUN)
        agent.update_state(RUN, {"messages": [RemoveMessage(id="remark")]})
        agent.invoke({"messages": [HumanMessage("Go on.")]}, RUN)
        return model.log.requests[-1]

    theirs = DeepAgentsOwn(chat(), backend=StateBackend(), trigger=("messages", 16), keep=("messages", 4))
    with pytest.raises(AssertionError, match="which nobody called"):
        refuse_illegal(sent(theirs))
    refuse_illegal(sent(ours(chat(), trigger=("messages", 16), keep=("messages", 4), state="kept")))


def test_a_conversation_that_came_in_broken_is_mended_and_comes_back_as_it_was() -> None:
    broken = [message for message in rounds(30) if message.id not in {"a2", "t20"}]
    broken.append(HumanMessage("Go on.", id="more"))
    with pytest.raises(AssertionError, match="which nobody called"):
        refuse_illegal(broken)
    model = ScriptedChat(script=lambda _i, _m: "Noted.", profile={"max_input_tokens": 3_000}, window=3_000)
    agent = create_agent(model, [work], middleware=[ours()], checkpointer=InMemorySaver())
    agent.invoke({"messages": broken}, RUN)
    assert model.log.calls == 1  # and the model checks what it gets
    assert replay(agent, "t")[:-1] == broken


# -- what is kept ------------------------------------------------------------------------------------------------------


LONG = "the whole text of the file " * 200
IMAGE = {"type": "image", "base64": "iVBORw0KGgo" + "B" * 5_000, "mime_type": "image/png"}
NARROW: Any = {"trigger": ("messages", 8), "keep": ("messages", 4), "max_length": 200}


def on_disk(folder: Path) -> str:
    """All that Deep Agents wrote there."""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*") if path.is_file())


def test_the_full_history_holds_truncated_arguments(tmp_path: Path) -> None:  # R37, R40
    def run(middleware: Any) -> Any:
        script = lambda i, m: call("write_file", "n", file_path="/n.txt", content=LONG) if i == 0 else working(14)(i, m)  # noqa: E731
        model = ScriptedChat(script=script, profile={"max_input_tokens": 60_000})
        agent = create_deep_agent(model, [work], middleware=[middleware], checkpointer=InMemorySaver())
        ask(agent)
        return agent

    files = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
    size: Any = {"trigger": ("messages", 16), "keep": ("messages", 4)}
    run(DeepAgentsOwn(chat(), backend=files, truncate_args_settings=NARROW, **size))
    kept = on_disk(tmp_path)
    assert "fact1x1" in kept  # the history was written
    assert LONG not in kept
    own = run(ours(chat(), backend=files, truncate_args_settings=NARROW, **size))
    said = [m for m in replay(own, "t") if isinstance(m, AIMessage) and m.tool_calls]
    assert LONG in [m.tool_calls[0]["args"].get("content") for m in said]


def test_images_are_lost_when_the_agent_compacts_itself(tmp_path: Path) -> None:  # R29, R47
    def run(middleware: Any, tools: Any) -> Any:
        def script(i: int, messages: list[BaseMessage]) -> Any:
            return call("compact_conversation", "c") if i == 12 else working(15)(i, messages)

        model = ScriptedChat(script=script, profile={"max_input_tokens": 30_000})
        agent = create_deep_agent(model, [work], middleware=[middleware, tools], checkpointer=InMemorySaver())
        said = HumanMessage([{"type": "text", "text": "Look, and then work."}, IMAGE])
        messages = agent.invoke({"messages": [said]}, RUN)["messages"]
        told = next(m for m in messages if m.type == "tool" and m.name == "compact_conversation")
        assert "ompacted" in str(told.content)
        return agent

    files = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
    theirs = DeepAgentsOwn(chat(), backend=files, trigger=("messages", 40), keep=("messages", 4))
    run(theirs, TheirTool(theirs))
    assert "fact1x1" in on_disk(tmp_path)
    assert "BBBB" not in on_disk(tmp_path)
    own = ours(chat(), trigger=("messages", 40), keep=("messages", 4))
    agent = run(own, SummarizationToolMiddleware(own))
    assert IMAGE in replay(agent, "t")[0].content


def test_the_archive_holds_arguments_and_images_whole() -> None:  # R37, R40
    image = {"type": "image", "base64": "iVBORw0KGgo" + "B" * 5_000, "mime_type": "image/png"}
    long = "the whole text of the file " * 200
    messages: list[BaseMessage] = [
        HumanMessage([{"type": "text", "text": "Look."}, image], id="h"),
        call("work", "w", content=long).model_copy(update={"id": "a"}),
        ToolMessage("written", tool_call_id="call-w", id="t"),
        *long_chat(30),
    ]
    own = ours(chat(), trigger=("messages", 20), keep=("messages", 4))
    shorter = state(own.before_model({"messages": list(messages)}, None))
    assert long not in texts(shorter)
    compactor = own.compactors.get("scripted", 8_000)
    assert compactor.replay(shorter) == messages
