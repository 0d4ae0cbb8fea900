"""Words, index and packing: what is found, alike on every store, and what a stored byte costs."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archive_support import new_place, open_store
from rows import rows
from unabridged.archive import search, words
from unabridged.archive.codec import pack
from unabridged.archive.protocol import Archive, Part, Scope
from unabridged.archive.stores import postgres_index, sql_index, sqlite_index
from unabridged.archive.stores.directory import DirectoryArchive
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.archive.words import (
    CUT_MARK,
    MAX_TOKEN_CHARACTERS,
    QueryName,
    contains_phrases,
    count_terms,
    fold_text,
    parse_query,
)
from unabridged.errors import ArchiveError
from unabridged_testing.archive_contract.values import TEST_SCOPE, make_part, make_record

WORDS = st.sampled_from(
    [
        "alpha",
        "beta",
        "getUserName",
        "user_name",
        "src/app.py",
        "a.b",
        "数据库",
        "東京",
        "é",
        "=>",
        '"',
        "\\n",
        "42",
        "\ud800",
    ]
)
TEXTS = st.lists(WORDS | st.text(max_size=5), max_size=8).map(" ".join)


def find(query: str, texts: list[str]) -> list[tuple[Part, float]]:
    """What the query finds among messages of these texts, and what each is worth."""
    parts = [make_part(text, turn) for turn, text in enumerate(texts)]
    return [(parts[hit.turn], hit.score) for hit in search.search_parts(query, 10, [(TEST_SCOPE, parts)])]


def turns(query: str, texts: list[str]) -> list[int]:
    return [part.turn for part, _ in find(query, texts)]


QUERIES = TEXTS | TEXTS.map(lambda text: f'"{text}"') | st.text(max_size=10)


@rows(
    ("text", "terms"),
    [
        ("src/app/getUser.py", "src/app/getuser.py app/getuser.py getuser.py src app getuser py get user"),
        ("HTTPServer_v2", "httpserver_v2 http server v2"),
        ("__init__.py", "__init__.py __init__ init py"),
        ("550e8400-e29b", "550e8400-e29b 550e8400 e29b"),
        ("main.py:42", "main.py:42 main.py 42 main py"),
        ("don't", "don t"),
        ("getX", "getx"),
        ("bob@example.com", "bob@example.com bob example.com example com"),
        ("std::vec", "std::vec std vec"),
        ("数据库", "数据 据库 数 据 库"),
        ("使用getUser函数", "使用 使 用 getuser get user 函数 函 数"),
        ("हिन्दी", "हिन्दी"),
        ("\ufb01le \uff21\uff22 STRASSE ß", "file ab strasse ss"),
        ("x🎉y", "x 🎉 y"),
        ("first\\nsecond", "first nsecond second"),
        ("caf\\u00e9", "caf u00e9 café"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_text_is_indexed_by_these_terms(text: str, terms: str) -> None:
    assert set(count_terms(text)) == set(terms.split())


def test_a_name_counts_once_for_each_time_it_stands_there() -> None:
    assert count_terms("a_a a_a") == {"a_a": 2}
    assert count_terms("userUser user")["user"] == 2


def test_bulk_data_is_one_short_term() -> None:
    assert [len(term) for term in count_terms("aB3" * 1000)] == [MAX_TOKEN_CHARACTERS, len(CUT_MARK)]


@rows(
    ("query", "names", "phrases"),
    [
        ("alpha Beta alpha", (QueryName("alpha"), QueryName("beta")), ()),
        ("getUserName", (QueryName("getusername", ("get", "user", "name")),), ()),
        ("app.py:42", (QueryName("app.py:42"), QueryName("app.py", ("app", "py")), QueryName("42")), ()),
        (
            'say "Hello  World" now',
            (*map(QueryName, ("say", "hello", "world", "now")),),
            ("hello world",),
        ),
        ("数据库", (QueryName("数据"), QueryName("据库")), ()),
        ("库", (QueryName("库"),), ()),
        ("=>", (), ("=>",)),
        ('""', (), ('""',)),
        ('" "', (), ('" "',)),
        (" ", (), ()),
        ("a:-:b", (QueryName("a:-:b"), QueryName("a"), QueryName("b")), ()),
    ],
)
def test_a_query_is_read_as_literal_words(query: str, names: tuple[QueryName, ...], phrases: tuple[str, ...]) -> None:
    assert parse_query(query) == (names, phrases)


@given(TEXTS, st.data())
def test_a_phrase_cut_from_a_text_is_always_found_in_it(text: str, data: st.DataObject) -> None:
    """What is used to pass texts over without reading them never passes over one that has the phrase."""
    start = data.draw(st.integers(0, len(text)))
    phrase = fold_text(text[start : data.draw(st.integers(start, len(text)))])
    if phrase and phrase in fold_text(text):
        assert contains_phrases(text, (phrase,))
        assert 1 in turns(f'"{phrase}"', ["other", text]) or '"' in phrase


@given(st.text(), st.text())
def test_any_word_of_a_text_finds_it(before: str, after: str) -> None:
    for query in ("needle_in_hay", "NEEDLE", "hay"):
        assert turns(query, [f"{before} needle_in_hay {after}", "other words"])[:1] == [0], query


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(st.lists(TEXTS, min_size=1, max_size=3), min_size=1, max_size=3), st.lists(QUERIES, max_size=6))
def test_every_store_finds_the_same_in_the_same_order_in_a_thread_and_in_all(
    tmp_path: Path, texts: list[list[str]], queries: list[str]
) -> None:
    archives: list[Archive] = [MemoryArchive(), open_sqlite(tmp_path / "a.db"), DirectoryArchive(tmp_path / "a")]
    space = repr((texts, queries))
    scopes = [Scope(space, "one"), Scope(space, "other"), Scope("another namespace", "one")]
    for archive in archives:
        for scope in scopes:
            turn = 0
            for number, group in enumerate(texts if scope.thread == "one" else texts[::-1]):
                parts = [make_part(text, turn + at) for at, text in enumerate(group)]
                archive.store(make_record(parts, scope=scope, key=str(number)), parts)
                turn += len(group)
    for query in queries:
        each = [[list(archive.search(scope, query, 99)) for archive in archives] for scope in scopes[:2]]
        for first, *others in each:
            assert others == [first, first]
        first, *others = [list(archive.search_namespace(space, query, 99)) for archive in archives]
        assert others == [first, first]
        assert {hit.ref for hit in first} == {hit.ref for one in each for hit in one[0]}
    for archive in archives:
        archive.close()


@given(TEXTS | st.text(), QUERIES | TEXTS)
def test_an_index_never_leaves_out_what_stands_in_a_text(text: str, query: str) -> None:
    """Tokens choose what is read: every text that matches has the tokens that are asked for."""
    has = {token.decode() for token in words.extract_tokens(words.prepare_for_index(text))}
    if not find(query, [text]):
        return
    names, phrases = parse_query(query)
    assert all(words.tokens_inside_phrase(phrase) <= has for phrase in phrases)
    wanted = [words.tokens_of_term(one) for name in names for one in (name.whole, " ".join(name.parts)) if one]
    assert phrases or any(tokens <= has for tokens in wanted)


@pytest.mark.parametrize("last", [0, 10])
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_what_more_messages_have_than_are_read_is_chosen_by_the_rarest_words(
    store: str, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what is read, the words decide which messages are; shelves and samples don't change what is found."""
    for module, name, value in (
        (search, "MAX_READ_MESSAGES", 8), (search, "MAX_SCANNED_MESSAGES", 30), (sqlite_index, "SHELF_MESSAGES", 10),
        (sql_index, "SAMPLE_SIZE", 5), (postgres_index, "MAX_SORTED_ROWS", last), (postgres_index, "ENOUGH_MATCHES", 2),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    archive = open_store(store, new_place(store, tmp_path))
    for thread in range(6):
        texts = [f"common other{turn} in{thread}" for turn in range(6)]
        texts[3] += " rare" if thread == 1 else " seldom" if thread in {2, 3} else ""
        parts = [make_part(text, turn) for turn, text in enumerate(texts)]
        archive.store(make_record(parts, scope=Scope("n", str(thread))), parts)

    def found(query: str, limit: int = 3) -> list[tuple[str, int]]:
        return [(hit.thread, hit.turn) for hit in archive.search_namespace("n", query, limit)]

    assert found("common rare", 1) == [("1", 3)]
    assert found("seldom common", 2) == [("2", 3), ("3", 3)]
    assert set(found("rare seldom common", 3)) == {("1", 3), ("2", 3), ("3", 3)}
    assert len(found("common", 8)) == 8
    assert found('"ommon other3 in1 ra"') == [("1", 3)]
    assert found('"her3 in4"') == [("4", 3)]
    assert next(iter(archive.search(Scope("n", "2"), "seldom common", 2))).turn == 3
    pairs = ("alpha beta", "beta gamma", "gamma alpha")  # each word is common, and only the oldest message has all
    for thread in range(5):
        texts = ["alpha beta gamma" if thread == turn == 0 else pairs[turn % 3] for turn in range(9)]
        parts = [make_part(text, turn) for turn, text in enumerate(texts)]
        archive.store(make_record(parts, scope=Scope("m", str(thread))), parts)
    best = archive.search_namespace("m", "gamma beta alpha", 1)[0]
    assert (best.thread, best.turn) == ("0", 0)
    archive.close()


def test_ranking_prefers_the_rarer_word() -> None:
    texts = ["common rare", "common common common", "common", "common other"]
    (first, score), (_, next_score), *_ = find("common rare", texts)
    assert first.turn == 0
    assert score > 2 * next_score


def test_a_phrase_may_begin_and_end_inside_words_even_very_long_ones() -> None:
    texts = [
        "xx" + "y" * 200 + "zz end",
        "start of it",
        "start often",
        "restart of it",
        "a\tb 1 2 3",
        "中" * 300 + "末尾",
    ]

    def found(phrase: str) -> list[int]:
        return sorted(turns(f'"{phrase}"', texts))

    assert found("start of") == [1, 2, 3]
    assert found("art of it") == [1, 3]
    assert found("yyzz en") == [0]
    assert found("xxyy") == [0]
    assert found("zz") == [0]
    assert found("b 1 2 3") == [4]
    assert found("1") == [4]
    assert found("中末") == [5]
    assert found("of i") == [1, 3]
    assert found("nowhere") == []


def test_a_long_text_is_not_preferred_for_its_length() -> None:
    assert turns("needle", ["needle " + "straw " * 500, "needle straw"]) == [1, 0]


@given(
    st.binary(max_size=300) | st.text().map(lambda t: json.dumps(t).encode()), TEXTS | st.text(), st.text(max_size=9)
)
def test_packed_bytes_come_back(body: bytes, text: str, role: str) -> None:
    assert pack.unpack(pack.pack(body)) == body
    assert len(pack.pack(body)) <= len(body) + 1
    assert pack.unpack_view(pack.pack_view(role, "model", text, body), body) == (role, "model", text)


@given(
    st.text(max_size=40),
    st.lists(st.tuples(st.sampled_from(["read", "a b"]), st.dictionaries(TEXTS, TEXTS | st.text(), max_size=3))),
    st.booleans(),
)
def test_calls_are_seen_as_they_stand_in_the_message(said: str, calls: list[tuple[str, Any]], ascii_only: bool) -> None:
    inputs = [json.dumps(given, separators=(",", ":"), ensure_ascii=ascii_only) for _, given in calls]
    text = "\n".join([said, *(f"{name} {given}" for (name, _), given in zip(calls, inputs, strict=True))])
    body = f'{{"content":[{json.dumps(said)},{",".join(inputs)}]}}'.encode("utf-8", "surrogatepass")
    assert pack.unpack_view(pack.pack_view("assistant", "model", text, body), body) == ("assistant", "model", text)


def test_the_arguments_of_a_call_cost_a_fraction() -> None:
    given = {"path": "src/a b.py", "old": 'if x == "a":\n\treturn\n' * 200, "new": "\\d+\n" * 200}
    for body in (
        json.dumps({"content": "Now.", "input": given}, separators=(",", ":")),  # Anthropic: as JSON
        json.dumps({"content": "Now.", "arguments": json.dumps(given, separators=(",", ":"))}),  # OpenAI: as a string
    ):
        text = f"Now.\nedit {json.dumps(given, separators=(',', ':'))}"
        view = pack.pack_view("assistant", "model", text, body.encode())
        assert len(view) < len(text) / 20
        assert pack.unpack_view(view, body.encode()) == ("assistant", "model", text)


@given(st.binary(max_size=300), TEXTS)
def test_machines_with_and_without_isal_read_each_other(body: bytes, text: str) -> None:
    mine = pack.pack(body), pack.pack_view("user", "person", text, body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "deflate", zlib)
        patch.setattr(pack, "_COMPRESSION_LEVEL", 4)
        theirs = pack.pack(body), pack.pack_view("user", "person", text, body)
    for packed, view in (mine, theirs):
        assert pack.unpack(packed) == body
        assert pack.unpack_view(view, body) == ("user", "person", text)


def test_a_long_text_that_stands_in_its_message_costs_a_fraction() -> None:
    text = "".join(f"line {n} of 'a' \"long\" file\n" for n in range(1000))
    body = json.dumps({"role": "tool", "content": text}).encode()
    view = pack.pack_view("tool", "tool", text, body)
    assert len(view) < len(pack.pack(body)) / 4
    assert pack.unpack_view(view, body) == ("tool", "tool", text)
    short = text[:2000]
    body = json.dumps({"role": "tool", "content": short}).encode()
    assert len(pack.pack_view("tool", "tool", short, body)) < len(short) / 10


def test_a_short_message_is_packed_smaller_than_it_is() -> None:
    body = (
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"ls"}}]}'
    )
    assert len(pack.pack(body)) < len(body) / 2


@rows("packed", [b"", b"\3x", b"\1", b"\1\xff\xff\xff", pack.pack(b"x" * 99)[:-2], pack.pack(b"x" * 99) + b"!"])
def test_damaged_bytes_are_refused(packed: bytes) -> None:
    with pytest.raises(ArchiveError):
        pack.unpack(packed)


def test_a_search_in_an_unknown_thread_finds_nothing() -> None:
    archive = MemoryArchive()
    assert archive.search(TEST_SCOPE, "x") == []
