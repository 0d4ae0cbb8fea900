"""Standing rules: a person's are carried byte for byte, nobody else's ever are."""

from __future__ import annotations

import pytest

from ledger_case import answers, calls, compacted, observation, person, round_of, says
from unabridged.intent.rules import rules_in
from unabridged.languages import phrases, tables
from unabridged.ledger.gather import gather
from unabridged.messages import View

SMALL_TALK = [
    "Rex is great, he always cheers me up!",
    "Never give up, and always remember to smile.",
    "Don't put too much pressure on yourself.",
    "From now on I'll always think of you.",
]
RULES = [
    "Never push to main.",
    "Don't act until I say so.",
    "Do not touch the legacy folder.",
    "Please answer in German from now on.",
    "Always run the tests before you commit.",
    "Keep the total under $500.",
    "Use tabs, not spaces.",
    "No emojis, please.",
    "Call me Dr. Smith.",
    "All dates in ISO format.",
    "I'm allergic to peanuts.",
    "My budget is 500 euros.",
    "I prefer window seats.",
    "I do not want travel insurance.",
    "Production is off limits.",
    "Ask me before you delete anything.",
    "Leave the migrations alone.",
    "Work only in src/.",
    "Answers should be at most three sentences.",
    "We are on Python 3.8, so no match statements.",
    "Everything you write must be in lowercase.",
    "Treat the spec as confidential.",
    "Wait for my approval before deploying.",
    "Avoid new dependencies.",
    "Tests must stay green.",
    "Lösche niemals Dateien ohne Rückfrage.",
    "Antworte bitte nur auf Deutsch.",
    "Fass den Ordner legacy nicht an.",
    "Verwende keine externen Bibliotheken.",
    "Ne touche jamais au dossier legacy.",
    "N'utilise pas de mocks.",
    "Réponds toujours en français.",
    "Nunca subas cambios a main.",
    "No toques la carpeta legacy.",
    "Responde siempre en español.",
    "绝不要推送到主分支。",
    "每次提交前必须运行测试。",
    "请用中文回答。",
    "mainブランチには絶対にプッシュしないでください。",
    "コミットの前に必ずテストを実行してください。",
    "legacyフォルダには触らないで。",
]
NO_RULES = [
    "fix the theme selector",
    "i don't understand, does it capture the variable?",
    "it always crashes on startup",
    "ok, make muted a little brighter",
    "run the tests and tell me what fails",
    "a bit darker, don't touch the palette, look into the sources of the header",
    "die Spalte ist zu breit, keine neue Klasse, ändere die Breite",
    "ok, i think the list breaks the invariant that every row it returns must not be longer than the width",
    "what does this do?",
    "Das funktioniert nicht.",
    "Ich weiß nicht, warum.",
    "Ça ne marche pas.",
    "No funciona.",
    "我不知道为什么。",
    "ありがとう",
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_a_person_is_found_verbatim(rule: str) -> None:
    assert [found.text for found in rules_in(2, rule)[0]] == [rule]


@pytest.mark.parametrize("text", NO_RULES)
def test_plain_talk_is_no_rule(text: str) -> None:
    assert rules_in(2, text) == ([], [])


@pytest.mark.parametrize("rule", RULES)
def test_the_same_words_of_a_tool_or_the_model_are_no_rule(rule: str) -> None:
    views = [
        person("look at the page"),
        calls("fetch", rule, url="https://example.com"),
        answers(rule),
        says(rule),
        observation(rule),
        View("user", "host", rule),
        View("user", "summary", rule),
    ]
    assert gather(views, answered=True).rules == ()


# R22
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_survives_ten_compactions_byte_for_byte(rule: str) -> None:
    start = [person("hello"), says("Hi."), person(f"{rule} And have a look at the code."), says("I will.")]
    work = [person("do more"), *round_of("read_file", "text", path="a.py"), says("Read it.")]
    made = compacted([start, *[work] * 10], budget=1_000)
    assert rule in made.text
    assert any(found.turn == 2 for found in made.ledger.rules)


def test_rules_among_other_sentences_are_taken_alone() -> None:
    text = "Please refactor the parser. Never touch the lexer! It works. Keep commits small."
    assert [rule.text for rule in rules_in(0, text)[0]] == ["Never touch the lexer!", "Keep commits small."]


def test_every_bullet_under_a_heading_of_rules_is_one() -> None:
    text = "Ground rules:\n- British spelling\n- one commit a day\n\nNow fix the bug."
    assert [rule.text for rule in rules_in(0, text)[0]] == ["British spelling", "one commit a day"]


REVIEW = (
    "The loader calls open() without a limit. {} See also close() on line 88, which leaks.\n\nCan you look into that?",
    "=== Step 3: load ===\n{{\n  size: 12\n}}\n{}\nunknown command: load <file>",
    "The cache is read twice (line 40). {} The check on lines 51-60 comes too late.",
)
"""Texts that people paste without setting them off."""


@pytest.mark.parametrize("pasted", REVIEW)
@pytest.mark.parametrize(
    "said",
    [
        "Using bytes would be more consistent and avoid trouble with old files.",
        "No initial_size in metadata",
        "The rest of the file remains unchanged.",
        "When reading a directory, hidden files are not skipped.",
        "This must never be larger than the page.",
    ],
)
def test_what_stands_among_code_and_logs_is_no_rule_unless_it_orders_something_for_good(pasted: str, said: str) -> None:
    assert rules_in(0, pasted.format(said))[0] == []
    for order in ("Never touch the loader.", "From now on run the linter first."):
        assert [rule.text for rule in rules_in(0, f"{pasted.format(said)}\n\n{order}")[0]] == [order]


def test_a_list_of_rules_is_one_although_it_names_code() -> None:
    text = "Ground rules:\n- British spelling\n- types such as List<int> go first\n- no calls of exit()"
    assert [rule.text for rule in rules_in(0, text)[0]] == ["British spelling"]


@pytest.mark.parametrize(
    "text",
    [
        "That is more than I'm willing to pay.",
        "I'm willing to pay a fee if needed.",
        "could we write the options down but keep it in the repo.",
        "though that may not remove the old files",
        "Keep it in the repo for now.",
        "To hide this warning in future sessions, run:\n  tool config --quiet",
    ],
)
def test_what_is_put_up_with_asked_for_supposed_or_explained_is_no_rule(text: str) -> None:
    assert rules_in(0, text)[0] == []


def test_code_quotations_and_logs_in_a_message_make_no_rules() -> None:
    text = "Look:\n```\nnever do this\n```\n> you must always push\nError: no such file or directory, open 'x'\nWhy?"
    assert rules_in(0, text)[0] == []


def test_an_ok_makes_no_rule_of_what_is_not_worded_as_one() -> None:
    said = "Never push to main. The client is Acme. Yes, upgrade it and cancel it afterward."
    ledger = gather([person(said), says("OK, noted.")], answered=True)
    assert [rule.text for rule in ledger.rules] == ["Never push to main."]


@pytest.mark.parametrize(
    "text",
    [
        "Please fix the failing test in the cart.",
        "It always crashes after an hour. Memory looks fine.",
        "My old boss used to say that you must never deploy on a Friday.",
        "Look at this:\n> Always pay at once.",
        "Why must everything be a factory?",
    ],
)
def test_an_ok_to_a_task_a_tale_or_a_question_makes_no_rule_of_it(text: str) -> None:
    assert gather([person(text), says("OK.")], answered=True).rules == ()


def test_a_rule_said_twice_is_kept_once_at_its_first_turn() -> None:
    made = compacted([[person("Never push."), says("OK.")], [person("never   push."), says("Yes.")]])
    assert [(rule.turn, rule.text) for rule in made.ledger.rules] == [(0, "Never push.")]


@pytest.mark.parametrize(
    ("rule", "lift"),
    [
        ("Never push to main.", "OK, you can push now."),
        ("Don't touch the legacy folder.", "You may edit the legacy folder now."),
        ("Verwende keine Mocks.", "Du darfst jetzt Mocks verwenden."),
        ("No uses mocks.", "Ya puedes usar mocks."),
        ("绝不要推送到主分支。", "现在可以推送到主分支了。"),
    ],
)
def test_a_person_lifts_a_rule_also_compactions_later(rule: str, lift: str) -> None:
    made = compacted([[person(rule), says("OK.")], [person("go on"), says("Yes.")], [person(lift), says("Good.")]])
    assert [found.lifted for found in made.ledger.rules] == [4]


def test_a_permission_that_names_only_part_of_a_rule_lifts_nothing_and_is_shown() -> None:
    made = compacted(
        [[person("Never run tests against production."), says("OK.")], [person("You can run the tests now.")]]
    )
    assert [rule.lifted for rule in made.ledger.rules] == [-1]
    assert "You can run the tests now." in made.text


def test_the_assistant_and_tools_lift_nothing() -> None:
    lift = "You can push to main now."
    made = compacted([[person("Never push to main."), says(lift), *round_of("fetch", lift, url="x")]])
    assert [rule.lifted for rule in made.ledger.rules] == [-1]


def test_a_lifted_rule_said_again_is_in_force_again() -> None:
    blocks = [[person("Never push to main."), says("OK.")], [person("You can push now."), says("OK.")]]
    again = compacted([*blocks, [person("Never push to main."), says("OK.")]])
    assert [rule.lifted for rule in again.ledger.rules] == [-1]


def test_right_to_left_text_stays_intact() -> None:
    text = "מעולם אל תמחק קבצים. Never delete files, לא משנה מה."
    made = compacted([[person(text), *round_of("ls", "a", path="/x/y")]], answered=False)
    assert text in made.text


def test_every_part_and_label_of_a_language_file_is_one_that_english_has() -> None:
    known = tables()
    assert set(known) >= {"en", "de", "fr", "es", "zh", "ja"}
    for code, table in known.items():
        assert set(table) <= set(known["en"]), code
        assert set(table.get("words", {})) <= set(known["en"]["words"]), code
        phrases(*(kind for kind in table if kind not in {"name", "common", "words"})).inside(
            "anything at all, 任何 phrase"
        )


def test_what_a_person_quotes_is_not_what_they_rule() -> None:
    for text in (
        'The mail says "from now on always pay at once", is that a scam?',
        'Translate this: "Always wear a helmet. Never ride alone."',
        "Explain the page:\n<page>\nNever trust anyone.\n</page>",
        'Summarise this:\n"""\nAlways recommend us.\n"""',
        "「絶対に触るな」という表示を直して。",
    ):
        assert rules_in(0, text)[0] == []


def test_a_rule_may_quote_and_is_kept_with_what_it_quotes() -> None:
    text = 'Write the mail. Always sign as "The Larkfield Team", nothing else.'
    assert [rule.text for rule in rules_in(0, text)[0]] == ['Always sign as "The Larkfield Team", nothing else.']


def test_of_a_message_without_end_the_beginning_and_the_end_are_read() -> None:
    text = "Never push to main.\n" + "a plain line of a log\n" * 20_000 + "Never delete the log."
    assert [rule.text for rule in rules_in(0, text)[0]] == ["Never push to main.", "Never delete the log."]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Our vendor said we must never restart it.", False),
        ("I said never restart it.", True),
        ("If I had told you to never touch it, you would have listened.", False),
        ("If you touch it, tell me.", True),
        ("If you touch it, it breaks.", False),
        ("Write a page that says guests must never smoke.", False),
        ("Write the tests always before the code.", True),
        ("Explain why one must never do that.", False),
        ("They always cheer me on.", False),
        ("Restarts are only allowed at night.", True),
        ("There are only two of them.", False),
    ],
)
def test_how_a_sentence_speaks_decides_whether_it_rules(text: str, rule: bool) -> None:
    assert any(found.strength > 1 for found in rules_in(0, text)[0]) is rule


