"""Records are looked up, not read through: what a compaction costs does not grow with how many there were."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from unabridged import Compactor, Settings
from unabridged.archive.protocol import Record, Scope
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.archive.stores.sqlite import open_sqlite
from unabridged.engine.stubs import build_media_stub, build_stub, shorten_arguments
from unabridged.formats import get_format
from unabridged.history.lookup import read_cleared_originals
from unabridged.history.replay import RecordCache, undo_records
from unabridged.messages import Call, Media
from unabridged_testing.archive_contract.values import TEST_SCOPE, catch_archive_error, make_part, make_record


class Counting(MemoryArchive):
    """Counts the records that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def record(self, scope: Scope, record_id: str) -> Record | None:
        found = super().record(scope, record_id)
        self.read += found is not None
        return found

    def records(self, scope: Scope) -> Sequence[Record]:
        found = super().records(scope)
        self.read += len(found)
        return found

    def newest(self, scope: Scope) -> Iterator[Record]:
        for record in super().newest(scope):
            self.read += 1
            yield record

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        found = super().keyed(scope, keys)
        self.read += len(found)
        return found


def call(i: int) -> dict[str, Any]:
    function = {"name": "work", "arguments": f'{{"n": {i}}}'}
    return {
        "role": "assistant",
        "content": f"Step {i}.",
        "tool_calls": [{"id": f"c{i}", "type": "function", "function": function}],
    }


def result(i: int) -> dict[str, Any]:
    text = f"report {i}: " + " ".join(f"fact{i}x{j}" for j in range(80))
    return {"role": "tool", "tool_call_id": f"c{i}", "content": text}


def run(archive: Counting, steps: int) -> tuple[list[int], list[Any], list[Any], Compactor]:
    """Records read at each compaction, the list at the end, all that was said, and who compacted it."""
    compactor = Compactor(window=5_000, archive=archive, settings=Settings(), namespace="n")
    messages: list[Any] = [{"role": "user", "content": "Work through all of it."}]
    whole = list(messages)
    read: list[int] = []
    for i in range(steps):
        whole += [call(i), result(i)]
        messages = [*messages, *whole[-2:]]
        before = archive.read
        fitted = compactor.fit(messages, thread="t")
        messages = fitted.messages
        if fitted.changed:
            read.append(archive.read - before)
    return read, messages, whole, compactor


def test_a_compaction_reads_no_more_records_when_there_are_more_of_them() -> None:
    archive = Counting()
    read, messages, whole, compactor = run(archive, 240)
    assert len(read) > 60
    assert len(archive.records(Scope("n", "t"))) > 60
    usual = sorted(read)[: len(read) * 17 // 20]  # every few summaries are made anew from all originals
    assert max(usual) <= 8
    archive.read = 0
    assert compactor.replay(messages, thread="t") == whole
    assert archive.read <= 3 * len(read)  # each once, and once more where a text names it


def test_only_what_is_looked_for_is_read_from_a_database(tmp_path: Path) -> None:
    archive = open_sqlite(tmp_path / "a.db")
    part = make_part("one", 0)
    made = [make_record([part], key=f"k{i}") for i in range(40)]
    for record in made:
        archive.store(record, [part])
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE records SET data = x'00' WHERE number < 20")
    connection.close()
    assert next(archive.newest(TEST_SCOPE)) == made[39]
    assert list(archive.keyed(TEST_SCOPE, ["k30", "k25"])) == [made[25], made[30]]
    assert catch_archive_error(lambda: archive.records(TEST_SCOPE))
    assert catch_archive_error(lambda: list(archive.newest(TEST_SCOPE)))
    archive.close()


def test_every_stub_has_the_word_by_which_a_cleared_message_is_known() -> None:
    texts = [
        build_stub(Call("c", "bash", '{"cmd": "ls"}'), "x" * 900),
        build_stub(None, "y" * 900),
        build_media_stub(Media("image", "image/png", "data")),
        shorten_arguments('{"content": "' + "z" * 900 + '"}'),
    ]
    assert all("cleared: " in text for text in texts)


def test_two_results_that_left_the_same_stub_come_back_each_as_it_was() -> None:
    archive = MemoryArchive()
    compactor = Compactor(window=4_000, archive=archive, namespace="n")
    same = {"name": "work", "arguments": "{}"}
    whole: list[Any] = [{"role": "user", "content": "Work."}]
    for i in range(8):
        calls = [{"id": f"c{i}", "type": "function", "function": same}]
        whole += [
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"c{i}", "content": f"{i % 2} " * 400 + f"{i:03}"},
        ]
    fitted = compactor.fit(whole, thread="t")
    assert fitted.receipt is not None
    assert fitted.receipt.kind == "clearing"
    reader = get_format("openai-chat")
    views = [reader.read(message) for message in fitted.messages]
    cleared = [i for i, message in enumerate(fitted.messages) if message is not whole[i]]
    plain = {re.sub(r"record \S+", "", views[i].answers[0].text) for i in cleared}
    assert len(plain) < len(cleared) == len({views[i].answers[0].text for i in cleared})
    found = read_cleared_originals(archive, RecordCache(archive, Scope("n", "t")), views, reader, range(len(views)))
    assert {i: view.answers[0].text for i, view in found.items()} == {i: whole[i]["content"] for i in cleared}
    assert undo_records(archive, Scope("n", "t"), fitted.messages, reader, every=True)[0] == whole
