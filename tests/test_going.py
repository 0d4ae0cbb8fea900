"""What is going on: interruptions, rejections, turns that were cut off, short answers, changes of mind.

A dialogue is what was said and done in order: `U` a person, `A` the assistant, `H` a turn of the host's; `look` and
`edit` are tool calls, `cut` is one with the answer that follows the word, `no` one that the person rejects with these
words. `states` says what became of each of the person's messages, null where it does not matter; `context` what is
shown beside one, word for word; `rest` what stays of one when a part of it is dropped. Of those in `dropped` 37 of 60
held at first sight. Those of `various` and the last of `answers` are of 56 that were written when all
before them held: 43 did at first sight.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from ledger_case import LISTS, answers, calls, compacted, count, person, round_of, says
from unabridged.intent.frames import frames
from unabridged.languages import labels
from unabridged.ledger.gather import gather, merge
from unabridged.ledger.summary_turn import render
from unabridged.messages import View

GROUPS: dict[str, list[dict[str, Any]]] = json.loads((LISTS / "going.json").read_text(encoding="utf-8"))
DIALOGUES = [entry for group in GROUPS.values() for entry in group]
REJECTED = frames()["rejections"][0]["opens"]
TOOLS = {
    "look": ("read_file", "some text", {"path": "a.py"}),
    "edit": ("edit_file", "ok", {"path": "a.py", "new_text": "x"}),
}


def views_of(said: list[str]) -> list[View]:
    """The messages of a dialogue."""
    views: list[View] = []
    for step in said:
        kind, _, text = step.partition(" ")
        if kind in TOOLS:
            tool, answer, arguments = TOOLS[kind]
            views += round_of(tool, answer, **arguments)
        elif kind == "no":
            views += [calls("bash", command="./run.sh"), answers(f"{REJECTED}\n{text}", error=True)]
        elif kind == "cut":
            views += round_of("bash", text, command="./run.sh")
        else:
            views.append({"U": person, "A": says, "H": hosts}[kind](text))
    return views


def hosts(text: str) -> View:
    return View("user", "host", text)


def named(dialogue: dict[str, Any]) -> str:
    return " | ".join(dialogue["said"])[-70:]


def ends(views: list[View]) -> bool:
    """Whether the assistant handed back at the end."""
    return views[-1].origin in {"model", "person", "host"}


def assert_states(found: list[str], expected: list[str | None]) -> None:
    assert [state if wanted else None for state, wanted in zip(found, expected, strict=True)] == expected


# R25
@pytest.mark.parametrize("dialogue", DIALOGUES, ids=named)
def test_each_request_is_told_as_what_it_is(dialogue: dict[str, Any]) -> None:
    views = views_of(dialogue["said"])
    ledger = gather(views, answered=ends(views))
    assert_states([request.state for request in ledger.requests], dialogue["states"])


# R25
@pytest.mark.parametrize("dialogue", DIALOGUES, ids=named)
def test_it_is_so_wherever_a_compaction_fell(dialogue: dict[str, Any]) -> None:
    views = views_of(dialogue["said"])
    for cut in range(1, len(views)):
        if views[cut].answers:
            continue
        older = gather(views[:cut], answered=views[cut].origin == "person", at_work=bool(views[cut].calls))
        newer = gather(views[cut:], first_turn=cut, answered=ends(views))
        merged = merge(older, newer)
        assert_states([request.state for request in merged.requests], dialogue["states"])
        assert [request.context for request in merged.requests] == [
            request.context for request in gather(views, answered=ends(views)).requests
        ]


# R25
@pytest.mark.parametrize("dialogue", [entry for entry in DIALOGUES if "rest" in entry], ids=named)
def test_one_of_several_things_that_is_dropped_goes_and_the_message_is_still_told_whole(
    dialogue: dict[str, Any],
) -> None:
    views = views_of(dialogue["said"])
    said = next(view.text for view in views if view.origin == "person")
    for cut in (0, *(i for i in range(1, len(views)) if views[i].origin == "person")):
        older, newer = gather(views[:cut], answered=True), gather(views[cut:], first_turn=cut, answered=ends(views))
        ledger = merge(older, newer)
        assert {str(i): r.text for i, r in enumerate(ledger.requests) if r.text != said and i == 0} == dialogue["rest"]
        told = render(ledger, 3_000, count)
        assert dialogue["rest"]["0"] in told.sections["open"].replace("\n  ", "\n")
        assert all(line in told.text() for line in said.splitlines())


COUNTED = [
    (
        "Please: 1) bump the deps 2) fix the clock 3) write notes",
        "skip 2",
        "Please: 1) bump the deps […] 3) write notes",
    ),
    ("Fix the clock.", "forget the second, Tom does it", "Fix the clock."),
    ("Fix the clock and write notes.", "forget the second", "Fix the clock and write notes."),
    ("Fix the clock and write notes.", "do that at first", "Fix the clock and write notes."),
]


@pytest.mark.parametrize(("task", "words", "rest"), COUNTED)
def test_one_of_several_things_is_dropped_by_the_mark_it_has(task: str, words: str, rest: str) -> None:
    ledger = gather(views_of([f"U {task}", "edit", f"U {words}", "edit"]), answered=False)
    assert [request.text for request in ledger.open] == [rest, words]


INSTEAD = [
    ("Write the docs with Sphinx.", "no Sphinx please. set up a wiki instead", "withdrawn"),
    ("Bau eine Meldung per SMS ein.", "doch keine SMS, das kostet. Schick lieber eine Mail.", "withdrawn"),
    ("Supprime les anciens journaux.", "laisse les journaux. Liste-moi plutôt les plus gros.", "withdrawn"),
    ("Exporta la lista a Excel.", "Excel no hace falta. Mejor un PDF.", "withdrawn"),
    ("ログを全部消して", "消すのは中止。代わりに圧縮して", "withdrawn"),
    ("把首页改成深色", "不用深色了，换成跟随系统", "withdrawn"),  # noqa: RUF001 - Chinese has its own comma
]


@pytest.mark.parametrize(("task", "words", "state"), INSTEAD)
def test_what_is_wanted_instead_is_open_and_what_it_replaces_stands_beside_it(
    task: str, words: str, state: str
) -> None:
    for dropper, became in ((f"U {words}", state), (f"no {words}", "left")):
        ledger = gather(views_of([f"U {task}", "edit", dropper, "look"]), answered=False)
        assert [request.state for request in ledger.requests] == [became, "open"]
        told = render(ledger, 3_000, count).sections["open"]
        label = {"withdrawn": "zurückgezogen|withdrawn|retirée|retirada|取り下げ|已撤回"}.get(became, "")
        assert told.index(words) < told.index(task)
        assert any(word in told for word in label.split("|"))


NARROWED = [
    ("Fix the login. It broke with the release.", "forget the release, it is only on staging"),
    ("Fix the login bug.", "don't change the tests, run them instead"),
    ("Deploy version 2.1.", "don't deploy before 6pm. check the queue first"),
    ("Write tests for the parser.", "no mocks, write them against the real db"),
    ("Fix the failing tests.", "leave the tests as they are and fix the code"),
    ("Delete the old log files.", "rather move them to /archive"),
    ("Schreib eine Mail an das Team.", "lass die Anrede weg"),
    ("Corrige les fautes dans le texte.", "laisse les titres comme ils sont"),
    ("Ordena las fotos por fecha.", "mejor por lugar"),
    ("サイトを英語に翻訳して", "ボタンは翻訳しなくていい"),
    ("把网站翻译成英文", "按钮不用翻译"),
    ("Add a rate limit to the login route.", "no new dependency, we have lib/throttle.ts"),
    ("Deploy the branch to the test server.", "use port 8080 instead"),
    ("Set up a small api with postgres.", "instead of postgres use sqlite"),
    ("Rename the button in the header.", "not the header, the footer"),
    ("Delete the old backups.", "don't delete the ones from March"),
    ("Fix the failing tests.", "don't touch the tests, fix the code"),
    ("Write a ruff config and install a pre-commit hook.", "our hooks go through lefthook, don't install pre-commit"),
    ("Make the import idempotent and add a test for it.", "we never test with mocks here, use the real db"),
    ("Book the train to Lyon on Thursday.", "I don't have the booking number with me"),
]


@pytest.mark.parametrize(("task", "words"), NARROWED)
def test_words_that_narrow_a_task_down_or_change_a_detail_leave_it_open(task: str, words: str) -> None:
    for dropper in (f"U {words}", f"no {words}"):
        ledger = gather(views_of([f"U {task}", "edit", dropper, "look"]), answered=False)
        assert [request.text for request in ledger.open] == [task, words]


def calls_made(messages: list[View]) -> int:
    """How many functions are called to read these messages."""
    made = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal made
        made += event == "call"

    sys.setprofile(note)
    try:
        gather(messages, answered=False)
    finally:
        sys.setprofile(None)
    return made


@pytest.mark.parametrize(
    "rule",
    [
        "Never push to main.",
        "Don't touch the tests.",
        "Do not deploy on Fridays.",
        "Skip the linter.",
        "Keine Mails an Kunden schicken.",
        "Ne touche pas aux tests.",
        "No toques las pruebas.",
        "不要改测试。",
        "テストは変更しないで。",
    ],
)
@pytest.mark.parametrize("task", ["{0} Rename `parse_row` and run the tests.", "Rename `parse_row`. {0} Then push it."])
def test_a_prohibition_that_is_said_again_drops_nothing_of_what_it_was_said_with(rule: str, task: str) -> None:
    first = task.format(rule)
    views = [person(first), *round_of("bash", "ok", command="ls"), person(f"{rule} Rename `read_row` too.")]
    ledger = gather([*views, *round_of("bash", "ok", command="ls")], answered=False, at_work=True)
    assert [request.text for request in ledger.open if request.turn == 0] == [first]


@pytest.mark.parametrize(
    "said",
    [
        ["U Rename helper {} in module{}.py, and add a test for it."],
        ["U item {}"],
        ["U no, don't touch file {}, forget step {} and do something else instead"],
        ["U Port module {}.", "A I port", "H [Request interrupted by user]"],
    ],
)
def test_many_messages_in_a_row_cost_little_more_each_than_few(said: list[str]) -> None:
    few, many = (
        calls_made(views_of([step.replace("{}", str(i)) for i in numbers for step in said]))
        for numbers in (range(1_000, 1_100), range(2_000, 2_400))
    )
    assert many < 4.6 * few


@pytest.mark.parametrize("dialogue", GROUPS["answers"], ids=named)
def test_a_short_answer_stands_beside_the_offer_it_answers_also_when_it_is_finished(dialogue: dict[str, Any]) -> None:
    views = views_of(dialogue["said"])
    ledger = gather(views, answered=ends(views))
    told = render(ledger, 3_000, count).text()
    for number, offers in dialogue["context"].items():
        request = ledger.requests[int(number)]
        for offer in offers:
            assert offer in request.context
        before, answer, _ = told.partition(f"[{request.turn}] user")
        lines = [
            *(before + answer).splitlines()[-8:],
            *told.partition(answer or f"message {request.turn}")[2].splitlines()[:1],
        ]
        assert request.context in " ".join(" ".join(lines).split())
        assert not [gone for gone in dialogue.get("without", {}).get(number, []) if gone in request.context]


def test_the_newest_message_heads_what_is_open_and_the_task_behind_it_follows() -> None:
    task, typo = "Port all twelve files of the uploader to the new client.", "also fix the typo"
    views = views_of([f"U {task}", "edit", f"U {typo}", "edit"])
    told = render(gather(views, answered=False), 3_000, count).sections["open"]
    assert told.index(typo) < told.index(task)


@pytest.mark.parametrize("short", ["push it", "continue", "yes, please", "try again", "1"])
def test_behind_a_short_message_stands_the_task_it_goes_on_with(short: str) -> None:
    task = "Port all twelve files of the uploader to the new client, and keep the tests as they are."
    for closing in ("Done, all twelve files are ported, all tests pass. Shall I push it?", "Done: all are ported."):
        views = views_of([f"U {task}", "edit", f"A {closing}", f"U {short}", "look"])
        told = render(gather(views, answered=False), 3_000, count).sections["open"]
        assert told.index(short) < told.index(task)
        assert ("Shall I push it?" in told) == ("?" in closing)


def test_behind_a_message_that_says_all_by_itself_nothing_finished_stands() -> None:
    task, other = "Port the uploader to the new client.", "Write the release notes for 2.4, please."
    views = views_of([f"U {task}", "edit", "A Done: all are ported.", f"U {other}", "look"])
    assert task not in render(gather(views, answered=False), 3_000, count).sections["open"]


REMARKS = {
    "en": ("Sort the photos on the old disk by year, please.", "They are in 14 folders, one a year.", "whoa, neat-o"),
    "de": ("Sortiere bitte die Fotos auf der alten Platte nach Jahr.", "Sie liegen in 14 Ordnern.", "na sauber"),
    "es": ("Ordena por favor las fotos del disco viejo por año.", "Están en 14 carpetas.", "qué chulo"),
    "fr": ("Classe les photos du vieux disque par année, merci.", "Elles sont dans 14 dossiers.", "trop fort"),
    "ja": ("古いディスクの写真を年ごとに並べてください", "14個のフォルダに入れました。", "へえ〜"),
    "zh": ("请把旧硬盘里的照片按年份整理", "都放进14个文件夹里。", "哇塞"),
}
"""A task, a report that nobody calls an end, and a remark that is in no list of words."""


# R25
@pytest.mark.parametrize("code", REMARKS)
def test_what_is_open_only_in_doubt_is_told_with_where_it_was_answered(code: str) -> None:
    task, report, remark = REMARKS[code]
    views = views_of([f"U {task}", "edit", f"A {report}", f"U {remark}"])
    told, words = render(gather(views, answered=True), 3_000, count).sections["open"], labels(code)
    assert f"- {words['newest'].format(turn=4)}" in told
    assert f"- {words['answered'].format(turn=0, answer=3)}" in told
    told = render(gather([*views, *views_of(["edit"])], answered=False), 3_000, count).sections["open"]
    assert f"- {words['asked'].format(turn=4)}" in told


@pytest.mark.parametrize(
    "nod", ["ok", "fine, thanks", "ok, danke", "vale, gracias", "d'accord, merci", "はい、ありがとう", "好的,谢谢"]
)
def test_a_nod_to_an_answer_in_between_takes_nothing_up_that_was_interrupted(nod: str) -> None:
    said = ["U Move the build to Gradle.", "edit", "H [Request interrupted by user]", "U When was release 3.2?", "look"]
    views = views_of([*said, "A On 14 February, by its tag.", f"U {nod}"])
    assert [request.state for request in gather(views, answered=True).requests][::2] == ["interrupted", "finished"]


CUT_OFF = [
    (
        "Explain how tides work.",
        "The moon pulls the water. It rises twice a",
        "so twice a day it rises, the water follows.",
    ),
    (
        "Erkläre die Gezeiten.",
        "Der Mond zieht das Wasser an. Es steigt zweimal am",
        "Das Wasser steigt zweimal am Tag.",
    ),
    ("Explica las mareas.", "La luna atrae el agua. El agua sube dos veces al", "El agua sube dos veces al día."),
    ("Explique les marées.", "La lune attire l'eau. L'eau monte deux fois par", "L'eau monte deux fois par jour."),
]


@pytest.mark.parametrize(("task", "begun", "rest"), CUT_OFF)
def test_an_answer_cut_off_is_finished_by_its_rest_and_by_no_other_answer(task: str, begun: str, rest: str) -> None:
    for said, answer, state in (
        ("you stopped there", rest, "finished"),
        ("book the dentist for friday", "Booked for 9:30.", "interrupted"),
        ("any post today", "Two letters and a parcel.", "interrupted"),
    ):
        ledger = gather(views_of([f"U {task}", f"A {begun}", f"U {said}", "look", f"A {answer}"]), answered=True)
        assert [request.state for request in ledger.requests] == [state, "finished"]


@pytest.mark.parametrize("asked", ["どの色にしますか。", "青と赤、どちらがよいでしょうか。", "何色がいいですか。"])
def test_a_question_that_ends_without_a_mark_waits_and_its_answer_is_no_rule(asked: str) -> None:
    views = views_of(["U ボタンの色を変えてください", "look", f"A 色は二つあります。{asked}"])
    assert [request.state for request in gather(views, answered=True).requests] == ["waiting"]
    views += views_of(["U 青で。ただし左のボタンだけ", "edit", "A 左のボタンを青にしました。"])
    assert gather(views, answered=True).rules == ()


def test_what_was_interrupted_is_told_as_broken_off_and_is_left_after_much_else() -> None:
    said = ["U Port the uploader to the new client.", "edit", "H [Request interrupted by user]"]
    other = ["U Write the release notes for 2.4, please.", "edit", "A The release notes are written."]
    ledger = gather(views_of([*said, *other]), answered=True)
    assert "broken off" in render(ledger, 3_000, count).sections["open"]
    ledger = gather(views_of([*said, *other * 6]), answered=True)
    assert [request.state for request in ledger.requests][:2] == ["left", "finished"]
    assert "interrupted, not taken up again" in render(ledger, 3_000, count).sections["done"]


@pytest.mark.parametrize("text", ["Command aborted by a test.\n" * 9, "The user may abort it.", "rejected: bad input"])
def test_what_a_tool_merely_prints_stops_nothing_that_goes_on(text: str) -> None:
    views = [*views_of(["U Clean up the branches."]), *round_of("bash", text, command="make"), *views_of(["edit"])]
    assert [request.state for request in gather(views, answered=False).requests] == ["open"]


def test_the_words_of_a_hosts_refusal_name_nothing_whether_the_person_said_something_or_not() -> None:
    for rejection in frames()["rejections"]:
        for said in ("", "\nkeep_this_name please"):
            refusal = rejection["opens"].replace("{tool}", "bash") + said
            views = [person("Rename it."), calls("bash", command="run"), answers(refusal, error=True), says("Well.")]
            assert {name.text for name in gather(views, answered=True).names} <= {"keep_this_name"}, refusal


def test_an_answer_that_is_nothing_but_code_offers_nothing() -> None:
    ledger = gather([person("show me"), says("```python\nx = 1\n```"), person("yes"), says("")], answered=True)
    assert [request.context for request in ledger.requests] == [""] * len(ledger.requests)


def test_half_a_sign_in_the_newest_message_breaks_nothing() -> None:
    views = [person("Port the uploader, all of it."), *round_of("bash", "ok", command="ls"), says("It is ported.")]
    views += [person("again \ud83d"), *round_of("bash", "ok", command="ls")]
    assert "Port the uploader" in compacted([views], answered=False).text