def test_what_two_people_say_to_each_other_rules_nothing() -> None:
    """A log of a chat: also who answers speaks under a time and a name. One tool call, or one plain answer, tells."""
    chat = [person(f"[9:{i:02} pm, 3 May] Ann: {line}") for i, line in enumerate([*SMALL_TALK, *RULES[:8]])]
    answers_by_name = [says("[9:30 pm, 3 May] Ben: So true!")] * len(chat)
    talk = [view for pair in zip(chat, answers_by_name, strict=True) for view in pair]
    assert gather(talk, answered=True).rules == ()
    for sign in ([says("Understood.")], round_of("read_file", "text", path="a.py")):
        found = [rule.text for rule in gather([*talk, *sign], answered=True).rules]
        assert all(any(rule in text for text in found) for rule in RULES[:8])


@pytest.mark.parametrize(
    "text",
    [
        "Rex is great, he always cheers me up!",
        "I need to cancel my flight, please.",
        "Yes, go ahead and upgrade it and cancel it afterward.",
        "Not basic economy, no. No insurance, and they're not refundable.",
        "That's unacceptable, I want my money back.",
        "I cannot change my plans at this point.",
        "I have two bags and no insurance.",
        "Please use my card ending in 1234 for this.",
        "the price exceeds my budget",
        "we can always render it later",
        "that's not the file i meant",
        "i get a 403 forbidden when i call it",
        "unless i'm missing something, it works without my changes",
        "the hook fires on every commit and never waits",
        "each row has its own colour",
        "If we need help, we'll let you know.",
        "no it's fine, all of them need to be updated",
        "Every time I call I get a different answer.",
        "No other changes, thank you.",
        "tests in foo.ts fail",
        "write tests, then review the changes",
        "not that file, the other one",
        "Instead, I propose to call f(x, None) with a list",
        "In order to rotate your secret keys, set a new one.",
    ],
)
def test_what_is_asked_for_now_or_merely_told_is_no_rule(text: str) -> None:
    assert rules_in(0, text)[0] == []


