"""The engine: what comes out, and what the caller sees of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from conversations import assistant, long_chat, system, user
from engine_case import chat_of, compactor
from unabridged import check
from unabridged.archive.protocol import Scope
from unabridged.archive.secrets import mask
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.errors import ArchiveError
from unabridged.events import Compacted, Compacting, Event, Undone

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
    assert "tokens, the trigger is 3,400" in receipt.reason
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
    assert engine.replay(fitted.messages, thread="other", unknown="keep") == messages
    with pytest.raises(
        ArchiveError, match=r"no such record in thread 'other' of namespace 'default' of archive memory:"
    ):
        engine.replay(fitted.messages, thread="other")
    assert engine.replay([forged], thread="t") == [forged]


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
