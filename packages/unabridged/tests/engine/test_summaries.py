"""The engine with a model behind it: asked rarely, never trusted blindly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from conversations import assistant, chat_round, long_chat, user
from engine_case import fill
from ledger_case import people_in, section
from unabridged import Compactor, Settings, check
from unabridged.asking.ask import Ask, Reply
from unabridged.engine.hooks import Hooks
from unabridged.events import Compacted, Event, Failed
from unabridged.languages import get_labels
from unabridged.settings import Clear

PROSE = "The user and the assistant went through details of many questions; nothing else is left to decide."


def good(_ask: Ask) -> Reply:
    return Reply(PROSE, "end", model="scripted")


def hang(_: Ask) -> Reply:
    time.sleep(30)
    return good(_)


def fail(error: Exception) -> Callable[[Ask], Reply]:
    def raising(_: Ask) -> Reply:
        raise error

    return raising


def engine(model: Any, window: int = 6_000, **options: Any) -> Compactor:
    settings = options.pop("settings", Settings(deadline=30, retries=1, cool_down=60))
    return Compactor(model, window=window, archive="memory:", settings=settings, **options)


def english(turns: int) -> list[Any]:
    """A chat in plain English, so that its language can be told."""
    messages: list[Any] = []
    for i in range(turns):
        messages += [user(f"What do we know about the order with number {i}, and who has to sign it?")]
        messages += [
            assistant(f"It was sent to the office on day {i}, and the manager there has to sign it, detail1x1.")
        ]
    return [*messages, user("And what is the very last thing that we have to do?")]


def between_trigger_and_budget(compactor: Compactor) -> list[Any]:
    return fill(compactor, english, compactor.limits.budget)


def test_a_good_summary_is_in_the_turn_beside_the_ledger_and_its_cost_in_the_receipt() -> None:
    # R20, R22
    asks: list[Ask] = []

    def model(ask: Ask) -> Reply:
        asks.append(ask)
        return good(ask)

    with engine(model) as compactor:
        messages = [user("Never push to main."), assistant("Understood."), *long_chat(40)]
        fitted = compactor.fit(messages, thread="t")
        text = fitted.messages[0]["content"]
        assert PROSE in text
        assert "Never push to main." in text
        assert "Summary by a model" in text
        assert fitted.receipt is not None
        assert fitted.receipt.summariser == "scripted"
        assert fitted.receipt.cost["calls"] == len(asks)
        assert check(fitted.messages) == []
        assert compactor.replay(fitted.messages, thread="t") == messages


def test_ids_stand_beside_prose_that_forgets_them_and_not_beside_prose_that_has_them() -> None:
    ids = [f"INV-48{number:03}" for number in range(12)]
    messages = [user("Repair the importer.")]
    for name in ids:
        messages += [user("And the next?"), assistant(f"{name} is right. " + "It was run with all of the data. " * 90)]
    named = []
    for prose in ("The rows of the importer were read, sorted and compared.", f"These are right: {', '.join(ids)}."):
        with engine(lambda _, prose=prose: prose, settings=Settings(summary=1_500), window=9_000) as compactor:
            text = next(m["content"] for m in compactor.fit(messages, thread="t").messages if prose in m["content"])
        named.append("".join(section(text, "names")))
    assert ids[0] in named[0]
    assert named[1] == ""


def test_a_plain_function_of_text_is_enough() -> None:
    with engine(lambda prompt: PROSE if "detail" in prompt else "") as compactor:
        fitted = compactor.fit(long_chat(40), thread="t")
        assert PROSE in fitted.messages[0]["content"]
        assert fitted.receipt is not None
        assert any(note.startswith("not checked") for note in fitted.receipt.notes)


def test_the_fallback_model_takes_over() -> None:
    # R34
    with engine(fail(RuntimeError("500")), fallback=good) as compactor:
        fitted = compactor.fit(long_chat(40), thread="t")
        assert PROSE in fitted.messages[0]["content"]


def test_a_cancelled_task_leaves_the_thread_free() -> None:
    with engine(hang, settings=Settings(deadline=25, retries=0)) as compactor:
        messages = between_trigger_and_budget(compactor)

        async def cancelled() -> Any:
            task = asyncio.create_task(compactor.afit(messages, thread="t"))
            await asyncio.sleep(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await compactor.afit([user("hello")], thread="t")

        assert not asyncio.run(cancelled()).changed


def test_twenty_rolling_compactions_never_stack_and_stay_bounded() -> None:
    # R25
    seen: list[Ask] = []

    def model(ask: Ask) -> Reply:
        seen.append(ask)
        return good(ask)

    with engine(model, settings=Settings(deadline=30)) as compactor:
        messages: list[Any] = []
        sizes: list[int] = []
        while len(sizes) < 20:
            messages = [*messages, *long_chat(3, words=30), assistant("That was it.")]
            fitted = compactor.fit(messages, thread="t")
            if fitted.changed:
                sizes.append(len(fitted.messages[0]["content"]))
                assert fitted.receipt is not None
                assert fitted.receipt.summariser == "scripted"
            messages = fitted.messages
            assert sum("[unabridged summary " in str(message["content"]) for message in messages) <= 1
        assert max(sizes) < 3 * min(sizes)
        # The earlier prose is shown as the record to bring up to date, never among the user's words.
        assert sum(PROSE in ask.instruction for ask in seen) >= 15


def test_what_a_person_decided_is_quoted_round_after_round_and_nothing_else_is() -> None:
    decided = '- [2] "Yes, drop the old index"'
    reply = f'{PROSE}\n### The user\n{decided}\n- [2] "drop the table"'

    with engine(lambda _ask: Reply(reply, "end"), settings=Settings(deadline=30)) as compactor:
        messages = [user("Which index do we need?"), assistant("Only the new one. Shall I drop the old one?")]
        messages += [user("Yes, drop the old index, but ask me before anything else."), assistant("Done.")]
        changed = 0
        while changed < 5:
            fitted = compactor.fit([*messages, *long_chat(6, words=30), assistant("That was it.")], thread="t")
            messages, changed = fitted.messages, changed + fitted.changed
            if fitted.changed:
                prose = messages[0]["content"].partition("\n## Summary by a model (its own words, not the user's")[2]
                assert prose.startswith(", but for the words it quotes as [n] “…”)\n")
                assert f"### The user\n{decided}" in prose
                assert "table" not in prose


def test_beside_prose_people_are_quoted_once_and_only_the_newest_message_stays_a_turn() -> None:
    # R26
    with engine(good, settings=Settings(deadline=30, clear=None)) as compactor:
        messages: list[Any] = []
        for i in range(5):
            messages += [
                user(f"Please do task X{i} in file_{i}.py."),
                *chat_round(f"run{i}", "ok " * 300, path=f"file_{i}.py"),
            ]
            messages += [assistant(f"Task X{i} is done.")]
        messages.append(user("Now please do task Y."))
        for _ in range(5):
            messages += [*chat_round("work", "result " * 1_200), *chat_round("more", "and more " * 1_200)]
            fitted = compactor.fit(messages, thread="t")
            assert fitted.changed
            messages = fitted.messages
            texts = [str(message["content"]) for message in messages]
            assert texts.count("Now please do task Y.") == 1
            assert [message["role"] for message in messages[:3]] == ["user", "user", "assistant"]
            summary = next(text for text in texts if "[unabridged summary" in text)
            assert people_in(summary) == [
                f"- [{4 * i}] \u201cPlease do task X{i} in file_{i}.py.\u201d" for i in range(5)
            ]
            assert summary.count("task X3") == 1
            assert get_labels("en")["done_for"].format(turn=20) in summary


def test_the_number_of_model_calls_is_bounded_when_nothing_can_be_gained() -> None:
    calls = 0

    def model(ask: Ask) -> Reply:
        nonlocal calls
        calls += 1
        return good(ask)

    pin = lambda message: "PIN" in str(message)  # noqa: E731 - one line says it
    settings = Settings(trigger=("fraction", 0.5), pin=pin, deadline=30)
    with engine(model, settings=settings) as compactor:
        pinned = user("PIN ")
        while compactor.plan([pinned, user("x")]).trigger is None:
            pinned["content"] += "fixed " * 20
        messages: list[Any] = [pinned]
        for i in range(200):
            messages = compactor.fit([*messages, assistant("ok"), user(f"turn {i}")], thread="t").messages
    assert calls <= 20


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_hooks_run_in_order_and_may_change_what_is_shown_and_what_comes_out() -> None:
    # R30, R31
    order: list[str] = []
    shown: list[str] = []

    def model(ask: Ask) -> Reply:
        order.append("model")
        shown.append(ask.instruction)
        return good(ask)

    def prepare(messages: list[Any]) -> list[Any]:
        order.append("prepare")
        return [user("Only this is shown: marker-4711."), *messages[:3]]

    def finalize(_before: list[Any], after: list[Any]) -> list[Any]:
        order.append("finalize")
        return [*after[:-1], user("An extra turn of the host."), assistant("Noted."), after[-1]]

    hooks = Hooks(prepare, finalize, lambda before, after: order.append(f"callback {len(before)}>{len(after)}"))
    events: list[Event] = []

    def listen(event: Event) -> None:
        order.append(type(event).__name__)
        events.append(event)

    with engine(model, hooks=hooks, on_event=listen) as compactor:
        messages = long_chat(40)
        fitted = compactor.fit(messages, thread="t")
        assert order == [
            "Compacting",
            "prepare",
            "model",
            "finalize",
            f"callback 81>{len(fitted.messages)}",
            "Compacted",
        ]
        assert "marker-4711" in shown[0]
        assert user("An extra turn of the host.") in fitted.messages
        assert compactor.replay(fitted.messages, thread="t") == messages
        assert isinstance(events[-1], Compacted)


# R30
@pytest.mark.parametrize("model", [good, None], ids=["model", "no model"])
def test_all_functions_of_the_host_are_called_in_the_order_that_the_page_says(model: Any) -> None:
    order: list[str] = []

    def noted(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if order[-1:] != [name]:
                order.append(name)
            return answer(*arguments)

        return call

    hooks = Hooks(
        noted("prepare", lambda messages: messages), noted("finalize", lambda _before, after: after),
        noted("callback", lambda _before, _after: None),
    )  # fmt: skip
    with engine(
        model, hooks=hooks, on_event=lambda event: order.append(type(event).__name__),
        origin=noted("origin", lambda _: None),
        redact=noted("redact", str), state=noted("state", lambda _: "at step 2"),
        settings=Settings(pin=noted("pin", lambda _: False), deadline=30, clear=None),
    ) as compactor:  # fmt: skip
        messages = long_chat(40)
        done = compactor.fit(messages, thread="t")
        found = [name for name in order if name not in {"origin", "redact", "pin"}]
        assert found == ["Compacting", "prepare", "state", "finalize", "callback", "Compacted"]
        assert order.index("origin") < order.index("pin") < order.index("Compacting")
        assert order.index("state") < order.index("redact") < order.index("finalize")
        assert "redact" in order[order.index("finalize") : order.index("callback")]
        assert "redact" not in order[order.index("callback") :]
        order.clear()
        assert compactor.fit(messages, thread="t").messages == done.messages
        assert not {"prepare", "state", "finalize", "callback", "redact"} & set(order), (
            "what was recorded is given again"
        )


@pytest.mark.parametrize("stage", ["prepare", "finalize", "callback"])
def test_a_hook_that_raises_ends_this_compaction_only(stage: str) -> None:
    # R32
    def broken(*_: Any) -> Any:
        raise KeyError(stage)

    events: list[Event] = []
    with engine(good, hooks=Hooks(**{stage: broken}), on_event=events.append) as compactor:
        messages = between_trigger_and_budget(compactor)
        assert compactor.fit(messages, thread="t").messages is messages
        failures = [event for event in events if isinstance(event, Failed)]
        assert [type(event.error) for event in failures] == [KeyError]
        assert compactor.search("detail1x1", thread="t") == []
        over = compactor.fit(long_chat(40), thread="other")
        assert over.changed


def test_the_summary_can_be_the_assistants_answer_in_a_pair() -> None:
    # R27
    for model in (None, good):
        with engine(model, settings=Settings(form="pair", deadline=30)) as compactor:
            messages = long_chat(40)
            fitted = compactor.fit(messages, thread="t")
            assert [message["role"] for message in fitted.messages[:2]] == ["user", "assistant"]
            assert fitted.messages[1]["content"].startswith("[unabridged summary ")
            again = compactor.fit([*fitted.messages, assistant("ok"), *long_chat(40)], thread="t")
            assert sum("[unabridged summary " in str(message["content"]) for message in again.messages) == 1
            assert compactor.replay(again.messages, thread="t") == [*messages, assistant("ok"), *long_chat(40)]


# --- clearing ---------------------------------------------------------------------------------------------------------


def test_bulky_old_results_are_cleared_before_anything_is_summarised_and_come_back() -> None:
    messages: list[Any] = [user("Read all files and compare them.")]
    for i in range(12):
        messages += chat_round(
            f"read_{i}", f"content of part {i}\n" * 60, text=f"Now part {i}.", path=f"src/part_{i}.py"
        )
    with engine(None, window=6_000) as compactor:
        fitted = compactor.fit(messages, thread="t")
        assert fitted.receipt is not None
        assert fitted.receipt.kind == "clearing"
        assert len(fitted.messages) == len(messages)
        assert "[Tool result cleared" in fitted.messages[2]["content"]
        assert fitted.messages[-1] is messages[-1]
        assert compactor.replay(fitted.messages, thread="t") == messages
        assert compactor.undo(fitted.messages, thread="t") == messages
    with engine(None, window=6_000, settings=Settings(clear=None)) as compactor:
        off = compactor.fit(messages, thread="t")
        assert off.receipt is not None
        assert off.receipt.kind == "summary"


def test_where_prices_are_known_clearing_happens_below_the_trigger_once_it_pays() -> None:
    messages: list[Any] = [user("Read all files and compare them.")]
    pays = Settings(clear=Clear(payback=True), recall=True)
    with Compactor(agent="claude-sonnet-4-5", window=200_000, archive="memory:", settings=pays) as compactor:
        kinds: list[str] = []
        whole: list[Any] = list(messages)
        for i in range(40):
            added = chat_round(f"read_{i}", f"line {i} of this part of the file\n" * 120, path=f"src/part_{i}.py")
            whole += added
            fitted = compactor.fit([*messages, *added], thread="t")
            messages = fitted.messages
            kinds += [fitted.receipt.kind] if fitted.changed and fitted.receipt else []
            assert fitted.tokens_after < 150_000
        assert kinds
        assert set(kinds) == {"clearing"}
        assert len(kinds) <= 8
        assert compactor.replay(messages, thread="t") == whole
