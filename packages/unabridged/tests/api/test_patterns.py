# ruff: noqa: SLF001 - the patterns of a module are its own
"""No regular expression of the package takes more than linear time, on any text."""

from __future__ import annotations

import ast
import gc
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from time import process_time
from typing import Any, NamedTuple

import pytest

import workspace
from effort import ALL
from patterns import Use, cost
from syntax import parse_file
from unabridged import languages, text_tools
from unabridged.archive import words
from unabridged.authorship import (
    assign_origins,
    find_exit_code,
    find_other_summary,
    find_rejection,
    frames,
)
from unabridged.authorship.origin import ends_in_action
from unabridged.errors import NotInstalled
from unabridged.messages import View
from unabridged.recall import excerpts
from unabridged.summary.headings import find_sections
from unabridged.summary.ledger import Rule
from unabridged.summary.originals import OriginalMessages
from unabridged.summary.people import collect_people_messages, quote_all_messages, quote_newest_messages
from unabridged.summary.rules import MAX_LIST_CHARACTERS, find_rules, split_off_rules
from unabridged.text_cache import clear_cache

PACKAGES = {path.name: path for source in workspace.SOURCES for path in source.glob("unabridged*")}
CALLS = frozenset({"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"})
NARROW: dict[str, Use] = {"match": "match", "fullmatch": "fullmatch"}


class Found(NamedTuple):
    """A pattern, where it stands, and how it is used."""

    where: str
    pattern: re.Pattern[Any]
    use: Use


def trees() -> Iterator[tuple[str, ast.Module]]:
    for package, file in ((path, file) for path in PACKAGES.values() for file in sorted(path.rglob("*.py"))):
        parts = file.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), parse_file(file)


def uses() -> dict[str, set[str]]:
    """How each module uses a name: `X.match` as "match", anything but an import as "search"."""
    found: dict[str, set[str]] = {}
    for module, tree in trees():
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        named = {id(node.value): node.attr for node in attributes}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.setdefault(f"{module}.{node.id}", set()).add(named.get(id(node), "search"))
    return found


def held(value: Any, seen: set[int]) -> Iterator[re.Pattern[Any]]:
    """The patterns in a value and in whatever it contains."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        for item in [*value.keys(), *value.values()]:
            yield from held(item, seen)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from held(item, seen)
    elif (isinstance(value, type) and value.__module__.startswith("unabridged")) or (
        type(value).__module__.startswith("unabridged") and hasattr(value, "__dict__")
    ):
        yield from held(dict(vars(value)), seen)


def of_modules() -> Iterator[Found]:
    """What stands in modules, alone or in a container, and in classes."""
    used = uses()
    for info in chain(*(pkgutil.walk_packages([str(path)], f"{name}.") for name, path in PACKAGES.items())):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except NotInstalled:  # an adapter whose framework has an environment of its own: `make versions`
            continue
        for name, value in sorted(vars(module).items()):
            if isinstance(value, re.Pattern):
                ways = used.get(f"{info.name}.{name}", set()) - {"pattern", "groups", "flags"}
                for way in {NARROW.get(way, "search") for way in ways}:
                    yield Found(f"{info.name}.{name}", value, way)
            else:
                for pattern in held(value, set()):
                    yield Found(f"{info.name}.{name}", pattern, "search")


def calls(*, literal: bool) -> Iterator[tuple[str, ast.Call]]:
    """The calls of `re` inside functions, with the function's name: those with the pattern written there, or not."""
    for module, tree in trees():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id == "re"
                    and node.func.attr in CALLS
                    and isinstance(node.args[0], ast.Constant) is literal
                ):
                    yield f"{module}.{function.name}", node


