"""Whose words a user turn is: by its role, by known frames, and by what stands right before it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import anthropic_round, assistant, chat_round, system, user
from effort import examples
from protocols import PROTOCOLS
from rows import rows
from unabridged.authorship import assign_origins, count_turn_endings
from unabridged.engine.cut import find_safe_indices
from unabridged.formats import detect_message_format
from unabridged.languages import get_labels
from unabridged.marks import format_summary_turn
from unabridged.messages import Origin, View

DATA = Path(os.environ.get("BENCH_DATA", "recorded"))
EXAMPLES = examples(500, 1_000)


def read(messages: list[dict[str, Any]]) -> list[View]:
    format_ = detect_message_format(messages)
    return [format_.read(message) for message in messages]


def origins(messages: list[dict[str, Any]]) -> list[Origin]:
    return [view.origin for view in assign_origins(read(messages))]


def test_in_a_text_protocol_an_observation_is_not_a_request() -> None:
    messages = [
        user("Fix the bug."),
        assistant("Let me look.\n\n<command>\nls src\n</command>"),
        user("a.py\nb.py\nbash-$"),
    ]
    assert origins(messages) == ["person", "model", "tool"]


def test_where_tools_are_called_user_turns_are_people() -> None:
    messages = [user("go"), *anthropic_round("bash", "Output: done"), user("Output: is that what you meant?")]
    assert origins(messages) == ["person", "model", "tool", "person"]
    asked = [assistant("I run:\n<command>\nls\n</command>"), user("Observation: is that what you meant?")]
    for messages in ([*anthropic_round("bash", "x"), *asked], [*asked, *chat_round("bash", "x")]):
        assert origins(messages)[messages.index(asked[1])] == "person"


def test_notes_of_the_host_are_the_hosts() -> None:
    assert origins([user("<system-reminder>\nTodo list is empty.\n</system-reminder>")]) == ["host"]
    assert origins([user("See <system-reminder>this</system-reminder> please")]) == ["person"]


@pytest.mark.skipif(not (DATA / "coding_text.jsonl").exists(), reason="needs the recorded conversations")
def test_in_recorded_text_protocol_runs_only_the_first_turn_is_a_persons() -> None:
    observations = 0
    for line in (DATA / "coding_text.jsonl").read_text().splitlines():
        conversation = json.loads(line)
        found = origins(conversation["messages"])
        assert [i for i, origin in enumerate(found) if origin == "person"] == [1], conversation["id"]
        observations += found.count("tool")
    assert observations == 1_784


def test_what_the_caller_says_of_a_message_holds_whatever_it_looks_like() -> None:
    messages = [user("Fix it."), assistant("<command>\nls\n</command>"), user("Never run that again.")]
    said: list[Origin | None] = [None, None, "person"]
    assert [view.origin for view in assign_origins(read(messages), stated_origins=said)] == [
        "person",
        "model",
        "person",
    ]
    for origin in ("tool", "host", "summary"):
        assert [view.origin for view in assign_origins(read([user("Fix it.")]), stated_origins=[origin])] == [origin]


# -- actions ----------------------------------------------------------------------------------------------------------


def test_what_follows_an_action_of_a_known_form_is_an_observation_from_the_first_on() -> None:
    for said in ("From now on do it.", "Thanks! Never push to main.", "ok", "wait, keep that one"):
        messages = [user("Fix the bug."), assistant("I look.\n<command>\ncat part.txt\n</command>"), user(said)]
        assert origins(messages) == ["person", "model", "tool"], said


def test_what_follows_words_is_a_persons_among_any_number_of_actions() -> None:
    messages = [user("Fix the bug.")]
    for i in range(6):
        messages += [assistant(f"<command>\ncat {i}\n</command>"), user(f"line {i}")]
    messages += [assistant("It is fixed. Shall I push it?"), user("Yes."), assistant("Pushed."), user("Thanks.")]
    assert origins(messages) == ["person", *["model", "tool"] * 6, *["model", "person"] * 2]


def test_an_observation_in_a_known_frame_stays_one_when_the_action_before_it_was_edited() -> None:
    observed = "OBSERVATION:\nline\n(Current directory: /repo)\nbash-$"
    messages = [user("Fix the bug.")]
    for i in range(4):
        messages += [assistant(f"```bash\nsed -n {i}p a.py\n```"), user(observed)]
    messages[3] = assistant("```bash\nsed -n 1p a.py\n``` edited")
    assert origins(messages)[2::2] == ["tool"] * 4
    assert origins([*messages, assistant("Done."), user("Why is the last line bash-$ here?")])[-1] == "person"


def test_a_system_message_between_an_action_and_its_observation_changes_nothing() -> None:
    messages = [user("Fix it."), assistant("<command>\nls\n</command>"), system("Be brief."), user("a.py")]
    assert origins(messages)[-1] == "tool"


def test_nothing_of_ours_in_the_assistants_voice_is_an_action() -> None:
    """A summary in the assistant's voice may well end in a command that it quotes."""
    ours = View("assistant", "model", format_summary_turn("0123456789ab", "- ran\n<command>ls</command>", 0, 4))
    said = View("assistant", "model", get_labels("en")["acknowledgment"])
    for before in (ours, said, ours.with_origin("summary")):
        assert [view.origin for view in assign_origins([before, View("user", "person", "Go on.")])][-1] == "person"
        assert count_turn_endings([before], [0]) == {"turns": 0, "fenced": 0}


# -- fences -----------------------------------------------------------------------------------------------------------

FENCED, PLAIN = "I look at it.\n\n```bash\ncat a.py\n```", "It is done."
LOG = "gcc -c rows.c\nrows.c:12:5: error: unknown type name 'row_t'\nmake: *** [all] Error 2"


