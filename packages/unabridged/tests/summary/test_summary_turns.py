"""A summary turn as somebody reads it who has to go on from it: nothing twice, nothing that misleads or tires."""

from __future__ import annotations

import json
import re
from typing import Any

from conversations import assistant, chat_round, user
from ledger_case import answers, calls, count, extract, person, round_of, run, says, section, sections
from rows import rows
from unabridged import Settings
from unabridged.languages import get_labels, load_language_tables
from unabridged.marks import find_view_record_ids, format_summary_turn, is_generated_turn, list_separator_texts
from unabridged.messages import View
from unabridged.summary.actions import read_call_effect
from unabridged.summary.outcomes import read_outcome
from unabridged.summary.shell import read_command
from unabridged.text_tools import cut_to_head_and_tail, split_sentences
from unabridged_testing import ScriptedModel

FAILURE = "E   AssertionError: assert 1 == 2\n1 failed in 0.2s"


def turn(*parts: list[View] | View, budget: int = 1_000, kept: frozenset[int] = frozenset()) -> str:
    views = [view for part in parts for view in (part if isinstance(part, list) else [part])]
    return extract(views, budget=budget, count=count, kept=kept).text


def test_a_tool_without_a_target_is_told_by_its_name() -> None:
    text = turn(person("Run the tests."), round_of("run_tests", "56 passed in 4.3s"))
    assert "- [1] ran run_tests → “56 passed in 4.3s”" in section(text, "done")


def test_commands_keep_the_spaces_between_them() -> None:
    assert read_command("git status && git log|head -3; ls").target == "git status && git log | head -3; ls"


def test_several_commands_that_also_cleared_away_were_run() -> None:
    text = turn(person("Profile it."), round_of("bash", "took 3 s", command="rm -f /tmp/a.db; python profile.py"))
    assert section(text, "done")[1:] == ["- [1] ran rm -f /tmp/a.db; python profile.py → “took 3 s”"]


def test_a_copy_is_no_move() -> None:
    assert dict(read_command("cp src/a.py src/a.py.bak").touched) == {"src/a.py": "read", "src/a.py.bak": "create"}


def test_what_a_plain_command_did_is_told_by_deed_and_file() -> None:
    long = "a line of the file\n" * 20
    text = turn(
        person("Look, then write it."),
        round_of("bash", long, command="cat src/a.py"),
        round_of("bash", "", command="cat > src/b.py <<'EOF'\nvalue = 1\nEOF"),
    )
    assert section(text, "done")[1:] == ["- [1] asked for src/a.py", "- [3] wrote src/b.py: “value = 1”"]


def test_what_was_merely_looked_at_is_told_by_its_file() -> None:
    long = "a line of the file\n" * 20
    text = turn(person("Have a look."), *(round_of("read_file", long, path=f"src/part_{n}.py") for n in range(5)))
    assert section(text, "done")[1:] == [
        "  … [1-4]",
        *(f"- [{5 + 2 * n}] asked for src/part_{2 + n}.py" for n in range(3)),
    ]
    assert "src/part_0.py" in section(text, "files")[0]


def test_of_what_found_no_place_changed_files_are_named_where_it_stood_and_failures_counted() -> None:
    steps = [
        view
        for n in range(12)
        for view in [
            *round_of("read_file", "a line\n" * 40, path=f"src/part_{n}.py"),
            *round_of("edit_file", "ok", path=f"src/part_{n}.py", new_text=f"value = {n} and some more text"),
            *round_of("run_tests", FAILURE if n == 3 else "9 passed in 0.1s"),
        ]
    ]
    done = section(turn(person("Do all of it."), steps, budget=400), "done")
    gaps = "\n".join(line for line in done if line.startswith("  … "))
    assert "edited part_0.py" in gaps
    assert "asked for" not in gaps
    assert [n for n in range(12) if f"part_{n}.py" not in "\n".join(done)] == [], "every file that was edited is named"
    assert "- [71] ran run_tests → “9 passed in 0.1s”" in done