def of_functions() -> Iterator[Found]:
    """What stands in a call of `re` inside a function."""
    for where, call in calls(literal=True):
        flags = next((keyword.value for keyword in call.keywords if keyword.arg == "flags"), None)
        bits = getattr(re, flags.attr) if isinstance(flags, ast.Attribute) else 0
        assert flags is None or bits, f"{where}: flags that are more than one"
        name = call.func.attr  # type: ignore[attr-defined]
        yield Found(where, re.compile(ast.literal_eval(call.args[0]), bits), NARROW.get(name, "search"))


def of_tables() -> Iterator[Found]:
    """What the tables of languages become."""
    for kind in ("refusals", "apologies"):
        for phrase in languages._compile_phrases(kind):  # tried at the beginning of a text, and nowhere else
            yield Found(f"{kind}: {phrase.pattern}", phrase, "match")
    yield from (
        Found("words", made(), "search") for made in (words._name_pattern, words.separator_pattern, words.token_pattern)
    )
    yield from (
        Found(f"words.standing({term!r})", words.whole_term_pattern(term), "search")
        for term in ("a", "src/a.py", "__x__")
    )
    for query in ("parser.py", '"a  phrase"', "src/a/b.py:12 x@y.z", "\u65e5\u672c\u8a9e"):
        if (pattern := excerpts._compile_query(query)) is not None:
            yield Found(f"excerpts._pattern({query!r})", pattern, "search")
    yield Found("texts._sentence_end", text_tools._sentence_end_pattern(), "search")


BUILDERS = {
    "unabridged.text_tools._sentence_end_pattern": "below, by its own name",
    "unabridged.archive.secrets._make_secret_form": "stands in `_SECRET_FORMS`",
    "unabridged.archive.words._name_pattern": "below, by its own name",
    "unabridged.archive.words.separator_pattern": "below, by its own name",
    "unabridged.archive.words.token_pattern": "below, by its own name",
    "unabridged.archive.words.whole_term_pattern": "below, for terms of every kind",
    "unabridged.asking.overflow._compile_pattern": "stands in `_OVERFLOW_PATTERNS`",
    "unabridged.languages._compile_phrases": "below, for every phrase",
    "unabridged.tokens.models._find_known_name": "the name of a model of our own table: no conversation",
    "unabridged_corpus.evaluate.line_needs.is_followed_by": "two lines, escaped, and few characters between",
    "unabridged_corpus.evaluate.task_cost._fetch": "words of a line, escaped: white space alone repeats, between two",
    "unabridged_corpus.evaluate.reader.fill_prompt_part": "the names of places in a prompt of our own: no repeat",
    "unabridged.recall.excerpts._compile_query": "below, for a query of every kind",
    "unabridged_cli.clients.file_undo._drop_and_relink_lines": (
        "ids of entries, escaped: blanks alone repeat, between two signs"
    ),
}
"""Functions that make a pattern from something else, and where what they make is looked at."""

MATCHED = {
    "unabridged.summary.action_lines._PLAIN": "matched at the beginning of a target",
    "unabridged.summary.verify._SUMMARY_TAG_PATTERN": "matched at the beginning of a reply",
    "unabridged.summary.verify._FENCED_REPLY_PATTERN": "matched at the beginning of a reply",
}
"""Held in a container or handed on, and yet only matched at one place."""

BOUNDED = {
    "unabridged.summary.rules._LIFTED_RULE_PATTERN": "`split_off_rules` gives lines of 16,000 characters at most",
    "unabridged.summary.shell._WORD_PATTERN": "reads 4,000 characters of a command, of 20,000 at most",
}
"""May take quadratic time on a text that is short by construction."""

