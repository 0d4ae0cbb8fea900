"""What every archive must do when a record is looked for: by its key, or the newest first."""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from unabridged.archive.contract.values import HERE, THERE, raises, record_for, said, stored
from unabridged.archive.protocol import Archive, Record, Scope


class LookupContract:
    """How records are found without reading all of them."""

    def test_the_newest_record_comes_first(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        assert list(archive.newest(HERE)) == []
        made = _several(archive, 70)
        assert list(archive.newest(HERE)) == made[::-1] == list(archive.records(HERE))[::-1]
        assert next(archive.newest(HERE)) == made[-1]
        assert list(archive.newest(THERE)) == []
        assert list(archive.newest(Scope(HERE.namespace, "neighbour"))) == []
        archive.close()

    def test_what_is_retired_is_not_among_the_newest_and_what_replaces_it_is(
        self, opened: Callable[[], Archive]
    ) -> None:
        archive = opened()
        made = _several(archive, 4)
        archive.retire(HERE, made[3].id)
        assert list(archive.newest(HERE)) == [made[2], made[1], made[0]]
        by_a_model = replace(made[0], id="by a model", model="m")
        archive.store(by_a_model, [said("one", 0)])
        assert list(archive.newest(HERE)) == [by_a_model, made[2], made[1]]
        archive.close()

    def test_records_stored_or_retired_meanwhile_disturb_no_look_at_the_newest(
        self, opened: Callable[[], Archive]
    ) -> None:
        archive = opened()
        made = _several(archive, 20)
        looking = archive.newest(HERE)
        seen = [next(looking) for _ in range(5)]
        archive.store(record_for([said("one", 0)], key="later"), [said("one", 0)])
        archive.retire(HERE, made[19].id)
        seen += looking
        assert seen == made[::-1]
        archive.close()

    def test_records_are_found_by_their_keys_and_no_others(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        made = _several(archive, 12)
        stored(archive, said("there", 0), scope=THERE, key="only there")
        wanted = [made[7], made[2]]
        found = archive.keyed(HERE, [made[7].key, "unknown", made[2].key, made[7].key, "only there", "\ud800"])
        assert sorted(found, key=lambda record: record.id) == sorted(wanted, key=lambda record: record.id)
        assert list(archive.keyed(HERE, [])) == []
        assert list(archive.keyed(THERE, [record.key for record in made])) == []
        archive.close()

    def test_many_keys_are_asked_for_at_once(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        made = _several(archive, 3)
        keys = [f"unknown {i}" for i in range(2_000)]
        assert list(archive.keyed(HERE, [*keys, made[1].key, *keys])) == [made[1]]
        archive.close()

    def test_a_retired_record_is_found_by_no_key(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        first = stored(archive, said("one", 0))
        archive.retire(HERE, first.id)
        assert list(archive.keyed(HERE, [first.key])) == []
        again = record_for([said("one", 0)], key=first.key)
        archive.store(replace(again, id="again"), [said("one", 0)])
        assert [record.id for record in archive.keyed(HERE, [first.key])] == ["again"]
        archive.close()

    def test_a_closed_archive_looks_nothing_up(self, opened: Callable[[], Archive]) -> None:
        archive = opened()
        archive.close()
        assert "closed" in raises(lambda: archive.keyed(HERE, ["k"]))
        assert "closed" in raises(lambda: next(archive.newest(HERE), None))


def _several(archive: Archive, count: int) -> list[Record]:
    """So many records of one thread, in the order they were stored."""
    part = said("one", 0)
    made = [replace(record_for([part], key=f"k{i}"), id=f"r{i}", created=float(i)) for i in range(count)]
    for record in made:
        archive.store(record, [part])
    return made
