"""The goal is never lost: while tools work on what was said last something is open, whatever was nodded to before.

Dialogues are put together from `goals.json`, in six languages: a task, what the assistant closed its turn with (a plan,
progress, an offer, a promise, a report that it is done), what the person said to that, and more work or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from conversations import assistant, user
from ledger_case import (
    LISTS,
    ROUNDS,
    Message,
    answers,
    calls,
    observation,
    person,
    round_of,
    run,
    says,
    section,
    summary_in,
)
from unabridged import Compactor, Settings
from unabridged.intent.rules import rules_in
from unabridged.ledger.entries import Ledger
from unabridged.ledger.gather import gather, merge, open_indices
from unabridged.messages import View

GOALS: dict[str, dict[str, Any]] = json.loads((LISTS / "goals.json").read_text(encoding="utf-8"))
LANGUAGES = [code for code in GOALS if code != "other"]

LOOK = round_of("read_file", "some text", path="a.py")
EDIT = round_of("edit_file", "ok", path="a.py", new_text="x")
MORE = [*EDIT, *LOOK, *EDIT]
WRITTEN = [says("I look.\n<command>\nls\n</command>"), observation("<returncode>0</returncode>\na.py")] * 3
"""The same in a text protocol."""

UNFINISHED = ("plan", "progress", "partial", "statement", "promise", "broken_off", "question")
ENDED = ("offer", "finished")


class Nodded(NamedTuple):
    """A task, the work before the report, the report, and what the person said to it."""

    task: str
    before: list[View]
    kind: str
    report: str
    nod: str
    goes: bool
    """Whether the nod tells to go on, rather than that it is well."""
    thanks: bool

    @property
    def views(self) -> list[View]:
        return [person(self.task), *self.before, says(self.report), person(self.nod)]


def nodded(code: str) -> Iterator[Nodded]:
    """Every report with every nod, to one task after the other."""
    said = GOALS[code]
    go = [*said["go"], *(GOALS["other"]["go"] if code == "en" else [])]
    nods = [*said["nods"], *go, *said["thanks"]]
    for kind, before in product((*UNFINISHED, *ENDED), ([], LOOK, EDIT)):
        for number, (nod, report) in enumerate(product(nods, said[kind])):
            if before or kind != "finished":
                task = said["tasks"][number % len(said["tasks"])]
                yield Nodded(task, before, kind, report, nod, nod in go, nod in said["thanks"])


def waits_for(views: list[View]) -> set[str]:
    """What people wait for at the end of these views."""
    return {views[i].text for i in open_indices(views)}


def opened(views: list[View], *, answered: bool) -> list[str]:
    return [request.text for request in gather(views, answered=answered).open]


# R25
@pytest.mark.parametrize("code", LANGUAGES)
def test_while_tools_work_on_after_a_nod_the_task_is_open(code: str) -> None:
    lost = []
    for dialogue in nodded(code):
        found = waits_for([*dialogue.views, *EDIT])
        expected = {dialogue.nod} if dialogue.kind in ENDED else {dialogue.task, dialogue.nod}
        if not expected <= found:
            lost.append((dialogue.kind, dialogue.report, dialogue.nod, found))
    assert lost == []


# R25
@pytest.mark.parametrize("code", LANGUAGES)
def test_a_nod_to_anything_but_the_end_opens_the_task_before_any_work_follows(code: str) -> None:
    dialogues = [d for d in nodded(code) if d.kind in UNFINISHED and not d.thanks]
    assert [d[2:5] for d in dialogues if d.task not in waits_for(d.views)] == []


# R25
@pytest.mark.parametrize("code", LANGUAGES)
def test_praise_or_thanks_for_a_report_that_it_is_done_leave_it_finished(code: str) -> None:
    dialogues = [d for d in nodded(code) if d.kind == "finished" and not d.goes]
    assert dialogues
    assert [d[2:5] for d in dialogues if waits_for(d.views)] == []


# R25
@pytest.mark.parametrize("code", LANGUAGES)
def test_it_is_so_wherever_a_compaction_fell_and_in_text_protocols(code: str) -> None:
    lost = []
    for dialogue in list(nodded(code))[:: 29 if code != "en" else 211]:
        for work in (MORE, WRITTEN):
            views = [*dialogue.views, *work]
            for cut in range(1, len(views)):
                older = gather(views[:cut], answered=views[cut].origin == "person", at_work=bool(views[cut].calls))
                newer = gather(views[cut:], first_turn=cut, answered=False)
                if dialogue.nod not in [request.text for request in merge(older, newer).open]:
                    lost.append((cut, dialogue.report, dialogue.nod))
            if dialogue.nod not in waits_for(views):
                lost.append((-1, dialogue.report, dialogue.nod))
    assert lost == []


# R25
@pytest.mark.parametrize("code", LANGUAGES)
def test_what_a_person_takes_back_goes_and_what_replaces_it_is_open(code: str) -> None:
    wrong = []
    between: list[list[View]] = [
        MORE, [*MORE, says("Understood.")], [says("OK, I'll use it.")], [*MORE, says("It is done.")],
    ]  # fmt: skip
    for change in GOALS[code]["changes"]:
        for then, work, after in product(change["then"], between, ([], MORE)):
            ledger = gather([person(change["first"]), *work, person(then), *after], answered=not after)
            states = [request.state for request in ledger.requests]
            if states != ["withdrawn", "open"] or [rule.text for rule in ledger.rules if rule.turn == 0]:
                wrong.append((then, states, ledger.rules))
    assert wrong == []


# R25
@pytest.mark.parametrize("code", LANGUAGES)
def test_what_is_dropped_is_not_open_but_what_is_done_about_it_is(code: str) -> None:
    for task, words in product(GOALS[code]["tasks"], GOALS[code]["dropped"]):
        assert opened([person(task), *MORE, person(words)], answered=True) == []
        assert opened([person(task), *MORE, person(words), *EDIT], answered=False) == [words]


# R25
@pytest.mark.parametrize("code", LANGUAGES)
def test_who_forbids_the_very_thing_takes_it_back_and_who_forbids_a_part_takes_that_alone(code: str) -> None:
    for key in ("stops", "narrows"):
        for entry in GOALS[code][key]:
            for then in entry["then"]:
                found = opened([person(entry["first"]), *MORE, person(then), *MORE], answered=False)
                assert found == [*([entry.get("rest", entry["first"])] if key == "narrows" else []), then]


# R26
@pytest.mark.parametrize("code", LANGUAGES)
def test_what_is_said_for_this_one_time_is_no_rule(code: str) -> None:
    assert [text for text in GOALS[code]["for_once"] if rules_in(0, text)[0]] == []


def test_only_the_last_wish_goes_where_nothing_is_named_and_the_task_stays() -> None:
    asked = [person("Port the uploader."), *EDIT, person("Also add a progress bar."), *EDIT]
    assert opened([*asked, person("scratch that")], answered=True) == ["Port the uploader.", "scratch that"]
    assert opened([*asked, person("never mind all of it")], answered=True) == []


def test_a_rule_that_is_lifted_takes_no_task_with_it() -> None:
    views = [person("Port the uploader."), *EDIT, person("Forget the rule about 40 lines."), *EDIT]
    assert opened(views, answered=False)[0] == "Port the uploader."


def test_never_mind_in_reply_to_a_question_leaves_the_task_open() -> None:
    views = [person("Port the uploader."), *EDIT, says("Which colour should the bar have?"), person("never mind")]
    assert opened(views, answered=True) == ["Port the uploader.", "never mind"]


def test_a_whole_log_in_reply_to_a_question_leaves_the_task_open() -> None:
    log = "Here is all it printed:\n" + "2024-05-01 worker 7 lost its connection to the queue and tries again\n" * 20
    views = [person("Port the uploader."), *EDIT, says("What does the server print?"), person(log), *EDIT]
    assert opened(views, answered=False) == ["Port the uploader.", log]


def test_a_prohibition_outlives_the_task_it_was_said_with() -> None:
    views = [person("Port the uploader. Never touch the CI."), *EDIT, person("forget it, write the docs"), *EDIT]
    ledger = gather(views, answered=False)
    assert [rule.text for rule in ledger.rules] == ["Never touch the CI."]
    assert [request.text for request in ledger.open] == ["forget it, write the docs"]


@pytest.mark.parametrize("closing", ["I will now fix it", "Ich werde es jetzt beheben.", "我现在就去修。"])
def test_a_promise_closes_no_request(closing: str) -> None:
    assert opened([person("Fix the login."), *LOOK, says(closing)], answered=True) == ["Fix the login."]
    views = [person("Fix the login."), *LOOK, says(closing), person("Also look at the logout page, please."), *LOOK]
    assert opened(views, answered=False)[0] == "Fix the login."


def test_a_turn_that_was_interrupted_or_broke_off_finishes_nothing() -> None:
    fix, other = "Fix the login.", "Look at the logout page before that."
    for between in (
        [says("The cause is in the session."), person(f"[Request interrupted by user]\n{other}")],
        [
            says("The cause is in the session."),
            View("user", "host", "[Request interrupted by user for tool use]"),
            person(other),
        ],
        [says("The cause is in the"), person(other)],
    ):
        found = opened([person(fix), *LOOK, *between, *LOOK], answered=False)
        assert found[0] == fix
        assert found[-1].endswith(other)


def test_what_was_left_is_open_again_when_what_came_in_between_is_done() -> None:
    asked = [person("Port all twelve files."), *EDIT, says("5 of 12 are ported so far.")]
    typo = [person("Also fix the typo in the README."), *EDIT]
    assert opened([*asked, *typo, says("Fixed the typo.")], answered=True) == ["Port all twelve files."]
    assert opened([*asked, *typo, says("Done: all files are ported, the typo is gone.")], answered=True) == []


def test_a_new_task_after_a_report_that_it_is_done_is_all_that_is_open() -> None:
    done = [person("Port all twelve files."), *EDIT, says("Done, all twelve files are ported, tests pass.")]
    new = "Write the release notes for 2.4."
    assert opened([*done, person(new), *EDIT], answered=False) == [new]
    assert opened([*done, person("great, thanks"), says("You are welcome."), person(new), *EDIT], answered=False) == [
        new
    ]


def test_a_nod_that_nothing_was_done_about_leaves_things_as_they_were() -> None:
    asked = [person("Port all twelve files."), *EDIT, says("5 of 12 are ported so far."), person("ok")]
    assert opened([*asked, says("Good.")], answered=True) == ["Port all twelve files.", "ok"]
    done = [person("Port all twelve files."), *EDIT, says("The files are in the new client."), person("ok")]
    assert opened([*done, says("Glad to hear it.")], answered=True) == []


def test_a_nod_carries_what_it_nods_to() -> None:
    views = [person("Port it."), *LOOK, says("My plan: first the models, then the views."), person("ok"), *EDIT]
    assert "first the models" in gather(views, answered=False).open[-1].context


# R25
@pytest.mark.parametrize("protocol", ["chat", "anthropic", "responses", "tagged", "react"])
@pytest.mark.parametrize(
    ("report", "nod"),
    [
        ("Here is my plan: 1) the models 2) the views 3) the tests.", "ok"),
        ("5 of 12 files are ported so far.", "great"),
        ("Done, all twelve files are ported, tests pass.", "thanks"),
    ],
)
def test_after_every_compaction_of_the_work_that_follows_the_task_is_there_and_open(
    protocol: str, report: str, nod: str
) -> None:
    task = "Port the uploader to the new client, all twelve files."

    def work(first: int, rounds: int) -> list[Message]:
        return [
            message
            for i in range(first, first + rounds)
            for message in ROUNDS[protocol]("edit_file", f"part{i} " * 150, path=f"src/part{i}.py", new_text=f"v{i}")
        ]

    said = [user(task), *work(0, 2), assistant(report), user(nod), *work(2, 60)]
    made = run(said, window=4_000, settings=Settings(clear=None))
    assert len(made.ledgers) >= 3
    for ledger, summary, (_, messages) in zip(made.ledgers, made.summaries, made.lists, strict=True):
        assert_open(ledger, summary, messages, [task, nod])


def assert_open(ledger: Ledger, summary: str, messages: list[Message], texts: list[str]) -> None:
    """What is open by the ledger stands as its own message or word for word in the summary, and nowhere as finished."""
    assert [request.text for request in ledger.open] == texts
    opened_in = "\n".join(section(summary, "open"))
    own = json.dumps([message for message in messages if message.get("role") == "user"], ensure_ascii=False)
    assert [text for text in texts if text not in opened_in and text not in own] == []
    assert "do not redo" not in summary


def test_where_only_the_tail_holds_the_work_after_a_nod_the_summary_calls_nothing_finished() -> None:
    task, nod = "Port the uploader to the new client.", "thanks"
    before = ROUNDS["chat"]("edit_file", "row\n" * 400, path="a.py", new_text="x")
    after = ROUNDS["chat"]("edit_file", "row\n" * 40, path="b.py", new_text="y")
    said = [user(task), *before, *before, assistant("Done, everything is ported."), user(nod), *after]
    with Compactor(window=60_000, archive="memory:", settings=Settings(keep=("messages", 2), clear=None)) as compactor:
        fitted = compactor.compact(said, thread="t")
    assert fitted is not None
    assert fitted.receipt is not None
    summary = summary_in(fitted.messages, fitted.receipt.id)
    assert len(section(summary, "open")) >= 2


def test_a_call_that_follows_words_in_a_message_of_its_own_closes_nothing() -> None:
    views = [person("Port it."), *LOOK, says("The models are ported."), calls("edit_file", path="b.py"), answers("ok")]
    assert opened(views, answered=False) == ["Port it."]