def ending(*fenced: bool) -> list[dict[str, Any]]:
    """A turn of a person, then turns of the assistant that end in a fence or not, each with a turn behind it."""
    messages = [user("Fix the importer.")]
    for i, fence in enumerate(fenced):
        messages += [assistant(FENCED if fence else PLAIN), user(f"Next {i}.")]
    return messages


@rows(
    ("fenced", "observed"),
    [
        ((True,), False), ((True, True), False), ((True, True, True), True), ((True, True, False), False),
        ((True, True, True, False), True), ((False, True, True, True), True), ((True, True, False, False), False),
        ((*[True] * 5, *[False] * 2), False), ((*[True] * 6, *[False] * 2), True), ((False, False, False), False),
    ],
)  # fmt: skip
def test_fences_are_actions_where_three_turns_or_more_and_three_quarters_of_them_end_in_one(
    fenced: tuple[bool, ...], observed: bool
) -> None:
    found = origins(ending(*fenced))[2::2]
    assert found == ["tool" if observed and fence else "person" for fence in fenced]


def test_a_turn_that_only_holds_a_fence_ends_in_none() -> None:
    messages = [user("Write me a script.")]
    for i in range(9):
        messages += [assistant(f"{FENCED}\n\nIt shows the file."), user(f"Now make it {i} lines.")]
    assert set(origins(messages)[::2]) == {"person"}


def test_a_person_who_is_shown_code_now_and_then_is_heard_whatever_they_paste() -> None:
    said = ["ok", LOG, f"it fails with:\n{LOG}", "That deleted my build. Never run clean again.", "recursive", "(none)"]
    messages = [user("How do I build this?")]
    for i in range(12):
        messages += [assistant(FENCED if i % 3 else "Which system is it?"), user(said[i % len(said)])]
    assert set(origins(messages)[::2]) == {"person"}


# -- what was counted before the list was shortened -------------------------------------------------------------------


def test_what_was_counted_holds_when_what_was_counted_is_gone() -> None:
    messages = ending(*[True] * 6)
    views = read(messages)
    counts = count_turn_endings(views, range(1, 11))
    assert counts == {"turns": 5, "fenced": 5}
    left = read([messages[0], *messages[11:]])
    assert assign_origins(left)[-1].origin == "person"
    assert assign_origins(left, counts)[-1].origin == "tool"
    assert json.loads(json.dumps(counts)) == counts


def test_stubs_of_bare_outputs_are_no_persons() -> None:
    messages = ending(*[True] * 6)
    counts = count_turn_endings(read(messages), range(1, 11))
    for i in range(2, 11, 2):
        messages[i] = user("[Tool result cleared: Next; 1 line, 900 characters]")
    assert [view.origin for view in assign_origins(read(messages), counts)][2::2] == ["tool"] * 6
    alone = [assistant(PLAIN), user("[Tool result cleared: Next; 1 line, 900 characters]")]
    assert origins(alone) == ["model", "tool"]


def test_real_tool_calls_are_remembered_too() -> None:
    messages = [user("go"), *anthropic_round("bash", "x"), assistant("<command>ls</command>"), user("Output: right?")]
    views = read(messages)
    for gone in (range(3), range(1)):
        counts = count_turn_endings(views, gone)
        assert assign_origins(views[-2:], counts)[-1].origin == "person"
        assert count_turn_endings(views[-2:], range(2), counts) == counts
    assert assign_origins(views[-2:])[-1].origin == "tool"


TURNS = st.lists(
    st.tuples(st.sampled_from([*PROTOCOLS, "words", "fence", "fence", "fence"]), st.integers(0, 2**16)), max_size=14
)


def drawn(turns: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """A list of turns in any mix of protocols, fences and words."""
    messages = [user("Fix the importer.")]
    for name, seed in turns:
        rng = Random(seed)  # noqa: S311 - repeatable on purpose, no secret
        if name in {"words", "fence"}:
            messages += [assistant(PLAIN if name == "words" else FENCED), user(rng.choice(["Go on.", LOG, "ok"]))]
        else:
            protocol = PROTOCOLS[name]
            messages += [assistant(protocol.act(f"cat {seed}")), user(protocol.wrap(f"From now on do {seed}."))]
        for place in (len(messages) - 1, len(messages)):
            messages[place:place] = [system("Be brief.")] * (rng.random() < 0.1)
    return messages


@settings(max_examples=max(100, EXAMPLES // 5), deadline=None, derandomize=True, database=None)
@given(TURNS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_whatever_beginning_of_a_list_went_what_remains_is_read_as_before(
    turns: list[tuple[str, int]], first: int, then: int
) -> None:
    views = read(drawn(turns))
    whole = assign_origins(views)
    places = [place for place in find_safe_indices(whole) if place < len(whole)]
    place = places[first % len(places)]
    counts = count_turn_endings(whole, range(place))
    summary = View("user", "summary", format_summary_turn("0123456789ab", "- ran", 0, max(place, 1)))
    for around in ([], [summary]):
        assert assign_origins([*around, *views[place:]], counts)[len(around) :] == whole[place:]
    # What remains is shortened once more, and the counts of both are added up.
    left = assign_origins([summary, *views[place:]], counts)
    later = [i for i in find_safe_indices(left) if 0 < i < len(left)]
    again = later[then % len(later)] if later else 1
    counts = count_turn_endings(left, range(again), counts)
    assert assign_origins([summary, *views[place + again - 1 :]], counts)[1:] == whole[place + again - 1 :]
    assert assign_origins(whole) == whole, "and read again it is the same"
