"""What was done is read off any agent's tools: by their names, their arguments, their commands, or the model's text."""

from __future__ import annotations

from typing import get_args

from ledger_case import answers, calls, observation, person, says
from rows import rows
from unabridged.messages import View
from unabridged.summary.actions import find_tool_uses, find_written_action, read_call_effect
from unabridged.summary.gather import gather_ledger
from unabridged.summary.ledger import Deed
from unabridged.summary.outcomes import read_outcome
from unabridged.summary.shell import read_command


@rows(
    ("tool", "arguments", "deed", "path"),
    [
        ("read", '{"path": "src/a.py"}', "read", "src/a.py"),
        ("Read", '{"file_path": "/w/a.py", "limit": 10}', "read", "/w/a.py"),
        ("view_file", '{"target_file": "a.py"}', "read", "a.py"),
        ("str_replace_editor", '{"command": "view", "path": "/w/a.py"}', "read", "/w/a.py"),
        ("str_replace_based_edit_tool", '{"command": "str_replace", "path": "b.py", "old_str": "x"}', "change", "b.py"),
        ("Edit", '{"file_path": "a.py", "old_string": "x", "new_string": "y"}', "change", "a.py"),
        ("write_file", '{"path": "new.py", "content": "x"}', "create", "new.py"),
        ("apply_patch", '{"input": "*** Begin Patch\\n*** Update File: src/x.py\\n"}', "change", "src/x.py"),
        ("apply_patch", '"*** Begin Patch\\n*** Delete File: src/x.py\\n"', "delete", "src/x.py"),
        ("delete_file", '{"path": "old.py"}', "delete", "old.py"),
        ("get_user_details", '{"user_id": "mia_3668"}', "read", None),
        ("book_reservation", '{"flight": "HAT136"}', "create", None),
        ("cancel_reservation", '{"id": "ZFA04Y"}', "delete", None),
        ("think", '{"thought": "hm"}', "call", None),
        ("bash", '{"command": "sed -i s/a/b/ src/x.py"}', "change", "src/x.py"),
        ("shell", '{"command": ["bash", "-lc", "cat src/x.py"]}', "read", "src/x.py"),
        ("execute_command", '{"command": "rm -f tmp/y.txt"}', "delete", "tmp/y.txt"),
    ],
)
def test_a_tool_is_understood_by_its_name_and_arguments(tool: str, arguments: str, deed: str, path: str | None) -> None:
    asked = read_call_effect(arguments, tool)
    if path is None:
        assert (asked.deed, asked.touched) == (deed, ())
    else:
        touched = dict(asked.touched)
        assert path in touched
        assert deed in {asked.deed, touched[path]}


@rows("arguments", ["", "{", "null", "[1, 2]", '{"path": 3}', '{"a": {"b": [null, true]}}', "\x00", "[" * 5_000])
def test_odd_arguments_are_read_without_complaint(arguments: str) -> None:
    for tool in ("edit_file", "bash", ""):
        asked = read_call_effect(arguments, tool)
        assert asked.deed in get_args(Deed)
        assert not asked.touched  # nothing in them names a file


@rows(
    ("command", "deed", "touched"),
    [
        ("cat src/a.py | head -5", "read", {"src/a.py": "read"}),
        ("cd /w && grep -rn 'class X' ./pkg --include='*.py'", "search", {"./pkg": "search"}),
        ("cat > t.py << 'EOF'\nimport os\nos.remove('q.txt')\nEOF\npython t.py", "create", {"t.py": "create"}),
        ("echo hi >> notes.md", "change", {"notes.md": "change"}),
        ("python run.py > logs/out.log 2>&1", "run", {"run.py": "run", "logs/out.log": "create"}),
        ("python - <<'E'\nopen('gen.py', 'w').write('x')\nE", "change", {"gen.py": "change"}),
        ("mv a.py b.py", "move", {"a.py": "move", "b.py": "move"}),
        ("git diff HEAD~1 -- src/a.py", "read", {"src/a.py": "read"}),
        ("FOO=1 timeout 10 ./scripts/check.sh --fast", "run", {"./scripts/check.sh": "run"}),
        ("echo 'a > b; rm x.py'", "run", {}),
        ("", "run", {}),
    ],
)
def test_a_shell_command_is_read_for_its_deeds(command: str, deed: str, touched: dict[str, str]) -> None:
    read = read_command(command)
    assert (read.deed, dict(read.touched)) == (deed, touched)


@rows(
    ("text", "tool", "arguments"),
    [
        ("I look.\n\n<command>\nopen src/a.py\n</command>", "shell", "open src/a.py"),
        ("Run it:\n```bash\nls -la\n```", "shell", "ls -la"),
        ("<function=edit><parameter=path>a.py</parameter></function>", "edit", '{"path": "a.py"}'),
        ('<tool_call>{"name": "grep", "arguments": {"q": "x"}}</tool_call>', "grep", '{"q": "x"}'),
        ("Thought: hm\nAction: Search[python 3.13]", "Search", "python 3.13"),
        ("Thought: hm\nAction: lookup\nAction Input: the sea", "lookup", "the sea"),
        ("Next step.\n\nAction: grep -n parse_row src/rows.py", "shell", "grep -n parse_row src/rows.py"),
        ("Next step.\n\nAction: read src/rows.py\n", "read", "src/rows.py"),
        ("Action: python -m pytest tests/test_rows.py", "shell", "python -m pytest tests/test_rows.py"),
        ("Action: read_file(src/rows.py)", "read_file", "src/rows.py"),
    ],
)
def test_an_action_written_into_text_is_found(text: str, tool: str, arguments: str) -> None:
    found = find_written_action(text)
    assert found is not None
    assert found[:2] == (tool, arguments)


