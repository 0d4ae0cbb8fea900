from __future__ import annotations

from typing import Any

import pytest

from rows import rows
from summaries import GOOD, count, ends
from unabridged.asking.ask import Reply
from unabridged.languages.detection import detect_certain_language
from unabridged.summary.verify import ExpectedReply, extract_visible_text, find_problems, list_impossible_checks

SAID = (
    "Please repair the importer so that it reads files with a byte order mark, keep the public interface as it is, and "
    "tell me which of the old files could not be read at all before I send the report to the customer on Friday."
)
GERMAN = (
    "Der Benutzer möchte, dass der Import repariert wird. Wir haben den Parser neu geschrieben und die Tests laufen, "
    "aber die Dokumentation ist noch nicht fertig."
)


def expected(**options: Any) -> ExpectedReply:
    return ExpectedReply(
        **{"budget": 400, "replaced": 5_000, "count": count, "shown": [SAID], "language": "en", **options}
    )


def names(reply: Reply, **options: Any) -> list[str]:
    return [problem.name for problem in find_problems(reply, expected(**options))]


def test_a_sound_summary_has_no_problem() -> None:
    assert names(ends(GOOD)) == []


# R33
@rows(
    ("reply", "name"),
    [
        (ends(""), "empty"),
        (ends("  \n\t "), "empty"),
        (ends("", reasoning="Let me think about what the user wants."), "reasoning-only"),
        (ends("<think>The user wants a summary, so I</think>"), "reasoning-only"),
        (ends("<think>never closed, and then"), "reasoning-only"),
        (ends("", stop="tool", calls=1), "tool-call"),
        (ends(GOOD, calls=1), "tool-call"),
        (ends(GOOD, stop="length"), "cut-off"),
        (ends(GOOD, stop="other"), "cut-off"),
        (ends(GOOD, stop="refusal"), "refusal"),
        (ends("I'm sorry, but I can't help with that."), "refusal"),
        (ends("I cannot assist with this request as it goes against my guidelines."), "refusal"),
        (ends("Es tut mir leid, aber dabei kann ich Ihnen nicht helfen."), "refusal"),
        (ends("抱歉、我无法完成这个请求。"), "refusal"),
        (ends(SAID), "restated-input"),
        (ends(f"Here is the conversation:\n\n{SAID}"), "restated-input"),
        (ends("so that it reads files with a byte order mark"), "restated-input"),
        (ends("The importer was repaired. " * 40), "repetitive"),
    ],
)
def test_what_is_not_a_summary_is_named(reply: Reply, name: str) -> None:
    assert names(reply)[:1] == [name]


# R36
@rows(
    "text",
    [
        "Previous conversation was too long to summarize.",
        "Error generating summary: Connection error.",
        "Error code: 429 - {'error': {'message': 'Rate limit reached'}}",
        '{"error": {"message": "Overloaded", "type": "overloaded_error"}}',
        "<html><head><title>502 Bad Gateway</title></head></html>",
        "RateLimitError: too many requests in a row",
        "503 Service Unavailable",
        "Traceback (most recent call last):\n  File x",
        "[summary goes here]",
        "Summary unavailable.",
        "N/A",
        "Sure!",
        "Please provide the conversation you would like me to summarize.",
        "There is no conversation to summarize.",
    ],
)
def test_an_error_text_or_a_placeholder_is_no_summary(text: str) -> None:
    assert set(names(ends(text))) & {"error-text", "placeholder", "refusal"}


@pytest.mark.parametrize(
    "text",
    [
        "Error handling was added to the importer: bad rows are now skipped, and the tests that cover them pass.",
        "Rate limit handling is done. The client waits as long as the server asks for, and then it tries again.",
        "I cannot be sure about the third file; the other two were repaired and are in use since yesterday.",
        "No conversation partner was set for the channel, so the messages went to the default one.",
    ],
)
def test_a_summary_about_errors_is_not_taken_for_one(text: str) -> None:
    assert names(ends(text)) == []


# R35
def test_a_summary_that_is_not_smaller_than_what_it_replaces_is_refused() -> None:
    assert names(ends(GOOD), replaced=count(GOOD)) == ["not-smaller"]


def test_a_summary_over_its_budget_is_refused_with_both_numbers() -> None:
    (problem,) = find_problems(ends(GOOD), expected(budget=20))
    assert problem.name == "over-budget"
    assert f"{count(GOOD)}" in problem.message
    assert "20" in problem.message


# R28
def test_a_summary_in_another_language_is_refused_and_the_right_one_is_not() -> None:
    assert names(ends(GOOD), language="de") == ["wrong-language"]
    assert names(ends(GERMAN), language="de") == []
    assert names(ends(GERMAN), language="") == []


def test_the_key_of_the_data_in_a_reply_means_it_was_repeated() -> None:
    assert names(ends(f"#a1bc [1] user\n{GOOD}"), marks=["#a1bc ["]) == ["restated-input"]


def test_a_reply_that_does_not_say_why_it_stopped_makes_checks_impossible_checks() -> None:
    assert list_impossible_checks(Reply(GOOD)) == ("cut-off", "tool-call", "reasoning-only")
    assert list_impossible_checks(ends(GOOD)) == ()


def test_thinking_in_tags_and_a_fence_around_the_whole_are_taken_off() -> None:
    assert extract_visible_text(f"<think>hm</think>\n```markdown\n{GOOD}\n```") == GOOD
    assert extract_visible_text(f"<summary>\n{GOOD}\n</summary>") == GOOD


@rows(
    ("code", "text"),
    [
        (
            "en",
            "The user wants the page fixed, and we have changed the file so that it is checked before the redirect.",
        ),
        ("de", GERMAN),
        ("fr", "L'utilisateur veut que la page soit réparée, et les tests passent, mais ce n'est pas dans la branche."),
        ("es", "El usuario quiere que se arregle la página, y las pruebas pasan, pero no se ha desplegado por ahora."),
        (
            "it",
            "L'utente vuole che la pagina sia riparata; i test passano ma non è stato distribuito, anche per i log.",
        ),
        ("pt", "O usuário quer que a página seja corrigida, e os testes passam, mas não foi implantado com os dados."),
        ("nl", "De gebruiker wil dat de pagina wordt hersteld en het werkt, maar het is nog niet op de server gezet."),
        ("pl", "Użytkownik chce, żeby strona została naprawiona, i testy są dobre, ale nie jest to na serwerze."),
        (
            "sv",
            "Användaren vill att sidan ska lagas och det är klart, men det är inte på servern och vi väntar på svar.",
        ),
        ("zh", "用户希望修复登录页面。我们修改了 auth.py。测试已经通过。但尚未部署。"),
        ("ja", "ユーザーはログインページの修正を求めています。auth.py を変更し、テストは通っています。"),
        ("ko", "사용자는 로그인 페이지를 고치고 싶어합니다. auth.py를 변경했습니다."),
        ("ru", "Пользователь хочет исправить страницу входа, и мы изменили файл."),
        ("hebrew", "המשתמש רוצה לתקן את דף הכניסה, ושינינו את הקובץ."),
        ("", "def read(path): return open(path).read()  # auth.py:12 x = y + 1"),
        ("", "ok"),
        ("", "`the and of to is that it was for with` src/main.py"),
    ],
)
def test_a_language_is_named_only_when_it_is_certain(code: str, text: str) -> None:
    assert detect_certain_language([text]) == code
