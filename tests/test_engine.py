"""The engine: what each situation ends in."""

from __future__ import annotations

import asyncio
import copy
import itertools
import os
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from conversations import anthropic_round, assistant, chat_round, long_chat, responses_round, system, user
from unabridged import Compactor, Settings, WontFit, check
from unabridged.archive.memory import MemoryArchive
from unabridged.archive.protocol import Part, Record, Scope
from unabridged.archive.secrets import mask
from unabridged.errors import ArchiveError, SettingsError
from unabridged.events import Compacted, Compacting, Event, Failed, Unchanged, Undone
from unabridged.formats import detect


def compactor(window: int = 4_000, **options: Any) -> Compactor:
    return Compactor(window=window, archive=options.pop("archive", "memory:"), **options)


def texts(messages: list[Any]) -> str:
    format_ = detect(messages)
    return "\n".join(format_.read(message).whole_text() for message in messages)


def chat_of(engine: Compactor, tokens: int) -> list[Any]:
    """A plain chat of about so many tokens, never more."""
    turns = 1
    while engine.plan(long_chat(turns + 1, words=8)).tokens <= tokens:
        turns += 1
    return long_chat(turns, words=8)


def rounds(count: int, size: int = 40) -> list[Any]:
    """One request and so many tool rounds."""
    messages: list[Any] = [user("Please migrate the billing service to the new queue.")]
    for i in range(count):
        body = " ".join(f"line{i}-{j}" for j in range(size))
        messages += chat_round(f"read_{i}", body, path=f"src/billing/part_{i}.py")
    return messages


# --- below the trigger ------------------------------------------------------------------------------------------------


def test_below_the_trigger_fit_returns_the_very_list_it_was_given() -> None:
    # R8
    messages = long_chat(3)
    fitted = compactor(100_000).fit(messages, thread="t")
    assert fitted.messages is messages
    assert not fitted.changed
    assert fitted.receipt is None
    assert 0 < fitted.tokens_before == fitted.tokens_after


def test_only_what_is_new_is_measured() -> None:
    # R8, R9
    seen: list[Any] = []

    def counter(messages: list[Any], tools: Any) -> int:
        seen.extend(messages)
        return 10 * len(messages) + (5 if tools else 0)

    engine = compactor(100_000, counter=counter)
    messages = long_chat(50)
    engine.fit(messages, thread="t")
    seen.clear()
    messages = [*messages, user("one more")]
    engine.fit(messages, thread="t")
    assert seen == [user("one more")]
    engine.fit(copy.deepcopy(messages), thread="t")
    assert seen == [user("one more")]


def test_a_message_whose_text_was_replaced_is_noticed_at_the_next_call() -> None:
    engine = compactor(100_000)
    messages = long_chat(5)
    before = engine.fit(messages, thread="t").tokens_before
    messages[2]["content"] = "much longer " * 2_000
    assert engine.fit(messages, thread="t").tokens_before > before + 1_000
    messages[2] = user("short")
    assert engine.fit(messages, thread="t").tokens_before < before


def test_a_change_deep_inside_a_message_is_noticed_before_a_compaction() -> None:
    engine = compactor(4_000)
    parts = [{"type": "text", "text": "secret word alpha"}]
    messages = [{"role": "user", "content": parts}, assistant("ok"), *long_chat(1)]
    engine.fit(messages, thread="t")
    parts[0]["text"] = "secret word omega"
    fitted = engine.fit([*messages, *long_chat(30)], thread="t")
    assert fitted.changed
    assert engine.replay(fitted.messages, thread="t")[0]["content"][0]["text"] == "secret word omega"


def test_system_prompt_and_tools_are_counted() -> None:
    # R7
    engine = compactor(100_000)
    bare = engine.fit(long_chat(2), thread="a").tokens_before
    tools = [{"type": "function", "function": {"name": "f", "description": "word " * 500, "parameters": {}}}]
    full = engine.fit(long_chat(2), thread="b", system="word " * 500, tools=tools).tokens_before
    assert full > bare + 900


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_a_long_chat_becomes_summary_acknowledgment_and_tail() -> None:
    # R27
    messages = [system("Be brief."), *long_chat(40)]
    engine = compactor()
    fitted = engine.fit(messages, thread="t")
    assert fitted.changed
    assert fitted.tokens_after <= engine.limits.budget < fitted.tokens_before
    assert fitted.messages[0] is messages[0]
    assert fitted.messages[1]["role"] == "user"
    assert fitted.messages[1]["content"].startswith("[unabridged summary ")
    assert fitted.messages[2]["role"] == "assistant"
    assert fitted.messages[-1] is messages[-1]
    assert check(fitted.messages) == []


