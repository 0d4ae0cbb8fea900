"""The page, its plots and the README's table: written from stored results, and what is committed is what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fakes, page, readings
from benchmarks.bench import STORED
from places import ROOT
from rows import rows

ABOUT: dict[str, Any] = {
    "source": "generated conversations",
    "seed": 0,
    "python": "3",
    "machine": "m",
    "versions": {},
    "quick": True,
}
WHOLE, HALF = [1.0, 1.0, 1.0, 2], [0.5, 0.4, 0.6, 2]


def task(arm: str, window: int, tokens: float) -> dict[str, Any]:
    row = dict.fromkeys(("sent", "summaries", "fetches", "beside", "missed", "fetched", "refused"), HALF)
    return {**row, "arm": arm, "window": window, "tokens": [tokens, tokens, tokens, 2], "needs": 7}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a folder with a small result for some parts."""
    row = dict.fromkeys(("needs", "files", "names", "above tail", "people", "tokens"), HALF) | {"evidence": None}
    needs = [{**row, "arm": "ours", "window": 16_000, "needs": WHOLE}, {**row, "arm": "rival", "window": 16_000}]
    costs = [{"arm": arm, "window": 16_000} | dict.fromkeys(("cached", "uncached", "rewrites", "asks"), value)
             for arm, value in (("ours", WHOLE), ("rival", HALF))]  # fmt: skip
    cells = dict.fromkeys(fakes.FAULTS, "hangs")
    made: dict[str, Any] = {
        "tasks": {"rows": [task("ours", 8_000, 2e4), task("ours", 16_000, 3e4), task("rival", 16_000, 4e4)]},
        "needs": {"windows": needs, "rounds": [], "ceiling": [{"arm": "rival", "needs": HALF}], "settings": {}},
        "cost": {"rows": costs},
        "survival": {
            "rows": [{"arm": "rival", "control": "goes on", "cells": cells, "survived": HALF, "said": {}}],
            "none": ["ours"],
        },
        "originals": {"rows": [{"arm": "ours", "back": WHOLE, "gone": 3}, {"arm": "rival", "back": None, "gone": 0}]},
        "overhead": {
            "rows": [{"arm": "ours", "size": 2_000, "median": 1e-4}, {"arm": "rival", "size": 2_000, "median": 1e-2}]
        },
    }
    folder = tmp_path / "results"
    folder.mkdir()
    for name, result in made.items():
        (folder / f"{name}.json").write_text(json.dumps({**result, "about": ABOUT, "took": 1.0}), encoding="utf-8")
    return folder


def read_by(*texts: str) -> dict[str, Any]:
    """Return two readings of one event, in which the first text has all points and the others half of them."""
    letters = dict(zip("KMPQ", texts, strict=False))
    reading = {
        "event": "e1",
        "letters": letters,
        "points": {letter: [2, 2] if letter == "K" else [2, 0] for letter in letters},
        "false": {letter: {} if letter == "K" else {"invented": 1, "stale": 2} for letter in letters},
        "preferred": ["K"],
        "how": "clear",
    }
    about = {"date": "2026-11-20", "readers": ["one"], "writers": ["other"], "seen": False, "most": 2}
    return {**about, "readings": [reading, {**reading, "preferred": ["K", "M"], "how": "tie"}]}


def test_the_page_the_plots_and_the_readme_are_what_the_stored_results_say(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    committed = page.README.read_text(encoding="utf-8")
    readme.write_text(committed, encoding="utf-8")
    made = page.write_page(STORED, tmp_path / "benchmarks.md", readme)
    say = "run python -m benchmarks --page-only"
    assert page.PAGE.read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), say
    assert committed == readme.read_text(encoding="utf-8"), say
    plots = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "benchmarks").glob("*.svg")}
    assert plots == {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "benchmarks").glob("*.svg")}, (
        say
    )


def test_the_readme_has_five_rows_of_the_page_and_a_sentence_on_each_peer() -> None:
    whole = page.PAGE.read_text(encoding="utf-8").partition("## Where a peer is ahead")[0].splitlines()
    shown = page.README.read_text(encoding="utf-8").partition(page.FIRST)[2].partition(page.LAST)[0]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.strip().splitlines()[2:7]]
    assert [cells[0] for cells in table] == list(page.SHOWN.values())
    for arm, (_, *cells) in zip(page.SHOWN, table, strict=True):
        row = " ".join(line for line in whole if line.startswith((f"| {arm} |", f"| **{arm}** |")))
        assert [cell for cell in cells if cell not in row] == []
    peers = [arm for arm in page.SHOWN if not arm.startswith("ours")]
    assert all(f"- **{arm}** is ahead of ours without a model: " in shown for arm in peers)


