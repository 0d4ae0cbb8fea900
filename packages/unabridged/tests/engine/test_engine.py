"""The engine: what comes out, and what the caller sees of it."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import (
    anthropic_round,
    assistant,
    chat_round,
    converse_round,
    gemini_round,
    long_chat,
    responses_round,
    system,
    user,
)
from effort import examples
from engine_case import chat_of, compactor, rounds
from rows import rows
from unabridged import Settings, check
from unabridged.archive.protocol import Scope
from unabridged.archive.secrets import mask
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.errors import ArchiveError
from unabridged.events import Compacted, Compacting, Event, Undone
from unabridged.formats import FORMATS
from unabridged.languages import get_labels
from unabridged.marks import list_separator_texts

ROUNDS: dict[str, Any] = {
    "openai-chat": chat_round, "openai-responses": responses_round, "anthropic": anthropic_round,
    "gemini": gemini_round, "bedrock-converse": converse_round,
}  # fmt: skip

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


def test_a_long_chat_becomes_a_summary_and_the_tail() -> None:
    # R27
    messages = [system("Be brief."), *long_chat(40)]
    engine = compactor()
    fitted = engine.fit(messages, thread="t")
    assert fitted.changed
    assert fitted.tokens_after <= engine.limits.budget < fitted.tokens_before
    assert fitted.messages[0] is messages[0]
    assert fitted.messages[1]["role"] == "user"
    assert fitted.messages[1]["content"].startswith("[unabridged summary ")
    assert_the_tail_follows(messages, fitted.messages[2:])
    assert check(fitted.messages) == []


def assert_the_tail_follows(messages: list[Any], kept: list[Any]) -> None:
    """What is left is the end of the conversation, the same objects, and nothing else."""
    assert kept
    assert all(one is other for one, other in zip(messages[-len(kept) :], kept, strict=True))


def turns_of_work(format_: str, number: int) -> list[Any]:
    """So many requests of a person, each with a round of tools and an answer; the last is still being worked on."""
    make, round_ = FORMATS[format_].text, ROUNDS[format_]
    messages: list[Any] = []
    for i in range(number):
        result = f"pressure of pump {i} as it should be\n" * 30
        messages += [make("user", f"Read log {i}."), *round_(f"read_log_{i}", result, log=i)]
        messages += [make("assistant", f"Log {i} is clean.")] * (i < number - 1)
    for i in range(4):
        messages += round_(f"look_again_{i}", f"pressure of pump {i} as it should be\n" * 30, log=i)
    return messages


@pytest.mark.parametrize("format_", [format_ for format_ in FORMATS if format_ != "bedrock-converse"])
def test_no_turn_is_invented_and_no_user_turn_stays_but_the_tails_and_the_newest(format_: str) -> None:
    engine = compactor(4_000, format=format_, settings=Settings(clear=None))
    messages: list[Any] = []
    said = turns_of_work(format_, 40)
    compactions = 0
    for number, message in enumerate(said, 1):
        messages.append(message)
        if FORMATS[format_].read(message).role == "assistant":
            continue
        fitted = engine.fit(messages, thread="t")
        messages = list(fitted.messages)
        if not fitted.changed:
            continue
        compactions += 1
        place = next(i for i, m in enumerate(messages) if "[unabridged summary " in str(m))
        assert place == 0
        behind = messages[1:]
        own = {id(one) for one in said}
        assert all(id(one) in own for one in behind), "nothing is put in but the summary"
        assert len({id(one) for one in behind}) == len(behind)
        views = [FORMATS[format_].read(one) for one in behind]
        people = [i for i, view in enumerate(views) if view.role == "user" and not view.answers]
        newest = next(one for one in reversed(said[:number]) if is_request(format_, one))
        assert behind[people[-1]] is newest
        tail = behind[1:] if people == [0] else behind
        assert_the_tail_follows(said[:number], tail or behind)
    assert compactions >= 3


def is_request(format_: str, message: Any) -> bool:
    view = FORMATS[format_].read(message)
    return view.role == "user" and not view.answers


def test_for_converse_a_turn_is_put_in_only_where_two_of_one_side_would_meet() -> None:
    format_ = "bedrock-converse"
    messages = turns_of_work(format_, 24)
    fitted = compactor(8_000, format=format_, settings=Settings(clear=None)).fit(messages, thread="t")
    own = {id(one) for one in messages}
    summary, acknowledgment, *behind = fitted.messages
    assert "[unabridged summary " in str(summary)
    assert FORMATS[format_].read(acknowledgment).text in list_separator_texts()
    assert all(id(one) in own for one in behind)
    assert check(fitted.messages, format=format_) == []


def test_a_system_message_in_the_middle_for_anthropic_may_need_a_turn_beside_it() -> None:
    messages = [m for i in range(40) for m in (user(f"Ask {i}. " + "word " * 60), assistant(f"Told {i}."))]
    messages = [*messages[:20], user("Be careful now."), system("Be brief."), *messages[21:], user("And now?")]
    fitted = compactor(format="anthropic").fit(messages, thread="t")
    own = {id(one) for one in messages}
    put_in = [one["content"] for one in fitted.messages if id(one) not in own]
    assert sum(text.startswith("[unabridged summary ") for text in put_in) == 1
    assert len(put_in) <= 3
    assert all(text.startswith("[unabridged summary ") or text in list_separator_texts() for text in put_in)
    assert any(one is messages[21] for one in fitted.messages)
    assert check(fitted.messages, format="anthropic") == []


def test_where_the_tail_has_no_message_of_a_person_the_newest_stands_before_it_and_closes_the_summary() -> None:
    # R16
    messages = [*long_chat(3), assistant("That is all."), *rounds(60)]
    fitted = compactor(settings=Settings(clear=None)).fit(messages, thread="t")
    summary, newest, *tail = fitted.messages
    number = next(i for i, message in enumerate(messages) if message is newest)
    assert newest["content"] == "Please migrate the billing service to the new queue."
    assert_the_tail_follows(messages, tail)
    closing = f"Message {number} of the user follows; what is told from [{number}] on was done for it."
    body, mark, _ = summary["content"].rpartition("\n\n[end of summary ")
    assert mark
    assert body.endswith(f"\n\n{closing}")
    assert newest["content"] not in summary["content"], "what stays is pointed at, not repeated"


def test_where_the_tail_has_a_message_of_a_person_no_other_stays_and_nothing_is_said_of_it() -> None:
    messages = long_chat(40)
    fitted = compactor().fit(messages, thread="t")
    assert_the_tail_follows(messages, fitted.messages[1:])
    assert "of the user follows" not in fitted.messages[0]["content"]


# --- the form of the summary ------------------------------------------------------------------------------------------


def test_the_form_pair_is_a_question_and_the_summary_as_its_answer() -> None:
    # R27
    messages = long_chat(40)
    fitted = compactor(settings=Settings(form="pair")).fit(messages, thread="t")
    question, summary, *tail = fitted.messages
    assert (question["role"], summary["role"]) == ("user", "assistant")
    assert question["content"] == get_labels("en")["question"]
    assert summary["content"].startswith("[unabridged summary ")
    if tail[1]["role"] == "assistant":
        assert tail.pop(0) == user(get_labels("en")["bridge"])
    assert_the_tail_follows(messages, tail)


def test_the_form_alternate_is_summary_acknowledgment_and_tail_where_two_user_turns_would_meet() -> None:
    # R27
    messages = long_chat(40)
    engine = compactor(settings=Settings(form="alternate", keep=("messages", 3)))
    summary, acknowledgment, *tail = engine.fit(messages, thread="t").messages
    assert summary["content"].startswith("[unabridged summary ")
    assert (summary["role"], acknowledgment["role"], tail[0]["role"]) == ("user", "assistant", "user")
    assert acknowledgment["content"] == get_labels("en")["acknowledgment"]
    assert_the_tail_follows(messages, tail)


def test_the_form_alternate_puts_nothing_in_where_the_tail_begins_with_the_assistant() -> None:
    messages = [*long_chat(40)[:-1], user("One more: " + "word " * 400), assistant("Fine. " * 20), user("Go on.")]
    engine = compactor(settings=Settings(form="alternate", keep=("messages", 2)))
    summary, *tail = engine.fit(messages, thread="t").messages
    assert summary["content"].startswith("[unabridged summary ")
    assert tail[0]["role"] == "assistant"
    assert_the_tail_follows(messages, tail)


@settings(max_examples=examples(10, 30), deadline=None)
@given(
    st.lists(st.integers(1, 120), min_size=16, max_size=40),
    st.sampled_from(["alternate", "pair"]),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.integers(1, 6),
)
def test_two_turns_of_one_side_never_follow_each_other_where_turns_alternate(
    sizes: list[int], form: Any, first: int, instructed: bool, keep: int
) -> None:
    # R27
    how = Settings(form=form, keep=("messages", keep))
    messages: list[Any] = [system("Be brief.")] * instructed
    changed = 0
    with compactor(2_000, settings=how) as engine:
        for i, size in enumerate(sizes, first):
            make = assistant if i % 2 else user
            messages.append(make(" ".join(f"word{i}x{j}" for j in range(size))))
            if i % 2:
                continue
            fitted = engine.fit(messages, thread="t")
            messages, changed = list(fitted.messages), changed + fitted.changed
            roles = [message["role"] for message in messages[instructed:]]
            assert all(one != other for one, other in itertools.pairwise(roles)), roles
        done = engine.compact(messages, thread="t")
    roles = [message["role"] for message in (done.messages if done else messages)[instructed:]]
    assert all(one != other for one, other in itertools.pairwise(roles)), roles
    assert changed or sum(sizes) < 1_000


# --- a trigger in messages --------------------------------------------------------------------------------------------


@rows("words", [0, 1, 60, 600])
@rows("model", [None, lambda _: "They filed the green folder, and nothing else is left to decide."])
def test_a_trigger_in_messages_leaves_the_summary_and_what_is_kept_whatever_their_size(words: int, model: Any) -> None:
    # R35
    messages = [user(f"Message {i}." + " Please file the green folder." * words) for i in range(1, 6)]
    how = Settings(trigger=("messages", 3), keep=("messages", 1))
    fitted = compactor(100_000, model=model, settings=how).fit(messages, thread="t")
    summary, kept = fitted.messages
    assert summary["content"].startswith("[unabridged summary ")
    assert kept is messages[-1]


def test_a_trigger_in_messages_never_takes_the_request_above_a_trigger_in_tokens() -> None:
    # R35
    how = Settings(trigger=[("messages", 4), ("tokens", 500)], keep=("messages", 1))
    compacted = 0
    for words in range(1, 120, 3):
        messages = [user(f"Message {i}." + " word" * words) for i in range(1, 6)]
        engine = compactor(100_000, settings=how)
        fitted = engine.fit(messages, thread="t")
        compacted += fitted.changed
        if fitted.changed:
            assert len(fitted.messages) < len(messages)
            assert fitted.tokens_after < 500
            assert engine.plan(fitted.messages).trigger is None
        else:
            assert fitted.messages is messages
    assert compacted > 30


def test_a_trigger_in_messages_that_would_not_leave_fewer_changes_nothing() -> None:
    # R35
    how = Settings(trigger=("messages", 2), keep=("messages", 1))
    messages = [user("One. " * 400), user("Two.")]
    assert compactor(100_000, settings=how).fit(messages, thread="t").messages is messages
    messages = [*messages, user("Three.")]
    forms: list[tuple[Any, int]] = [("user", 2), ("pair", 3), ("alternate", 3)]
    for form, left in forms:
        fitted = compactor(100_000, settings=replace(how, form=form)).fit(messages, thread="t")
        assert (len(fitted.messages), fitted.changed) == (left, left < 3)


@pytest.mark.parametrize(("format_", "form"), [("bedrock-converse", "user"), ("openai-chat", "alternate")])
def test_no_model_is_asked_for_a_summary_that_would_not_leave_fewer_messages(format_: str, form: Any) -> None:
    # R35
    asked: list[str] = []
    make = FORMATS[format_].text
    messages = [make("user", "One."), make("assistant", "Two."), make("user", "Three.")]
    how = Settings(trigger=("messages", 3), keep=("messages", 1), form=form)
    fitted = compactor(100_000, model=asked.append, format=format_, settings=how).fit(messages, thread="t")
    assert fitted.messages is messages
    assert asked == []


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
    for i in range(6):
        fitted = engine.fit([*messages, *long_chat(12), assistant(f"end of part {i}")], thread="t")
        assert fitted.changed
        messages = fitted.messages
        assert sum("[unabridged summary " in str(message["content"]) for message in messages) == 1


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