def test_the_receipt_says_why_when_what_and_where() -> None:
    messages = long_chat(40)
    fitted = compactor().fit(messages, thread="t")
    receipt = fitted.receipt
    assert receipt is not None
    assert receipt.thread == "t"
    assert "of 3,400 tokens" in receipt.reason
    assert receipt.turns[0][0] == 0
    assert (receipt.messages_before, receipt.messages_after) == (len(messages), len(fitted.messages))
    assert (receipt.tokens_before, receipt.tokens_after) == (fitted.tokens_before, fitted.tokens_after)
    assert (receipt.archive, receipt.summariser) == ("memory:", "model-free")


def test_fit_on_its_own_output_changes_nothing() -> None:
    engine = compactor()
    fitted = engine.fit(long_chat(40), thread="t")
    again = engine.fit(fitted.messages, thread="t")
    assert again.messages is fitted.messages


def test_replay_gives_the_original_and_undo_the_list_before() -> None:
    # R40
    engine = compactor()
    messages = long_chat(40)
    first = engine.fit(messages, thread="t").messages
    grown = [*first, *long_chat(40)]
    second = engine.fit(grown, thread="t")
    assert second.changed
    assert engine.replay(second.messages, thread="t") == [*messages, *long_chat(40)]
    assert engine.undo(second.messages, thread="t") == grown
    assert engine.undo(engine.undo(second.messages, thread="t"), thread="t") == [*messages, *long_chat(40)]


def test_the_earlier_summary_is_folded_into_the_new_one_never_stacked() -> None:
    # R25
    engine = compactor()
    messages: list[Any] = []
    for i in range(12):
        messages = engine.fit([*messages, *long_chat(12), assistant(f"end of part {i}")], thread="t").messages
        assert sum("[unabridged summary " in str(message["content"]) for message in messages) <= 1


def test_without_a_thread_one_is_derived_and_found_again_after_a_compaction() -> None:
    engine = compactor()
    messages = long_chat(40)
    first = engine.fit(messages)
    second = engine.fit([*first.messages, *long_chat(40)])
    assert first.thread == second.thread
    assert engine.replay(second.messages) == [*messages, *long_chat(40)]
    assert engine.fit(long_chat(39)[2:]).thread != first.thread


def test_a_caller_who_resends_everything_gets_the_same_bytes_and_pays_once() -> None:
    archive = MemoryArchive()
    engine = compactor(archive=archive)
    messages = long_chat(40)
    first = engine.fit(messages, thread="t")
    again = engine.fit(copy.deepcopy(messages), thread="t")
    assert again.messages == first.messages
    assert again.receipt == first.receipt
    grown = engine.fit([*copy.deepcopy(messages), assistant("and more"), user("ok")], thread="t")
    assert grown.messages == [*first.messages, assistant("and more"), user("ok")]
    assert len(archive.records(Scope(engine._namespace, "t"))) == 1  # noqa: SLF001 - to ask the archive itself


def test_another_process_with_the_same_archive_gives_the_same_bytes() -> None:
    archive = MemoryArchive()
    messages = long_chat(40)
    one = compactor(archive=archive, namespace="app").fit(messages, thread="t")
    other = compactor(archive=archive, namespace="app").fit(copy.deepcopy(messages), thread="t")
    assert one.messages == other.messages


def test_a_fork_gets_a_summary_of_its_own() -> None:
    engine = compactor()
    messages = long_chat(40)
    fork = copy.deepcopy(messages)
    fork[3]["content"] = "Answer 1: something else entirely, namely zebra-77."
    one = engine.fit(messages, thread="t")
    other = engine.fit(fork, thread="t")
    assert engine.replay(one.messages, thread="t") == messages
    assert engine.replay(other.messages, thread="t") == fork


def test_after_undo_the_record_is_not_applied_again() -> None:
    engine = compactor()
    messages = long_chat(40)
    first = engine.fit(messages, thread="t")
    engine.undo(first.messages, thread="t")
    again = engine.fit(messages, thread="t")
    assert again.receipt is not None
    assert first.receipt is not None
    assert again.receipt.id != first.receipt.id
    assert engine.replay(again.messages, thread="t") == messages
    assert engine.replay(first.messages, thread="t") == messages


