"""What every archive must find, in which order: the half of the contract suite that is about search."""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from unabridged.archive.protocol import Archive, Scope
from unabridged.archive.references import find_part, make_reference
from unabridged_testing.archive_contract.values import OTHER_SCOPE, TEST_SCOPE, make_part, make_summary, store_parts

_MIXED_TEXTS = (
    "Please look at src/app/getUserName.py and its tests",
    "the invoice id is INV-2024-0042, due on 2024-05-01",
    "数据库连接失败\uff0c请检查配置文件",
    'he said "hello big world" and left',
    "const user_name = payload => payload.first_name",
    "HTTPServer answered 503; MAX_RETRY_COUNT reached",
    "東京タワーに行きました",
    "naïve café in Zürich",
    "user: unrelated name, get it?",
    'write_file {"path":"notes/todo.md","content":"first line\\nsecond line\\tend"}',
)


class SearchContract:
    """Search is literal, finds names and their parts, and is alike on every store."""

    @pytest.fixture
    def mixed(self, archive: Archive) -> Archive:
        half = len(_MIXED_TEXTS) // 2  # in two goes: more than one segment
        parts = [make_part(text, turn) for turn, text in enumerate(_MIXED_TEXTS)]
        store_parts(archive, *parts[:half], after=make_summary("getUserName INV-2024-0042"))
        store_parts(archive, *parts[half:], key="k2")
        return archive

    def test_names_are_found_whole_and_by_their_parts(self, mixed: Archive) -> None:
        for query in ("getUserName", "getusername.py", "app/getUserName.py", "src/app/getUserName.py", "src", "tests"):
            assert _search_turns(mixed, query)[0] == 0, query
        assert _search_turns(mixed, "user_name")[0] == 4
        _check_search(mixed, {"MAX_RETRY_COUNT": [5], "retry": [5], "http": [5], "httpServer": [5]})
        _check_search(mixed, {"payload": [4], "INV-2024-0042": [1], "0042": [1], "todo.md": [9], "notes/todo.md": [9]})

    def test_a_hit_has_the_reference_that_leads_to_it(self, mixed: Archive) -> None:
        (hit, *_) = mixed.search(TEST_SCOPE, "getUserName")
        assert hit.ref == make_reference(TEST_SCOPE, hit.turn, hit.hash)
        for ref in (hit.ref, hit.hash, str(hit.turn)):
            assert find_part(mixed, TEST_SCOPE, ref) == make_part(hit.text, hit.turn)

    def test_the_whole_name_comes_before_its_scattered_parts(self, mixed: Archive) -> None:
        _check_search(mixed, {"getUserName": [0, 8]})

    def test_text_without_spaces_is_found(self, mixed: Archive) -> None:
        _check_search(mixed, {"连接失败": [2], "库": [2], "配置": [2], "タワー": [6], "東京": [6], "大阪": []})

    def test_case_and_unicode_form_do_not_matter(self, mixed: Archive) -> None:
        _check_search(mixed, {"CAFE\u0301": [7], "zürich": [7], "\uff2e\uff21\u00cf\uff36\uff25": [7], "cafe": []})

    def test_a_quoted_phrase_is_literal(self, mixed: Archive) -> None:
        _check_search(mixed, {'"hello big world"': [3], '"Big   World"': [3], '"lo big wor"': [3]})
        _check_search(mixed, {'"hello world"': [], '"big hello"': [], '"hello big world" "invoice id"': []})
        _check_search(mixed, {'"=> payload."': [4], '"first line second line"': [9], '"请检查"': [2]})

    def test_a_query_of_signs_alone_is_literal(self, mixed: Archive) -> None:
        _check_search(mixed, {"=>": [4], '"': [9, 3], "<=>": []})

    def test_no_query_is_syntax(self, mixed: Archive) -> None:
        _check_search(mixed, {"": [], "   ": []})
        operators = (
            "NOT invoice", "invoice OR", "AND invoice", "(invoice", "invoice*", "^invoice", '"invoice', "text:invoice",
            "NEAR(invoice", "{invoice}", "+invoice", "-invoice", "invoice;--", "invoice' OR '1'='1", "%invoice%",
            "invoice & !x", "invoice:*", "$$invoice$$", "\\invoice", "[invoice]", "invoice\0",
            "invoice\ud800", "\ud800 invoice",
        )  # fmt: skip
        for query in operators:
            assert 1 in _search_turns(mixed, query), query

    def test_more_of_the_words_rank_higher_and_of_equals_the_later(self, archive: Archive) -> None:
        texts = ["alpha", "beta gamma", "alpha", "alpha beta gamma", "delta", "alpha " + "filler " * 50]
        store_parts(archive, *(make_part(text, turn) for turn, text in enumerate(texts)))
        assert _search_turns(archive, "alpha beta gamma") == [3, 1, 2, 0, 5]
        assert _search_turns(archive, "alpha beta gamma", 2) == [3, 1]
        assert not _search_turns(archive, "alpha", 0)
        scores = [hit.score for hit in archive.search(TEST_SCOPE, "alpha beta")]
        assert scores == sorted(scores, reverse=True)

    def test_a_hit_says_whose_words_it_is_and_where_they_stood(self, archive: Archive) -> None:
        part = make_part("the answer is 42", 7, "assistant", "model")
        store_parts(archive, part)
        (hit,) = archive.search(TEST_SCOPE, "answer")
        assert hit[:5] == (part.hash, 7, "assistant", "model", "the answer is 42")
        assert hit.score > 0

    def test_messages_put_in_are_not_found(self, archive: Archive) -> None:
        store_parts(archive, make_part("original words", 0), after=make_summary("summary words"))
        assert _search_turns(archive, "words") == [0]
        assert not _search_turns(archive, "summary")

    def test_a_text_of_bulk_data_does_not_hide_the_rest(self, archive: Archive) -> None:
        blob = "A1b2" * 20_000
        store_parts(archive, make_part(f"before {blob} after", 0), make_part("elsewhere", 1))
        assert _search_turns(archive, "before") == [0]
        assert _search_turns(archive, "after") == [0]
        assert _search_turns(archive, blob) == [0]

    def test_every_thread_that_holds_the_words_is_found_beside_one_that_holds_them_often(
        self, archive: Archive
    ) -> None:
        """Ten threads hold a word once, one that was used later holds it in more messages than any search reads."""
        logs = [f"log {number}: the zirconiumValve is open" for number in range(10)]
        small = {f"small {number}": [*_MIXED_TEXTS, text] for number, text in enumerate(logs)}
        flood = [f"log {turn}: the zirconiumValve is shut, irconi {'open' if turn == 3 else ''}" for turn in range(250)]
        for created, (name, texts) in enumerate({**small, "only put in": ["nothing"], "large": flood}.items()):
            parts = [make_part(text, turn) for turn, text in enumerate(texts)]
            after = make_summary("the zirconiumValve is open")
            store_parts(archive, *parts, after=after, scope=Scope(TEST_SCOPE.namespace, name), created=float(created))
        store_parts(archive, make_part("the zirconiumValve is open", 0), scope=OTHER_SCOPE)
        for query in _NAMESPACE_QUERIES:
            names = archive.threads(TEST_SCOPE.namespace)
            alone = {name: archive.search(Scope(TEST_SCOPE.namespace, name), query, 500) for name in names}
            holding = {name for name, hits in alone.items() if hits}
            assert archive.threads_with(TEST_SCOPE.namespace, query) == ([*_sort_by_last_use(holding)], True), query
            found = archive.search_each(TEST_SCOPE.namespace, names, query, 5)
            assert set(found) == holding, query
            for name, (hits, matches, whole) in found.items():
                assert matches == len(alone[name]) if whole else 5 <= matches <= len(alone[name]), (query, name)
                assert not whole or list(hits) == alone[name][:5], (query, name)
        best = archive.search_each(TEST_SCOPE.namespace, ["large", "never there"], "shut open zirconiumValve", 1)
        assert [hit.turn for hit in best["large"].hits] == [3], "a message with all of the words is read first"
        assert archive.threads_with("never there", "open") == ([], True)
        assert archive.search_each(TEST_SCOPE.namespace, [], "open") == {}


def _sort_by_last_use(names: Iterable[str]) -> list[str]:
    """Return the threads of the test above, those that were used last first."""
    order = ["large", "only put in", *(f"small {number}" for number in reversed(range(10)))]
    return sorted(names, key=order.index)


_NAMESPACE_QUERIES = (
    "zirconiumValve", "zirconium", "valve shut", "open", "nothing", "nowhere", "zirconium_valve", "the log 7",
    '"valve is"', '"zirconiumvalve is open"', '"irconi"', '"he zirconiumValve is sh"', '"is ope"', "=>", "_", "数据",
    "7", "app.py:42", "", " ", '"nothing"',
)  # fmt: skip


def _search_turns(archive: Archive, query: str, limit: int = 10) -> list[int]:
    return [hit.turn for hit in archive.search(TEST_SCOPE, query, limit)]


def _check_search(archive: Archive, expected: Mapping[str, list[int]]) -> None:
    """See that each query finds the messages of these turns, in this order."""
    assert {query: _search_turns(archive, query) for query in expected} == expected