def test_what_was_done_is_told_in_a_text_protocol_with_action_lines() -> None:
    lines = ["grep -n parse_row src/rows.py", "read src/rows.py", "edit src/rows.py"]
    views = [person("fix it")]
    for line in lines:
        views += [says(f"Next step.\n\nAction: {line}"), observation("Observation: 12: def parse_row(line):")]
    ledger = gather_ledger(views)
    assert [action.deed for action in ledger.actions] == ["search", "read", "change"]
    assert [file.path for file in ledger.files] == ["src/rows.py"]


def test_plain_words_are_no_action() -> None:
    assert find_written_action("All done. The parser works now.") is None


def test_in_a_text_protocol_an_edit_goes_to_the_file_that_is_open() -> None:
    views = [
        person("fix it"),
        says("<command>\nopen src/a.py\n</command>"),
        observation(
            "[File: /w/src/a.py (3 lines total)]\n1:x\n(Open file: /w/src/a.py)\n(Current directory: /w)\nbash-$"
        ),
        says("<command>\nedit 1:1\ny\nend_of_edit\n</command>"),
        observation("ok\n(Open file: /w/src/a.py)\n(Current directory: /w)\nbash-$"),
    ]
    assert [step.touched for step in find_tool_uses(views, range(5))] == [
        (("src/a.py", "read"),),
        (("/w/src/a.py", "change"),),
    ]
    (file,) = gather_ledger(views).files
    assert dict(file.deeds) == {"read": 1, "change": 1}


@rows(
    ("text", "deed", "line", "status"),
    [
        ("<returncode>1</returncode>\n<output>\nx\nValueError: bad\n</output>", "run", "ValueError: bad", "exit 1"),
        ("<returncode>0</returncode>\n<output>\n</output>", "run", "", ""),
        ("<returncode>0</returncode>\n<output>\nValueError: bad\n</output>", "run", "ValueError: bad", ""),
        ("Exit code: 2\nmake: no rule", "run", "make: no rule", "exit 2"),
        ('{"output": "no rule", "metadata": {"exit_code": 2}}', "run", "output: no rule, metadata: {exit_code: 2}",
         "exit 2"),
        ("== 2 failed, 5 passed in 0.1s ==", "run", "== 2 failed, 5 passed in 0.1s ==", ""),
        ("x\n--- FAIL: TestA (0.1s)\n    a_test.go:12: got 2\nFAIL", "run",
         "--- FAIL: TestA (0.1s) | a_test.go:12: got 2 | FAIL", ""),
        ("== 5 passed in 0.1s ==", "run", "== 5 passed in 0.1s ==", ""),
        ("cat: x: No such file or directory", "read", "cat: x: No such file or directory", ""),
        ("def f():\n    raise ValueError('x')\n" * 40, "read", "", ""),
        ("src/a.ts(3,1): error TS2345: bad\n", "run", "src/a.ts(3,1): error TS2345: bad", ""),
        ("the tests ended with exit code 1", "run", "the tests ended with exit code 1", ""),
        ("", "search", "no match", ""),
        ("done", "change", "done", ""),
    ],
)  # fmt: skip
def test_an_outcome_is_the_line_that_tells_how_it_ended_and_an_error_only_by_the_protocol(
    text: str, deed: str, line: str, status: str
) -> None:
    assert read_outcome(text, deed) == (line, status)  # type: ignore[arg-type]


def test_an_answer_marked_as_error_is_one_whatever_it_says() -> None:
    assert read_outcome("fine", "run", error=True) == ("fine", "error")
    views = [calls("bash", command="a"), answers("fine", error=True)]
    assert [step.action.failed for step in find_tool_uses(views, range(2))] == [True]


def test_parallel_calls_and_reused_ids_get_their_own_answers() -> None:
    views: list[View] = [calls("bash", command="a"), answers("one"), calls("bash", command="b"), answers("two")]
    assert [step.action.outcome for step in find_tool_uses(views, range(4))] == ["one", "two"]


def test_a_call_without_an_answer_has_no_result() -> None:
    ledger = gather_ledger([person("go"), calls("bash", command="make")])
    assert [action.answered for action in ledger.actions] == [False]


def test_one_file_has_one_entry_however_its_path_was_written() -> None:
    views = [
        person("look at theme.ts"),
        calls("read", path="/home/me/app/src/theme.ts"), answers("x"),
        calls("edit", path="src/theme.ts", new_text="y"), answers("ok"),
        calls("bash", command="cat ./src/theme.ts"), answers("x"),
    ]  # fmt: skip
    (file,) = gather_ledger(views).files
    assert file.path == "/home/me/app/src/theme.ts"
    assert dict(file.deeds) == {"read": 2, "change": 1, "mention": 1}


def test_what_a_command_feeds_to_a_program_is_left_out_with_a_mark() -> None:
    read = read_command("gh pr comment 172 --body \"$(cat <<'EOF'\n## Bug\nEOF\n)\"")
    assert read.target.split() == ["gh", "pr", "comment", "172", "--body", '"$(cat', "<<…", ')"']
    assert read.gist == "## Bug"
