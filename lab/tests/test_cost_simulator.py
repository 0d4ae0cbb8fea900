"""The simulator on conversations small enough to add up by hand. One token a message unless a test says otherwise."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cost import WINDOW, needs_of, pauses, replay, rows
from benchmarks.policies import (
    Conversation,
    Mask,
    Ours,
    Payback,
    Raw,
    Summary,
    Through,
    conversation,
    count,
    load,
)
from benchmarks.replay import tail
from conversations import assistant, chat_round, system, user
from unabridged.messages import View
from unabridged.settings import Prices
from unabridged_corpus.evaluate.score import bootstrap_interval
from unabridged_corpus.evaluate.task_cost import Bill, MeasuredMessage, PromptCache, SideAsk, find_model_calls

PRICES = Prices(read=0.1, write=1.25, fresh=1.0, output=5.0, lifetime=300.0)
PAYS = {"payback": True}


def line(role: Any, tokens: int, text: str = "") -> MeasuredMessage:
    origins: dict[str, Any] = {"assistant": "model", "tool": "tool", "system": "host"}
    return MeasuredMessage({"role": role, "content": text}, View(role, origins.get(role, "person"), text), tokens)


def talk(*sizes: int) -> Conversation:
    """Return messages of these sizes, from a person and the model in turn, the person first."""
    lines = [line("assistant" if i % 2 else "user", size) for i, size in enumerate(sizes)]
    return Conversation("talk", "openai-chat", lines)


def test_what_a_prompt_shares_with_the_last_one_is_read_and_the_rest_is_written() -> None:
    a, b, c, d = (line("user", size) for size in (100, 20, 3, 4))
    cache, bill = PromptCache(300.0), Bill()
    cache.send([a, b], 0.0, bill)
    assert bill == Bill(read=0, write=120)
    cache.send([a, b, c], 20.0, bill)
    assert bill == Bill(read=120, write=123)
    cache.send([a, d, c], 40.0, bill)  # behind the change, nothing is shared
    assert bill == Bill(read=220, write=130)


def test_a_prefix_lives_for_its_lifetime_after_the_last_read() -> None:
    a = line("user", 100)
    cache, bill = PromptCache(300.0), Bill()
    for now in (0.0, 299.0, 598.0, 898.0):
        cache.send([a], now, bill)
    assert bill == Bill(read=200, write=200)  # read at 299 and 598; at 898 it is gone


def test_a_bill_adds_up() -> None:
    assert Bill(read=1_000, write=100, fresh=10, output=1).at(PRICES) == 1_000 * 0.1 + 100 * 1.25 + 10 + 5


def test_a_run_of_assistant_messages_is_one_model_call() -> None:
    roles: Sequence[Any] = ("user", "assistant", "assistant", "tool", "assistant", "user", "assistant")
    assert find_model_calls([line(role, 1).view for role in roles]) == [(1, 3), (4, 5), (6, 7)]


def test_sending_everything_writes_each_message_once_and_reads_it_ever_after() -> None:
    run = replay(talk(10, 2, 30, 4, 50, 6), Raw(), PRICES)
    # call 1: write 10; call 2: read 10, write 2 + 30; call 3: read 42, write 4 + 50; output 2 + 4 + 6
    assert run.bill == Bill(read=52, write=96, output=12)
    assert (run.calls, run.rewrites, run.extra) == (3, 0, 0)


def test_without_a_cache_every_token_is_fresh_every_time() -> None:
    run = replay(talk(10, 2, 30, 4), Raw(), Prices(read=1.0, write=1.0))
    assert run.bill == Bill(fresh=10 + 42, output=6)


def test_a_pause_longer_than_the_lifetime_writes_everything_again() -> None:
    run = replay(talk(10, 2, 30, 4), Raw(), PRICES, gap=lambda call: 301.0 if call else 0.0)
    assert run.bill == Bill(read=0, write=10 + 42, output=6)
    assert [pauses(call) for call in (0, 1, 20, 21)] == [20.0, 20.0, 660.0, 20.0]


def test_a_summary_asked_apart_is_paid_fresh_and_one_asked_as_a_suffix_reads_the_cache() -> None:
    given = talk(100, 10, 100, 10, 100, 10, 5, 1)
    policy = Summary("openai-chat", trigger=300, keep=1, size=50)
    apart = replay(given, policy, PRICES)
    # calls 1-2: write 100, read 100, write 110; before call 3 the list is 320 tokens: the first four messages (220) go,
    # and 300 tokens of instruction; call 3 sends 50 + 100, all new; call 4 reads 150 and writes 10 + 5
    assert apart.bill == Bill(read=100 + 150, write=100 + 110 + 150 + 15, fresh=220 + 300, output=10 + 10 + 10 + 1 + 50)
    assert (apart.rewrites, apart.extra) == (1, 1)
    suffix = replay(given, replace(policy, suffix=True), PRICES)
    # the suffix reads 210 and writes the 110 that are new; then call 3 sends its own 150
    assert suffix.bill == Bill(read=100 + 210 + 150, write=100 + 110 + 110 + 150 + 15, fresh=300, output=81)


def test_a_summary_never_parts_a_result_from_its_call() -> None:
    messages = [system("s"), user("a " * 50), *chat_round("ls", "x", "y"), *chat_round("cat", "z " * 50)]
    lines = conversation("c", "openai-chat", messages).lines
    fitted, extra = Summary("openai-chat", trigger=50, keep=1).fit(lines, 0.0)
    assert [kept.view.role for kept in fitted] == ["system", "user", "assistant", "tool"]
    assert fitted[2:] == lines[5:]
    assert isinstance(extra[0], SideAsk)


def test_a_rolling_mask_changes_the_prefix_every_time_and_a_stepped_one_seldom() -> None:
    messages = [user("go"), *(message for n in range(42) for message in chat_round(f"t{n}", "word " * 50))]
    given = conversation("c", "openai-chat", [*messages, assistant("done")])
    rolling = replay(given, Mask("openai-chat", keep=2), PRICES)
    stepped = replay(given, Mask("openai-chat", keep=2, step=20), PRICES)
    assert (rolling.calls, rolling.rewrites, stepped.rewrites) == (43, 40, 2)
    assert stepped.bill.at(PRICES) < rolling.bill.at(PRICES)


def test_clearing_when_it_pays_costs_less_than_everything_and_rewrites_seldom() -> None:
    messages = [user("go"), *(message for n in range(60) for message in chat_round(f"t{n}", "some words " * 150))]
    given = conversation("c", "openai-chat", [*messages, assistant("done")])
    ours = replay(given, Payback("openai-chat", PRICES), PRICES)
    assert ours.bill.at(PRICES) < 0.65 * replay(given, Raw(), PRICES).bill.at(PRICES)
    assert 1 <= ours.rewrites <= 12


def test_where_a_trigger_is_set_what_clearing_cannot_free_is_summarised() -> None:
    spoken = [message for n in range(20) for message in (user("word " * 100), assistant(f"answer {n}"))]
    policy = Payback("openai-chat", PRICES, then=Summary("openai-chat", trigger=1_500, keep=4, suffix=True, size=50))
    run = replay(conversation("c", "openai-chat", spoken), policy, PRICES)
    assert 1 <= run.extra == run.rewrites <= 3


def test_any_compactor_can_be_replayed_through_its_own_messages() -> None:
    def last_three(messages: list[Any]) -> list[Any]:
        return messages if len(messages) <= 3 else [user("earlier things"), *messages[-2:]]

    given = conversation("c", "openai-chat", [m for n in range(4) for m in (user(f"q{n}"), assistant(f"a{n}"))])
    run = replay(given, Through("openai-chat", last_three), PRICES, cuts=(7,))
    assert run.contexts[7] == "earlier things\na2\nq3"
    assert run.rewrites == 2


def test_the_product_itself_is_replayed_clearing_and_summaries_included() -> None:
    spoken = "I went through this part and these are my findings about it, in a few words. " * 8
    messages = [user("go"), *(m for n in range(60) for m in chat_round(f"t{n}", "some words " * 150, text=spoken))]
    given = conversation("c", "openai-chat", [*messages, assistant("done")])
    roomy, tight = (Ours("openai-chat", PRICES, window, PAYS) for window in (1_000_000, 8_000))
    whole = replay(given, Raw(), PRICES).bill.at(PRICES)
    assert replay(given, roomy, PRICES).bill.at(PRICES) < 0.9 * whole
    run = replay(given, tight, PRICES, cuts=(101, 121))
    assert set(roomy.kinds) == {"clearing"}
    assert set(tight.kinds) == {"clearing", "summary"}
    assert run.rewrites == len(tight.kinds)
    assert max(run.sizes.values()) <= 7_200
    assert "[unabridged summary" in run.contexts[121]


def test_the_product_knows_how_long_the_pauses_are() -> None:
    messages = [user("go"), *(m for n in range(9) for m in chat_round(f"t{n}", "some words " * 400))]
    given = conversation("c", "openai-chat", [*messages, assistant("done")])
    steady, paused = (Ours("openai-chat", PRICES, clear=PAYS) for _ in range(2))
    replay(given, steady, PRICES)
    replay(given, paused, PRICES, gap=lambda call: 301.0 if call == 5 else 20.0)
    assert len(paused.kinds) > len(steady.kinds)


def test_a_tail_has_as_many_tokens_as_are_asked_for() -> None:
    lines = conversation("c", "openai-chat", [user(f"word{n} " * 50) for n in range(20)]).lines
    for tokens in (0, 60, 500, 1_000):
        kept = tail(lines, tokens)
        assert tokens - 0.1 * tokens - 60 <= count(kept) <= tokens
    assert tail(lines, 10_000) == "\n".join(line.view.text for line in lines)


def test_a_row_sets_cost_beside_recall_and_a_tail_of_the_same_size() -> None:
    messages = [user("use first_name"), *(m for n in range(90) for m in chat_round(f"t{n}", "later words " * 150))]
    given = conversation("c", "openai-chat", [*messages, *chat_round("end", "ok", code="first_name last_name")])
    assert list(needs_of(given)) != []
    (row,) = rows([given], {"ours": lambda c, p: Payback(c.format, p)}, PRICES)
    assert row.cost < 0.6
    assert (row.recall, row.tail) == (1.0, 0.0)  # the request stays where it was; a tail has long lost it
    assert row.size < 0.9


def test_the_interval_is_the_same_for_the_same_values_and_holds_their_mean() -> None:
    values = [0.7, 0.8, 0.75, 0.9, 0.6]
    low, high = bootstrap_interval(values)
    assert (low, high) == bootstrap_interval(values)
    assert min(values) <= low < statistics.mean(values) < high <= max(values)
    assert bootstrap_interval([0.5]) == (0.5, 0.5)


@pytest.mark.skipif("BENCH_DATA" not in os.environ, reason="needs a folder of recorded runs in BENCH_DATA")
def test_our_default_costs_at_most_four_fifths_of_everything_on_recorded_runs() -> None:
    runs = load(Path(os.environ["BENCH_DATA"]), ("coding_tools", "coding_text"))[1::2]
    (row,) = rows(runs, {"ours": lambda c, p: Ours(c.format, p, WINDOW)}, Prices())
    assert row.cost <= 0.80
    assert row.recall >= row.tail + 0.20
