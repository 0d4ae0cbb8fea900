"""`unabridged eval`: what is read, how it is cut, what each arm is charged, and what the person sees."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from cli_case import SESSION, SESSION_FILES, run
from conversations import assistant, chat_round, user
from rows import rows
from unabridged.errors import SettingsError
from unabridged_corpus.evaluate import questions
from unabridged_corpus.evaluate.arms import build_tail_arm, build_unabridged_arm, choose_arms
from unabridged_corpus.evaluate.cut_points import find_cut_points
from unabridged_corpus.evaluate.data import EvalConversation, build_conversation, read_conversations
from unabridged_corpus.evaluate.plot import draw_plot
from unabridged_corpus.evaluate.report import evaluate
from unabridged_corpus.evaluate.score import count_held_needs
from unabridged_testing import ScriptedModel


def count(text: str) -> int:
    return len(text) // 4 + 1


def coding(rounds: int = 60) -> list[dict[str, Any]]:
    """A run that opens one file after another and uses in each what it saw many rounds before."""
    messages = [user("Rename load_settings everywhere.")]
    for i in range(rounds):
        name = f"handle_case_{i % 40}"
        bulk = f"def {name}(value):\n    return value\n" + f"# filler line {i}\n" * 30
        messages += chat_round(f"read_{i}", bulk, path=f"src/app/part_{i % 40}.py")
        older = f"handle_case_{(i - 15) % 40}"
        messages += chat_round(
            f"edit_{i}", "ok", path=f"src/app/part_{i % 40}.py", new_text=f"{older}(load_settings())"
        )
    return [*messages, assistant("Done.")]


def chat(turns: int = 240) -> dict[str, Any]:
    """Months of small talk with a fact now and then, and questions about the facts."""
    messages, asked = [], []
    for i in range(turns):
        fact = (
            f"My cousin number {i} moved to Port{i} to repair violins." if i % 10 == 0 else f"Nice, tell me more, {i}."
        )
        messages += [
            {"role": "user", "content": fact, "id": f"u{i}"},
            {"role": "assistant", "content": f"I see, that is good to hear, number {i}, really good.", "id": f"a{i}"},
        ]
        if i % 10 == 0:
            asked.append({"question": f"Which cousin moved to Port{i}?", "evidence": [f"u{i}"]})
    return {"id": "chat", "messages": messages, "questions": asked}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs.jsonl").write_text(
        "".join(json.dumps({"id": f"r{i}", "messages": coding(40 + i)}) + "\n" for i in range(2))
    )
    (tmp_path / "talk.json").write_text(json.dumps(chat()))
    (tmp_path / "notes.md").write_text("no conversation")
    return tmp_path


def one(messages: list[dict[str, Any]]) -> EvalConversation:
    return build_conversation("one", "openai-chat", messages)


# -- data --------------------------------------------------------------------------------------------------------------


def test_a_folder_is_every_conversation_in_its_files(folder: Path) -> None:
    found = list(read_conversations(folder))
    assert [one.name for one in found] == ["runs:r0", "runs:r1", "talk:chat"]
    assert [len(one.questions) for one in found] == [0, 0, 24]
    assert found[2].questions[1].evidence == (20,)


@rows("file", SESSION_FILES, ids=lambda file: file.stem)
def test_the_sessions_of_clients_are_read(file: Path) -> None:
    (found,) = read_conversations(file)
    assert len(found.views) == len(found.messages) > 0
    assert {"user", "assistant"} <= {view.role for view in found.views}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "is not a conversation"),
        ('{"messages": [{"role": "user", "content": "x", "id": "a"}], "questions": [{"evidence": []}]}', "has no text"),
        ("not json", "is not"),
    ],
)
def test_a_file_that_can_not_be_measured_is_an_error_that_says_why(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.json").write_text(text)
    ran = run("eval", tmp_path / "x.json")
    assert ran.code == 2
    assert said in ran.line


def test_in_a_folder_such_a_file_is_passed_over_and_said(folder: Path) -> None:
    (folder / "broken.json").write_text('{"a": 1}')
    said: list[str] = []
    assert len(list(read_conversations(folder, warn=said.append))) == 3
    assert "broken.json" in said[0]


def test_a_question_whose_evidence_is_unknown_is_not_asked(tmp_path: Path) -> None:
    data = {**chat(10), "questions": [{"question": "Who?", "evidence": ["nowhere"]}, {"question": "?", "evidence": []}]}
    (tmp_path / "x.json").write_text(json.dumps(data))
    assert next(read_conversations(tmp_path)).questions == ()


# -- needs -------------------------------------------------------------------------------------------------------------


def test_a_summary_keeps_to_its_budget_and_holds_what_a_tail_lost() -> None:
    conversation = one(coding())
    ours, tail = build_unabridged_arm(600, count), build_tail_arm(600, count)
    held_by_ours = held_by_tail = 0
    for moment in find_cut_points(conversation, 4_000):
        summary, last = ours(moment), tail(moment)
        assert count(summary) <= 600
        assert count(last) <= 600
        held_by_ours += count_held_needs(summary, moment.needed).names
        held_by_tail += count_held_needs(last, moment.needed).names
    assert held_by_ours > held_by_tail > 0


def test_what_stays_anyway_is_the_system_prompt_and_the_newest_message_of_a_person() -> None:
    conversation = one([{"role": "system", "content": "Be brief."}, *coding()])
    moment = next(find_cut_points(conversation, 4_000))
    assert moment.text_beside_summary() == "Be brief.\nRename load_settings everywhere."
    assert moment.kept == (1,)


def test_where_a_person_speaks_next_nothing_of_theirs_is_kept_apart() -> None:
    report = assistant("It was renamed in all of them. " * 300)
    turns = [[*coding(12), report, user(f"Now handle_case_{i} and load_settings, please.")] for i in range(4)]
    conversation = one([message for turn in turns for message in turn])
    found, views = list(find_cut_points(conversation, 1_000)), conversation.views
    assert {bool(moment.kept) for moment in found} == {True, False}
    for moment in found:
        newest = max(i for i in range(moment.place) if views[i].origin == "person")
        assert moment.kept == (() if views[moment.place].origin == "person" else (newest,))
        assert moment.text_beside_summary() == views[newest].text


def test_every_arm_gets_a_row_at_every_budget() -> None:
    report = evaluate(Path("x"), [one(coding())], window=4_000, budgets=(300, 900))
    arms = list(choose_arms([]))
    assert [(row.budget, row.arm) for row in report.needs] == [(size, arm) for size in (300, 900) for arm in arms]
    ours = {row.budget: row for row in report.needs if row.arm == "unabridged"}
    assert ours[300].tokens <= 300
    assert ours[900].names >= ours[300].names > 0
    assert all(0 <= share <= 1 for row in report.needs for share in (row.files, row.names, row.verbatim))


def test_langchain_keeps_its_twenty_messages_and_is_charged_for_them() -> None:
    pytest.importorskip("langchain")
    report = evaluate(Path("x"), [one(coding())], window=4_000, budgets=(500,), arms=["langchain", "unabridged+20"])
    theirs, ours = report.needs
    assert theirs.tokens > 1_500
    assert ours.tokens < theirs.tokens * 1.3


def test_a_models_summaries_are_measured_like_ours() -> None:
    model = ScriptedModel(["The agent renames `load_settings` in every part, one file after another."] * 40)
    report = evaluate(Path("x"), [one(coding(40))], window=6_000, budgets=(900,), arms=["model"], model=model)
    (row,) = report.needs
    assert row.files == 1.0
    assert row.names > 0  # prose tells few of them, and lists are short beside it
    assert row.tokens < 1_200


def test_an_arm_that_can_not_run_here_is_refused_with_the_remedy() -> None:
    with pytest.raises(SettingsError, match="needs --model"):
        choose_arms(["model"])
    with pytest.raises(SettingsError, match="choose from unabridged"):
        choose_arms(["magic"])


# -- questions ---------------------------------------------------------------------------------------------------------


def test_evidence_is_found_in_the_context_or_by_one_search(folder: Path) -> None:
    conversation = list(read_conversations(folder))[2]
    done = questions.score_unabridged(conversation, 700, count)
    assert done.compactions > 0
    assert done.asked == 24
    assert done.in_context < done.asked
    assert done.or_search == 24


def test_only_so_many_tokens_of_a_search_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "SEARCH_TOKENS", 20)
    done = questions.score_unabridged(list(read_conversations(folder))[2], 700, count)
    assert done.or_search == done.in_context


def test_a_tail_answers_what_stands_in_it(folder: Path) -> None:
    conversation = list(read_conversations(folder))[2]
    assert questions.score_tail(conversation, 10**6, count).in_context == 24
    assert questions.score_tail(conversation, 100, count).in_context == 0


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_tables_and_writes_json_and_a_plot(folder: Path, tmp_path: Path) -> None:
    out, drawn = tmp_path / "out.json_", tmp_path / "recall.svg"
    ran = run("eval", folder, "--window", "4k", "--budget", "400,1k", "--json", out, "--plot", drawn)
    assert ran.code == 0
    for said in ("unabridged", "tail", "files", "names", "or by one", "o200k"):
        assert said in ran.out
    report = json.loads(out.read_text())
    assert {row["arm"] for row in report["needs"]} >= {"unabridged", "tail"}
    assert report["questions"][0]["questions"] == 24
    root = ET.fromstring(drawn.read_text())  # noqa: S314 - our own drawing
    assert root.tag.endswith("svg")


def test_json_alone_goes_to_standard_output_with_a_dash(folder: Path) -> None:
    ran = run("eval", folder, "--window", "4k", "--budget", "400", "--arm", "unabridged", "--limit", "1", "--json", "-")
    assert [row["arm"] for row in ran.json["needs"]] == ["unabridged"]
    assert ran.json["questions"] == []


@rows(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no file or folder"),
        (["--budget", "x"], "can't read a budget"),
        (["--budget", "10"], "at least 50 tokens"),
        (["--window", "5"], "1,000 tokens or more"),
        (["--window", "900k"], "longer than 900,000 tokens"),
        (["--arm", "magic"], "there is no arm 'magic'"),
        (["--json", "no/such/folder.json"], "there is no folder"),
    ],
)
def test_wrong_options_are_one_line_that_says_what_to_do(arguments: list[str], said: str) -> None:
    given = arguments if arguments == ["nowhere"] else [str(SESSION), *arguments]
    ran = run("eval", *given)
    assert ran.code == 2
    assert said in ran.line


def test_an_empty_plot_is_still_a_drawing() -> None:
    assert draw_plot((), "nothing & nobody").startswith("<svg")
