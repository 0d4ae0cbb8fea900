"""The helper that goes through lists of cases within one test."""

from __future__ import annotations

from pathlib import Path

import pytest

import effort
from rows import rows


@pytest.mark.parametrize("everything", [False, True])
def test_of_several_lists_every_value_is_tried_and_every_combination_where_all_is_asked(
    everything: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effort, "ALL", everything)
    seen: list[tuple[int, str, bool]] = []

    @rows("number", range(5))
    @rows(("word", "_"), [("a", 0), ("b", 0)])
    @rows("flag", [False, True])
    def case(number: int, word: str, _: int, flag: bool) -> None:
        if number == 3 and word == "b":
            pytest.skip("this one can't be")
        seen.append((number, word, flag))

    case()
    assert {number for number, *_ in seen} == set(range(5)), "where one is skipped, another is taken"
    assert {word for _, word, _ in seen} == {"a", "b"}
    assert len(seen) == len(set(seen)) == (18 if everything else 5)


def test_the_rows_that_fail_are_named_and_the_others_are_run(tmp_path: Path) -> None:
    seen: list[Path] = []

    @rows("number", [1, 2, 3], ids=["one", "two", "three"])
    def case(number: int, tmp_path: Path) -> None:
        seen.append(tmp_path)
        assert number != 2

    with pytest.raises(BaseExceptionGroup, match="1 of 3 rows: two"):
        case(tmp_path=tmp_path)
    assert len(set(seen)) == 3


def test_a_test_whose_rows_are_all_skipped_is_skipped() -> None:
    @rows("number", [1, 2])
    def case(number: int) -> None:
        pytest.skip(f"never {number}")

    with pytest.raises(pytest.skip.Exception, match="every row"):
        case()
