"""What version 0.1.0 stored is found, replayed and undone by this one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from archive_support import new_schema, postgres_url
from first_archives import PASSWORD, POSTGRES, PROGRAM, cases, compactor_for, copy_sqlite, fill_postgres
from unabridged import ArchiveError
from unabridged.archive.protocol import Scope
from unabridged.archive.stores.postgres import open_postgres

STORED = [name for name in cases() if name != POSTGRES]


@pytest.fixture(autouse=True)
def the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [PROGRAM])


def undone(case: dict[str, Any], url: str) -> list[Any]:
    """The carried list, taken back compaction by compaction until none is left."""
    with compactor_for(case, url) as compactor:
        now = case["carried"]
        for _ in range(50):
            before = compactor.undo(now, thread=case["thread"])
            if before == now:
                break
            now = before
    return list(now)


@pytest.mark.parametrize("name", STORED)
def test_a_list_compacted_by_version_0_1_is_replayed_exactly(name: str, tmp_path: Path) -> None:
    case = cases()[name]
    with compactor_for(case, copy_sqlite(tmp_path)) as compactor:
        assert compactor.replay(case["carried"], thread=case["thread"]) == case["original"]
        assert compactor.replay(case["carried"], thread=case["thread"] or None) == case["original"]


@pytest.mark.parametrize("name", STORED)
def test_a_list_compacted_by_version_0_1_is_undone_step_by_step(name: str, tmp_path: Path) -> None:
    case = cases()[name]
    assert undone(case, copy_sqlite(tmp_path)) == case["original"]


@pytest.mark.parametrize("name", STORED)
def test_what_version_0_1_archived_is_searched_and_the_conversation_goes_on(name: str, tmp_path: Path) -> None:
    case = cases()[name]
    more = [
        message
        for i in range(60)
        for message in (
            {"role": "assistant", "content": f"Answer {i}. " + "word " * 200},
            {"role": "user", "content": f"Question {i}? " + "word " * 200},
        )
    ]
    longer = [*case["carried"], *more]
    with compactor_for(case, copy_sqlite(tmp_path)) as compactor:
        fitted = compactor.compact(longer, thread=case["thread"])
        assert fitted is not None
        assert compactor.replay(fitted.messages, thread=case["thread"]) == [*case["original"], *more]
        thread = case["thread"] or fitted.thread
        assert compactor.search("Question", thread=thread) or compactor.search("word", thread=thread)


def test_another_program_does_not_find_what_version_0_1_stored_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/srv/app/other.py"])
    case = cases()["program's namespace"]
    with (
        compactor_for(case, copy_sqlite(tmp_path)) as compactor,
        pytest.raises(ArchiveError, match=r"no such record in thread 't1' of namespace 'default' of archive sqlite:"),
    ):
        compactor.replay(case["carried"], thread="t1")


def test_a_postgres_archive_of_version_0_1_is_replayed_and_its_password_is_gone() -> None:
    case, schema = cases()[POSTGRES], new_schema()
    fill_postgres(postgres_url(), schema)
    archive = open_postgres(postgres_url(), schema=schema)
    with compactor_for(case, archive) as compactor:  # type: ignore[arg-type] # an archive is taken as it is
        assert compactor.replay(case["carried"], thread=case["thread"]) == case["original"]
        assert PASSWORD not in repr(list(archive.records(Scope(case["namespace"], case["thread"]))))
    archive.close()