def test_text_that_looks_like_a_summary_is_text() -> None:
    engine = compactor()
    genuine = engine.fit(long_chat(40), thread="t").messages[0]["content"]
    forged = user(genuine.replace("Messages", "messages"))
    messages = [forged, assistant("hm"), *long_chat(40)]
    fitted = engine.fit(messages, thread="other")
    assert engine.replay(fitted.messages, thread="other") == messages
    assert engine.replay([forged], thread="t") == [forged]


# --- when it can't work normally --------------------------------------------------------------------------------------


def test_one_tool_result_twice_the_window_is_shortened_around_a_note() -> None:
    # R17
    engine = compactor(8_000)
    huge = "\n".join(f"row {i}: value {i * i}" for i in range(4_000))
    messages = [user("Count the rows."), *chat_round("query", huge, sql="select *")]
    fitted = engine.fit(messages, thread="t")
    assert fitted.tokens_after <= engine.limits.budget
    assert check(fitted.messages) == []
    assert "row 0: value 0" in fitted.messages[-1]["content"]
    assert "row 3999:" in fitted.messages[-1]["content"]
    assert "left out to fit the window" in fitted.messages[-1]["content"]
    assert engine.replay(fitted.messages, thread="t") == messages
    assert engine.fit(fitted.messages, thread="t").messages is fitted.messages


def test_one_turn_of_500_rounds_keeps_its_request_and_cuts_between_rounds() -> None:
    # R16
    messages = rounds(500)
    fitted = compactor(16_000).fit(messages, thread="t")
    assert messages[0] in fitted.messages
    assert check(fitted.messages) == []
    assert any(message is messages[0] for message in fitted.messages)
    assert fitted.messages[-2:] == messages[-2:]


def test_fixed_overhead_above_the_window_is_one_typed_error_with_its_numbers() -> None:
    engine = compactor(4_000)
    with pytest.raises(WontFit) as raised:
        engine.fit(long_chat(3), thread="t", system="rule " * 8_000)
    error = raised.value
    assert error.overhead > error.window == 4_000
    assert error.floor > error.budget
    assert f"{error.floor:,}" in str(error)


@pytest.mark.parametrize("messages", [[], [user("hello")], [system("a"), system("b")]], ids=["empty", "one", "system"])
def test_small_conversations_are_left_alone(messages: list[Any]) -> None:
    # R19
    engine = compactor(4_000)
    assert engine.fit(messages, thread="t").messages is messages
    assert engine.compact(messages, thread="t") is None
    assert engine.replay(messages, thread="t") == messages


def test_only_system_messages_over_the_budget_wont_fit() -> None:
    # R18
    with pytest.raises(WontFit, match="system prompt"):
        compactor(1_000).fit([system("rule " * 900), system("rule " * 900)], thread="t")


def test_fifty_thousand_messages_are_compacted() -> None:
    messages = long_chat(25_000, words=6)
    engine = compactor(32_000)
    fitted = engine.fit(messages, thread="t")
    assert fitted.tokens_after <= engine.limits.budget
    assert len(engine.replay(fitted.messages, thread="t")) == len(messages) == 50_001


def test_an_irreducible_conversation_does_not_compact_again_at_every_turn() -> None:
    # R35
    events: list[Event] = []
    engine = compactor(
        4_000, on_event=events.append, settings=Settings(trigger=("fraction", 0.5), pin=lambda m: "PIN" in str(m))
    )
    pinned = user("PIN " + "fixed " * 400)
    while engine.plan([pinned, user("x")]).trigger is None:
        pinned["content"] += "fixed " * 20
    messages: list[Any] = [pinned, assistant("noted")]
    compactions = 0
    for i in range(60):
        fitted = engine.fit([*messages, user(f"turn {i}"), assistant("ok")], thread="t")
        compactions += fitted.changed
        messages = fitted.messages
    assert compactions <= 6
    assert sum(isinstance(event, Unchanged) for event in events) <= compactions + 1


def test_an_illegal_conversation_is_mended_and_that_is_said() -> None:
    messages = [user("go"), chat_round("read", "lost")[0], user("what now?"), *long_chat(40)]
    engine = compactor()
    fitted = engine.fit(messages, thread="t")
    assert check(messages) != []
    assert check(fitted.messages) == []
    assert fitted.receipt is not None
    assert any(note.startswith("repaired: ") for note in fitted.receipt.notes)
    assert engine.replay(fitted.messages, thread="t") == messages