def test_a_failure_is_told_once_with_its_line() -> None:
    text = turn(person("Run it."), round_of("bash", FAILURE, command="python check.py"))
    assert text.count("AssertionError: assert 1 == 2") == 1


# R22
def test_without_a_model_there_is_no_section_of_rules_and_every_sentence_is_told_as_it_was_said() -> None:
    message = (
        "The second parcel came back on Tuesday, and the driver left it with a neighbour of mine. "
        "I need the total in digits. Never phone me."
    )
    text = turn(person(message), says("There are 4."), person("And the next?"))
    assert section(text, "rules") == []
    assert f"- [0] user: \u201c{message}\u201d" in section(text, "done")


STATES = re.compile(
    r"\b(?:open|opened|pending|finished|done for|answered|unanswered|interrupted|waiting|waits|withdrawn|under way|"
    r"in progress|completed|resolved|unresolved|fulfilled|cancell?ed)\b",
    re.IGNORECASE,
)


def test_no_label_of_a_summary_turn_calls_anything_open_finished_answered_or_withdrawn() -> None:
    """A list shows who said what and what was called; it does not show what became of a request."""
    told = {name: text for name, text in get_labels("en").items() if name not in {"compacted", "done_for"}}
    assert {name: text for name, text in told.items() if STATES.search(text)} == {}
    assert "was done for it" in get_labels("en")["done_for"]


@rows("form", ["user", "pair", "alternate"])
@rows("by_model", [False, True])
def test_no_summary_turn_gives_a_message_of_a_person_a_state(form: Any, by_model: bool) -> None:
    ends = ["It is in place now.", "Which one do you mean?", "", "I could not find it."]
    asked = ["Mend the door.", "Stop, leave it.", "Never mind the window.", "Have you seen the key?", "Thanks."]
    said = [message for i in range(60) for message in _exchange(asked[i % 5], ends[i % 4], i)]
    model = ScriptedModel(["They spoke about a house, its doors and its windows."], forever=True) if by_model else None
    found = run(said, window=4_000, model=model, settings=Settings(form=form, clear=None), most=3)
    assert len(found.summaries) == 3
    for summary in found.summaries:
        closing = get_labels("en")["done_for"].partition("{turn}")[0]
        ours = "\n".join(line for line in summary.split("\n") if not line.startswith(("[unabridged", closing)))
        assert not STATES.search(ours), STATES.search(ours)


def _exchange(asked: str, end: str, number: int) -> list[Any]:
    words = f"{asked} It is about number {number}."
    if not end:  # the person spoke again before the assistant had said a word
        return [user(words), *chat_round("look", "nothing\n" * 40, at=number)]
    return [user(words), *chat_round("look", "nothing\n" * 40, at=number), assistant(end)]


def test_a_record_is_told_without_its_marks_and_an_error_by_its_message() -> None:
    record = json.dumps({"order": "NK-1", "status": "split", "parts": [{"part": "A"}]}, indent=1)
    assert read_outcome(record, "read") == ("order: NK-1, status: split, parts: [{part: A}]", "")
    refused = json.dumps({"code": 7, "error": "LOCKED", "message": "not while it is traced"}, indent=1)
    assert read_outcome(refused, "change", error=True) == (
        "error: LOCKED, message: not while it is traced, code: 7",
        "error",
    )


def test_an_observation_is_told_without_its_label_and_the_prompt_behind_it() -> None:
    assert read_outcome("Observation: applied to policy.py\nkiln-04$", "run") == ("applied to policy.py", "")


def test_a_tally_is_quoted_and_the_reader_judges_it() -> None:
    for told in ("12 passed, 0 failed", "Tests: 0 failed, 7 passed, 7 total", "12 passed, 1 failed", "10 failed"):
        assert read_outcome(f"some output\n{told}\nmore output", "run") == (told, "")
        assert read_outcome(told, "run", error=True) == (told, "error")
        assert read_outcome(f"{told}\n[The command completed with exit code 1.]", "run")[1] == "exit 1"


