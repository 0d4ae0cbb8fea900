"""Languages are files: one that is added, and holds little, is all that it takes."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unabridged
from rows import rows
from syntax import parse_file
from unabridged.languages import (
    collect_phrases,
    get_labels,
    get_language_name,
    load_language_tables,
    measure_phrase_match,
)
from unabridged.languages.detection import detect_certain_language, detect_language

SOURCE = Path(unabridged.__file__).parent
ROOMS = ("authorship", "summary")
TOY = {
    "name": "Toy",
    "common": "zub gor plim trask wex",
    "words": {"done": "Vrinkels plim zub", "user": "zubber"},
}
FITTED = """
import sys
from unabridged import Compactor

rule = "Nevva trask zub glimp gor plim wex."
rounds = [
    message
    for i in range(40)
    for message in (
        {"role": "user", "content": f"Plim zub {i} gor trask wex?"},
        {"role": "assistant", "content": f"Zub {i} gor plim. " + "Trask gor wex zub plim. " * 30},
    )
]
messages = [{"role": "user", "content": rule}, {"role": "assistant", "content": "Gor wex zub."}, *rounds]
compactor = Compactor(window=6_000, archive="memory:")
fitted = compactor.fit(messages, thread="t")
sys.stdout.buffer.write(fitted.messages[0]["content"].encode())
assert fitted.changed and rule in fitted.messages[0]["content"]
assert compactor.replay(fitted.messages, thread="t") == messages
"""


def test_a_language_is_added_with_one_file_that_need_not_be_whole(tmp_path: Path) -> None:
    package = tmp_path / "unabridged"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "languages" / "toy.json").write_text(json.dumps(TOY))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", FITTED],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    headings = re.findall(r"^## (.*)$", ran.stdout, re.MULTILINE)
    assert "Vrinkels plim zub" in headings
    assert "] zubber: \u201cNevva trask zub glimp gor plim wex.\u201d" in ran.stdout
    assert get_labels("en")["compacted"].format(first=0, last=9)[-40:] in ran.stdout, "what the file lacks is English's"


def test_a_language_of_a_script_without_a_file_is_told_by_its_file(tmp_path: Path) -> None:
    package = tmp_path / "unabridged"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "languages" / "th.json").write_text(json.dumps({"common": "นี่ คือ อะไร"}), encoding="utf-8")
    texts = (["นี่ คือ"], ["Що це?"], ["שלום"])
    asked = f"from unabridged.languages.detection import detect_language as f; print(*map(f, {texts}))"
    told = subprocess.check_output(
        [sys.executable, "-c", asked], env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path, text=True
    )
    assert told.split() == ["th", "uk", "hebrew"]
    assert detect_language(["นี่ คือ"]) == "thai"


def test_a_label_that_a_language_lacks_is_englishs_and_so_are_all_of_one_without_any() -> None:
    without = [code for code, table in load_language_tables().items() if "words" not in table]
    assert all(get_labels(code) == get_labels("en") for code in (*without, "no such language"))
    assert all(set(get_labels(code)) == set(get_labels("en")) for code in load_language_tables())
    assert get_labels("de")["done"] != get_labels("en")["done"]


def test_a_kind_that_no_file_has_is_a_mistake_in_the_code() -> None:
    with pytest.raises(KeyError, match="no such kind"):
        collect_phrases("no such kind")
    with pytest.raises(KeyError, match="no such kind"):
        measure_phrase_match("no such kind", "x")


@rows("code", sorted(code for code, table in load_language_tables().items() if "common" in table))
def test_every_language_with_common_words_is_told_by_them(code: str) -> None:
    assert detect_language([load_language_tables()[code]["common"]]) == code
    assert get_language_name(code)


def test_one_text_guessed_at_is_certain_only_when_enough_of_it_tells() -> None:
    assert detect_language(["bitte nicht"]) == "de"
    assert detect_certain_language(["bitte nicht"]) == ""
    assert (
        detect_certain_language(
            ["Bitte die Datei nicht löschen, sie ist noch nicht gesichert und wird auch morgen gebraucht."]
        )
        == "de"
    )


def test_nothing_that_reads_what_people_mean_lists_words_of_a_language() -> None:
    """Letters beyond ASCII, and the codes of languages, stand in language files only."""
    letter, codes = re.compile(r"[^\W\d_a-zA-Z]"), {"de", "fr", "es", "zh", "ja"}
    found = []
    for file in (SOURCE / "text_tools.py", *(file for room in ROOMS for file in sorted((SOURCE / room).glob("*.py")))):
        for node in ast.walk(parse_file(file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += [f"{file.name}:{node.lineno}"] * (node.value in codes or letter.search(node.value) is not None)
    assert found == []


def test_no_phrase_is_listed_twice() -> None:
    listed = [(code, kind, found) for code, table in load_language_tables().items() for kind, found in table.items()]
    assert [where for *where, found in listed if isinstance(found, list) and len(found) != len(set(found))] == []
