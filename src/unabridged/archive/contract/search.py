"""What every archive must find, in which order: the half of the contract suite that is about search."""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

from collections.abc import Callable

from unabridged.archive.contract.values import HERE, said, stored, summary
from unabridged.archive.protocol import Archive
from unabridged.archive.references import find, reference

_MIXED = (
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

    def _mixed(self, opened: Callable[[], Archive]) -> Archive:
        archive = opened()
        half = len(_MIXED) // 2  # in two goes: more than one segment
        parts = [said(text, turn) for turn, text in enumerate(_MIXED)]
        stored(archive, *parts[:half], after=summary("getUserName INV-2024-0042"))
        stored(archive, *parts[half:], key="k2")
        return archive

    def _turns(self, archive: Archive, query: str, limit: int = 10) -> list[int]:
        return [hit.turn for hit in archive.search(HERE, query, limit)]

    def test_names_are_found_whole_and_by_their_parts(self, opened: Callable[[], Archive]) -> None:
        archive = self._mixed(opened)
        for query in ("getUserName", "getusername.py", "app/getUserName.py", "src/app/getUserName.py", "src", "tests"):
            assert self._turns(archive, query)[0] == 0, query
        assert self._turns(archive, "user_name")[0] == 4
        assert self._turns(archive, "payload") == [4]
        assert self._turns(archive, "MAX_RETRY_COUNT") == [5]
        assert self._turns(archive, "retry") == [5]
        assert self._turns(archive, "http") == [5]
        assert self._turns(archive, "httpServer") == [5]
        assert self._turns(archive, "INV-2024-0042") == [1]
        assert self._turns(archive, "0042") == [1]
        assert self._turns(archive, "todo.md") == [9]
        assert self._turns(archive, "notes/todo.md") == [9]
        archive.close()

    def test_a_hit_has_the_reference_that_leads_to_it(self, opened: Callable[[], Archive]) -> None:
        archive = self._mixed(opened)
        (hit, *_) = archive.search(HERE, "getUserName")
        assert hit.ref == reference(HERE, hit.turn, hit.hash)
        for ref in (hit.ref, hit.hash, str(hit.turn)):
            assert find(archive, HERE, ref) == said(hit.text, hit.turn)
        archive.close()

    def test_the_whole_name_comes_before_its_scattered_parts(self, opened: Callable[[], Archive]) -> None:
        archive = self._mixed(opened)
        assert self._turns(archive, "getUserName") == [0, 8]
        archive.close()

    def test_text_without_spaces_is_found(self, opened: Callable[[], Archive]) -> None:
        archive = self._mixed(opened)
        assert self._turns(archive, "连接失败") == [2]
        assert self._turns(archive, "库") == [2]
        assert self._turns(archive, "配置") == [2]
        assert self._turns(archive, "タワー") == [6]
        assert self._turns(archive, "東京") == [6]
        assert not self._turns(archive, "大阪")
        archive.close()

    def test_case_and_unicode_form_do_not_matter(self, opened: Callable[[], Archive]) -> None:
        archive = self._mixed(opened)
        assert self._turns(archive, "CAFE\u0301") == [7]
        assert self._turns(archive, "zürich") == [7]
        assert self._turns(archive, "\uff2e\uff21\u00cf\uff36\uff25") == [7]
        assert not self._turns(archive, "cafe")
        archive.close()

    def test_a_quoted_phrase_is_literal(self, opened: Callable[[], Archive]) -> None:
        archive = self._mixed(opened)
        assert self._turns(archive, '"hello big world"') == [3]
        assert self._turns(archive, '"Big   World"') == [3]
        assert self._turns(archive, '"lo big wor"') == [3]
        assert not self._turns(archive, '"hello world"')
        assert not self._turns(archive, '"big hello"')
        assert self._turns(archive, '"=> payload."') == [4]
        assert self._turns(archive, '"first line second line"') == [9]
        assert self._turns(archive, '"请检查"') == [2]
        assert not self._turns(archive, '"hello big world" "invoice id"')
        archive.close()

    def test_a_query_of_signs_alone_is_literal(self, opened: Callable[[], Archive]) -> None:
        archive = self._mixed(opened)
        assert self._turns(archive, "=>") == [4]
        assert self._turns(archive, '"') == [9, 3]
        assert not self._turns(archive, "<=>")
        archive.close()

    def test_no_query_is_syntax(self, opened: Callable[[], Archive]) -> None:
        archive = self._mixed(opened)
        assert not self._turns(archive, "")
        assert not self._turns(archive, "   ")
        operators = (
            "NOT invoice", "invoice OR", "AND invoice", "(invoice", "invoice*", "^invoice", '"invoice', "text:invoice",
            "NEAR(invoice", "{invoice}", "+invoice", "-invoice", "invoice;--", "invoice' OR '1'='1", "%invoice%",
            "invoice & !x", "invoice:*", "$$invoice$$", "\\invoice", "[invoice]", "invoice\0",
            "invoice\ud800", "\ud800 invoice",
        )  # fmt: skip
        for query in operators:
            assert 1 in self._turns(archive, query), query
        archive.close()

    def test_more_of_the_words_rank_higher_and_of_equals_the_later(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        texts = ["alpha", "beta gamma", "alpha", "alpha beta gamma", "delta", "alpha " + "filler " * 50]
        stored(archive, *(said(text, turn) for turn, text in enumerate(texts)))
        assert self._turns(archive, "alpha beta gamma") == [3, 1, 2, 0, 5]
        assert self._turns(archive, "alpha beta gamma", 2) == [3, 1]
        assert not self._turns(archive, "alpha", 0)
        scores = [hit.score for hit in archive.search(HERE, "alpha beta")]
        assert scores == sorted(scores, reverse=True)
        archive.close()

    def test_a_hit_says_whose_words_it_is_and_where_they_stood(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        part = said("the answer is 42", 7, "assistant", "model")
        stored(archive, part)
        (hit,) = archive.search(HERE, "answer")
        assert hit[:5] == (part.hash, 7, "assistant", "model", "the answer is 42")
        assert hit.score > 0
        archive.close()

    def test_messages_put_in_are_not_found(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        stored(archive, said("original words", 0), after=summary("summary words"))
        assert self._turns(archive, "words") == [0]
        assert not self._turns(archive, "summary")
        archive.close()

    def test_a_text_of_bulk_data_does_not_hide_the_rest(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        blob = "A1b2" * 20_000
        stored(archive, said(f"before {blob} after", 0), said("elsewhere", 1))
        assert self._turns(archive, "before") == [0]
        assert self._turns(archive, "after") == [0]
        assert self._turns(archive, blob) == [0]
        archive.close()
