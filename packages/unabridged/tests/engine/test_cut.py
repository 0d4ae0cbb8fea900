"""Where a conversation may be cut, and where it should be."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import anthropic_round, assistant, chat_round, responses_round, system, user
from unabridged.engine.cut import TailLimits, count_separators, find_safe_indices, plan_cut
from unabridged.engine.rewrite import Rewrite, rewrite_list
from unabridged.engine.state import WorkingList
from unabridged.formats import FORMATS, detect_message_format, get_format
from unabridged.messages import View


def views(messages: list[dict[str, Any]]) -> list[View]:
    format_ = detect_message_format(messages)
    return [format_.read(message) for message in messages]


def test_a_call_and_its_answers_are_never_parted() -> None:
    # R14
    messages = [user("go"), *chat_round("read", "one", "two", "three"), assistant("done")]
    assert find_safe_indices(views(messages)) == [0, 1, 5, 6]


def test_answers_may_come_in_any_order_and_ids_may_be_used_again() -> None:
    # R14
    first, second = chat_round("read", "one", "two"), chat_round("read", "three", "four")
    messages = [first[0], first[2], first[1], second[0], second[2], second[1]]
    assert find_safe_indices(views(messages)) == [0, 3, 6]


def test_parallel_calls_of_anthropic_and_responses_stay_whole() -> None:
    # R14
    assert find_safe_indices(views([user("go"), *anthropic_round("read", "a", "b"), assistant("x")])) == [0, 1, 3, 4]
    assert find_safe_indices(views([user("go"), *responses_round("read", "a", "b")])) == [0, 1, 5]


def test_reasoning_items_stay_glued_to_the_whole_reply_they_opened() -> None:
    reply = responses_round("read", "a", reasoning="sealed")
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "reading"}]}
    messages = [user("go"), reply[0], said, *reply[1:], user("next")]
    assert find_safe_indices(views(messages)) == [0, 1, 5, 6]


TALK = [user(f"q{i}") if i % 2 == 0 else assistant(f"a{i}") for i in range(20)]
BATCH = [user("go"), assistant("yes"), *chat_round("read", "1", "2", "3", "4", "5"), assistant("done"), user("next")]


def tail_of(messages: list[dict[str, Any]], tail: TailLimits) -> int:
    cut = plan_cut(views(messages), [10] * len(messages), tail)
    return len(messages) - cut.tail if cut is not None else len(messages)


def test_messages_are_a_minimum_and_the_cut_moves_outward_to_a_whole_round() -> None:
    # R13 R48
    assert tail_of(TALK, TailLimits(messages=6)) == 6
    assert tail_of(TALK, TailLimits(messages=5)) == 5
    assert [tail_of(BATCH, TailLimits(messages=number)) for number in (1, 2, 3, 6, 8)] == [1, 2, 8, 8, 8]


def test_tokens_are_a_maximum_and_the_cut_moves_outward_only_to_complete_a_round() -> None:
    # R13 R48
    assert tail_of(TALK, TailLimits(60)) == 6
    assert tail_of(TALK, TailLimits(69)) == 6
    assert [tail_of(BATCH, TailLimits(tokens)) for tokens in (5, 10, 20, 30, 79, 80)] == [1, 1, 2, 8, 8, 8]


def test_of_a_list_the_one_that_keeps_fewer_counts() -> None:
    # R13
    assert tail_of(TALK, TailLimits(40, 10)) == 4
    assert tail_of(TALK, TailLimits(100, 4)) == 4


@pytest.mark.parametrize("tail", [TailLimits(messages=12), TailLimits(120)], ids=str)
def test_where_there_is_room_for_less_fewer_rounds_stay_and_it_is_known_what_was_asked_for(tail: TailLimits) -> None:
    # R48
    for limited in (tail._replace(room=45), tail._replace(most=4)):
        cut = plan_cut(views(TALK), [10] * 20, limited)
        assert cut is not None
        assert (cut.tail, cut.asked) == (16, 8)
    assert tail_of(BATCH, tail._replace(room=45)) == 2, "a round is not parted for it"


def test_with_ceilings_no_round_is_completed_beyond_them() -> None:
    # R13
    assert [tail_of(BATCH, TailLimits(messages=number, at_most=True)) for number in (3, 7, 8)] == [1, 1, 8]
    assert tail_of(TALK, TailLimits(40, 10, at_most=True)) == 4


def test_the_cut_prefers_the_beginning_of_a_persons_turn() -> None:
    # R15
    messages = [user("a"), assistant("b"), user("c"), *chat_round("x", "1"), user("d"), *chat_round("y", "2")]
    assert tail_of(messages, TailLimits(messages=4, at_most=True)) == 3
    assert tail_of(messages, TailLimits(50)) == 5, (
        "a round before it stays, and the person's message would leave too little"
    )
    assert tail_of([*messages, *chat_round("z", "3")], TailLimits(70)) == 5


def test_one_turn_of_many_rounds_is_cut_between_rounds_and_the_persons_message_stays() -> None:
    # R16
    messages = [user("the task")]
    for i in range(50):
        messages += chat_round(f"step{i}", f"result {i}")
    seen = views(messages)
    cut = plan_cut(seen, [10] * len(messages), TailLimits(messages=6), kept={0})
    assert cut is not None
    assert cut.tail == len(messages) - 6
    assert 0 not in cut.gone
    assert cut.gone == tuple(range(1, len(messages) - 6))


def test_system_messages_never_go_wherever_they_stand() -> None:
    # R18
    messages = [system("be good"), user("a"), assistant("b"), system("be brief"), user("c"), assistant("d"), user("e")]
    cut = plan_cut(views(messages), [10] * 7, TailLimits(messages=1))
    assert cut is not None
    assert cut.gone == (1, 2, 4, 5)


def test_a_pin_keeps_the_whole_round_it_is_in() -> None:
    messages = [user("a"), *chat_round("x", "1", "2"), assistant("b"), user("c")]
    cut = plan_cut(views(messages), [10] * len(messages), TailLimits(messages=1), pinned={2})
    assert cut is not None
    assert cut.gone == (0, 4)


def test_opaque_items_stay_where_they_are() -> None:
    messages: list[dict[str, Any]] = [
        user("a"),
        {"type": "compaction", "id": "cmp", "encrypted_content": "…"},
        *responses_round("x", "1"),
        user("b"),
    ]
    cut = plan_cut(views(messages), [10] * len(messages), TailLimits(messages=1))
    assert cut is not None
    assert cut.gone == (0, 2, 3)


def test_where_nothing_can_go_there_is_no_cut() -> None:
    # R19
    assert plan_cut([], [], TailLimits(1)) is None
    assert plan_cut(views([user("only one")]), [10], TailLimits(1)) is None
    assert plan_cut(views([system("a"), system("b")]), [10, 10], TailLimits(1)) is None
    assert plan_cut(views(chat_round("x", "1", "2")), [10, 10, 10], TailLimits(1)) is None


def test_in_a_text_protocol_an_action_and_its_observation_stay_together() -> None:
    # R14
    acts = View("assistant", "model", "<command>ls</command>")
    sees = View("user", "tool", "a.py")
    assert find_safe_indices([View("user", "person", "go"), acts, sees, acts, sees]) == [0, 1, 3, 5]


SIDES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20)
"""Of each message whether the model said it, and whether it goes."""


def rewritten(
    name: str, form: Literal["user", "pair", "alternate"], sides: list[tuple[bool, bool]], data: st.DataObject
) -> tuple[int, int]:
    """How many turns a rewritten list has besides what stays and the summary, and how many joints were planned."""
    format_ = get_format(name)
    messages = [
        format_.text("assistant", "said") if by_model else format_.text("user", "asked") for by_model, _ in sides
    ]
    read = [format_.read(message) for message in messages]
    gone = [i for i, (_, goes) in enumerate(sides) if goes] or [0]
    place = data.draw(st.integers(0, gone[0]))
    draft = Rewrite("summary", tuple(gone), place)
    made = rewrite_list(WorkingList(messages, read), format_, draft, "the summary", form)
    return len(made) - 1 - (len(messages) - len(gone)), count_separators(read, gone, place)


@pytest.mark.parametrize(("name", "form"), [("openai-chat", "alternate"), ("bedrock-converse", "user")])
@given(SIDES, st.data())
def test_as_many_joints_are_planned_as_the_rewriting_puts_in(
    name: str, form: Any, sides: list[tuple[bool, bool]], data: st.DataObject
) -> None:
    put_in, planned = rewritten(name, form, sides, data)
    assert put_in == planned


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "bedrock-converse"])
@given(SIDES, st.data())
def test_nothing_but_the_summary_is_put_in_where_turns_need_not_alternate(
    name: str, sides: list[tuple[bool, bool]], data: st.DataObject
) -> None:
    assert rewritten(name, "user", sides, data)[0] == 0


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.data())
def test_two_turns_of_one_side_never_meet_at_a_gap_where_they_alternate(goes: list[bool], data: st.DataObject) -> None:
    # R27
    messages = [assistant(f"said {i}") if i % 2 else user(f"asked {i}") for i in range(len(goes))]
    gone = [i for i, one in enumerate(goes) if one] or [0]
    place = data.draw(st.integers(0, gone[0]))
    forms: list[Literal["pair", "alternate"]] = ["pair", "alternate"]
    for form in forms:
        draft, working = Rewrite("summary", tuple(gone), place), WorkingList(messages, views(messages))
        made = rewrite_list(working, get_format("openai-chat"), draft, "the summary", form)
        assert all(one["role"] != other["role"] for one, other in pairwise(made)), form
