"""An entry goes into a configuration file and out again; every other byte stays."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rows import rows
from unabridged.errors import SettingsError
from unabridged_cli.clients import jsonc, toml_tables
from unabridged_cli.clients.client import ConfigEntry
from unabridged_cli.clients.registry import CLIENTS

COMMENTED = """\
// how I like it
{
  "model": "opus", /* the large one */
  "hooks": {
    // mine
    "PreCompact": [
      {"matcher": "manual", "hooks": [{"type": "command", "command": "echo // not a comment"}]} // the last
    ]
  },
  "env": {"A": "1"}, // keep
}
"""


def test_what_is_added_is_there_and_what_was_there_stays() -> None:
    text = jsonc.insert(COMMENTED, ("hooks", "PreCompact"), None, {"hooks": []})
    assert jsonc.value_at(text, ("hooks", "PreCompact", 1)) == {"hooks": []}
    assert jsonc.value_at(text, ("hooks", "PreCompact", 0)) == jsonc.value_at(COMMENTED, ("hooks", "PreCompact", 0))
    assert jsonc.remove(text, ("hooks", "PreCompact", 1)) == COMMENTED


def test_the_comment_behind_the_last_entry_stays_with_it() -> None:
    text = jsonc.insert('{\n  "a": 1 // one\n}\n', (), "b", 2)
    assert text == '{\n  "a": 1, // one\n  "b": 2\n}\n'


def test_what_is_missing_on_the_way_is_made() -> None:
    assert jsonc.insert('{\n    "a": 1\n}', ("b", "c"), None, 2) == (
        '{\n    "a": 1,\n    "b": {\n        "c": [\n            2\n        ]\n    }\n}'
    )


def test_a_file_of_one_line_stays_one() -> None:
    assert jsonc.insert('{"a":1}\n', (), "b", {"c": [2]}) == '{"a":1,"b":{"c":[2]}}\n'


def test_a_file_that_is_empty_gets_an_object() -> None:
    assert jsonc.insert("", ("a",), "b", 1) == '{\n  "a": {\n    "b": 1\n  }\n}\n'


def test_of_two_keys_the_last_is_meant_as_programs_read_it() -> None:
    assert jsonc.value_at('{"a": 1, "a": 2}', ("a",)) == 2


@rows(
    ("text", "where"),
    [
        ('{"a": 1', "line 1, column 8: expected a comma or }"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: expected a comma or }"),
        ("{a: 1}", "line 1, column 2: expected a key in quotes"),
        ('{"a" 1}', "line 1, column 6: expected a colon"),
        ("{} {}", "line 1, column 4: expected the end"),
        ('{"a": ,}', "line 1, column 7: expected a value"),
        ("[" * 100_000, "more brackets"),
        ('{\r  "a": 1\r  "b": 2\r}', "line 3, column 3: expected a comma or }"),
        ('{"a": ' + "1" * 5_000 + "}", "line 1, column 7: expected a number of fewer digits"),
    ],
)
def test_a_file_that_cant_be_read_is_said_with_the_place(text: str, where: str) -> None:
    with pytest.raises(SettingsError, match="^" + where.replace("}", r"\}")):
        jsonc.parse_document(text)


@pytest.mark.parametrize(("text", "what"), [("[]", "the whole is not an object"), ('{"a": 1}', "a is not an object")])
def test_a_place_of_another_kind_is_refused(text: str, what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        jsonc.insert(text, ("a",), "b", 1)


@rows("newline", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@rows("text", ['{\n  "a": 1 // c\n}\n', '{\n  "a": 1, // c\n}\n', "{ // c\n}\n", "{\n}\n", "// c\n", "// c"])
def test_lines_may_end_in_any_way_and_ours_end_in_the_same(text: str, newline: str) -> None:
    text = text.replace("\n", newline)
    added = jsonc.insert(text, ("b",), "c", [2])
    assert jsonc.value_at(added, ("b", "c")) == [2]
    assert set(re.findall(r"\r\n|\n|\r", added)) == {newline if newline in text else "\n"}
    if "{" in text:
        assert jsonc.remove(added, ("b",)) in {text, text.replace("{" + newline, "{")}


def test_what_did_not_come_out_as_it_should_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonc, "_insert_child", lambda *_: '{"a": 1 // "b": 2\n}')
    with pytest.raises(SettingsError, match=r"written so that b can't be added"):
        jsonc.insert('{"a": 1}', (), "b", 2)


# -- over all documents -----------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
gaps = st.sampled_from(["", " ", "\n", "\r\n", "\r", "\t", "/* a, { */", '// b ] "\n', "// d\r", "\n  // c\n  "])


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """The value as somebody may have written it: any blanks, comments, a last comma or none."""
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    parts = []
    for item in value:
        key = f"{json.dumps(item)}{draw(gaps)}:{draw(gaps)}" if isinstance(value, dict) else ""
        inner = draw(written(value[item] if isinstance(value, dict) else item))
        parts.append(f"{draw(gaps)}{key}{inner}{draw(gaps)}")
    brackets = "{}" if isinstance(value, dict) else "[]"
    return brackets[0] + ",".join(parts) + draw(st.sampled_from(["", f",{draw(gaps)}"])) + brackets[1]


documents = (
    st.dictionaries(st.text(max_size=4).filter(lambda key: key != "ours"), values, max_size=4)
    .map(lambda value: {**value, "list": [1], "object": {"a": {}}})
    .flatmap(lambda value: st.tuples(st.just(value), written(value)))
)


@given(documents, st.sampled_from([(), ("object",), ("object", "new"), ("new", "newer")]), values)
def test_a_member_goes_in_and_out_to_the_byte(document: tuple[Any, str], path: tuple[str, ...], value: Any) -> None:
    before, text = document
    assert jsonc.parse_document(text).value == before
    added = jsonc.insert(text, path, "ours", value)
    assert jsonc.value_at(added, (*path, "ours")) == value
    made = next(
        (path[: n + 1] for n in range(len(path)) if jsonc.parse_document(text).find_node(path[: n + 1]) is None), None
    )
    assert jsonc.remove(added, made or (*path, "ours")) == text


@given(documents, values)
def test_an_item_goes_in_and_out_to_the_byte(document: tuple[Any, str], value: Any) -> None:
    _, text = document
    added = jsonc.insert(text, ("list",), None, value)
    assert jsonc.value_at(added, ("list",)) == [1, value]
    assert jsonc.remove(added, ("list", 1)) == text


@given(documents, st.data())
def test_whatever_is_removed_nothing_else_changes(document: tuple[Any, str], data: st.DataObject) -> None:
    before, text = document
    key = data.draw(st.sampled_from(sorted(before)))
    left = {name: value for name, value in before.items() if name != key}
    assert jsonc.parse_document(jsonc.remove(text, (key,))).value == left


# -- what an install adds ---------------------------------------------------------------------------------------------

PROGRAM = "/opt/my tools/unabridged"
JSON_PLACES = [
    place
    for name in ("claude-code", "codex", "opencode")
    for place in CLIENTS[name].entries({"HOME": "/nowhere"}, None)
    if place.path.suffix == ".json"
]
groups = st.fixed_dictionaries({"matcher": scalars, "hooks": st.lists(values, min_size=1, max_size=2)})
events = st.sampled_from(["PreCompact", "SessionStart", "Stop"])
foreign = st.dictionaries(events, st.lists(groups, min_size=1, max_size=2), min_size=1, max_size=2)
servers = st.just({"x": {"command": "y"}})
configurations = st.fixed_dictionaries(
    {"a": values},
    optional={"hooks": foreign, "mcpServers": servers, "mcp": servers, "z": values},
).flatmap(lambda value: st.tuples(st.just(value), written(value)))


@pytest.mark.parametrize("place", JSON_PLACES, ids=lambda place: f"{place.what} {place.path.name}")
@given(configurations)
def test_ours_goes_into_any_configuration_and_out_to_the_byte(
    place: ConfigEntry, configuration: tuple[Any, str]
) -> None:
    before, text = configuration
    added = place.add(text, PROGRAM)
    assert place.program(added) == PROGRAM
    after = jsonc.parse_document(added).value
    assert {key: after[key] for key in before if key not in {"hooks", "mcpServers", "mcp"}} == {
        key: value for key, value in before.items() if key not in {"hooks", "mcpServers", "mcp"}
    }
    assert place.remove(added, "") == text
    assert place.remove(text, "") == text, "what is not ours is not touched"


TOML_LINES = (
    "# a comment",
    "",
    'x{n} = "y" # z',
    "[table{n}]",
    "[[many]]",
    "[mcp_servers.other{n}]",
    "[mcp_servers]",
    'm{n} = """\n[mcp_servers.unabridged]\n"""',
    "l{n} = [\n  [1],\n]",
    "f{n} = [nan, -inf, {a = nan}]",
    "# a\u2028[mcp_servers.unabridged] b\x85[c]",
    "s{n} = 'a\u2028[mcp_servers.unabridged]'",
    '  [ spaced{n} . "in quotes" ]',
)
(TOML_PLACE,) = (
    place for place in CLIENTS["codex"].entries({"HOME": "/nowhere"}, None) if place.path.suffix == ".toml"
)
toml_lines = st.lists(st.sampled_from(TOML_LINES), max_size=8)


@given(toml_lines, st.sampled_from(["\n", "\r\n"]))
def test_a_table_goes_into_any_toml_and_out_to_the_byte(lines: list[str], newline: str) -> None:
    text = "".join(line.replace("{n}", str(number)) + "\n" for number, line in enumerate(lines)).replace("\n", newline)
    before = toml_tables.parse_or_none(text)
    assume(before is not None)
    added = TOML_PLACE.add(text, PROGRAM)
    assert TOML_PLACE.program(added) == PROGRAM
    assert TOML_PLACE.remove(added, "") == text
    assert TOML_PLACE.remove("y = nan # since" + newline + added, "") == "y = nan # since" + newline + text


@pytest.mark.parametrize("text", [".".join("a" * 3_000) + " = 1\n", "[" + ".".join("a" * 3_000) + "]\nb = 1\n"])
def test_names_in_names_may_be_as_deep_as_they_like(text: str) -> None:
    added = TOML_PLACE.add(text, PROGRAM)
    assert TOML_PLACE.remove(added, "") == text


def test_a_number_that_is_too_long_to_read_is_said() -> None:
    with pytest.raises(SettingsError, match="more digits than can be read"):
        toml_tables.parse_document("a = " + "1" * 5_000)