GOOD = (
    r"\s+", r"(?<!\s)\s+$", r"(?<![\w.])[\w.]+@", r"(?<![\w.])[\w.]++@", r"\A\s*x", r"[^\n]*", r"\w+(?:-\w+)*",
    r"(?:[^\"\\]|\\.)*", r"\"[^\"\n]*\"", r"\"[^\"]*+\"", r"\bfoo\b", r"(?s)<(t)>.*?(?:</\1>|\Z)", r"(?m)^[ \t]*a",
    r"\s{0,20}\n\s{0,20}x", r"\b\w+@", r"(?m)^#+ .*$", r"x(?!y)", r"[?][^\w?]*+\Z", r"(?:[A-Z](?![a-z]))+",
)  # fmt: skip
BAD = (
    r"(a+)+b", r"(?:a|ab)*c", r"(\w+\s*)+$", r"\s*\n\s*", r"[ \t]*\s*$", r".*.*x", r"\S+\S*@", r"\s+$", r"[\w.]+@",
    r"<a>.*?</a>", r"(?:a*)*b", r"(?:a|a)*b", r"^(\s*\w+\s*)+:", r"(?=.*x)y", r"\s++$", r"x.{0,5000}y",
    r"(?:a{1,30}){1,30}b", r"(?s)<(t)>.*?</\1>", r"\w+\d+x", r"(?m)^\s*a", r"\d+\.\d+x", r"(?:(?:x?|y?)w)*z",
    r"(?:[^']|(?<=\w)')*x", r"[^\S\n]*\n\s*\n", r"(?s)\A(.*?)\s*\Z", r"[?]\W*\Z", r"(?<!\d)\d+(?:\.\d+)*+%",
)  # fmt: skip


def every_pattern() -> dict[tuple[Any, int, Use], str]:
    """Each pattern once, with its flags and use, and where it stands."""
    found: dict[tuple[Any, int, Use], str] = {}
    for where, pattern, use in (*of_modules(), *of_functions(), *of_tables()):
        used: Use = "match" if where in MATCHED and use == "search" else use
        found.setdefault((pattern.pattern, pattern.flags, used), where)
    return found


def test_what_grows_faster_than_its_text_is_told_from_what_does_not() -> None:
    assert [pattern for pattern in BAD if not cost(re.compile(pattern))] == []
    assert {pattern: why for pattern in GOOD if (why := cost(re.compile(pattern)))} == {}
    assert "exponential" in cost(re.compile(r"(a+)+b"))
    assert cost(re.compile(r"\s*x"), "match") == ""
    assert cost(re.compile(r"\s*\s*"), "fullmatch") != ""


def test_no_pattern_takes_more_than_linear_time() -> None:
    found = every_pattern()
    assert len(found) > 300
    costly = {where: why for key, where in found.items() if (why := cost(re.compile(*key[:2]), key[2]))}
    assert costly.keys() == BOUNDED.keys(), {where: why for where, why in costly.items() if where not in BOUNDED}


def test_every_function_that_makes_a_pattern_is_known() -> None:
    assert {where for where, _ in calls(literal=False)} == BUILDERS.keys()