def test_compact_leaves_calls_that_still_wait_for_an_answer_alone() -> None:
    messages = [*long_chat(40), chat_round("deploy", "later")[0]]
    engine = compactor(100_000)
    done = engine.compact(messages, thread="t")
    assert done is not None
    assert done.messages[-1] is messages[-1]


def test_off_means_no_change_on_any_path() -> None:
    engine = compactor(1_000, settings=Settings(off=True))
    messages = long_chat(40)
    assert engine.fit(messages, thread="t").messages is messages
    assert engine.compact(messages, thread="t") is None
    assert engine.plan(messages, thread="t").plan is None


def test_no_trigger_means_never_but_compact_still_works() -> None:
    # R4, R42
    engine = compactor(4_000, settings=Settings(trigger=None))
    messages = long_chat(40)
    assert engine.fit(messages, thread="t").messages is messages
    done = engine.compact(messages, thread="t")
    assert done is not None
    assert done.tokens_after < done.tokens_before


def test_compact_works_at_any_size_and_says_what_it_did() -> None:
    # R42
    engine = compactor(200_000)
    messages = long_chat(40)
    done = engine.compact(messages, thread="t")
    assert done is not None
    assert done.receipt is not None
    assert done.receipt.reason == "asked for"
    assert engine.replay(done.messages, thread="t") == messages


def test_pins_stay_and_roles_still_alternate() -> None:
    messages = long_chat(40)
    pinned = messages[10]
    fitted = compactor(settings=Settings(pin=lambda message: message is pinned)).fit(messages, thread="t")
    assert any(message is pinned for message in fitted.messages)
    roles = [message["role"] for message in fitted.messages]
    assert all(one != other for one, other in itertools.pairwise(roles))


class FullDisk(MemoryArchive):
    """An archive that can't be written."""

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        raise ArchiveError(f"no space left for {len(parts)} messages of {record.scope.thread}")


def test_when_the_archive_fails_nothing_is_evicted_and_the_turn_goes_on_while_it_fits() -> None:
    # R37
    events: list[Event] = []
    engine = compactor(4_000, archive=FullDisk(), on_event=events.append)
    messages = chat_of(engine, engine.limits.budget)
    assert engine.plan(messages).trigger is not None
    fitted = engine.fit(messages, thread="t")
    assert fitted.messages is messages
    assert "no space left" in fitted.why
    assert any(isinstance(event, Failed) and event.stage == "archive" for event in events)
    with pytest.raises(ArchiveError, match="no space left"):
        engine.fit(long_chat(60), thread="t")


# --- events, calibration, plan ----------------------------------------------------------------------------------------


def test_every_change_emits_events_in_order() -> None:
    events: list[Event] = []
    engine = compactor(on_event=events.append)
    messages = long_chat(40)
    fitted = engine.fit(messages, thread="t")
    engine.undo(fitted.messages, thread="t")
    assert [type(event) for event in events] == [Compacting, Compacted, Undone]
    done = events[1]
    assert isinstance(done, Compacted)
    assert done.before is messages
    assert done.after == fitted.messages


def test_a_listener_that_raises_changes_nothing() -> None:
    def listener(event: Event) -> None:
        raise RuntimeError(type(event).__name__)

    assert compactor(on_event=listener).fit(long_chat(40), thread="t").changed


def test_reports_of_the_provider_can_pull_the_trigger() -> None:
    # R6
    engine = compactor(8_000)
    messages = chat_of(engine, 5_000)
    fitted = engine.fit(messages, thread="t")
    assert not fitted.changed
    for _ in range(6):
        engine.observe(fitted, {"prompt_tokens": int(fitted.estimate * 1.5), "completion_tokens": 5, "total_tokens": 0})
    assert engine.fit(messages, thread="t").tokens_before > fitted.tokens_before * 1.3


def test_plan_says_what_would_happen_and_does_nothing() -> None:
    archive = MemoryArchive()
    engine = compactor(archive=archive, namespace="n")
    outlook = engine.plan(long_chat(40), thread="t")
    assert outlook.trigger is not None
    assert outlook.plan is not None
    assert outlook.plan.gone[0] == 0
    assert archive.threads("n") == []
    assert engine.plan(long_chat(2), thread="t").trigger is None
    assert "can't be made smaller" in engine.plan([system("x " * 9_000)], thread="t").why