def test_every_part_is_stored() -> None:
    assert sorted(path.stem for path in STORED.glob("*.json")) == sorted(page.PARTS)


def test_the_page_has_its_tables_its_plots_and_says_where_we_lose(results: Path, tmp_path: Path) -> None:
    text = page.write_page(results, tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "| **ours** | 20.0 (20.0 to 20.0) | 30.0 (30.0 to 30.0) | - | 50 % |" in text
    assert "| rival | - | 40.0 (40.0 to 40.0) | - | 50 % |" in text
    assert "| **ours** | 1.00 | no model | 100.0 % | 100 | 100.0 % |" in text
    assert "| rival | 0.50 | 50.0 % | - | 10,000 | 50.0 % |" in text
    assert "- **rival**: cost of a run (0.50 to 1.00)." in text
    assert "Not measured: legality, wait, callers, adapters, scale." in text
    assert "python -m benchmarks survival --quick" in text
    assert "there are no blind readings of this version yet" in text
    for name in ("tasks", "needs", "cost", "survival", "overhead"):
        assert f"(benchmarks/{name}.svg)" in text
        assert (tmp_path / "benchmarks" / f"{name}.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_page_is_the_same_every_time(results: Path, tmp_path: Path) -> None:
    first = page.write_page(results, tmp_path / "a.md").read_text(encoding="utf-8")
    assert page.write_page(results, tmp_path / "a.md").read_text(encoding="utf-8") == first


def test_the_page_says_how_long_it_took_only_if_all_of_it_is_new(results: Path) -> None:
    found = {name: json.loads((results / f"{name}.json").read_text(encoding="utf-8")) for name in ("needs", "cost")}
    assert "This run took" not in page.opening({**found, "readings": None})
    for result in found.values():
        result["about"]["reused"], result["took"] = 0, 90.0
    assert "This run took 3 minutes (cost 1.5, needs 1.5)." in page.opening({**found, "readings": None})


def test_the_page_says_on_which_machine_each_part_was_measured(results: Path) -> None:
    found = {name: json.loads((results / f"{name}.json").read_text(encoding="utf-8")) for name in ("needs", "cost")}
    assert "Measured on m, Python 3." in page.opening({**found, "readings": None})
    found["cost"]["about"] |= {"machine": "n", "date": "2026-11-20"}
    said = page.opening({**found, "readings": None})
    assert "Measured on n, Python 3, 2026-11-20: `cost`. Measured on m, Python 3: `needs`." in said


def test_a_table_is_replaced_between_its_marks_and_nothing_else_is(results: Path) -> None:
    readme = f"# A\n\n{page.FIRST}\nold\n{page.LAST}\n\nrest\n"
    made = page.replace_table(readme, page.read_results(results))
    assert made.startswith(f"# A\n\n{page.FIRST}\n|  | tokens per task, 8k")
    assert made.endswith(f"{page.LAST}\n\nrest\n")
    assert "old" not in made


def test_readings_stand_in_the_table_and_have_a_section(results: Path, tmp_path: Path) -> None:
    (tmp_path / "readings.json").write_text(json.dumps(read_by("ours", "rival")), encoding="utf-8")
    text = page.write_page(results, tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "| **ours** | 100.0 % | 0.00 | 75.0 % | 1.00 |" in text
    assert "| rival | 50.0 % | 3.00 | 25.0 % | 0.50 |" in text
    assert "from 2 blind readings of 1 events on 2026-11-20, by one, of texts by other. Readers and writers" in text
    assert "| rival | 2 | 50.0 % (50.0 to 50.0) | 3.00 | 2 invented, 4 stale | 0.5 of 2 |" in text
    assert "| ours | 2 | 100.0 % (100.0 to 100.0) | 0.00 | none | 1.5 of 2 |" in text


@rows(
    ("change", "said"),
    [
        ({"reason": "It says so."}, "other keys"),
        ({"letters": {"K": "ours"}}, "other keys or letters"),
        ({"preferred": ["Z"]}, "other keys or letters"),
        ({"how": "The user said: never push to the main branch, and it was forgotten."}, "names and counts only"),
        ({"false": {"K": {}, "M": {'The agent "fixed" it': 1}}}, "names and counts only"),
    ],
)
def test_what_is_no_count_has_no_place_in_the_readings(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    found = read_by("ours", "rival")
    found["readings"][0] |= change
    file = tmp_path / "readings.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        readings.load(file)


def test_the_readings_of_the_project_can_be_read() -> None:
    assert readings.load() is None or readings.rows(readings.load() or {})