def test_every_short_argument_of_a_call_is_shown_not_only_the_first() -> None:
    asked = read_call_effect(json.dumps({"order": "NK-1", "replace": {"A": "B"}, "split": True}), "update_order")
    assert asked.target == 'order=NK-1 replace={"A": "B"} split=true'


def test_ids_that_a_tool_gave_are_named() -> None:
    text = turn(
        person("What do you have on me?"),
        [calls("get_user", id="u1"), answers("cards GC-11001 and GC-11002 and GC-11003 " + "x " * 300)],
        [calls("calculate", expression="1 + 1"), answers("2")],
    )
    assert "- GC-11001 GC-11002 GC-11003" in section(text, "names")


def test_argument_keys_moments_options_and_capitals_are_no_names() -> None:
    query = "SELECT id FROM t WHERE at > '2024-10-27T02:30:00' -- and run with --verbose"
    text = turn(person("Look."), round_of("query_table", "ok", query_text=query, row_limit=3))
    names = "\n".join([*section(text, "names"), *section(text, "files")])
    assert not any(word in names for word in ("SELECT", "2024-10-27T02", "--verbose", "query_text", "row_limit"))


def test_a_text_is_shortened_between_words() -> None:
    short = cut_to_head_and_tail("one two three four five six seven eight nine ten", 30)
    assert short == "one two three four … nine ten"
    assert len(cut_to_head_and_tail("没有空格的文字" * 20, 30)) <= 30


def test_a_date_does_not_end_a_sentence() -> None:
    assert split_sentences("Es liegt seit dem 4.11. im Zentrum. Soll ich?") == [
        "Es liegt seit dem 4.11. im Zentrum.",
        "Soll ich?",
    ]


# R29
@rows("code", sorted(load_language_tables()))
def test_the_header_speaks_the_conversations_language_and_is_recognised_in_each(code: str) -> None:
    text = format_summary_turn("0123456789ab", "body", 0, 12, code)
    view = View("user", "person", text)
    assert get_labels(code)["compacted"].format(first=0, last=11) in text
    assert is_generated_turn(view)
    assert find_view_record_ids(view) == ["0123456789ab"]
    assert text.endswith("[end of summary 0123456789ab]")
    assert {get_labels(code)[kind] for kind in ("acknowledgment", "bridge", "question")} <= list_separator_texts()


def test_a_whole_turn_is_in_one_language_and_says_nothing_twice() -> None:
    asked = "Bitte prüfe den Bericht und die Tabelle, und ändere niemals das Schema der Datenbank."
    lists = [user(asked), *chat_round("read_file", "eine Zeile\n" * 2_000, path="bericht.py")]
    lists += [assistant("Das ist geprüft und in Ordnung."), user("Gut. Jetzt noch die Tabelle der Kunden, bitte.")]
    lists += chat_round("read_file", "noch eine Zeile\n" * 3_000, path="tabelle.py")
    found = run(iter(lists), window=8_000, settings=Settings(clear=None))
    summary = found.summaries[-1]
    assert get_labels("de")["compacted"].partition("{")[0] in summary
    german = set(get_labels("de").values())
    assert all(heading in german for heading in sections(summary) if heading)
    for part in summary.split("\n## ")[1:]:
        assert part.count("Bitte prüfe den Bericht und die Tabelle") <= 1
    assert summary.count(find_view_record_ids(View("user", "person", summary))[0]) == 2, (
        "no mark of ours is taken for a name"
    )
    assert re.findall(r"\b[0-9a-f]{12}\b", summary) == find_view_record_ids(View("user", "person", summary)) * 2
    assert f"- [0] {get_labels('de')['user']}: \u201c{asked}\u201d" in summary, "what was said first is told in each"
    assert "-1" not in summary.partition("\n")[0], "a summary of nothing but a summary still says what it stands for"


def test_a_tool_without_a_name_breaks_nothing() -> None:
    given = round_of("", "cards GC-11001 and GC-11002 and GC-11003 and GC-11004 " + "x " * 300, id="u1")
    assert "GC-11003" in turn(person("What do you have on me?"), given, given)
