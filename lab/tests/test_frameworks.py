"""`make frameworks` without the frameworks: its programs, its page, and its runs with a loop over the SDK."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from frameworks.catalogue import EXAMPLES, FRAMEWORKS, program_of
from frameworks.inside import HISTORIES, OUR_SETTINGS, WINDOW
from frameworks.runs import REPORTS, Comparison, Outcome, Program
from frameworks.table import PAGE, lines_of, update
from places import ROOT
from rows import rows

TEXT = PAGE.read_text(encoding="utf-8")
OUTCOME = Outcome(finished=True, requests=61, refused=0, largest=7_000, read=60, kept=60, compactions=3)
FOUND = Comparison("Agno", {"agno": "9.0"}, OUTCOME, OUTCOME, 121, 121)


def test_the_page_shows_each_program_as_it_is_run() -> None:
    parts = [part.partition("\n") for part in TEXT.split("\n## ")[1:]]
    shown = [(title, code) for title, _, part in parts for code in re.findall(r"```python\n(.*?)```", part, re.DOTALL)]
    kept = [(one.title, program_of(name).read_text(encoding="utf-8")) for name, one in FRAMEWORKS.items()]
    assert shown == kept
    assert sorted(EXAMPLES.glob("*")) == sorted(map(program_of, FRAMEWORKS))


@rows("name", FRAMEWORKS)
def test_a_program_compiles_wraps_one_client_and_says_what_to_install(name: str) -> None:
    source = program_of(name).read_text(encoding="utf-8")
    compile(source, name, "exec")
    assert source.count("unabridged.wrap(") == 1
    installed = source.splitlines()[0].partition("pip install unabridged ")[2].replace("'", "")
    also_needed = {"agent_framework": "agent-framework-core"}.get(name)  # comes with what is named
    assert {*installed.rstrip('."').split(), also_needed or "openai"} >= {*FRAMEWORKS[name].packages}
    assert name in HISTORIES
    assert OUR_SETTINGS.get(name, ("import", ""))[0] in source


def test_the_page_is_short_and_readme_names_every_framework() -> None:
    assert sum(any(map(str.isalnum, word)) for word in TEXT.split()) < 1_800  # code and table too
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert [one.title for one in FRAMEWORKS.values() if one.title not in readme] == []


def test_the_table_has_a_line_for_each_framework_and_is_as_the_runs_wrote_it() -> None:
    assert list(lines_of(TEXT)) == [one.title for one in FRAMEWORKS.values()]
    assert update(TEXT, []) == TEXT


def test_a_run_of_one_framework_leaves_the_other_lines_alone() -> None:
    before, after = lines_of(TEXT), lines_of(update(TEXT, [FOUND]))
    changed = {title for title in before if before[title] != after[title]}
    assert changed == {"Agno"}
    assert after["Agno"].endswith("| finished, 61 requests | 7,000 | 3 | 60 of 60 | 121 of 121 |")


def test_nothing_holds_that_was_refused_did_not_finish_never_compacted_or_lost_a_message() -> None:
    assert FOUND.holds
    wrong = [replace(OUTCOME, finished=False), replace(OUTCOME, refused=1), replace(OUTCOME, compactions=0)]
    assert not any(replace(FOUND, ours=outcome).holds for outcome in wrong)
    assert not replace(FOUND, same=120).holds


def test_a_loop_over_the_sdk_is_refused_without_the_line_and_finishes_with_it(tmp_path: Path) -> None:
    source = program_of("litellm").read_text(encoding="utf-8").replace("import litellm\n", "")
    source = re.sub(r"litellm\.completion\((.*), client=client\)", r"client.chat.completions.create(\1)", source)
    program = tmp_path / "litellm_agent.py"
    program.write_text(source, encoding="utf-8")
    found = Program(program, sys.executable, ("openai",)).compare("a loop")
    assert not found.defaults.finished
    assert found.defaults.refused == 1
    assert found.defaults.kept == found.defaults.read < REPORTS
    assert found.holds
    assert found.ours.largest <= WINDOW
    assert (found.ours.requests, found.ours.kept, found.same) == (REPORTS + 1, REPORTS, 2 * REPORTS + 1)
