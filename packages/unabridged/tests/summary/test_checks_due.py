"""Which checks ran since the last edit and how they ended, and which customary ones are due."""

from __future__ import annotations

from conversations import chat_round, user
from engine_case import texts
from ledger_case import answers, calls, count, person, round_of
from rows import rows
from unabridged import Compactor, Settings
from unabridged.messages import View
from unabridged.summary.actions import find_tool_uses
from unabridged.summary.gather import gather_ledger
from unabridged.summary.layout import render_within_budget

EDIT = round_of("edit_file", "ok", path="src/a.go", new_text="x")
ASKED = person("Port the uploader.")


def ran(command: str, result: str = "ok  pkg 0.3s") -> list[View]:
    return round_of("bash", result, command=command)


def told(*views: View) -> str:
    """The section on checks; "" where there is none."""
    return render_within_budget(gather_ledger([ASKED, *views]), 2_000, count).sections.get("checks", "")


def test_a_check_since_the_last_edit_is_told_with_how_it_ended() -> None:
    text = told(*EDIT, *ran("go test ./...", "--- FAIL: TestA (0.1s)\n    a_test.go:12: got 2\nFAIL"))
    assert "[3] ran go test ./... → “--- FAIL: TestA (0.1s) | a_test.go:12: got 2 | FAIL”" in text
    assert "not since" not in text
    refused = round_of("bash", "Exit code: 1\na_test.go:12: got 2", command="go test ./...")
    assert "[3] ran go test ./... → exit 1: “a_test.go:12: got 2”" in told(*EDIT, *refused)


def test_what_was_run_after_an_earlier_edit_only_is_due() -> None:
    text = told(
        *EDIT, *ran("go test ./... 2>&1 | tail -5"), *ran("golangci-lint run"), *EDIT, *ran("go test ./cmd/...")
    )
    assert "but not since the one in message 7: “golangci-lint run” [5] → “ok pkg 0.3s”" in text
    assert "ran go test ./cmd/..." in text
    assert "tail -5" not in text


def test_an_edit_or_a_check_among_the_messages_that_stay_counts_too() -> None:
    """The section stands before them: without, it would call up to date what they made due."""
    ledger = gather_ledger([ASKED, *EDIT, *ran("go test ./...")])
    later = [step.action for step in find_tool_uses([*EDIT, *ran("golangci-lint run")], [5, 6, 7, 8])]
    text = render_within_budget(ledger, 2_000, count, later=later).sections["checks"]
    assert "but not since the one in message 5: \u201cgo test ./...\u201d [3]" in text
    assert "[7] ran golangci-lint run" in text
    messages = [user("Port the uploader."), *chat_round("edit_file", "ok", path="src/a.go", new_text="x")]
    messages += chat_round("bash", "ok  pkg 0.3s", command="go test ./...")
    messages += [m for i in range(80) for m in chat_round("bash", f"row {i} " * 60, command=f"cat {i}.go")]
    messages += chat_round("edit_file", "ok", path="src/b.go", new_text="y")
    settings = Settings(clear=None, trigger=("tokens", 6_000), keep=("tokens", 800))
    done = Compactor(window=16_000, archive="memory:", settings=settings).fit(messages, thread="t")
    assert done.messages[-2:] == messages[-2:]
    assert f"but not since the one in message {len(messages) - 2}" in texts(done.messages)


def test_of_one_check_the_last_run_counts_whatever_it_was_run_on() -> None:
    text = told(*EDIT, *ran("go test ./a"), *ran("go test ./b"))
    assert "./b" in text
    assert "./a" not in text


def test_several_in_one_command_are_each_known() -> None:
    text = told(*EDIT, *ran("cd app && npm run lint && npx tsc --noEmit"), *EDIT)
    assert "“npm run lint” [3] → “ok pkg 0.3s”; “npx tsc --noEmit” [3] → “ok pkg 0.3s”" in text


def test_an_edit_that_ended_in_an_error_makes_no_check_due() -> None:
    refused = [calls("edit_file", path="src/a.go", new_text="y"), answers("no such text in the file", error=True)]
    assert "not since" not in told(*EDIT, *ran("go test ./..."), *refused)
    assert "not since the one in message 5" in told(*EDIT, *ran("go test ./..."), *EDIT)


@rows("command", ["git checkout test", "cat test", "pip install pytest", "echo test", "ls build", "grep -rn test src"])
def test_what_merely_names_a_check_is_none(command: str) -> None:
    assert told(*EDIT, *ran(command)) == ""


def test_it_stays_away_where_there_is_nothing_to_say() -> None:
    assert told(*EDIT) == ""
    assert told(*ran("go test ./...")) == ""
    assert told(*EDIT, calls("bash", command="go test ./...")) == ""


def test_it_is_model_free_only_and_can_be_left_out() -> None:
    ledger = gather_ledger([ASKED, *EDIT, *ran("go test ./...")])
    assert "checks" in render_within_budget(ledger, 2_000, count).sections
    assert "checks" not in render_within_budget(ledger, 2_000, count, prose="It is ported.").sections
    assert "checks" not in render_within_budget(ledger, 2_000, count, without=("checks",)).sections