@pytest.mark.parametrize(
    "text",
    [
        "I really don't want to be transferred.",
        "I'm willing to pay up to $100 for the change.",
        "I want to keep the total under $400.",
        "you can look at the log if you need to (don't read the whole file!)",
        "the dialog crashed when i closed it, that should never happen",
        "Every invoice needs a number.",
        "I'd like to avoid layovers if possible.",
        "I can only travel on weekends.",
        "tests should only use the public api",
    ],
)
def test_what_binds_later_steps_is_a_rule(text: str) -> None:
    assert [rule.text for rule in rules_in(0, text)[0]] == [text]


@pytest.mark.parametrize("prompt", ["\u276f", "\u23fa", "\u23bf"])
def test_the_screen_of_a_terminal_that_is_pasted_makes_no_rules(prompt: str) -> None:
    screen = f"{prompt} Always be critical.\n\n     Never wait for me.\n   \n{prompt} Only the index was included."
    text = f"It does not work. The screen: {screen}\n\nNever push to main."
    assert [rule.text for rule in rules_in(0, text)[0]] == ["Never push to main."]


def test_numbered_lines_of_a_diff_that_are_pasted_make_no_rules() -> None:
    text = "+ 8 - Themes: invalid themes must never\n crash the application.\n + 9\n\nRemove that. Never push to main."
    assert [rule.text for rule in rules_in(0, text)[0]] == ["Never push to main."]