def test_what_left_is_found_and_read_back_exactly() -> None:
    engine = compactor()
    messages = [user("The invoice id is INV-90210-ZX, keep it."), assistant("Noted."), *long_chat(40)]
    engine.fit(messages, thread="t")
    hit = engine.search("INV-90210-ZX", thread="t")[0]
    assert (hit.turn, hit.origin) == (0, "person")
    assert engine.read(hit.hash, thread="t") == messages[0]
    assert engine.search("INV-90210-ZX", thread="other") == []
    with pytest.raises(ArchiveError, match="only inside their thread"):
        engine.read(hit.hash, thread="other")
    engine.forget("t")
    assert engine.search("INV-90210-ZX", thread="t") == []


def test_redaction_keeps_secrets_out_of_summaries_and_search_and_originals_exact() -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 5
    messages = [user(f"Always use the key {secret} for the staging server."), assistant("Noted."), *long_chat(40)]
    for redact in (None, mask):
        engine = compactor(redact=redact)
        fitted = engine.fit(messages, thread="t")
        shown = secret in str(fitted.messages) or bool(engine.search(secret, thread="t"))
        assert shown is (redact is None)
        assert engine.replay(fitted.messages, thread="t") == messages


# --- other formats, threads, forks ------------------------------------------------------------------------------------


def test_thinking_bound_to_what_stood_before_is_dropped_after_a_rewrite_and_kept_where_it_must_be() -> None:
    messages: list[Any] = [user("the task")]
    for i in range(30):
        messages += anthropic_round(f"step{i}", "result " * 60, thinking=f"thought {i}")
    whole = Settings(clear=None)
    bound = Compactor(agent="claude-opus-5-5", window=4_000, archive="memory:", settings=whole)
    fitted = bound.fit(messages, thread="t")
    assert "thinking" not in str(fitted.messages)
    assert bound.replay(fitted.messages, thread="t") == messages
    signed = Compactor(agent="claude-opus-4-5", window=4_000, archive="memory:", settings=whole).fit(
        messages, thread="t"
    )
    assert signed.messages[-2] is messages[-2]


def test_responses_reasoning_stays_with_the_call_it_led_to() -> None:
    messages: list[Any] = [user("the task")]
    for i in range(30):
        messages += responses_round(f"step{i}", "result " * 60, reasoning=f"sealed-{i}")
    fitted = compactor().fit(messages, thread="t")
    kinds = [message.get("type") for message in fitted.messages]
    assert kinds[-3:] == ["reasoning", "function_call", "function_call_output"]
    assert check(fitted.messages, "openai-responses") == []


def test_async_forms_do_the_same() -> None:
    async def everything() -> None:
        engine = compactor()
        messages = long_chat(40)
        fitted = await engine.afit(messages, thread="t")
        assert fitted.changed
        assert await engine.areplay(fitted.messages, thread="t") == messages
        assert await engine.asearch("detail3x3", thread="t")
        assert await engine.aundo(fitted.messages, thread="t") == messages
        assert await engine.acompact(messages, thread="t") is not None

    asyncio.run(everything())


def test_many_threads_at_once_do_not_mix() -> None:
    engine = compactor()
    results: dict[int, bool] = {}

    def work(number: int) -> None:
        messages = [user(f"I am number {number}."), *long_chat(30 + number % 5)]
        fitted = engine.fit(messages, thread=f"t{number % 10}")
        results[number] = engine.replay(fitted.messages, thread=f"t{number % 10}") == messages

    workers = [threading.Thread(target=work, args=(i,)) for i in range(40)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == dict.fromkeys(range(40), True)


def test_memory_is_bounded_however_many_threads_there_are() -> None:
    engine = compactor(100_000)
    for i in range(2_000):
        engine.fit([user(f"hello {i}")], thread=f"t{i}")
    assert len(engine._threads._threads) <= 512  # noqa: SLF001 - the bound itself is what is promised


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # Python 3.12 warns of forking with threads: that is the point
def test_a_fork_while_a_thread_is_being_compacted_does_not_hang_the_child() -> None:
    engine = compactor(100_000)
    messages = long_chat(3)
    engine.fit(messages, thread="t")
    held = engine._threads.get(engine._scope(messages, "t"))  # noqa: SLF001 - holds the lock as a compaction would
    with held.lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if engine.fit(messages, thread="t").messages is messages else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"window": 3}, {"archive": "ftp://x"}, {"format": "xml"}, {"window": 4_000, "settings": Settings(reserve=4_000)}],
)
def test_wrong_options_are_refused_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        Compactor(**{"archive": "memory:", **wrong})