class Counted(list[str]):
    """Lines that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return super().__getitem__(place)


def test_what_stands_under_many_headings_is_gone_through_once() -> None:
    for line in ("- ### Standing rules", "### Standing rules", "####Standing rules", "- a"):
        lines = Counted([line] * 400)
        assert sum(map(len, find_sections(lines, range(400)))) == 400
        assert lines.looks < 8 * 400


HOSTILE = (
    " ", "\n", "a. ", "? ", "\u3002", "\n- a", '"a ', "'a ", "`a", "\u201ca", "> a\n", "```\n", "~~~\na\n", "<a>\n",
    "</a>", "<a ", "<a>b</a>\n", "<bash-input></bash-input>", "<system-reminder>\n",
    "<system-reminder>\nx\n</system-reminder>\n", "<user_query>a</user_query>", "<command-name>/x</command-name>",
    "<command-name>/x</command-name><local-command-stdout>", "<summary>\n", "<summary>\na\n</summary>\n",
    "<analysis>\n<summary>\n", "<state_snapshot>\na\n</state_snapshot>\n<summary>\nb\n</summary>\n",
    "[Request interrupted by user]\n", "Base directory for this skill: x\n",
    "Base directory for this skill: x\n<command-name>/x</command-name>\n", "Context: a\n", "Question: a\nContext: a\n",
    "From: a\nTo: b\n", "---------- Forwarded message ---------\n", "Stop hook feedback:\n", "<returncode>",
    "Action: a\n", '{"tool": ', "f(", "### Rules\n", "- a\n\n", "[1] ",
    'no longer "a" since "b"\n',
)  # fmt: skip
"""Openings, blanks, tags, quotes and marks, of which a text may have any number."""
SHORT, LONG = 125_000, 1_000_000
LITTLE = 0.5
"""Seconds in which nothing that grows faster than its text reads the long one."""


def told(text: str) -> None:
    """All that finds out whose words a text is, what of it is a person's own, how it is quoted, which rules it has."""
    view = View("user", "person", text)
    (view,) = assign_origins([view])
    find_other_summary(view)
    ends_in_action(text)
    find_exit_code(text)
    find_rejection(text, "x")
    people = collect_people_messages(
        [View("user", "person", text), View("assistant", "model", text), view], range(3), ()
    )
    for quoted in (quote_all_messages, quote_newest_messages):
        quoted(people, 500, lambda piece: len(piece) // 4, languages.get_labels("en"))
    _, listed = split_off_rules(text)
    find_rules(
        [*listed, text[:MAX_LIST_CHARACTERS]],
        OriginalMessages([View("user", "person", text)], [0]),
        [Rule(0, "Never.")],
    )


def seconds(unit: str, size: int, around: tuple[str, str], work: Callable[[str], object] = told) -> float:
    """The processor time that a text of this size takes."""
    clear_cache()
    text = unit.join((around[0], unit * (size // len(unit)), around[1]))
    gc.disable()
    try:
        start = process_time()
        work(text)
        return process_time() - start
    finally:
        gc.enable()


def grows_faster(unit: str, around: tuple[str, str]) -> bool:
    return (long := seconds(unit, LONG, around)) > LITTLE and long > 2 * LONG / SHORT * seconds(unit, SHORT, around)


@pytest.mark.parametrize("around", [("", "\n\nTest it."), ("<summary>\n", "\n</summary>\n\nDo it.")])
def test_whose_words_a_text_is_takes_time_in_proportion_to_its_length(around: tuple[str, str]) -> None:
    tried = HOSTILE if ALL else HOSTILE[:: 7 if around[0] else 4]
    slow = [unit for unit in tried if grows_faster(unit, around) and grows_faster(unit, around)]
    assert slow == []


def test_blocks_that_a_turn_opens_with_are_each_read_once() -> None:
    for unit in (
        "<bash-input></bash-input>",
        "<system-reminder>\nx\n</system-reminder>\n",
        "<permissions>a</permissions> ",
    ):
        short, long = (seconds(unit, size, ("", "\n\nTest it."), frames.find_block_author) for size in (SHORT, LONG))
        assert long < 2 * LONG / SHORT * max(short, 0.02), unit


def test_no_line_of_a_list_of_rules_is_longer_than_the_bound() -> None:
    for line in ('no longer "' + '" since "' * 9_000, "a" * 90_000, "- a. " * 90_000):
        _, listed = split_off_rules(f"### Rules\n{line}\n\n### Rules\n{line}")
        assert 0 < max(map(len, listed)) <= MAX_LIST_CHARACTERS


def test_as_many_rules_as_a_list_can_hold_are_looked_for_in_any_number_of_sentences() -> None:
    """Each once, not each in each."""
    said = OriginalMessages(
        [View("user", "person", " ".join(f"say {n}." for n in range(i, i + 4_000))) for i in range(9)], [*range(9)]
    )
    start = process_time()
    _, notes = find_rules([f"unsaid {i}." for i in range(8_000)], said, [])
    assert len(notes) == 8_000
    assert process_time() - start < 5
