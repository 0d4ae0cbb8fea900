"""What every archive must do with a record and its parts: how they are stored, retired and found again."""

# Tests that ship: they assert, and a name is its own sentence.
# ruff: noqa: S101, D102

from __future__ import annotations

from dataclasses import replace
from functools import partial

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged_testing.archive_contract.values import (
    OTHER_SCOPE,
    TEST_SCOPE,
    catch_archive_error,
    make_part,
    make_record,
    make_summary,
    store_parts,
)

_NEIGHBOUR_SCOPE = Scope(TEST_SCOPE.namespace, "neighbour")
_FIRST_PART = make_part("one", 0)
_SECOND_PART = make_part("two", 1)


class RecordContract:
    """Records and parts come back exactly, and a record is found without reading all of them."""

    # R37 R40
    def test_what_is_stored_comes_back_equal(self, archive: Archive) -> None:
        parts = [make_part("what is it?", 0), make_part("a pipe", 1, "assistant", "model")]
        record = make_record(parts, make_summary("they spoke"), data={"tokens": 7, "nested": {"list": [1, None, 2.5]}})
        assert archive.store(record, [*parts, make_summary("they spoke")]) == record
        assert archive.record(TEST_SCOPE, record.id) == record
        assert list(archive.records(TEST_SCOPE)) == [record]
        assert list(archive.parts(TEST_SCOPE)) == parts
        assert archive.threads(TEST_SCOPE.namespace) == [TEST_SCOPE.thread]

    def test_every_field_of_a_record_comes_back_type_for_type(self, archive: Archive) -> None:
        part = make_part("x", 3)
        record = Record(
            id="r\ud800", scope=TEST_SCOPE, key="k\0", length=9, start=3, before=(part.hash, 0, 1),
            after=(None, part.hash, None), kind="clearing", prior="r0", model="openai:gpt", created=1.25,
            data={"receipt": {"cost": 0.1, "big": 10**400, "none": None, "text": "\ud83d", "pairs": [[1, "a"], []]}},
        )  # fmt: skip
        archive.store(record, [part])
        found = archive.record(TEST_SCOPE, "r\ud800")
        assert found == record
        assert repr(found) == repr(record)

    def test_bodies_and_texts_are_exact_to_the_byte(self, archive: Archive) -> None:
        bodies = [b"", b"\0", b"not json\n\r\n", b'{"a":\n1}', "é\U0001f600".encode(), b"\xff\xfe", b"x" * 200_000]
        texts = ["", "\ud800 lone", "a\0b", "line\r\nline", "é", "\U0001f600" * 9, "long " * 30_000]
        parts = [
            replace(make_part(text, turn), body=body, hash=codec.digest(body))
            for turn, (body, text) in enumerate(zip(bodies, texts, strict=True))
        ]
        store_parts(archive, *parts)
        assert list(archive.parts(TEST_SCOPE)) == parts
        assert archive.bodies(TEST_SCOPE, [part.hash for part in parts]) == {part.hash: part.body for part in parts}

    def test_parts_come_in_the_order_of_turns_and_within_bounds(self, archive: Archive) -> None:
        store_parts(archive, *(make_part(f"m{turn}", turn) for turn in (5, 2, 9, 0)))
        store_parts(archive, *(make_part(f"m{turn}", turn) for turn in (3, 1)), key="k2")
        assert [part.turn for part in archive.parts(TEST_SCOPE)] == [0, 1, 2, 3, 5, 9]
        assert [part.turn for part in archive.parts(TEST_SCOPE, 2, 5)] == [2, 3]
        assert [part.turn for part in archive.parts(TEST_SCOPE, -5, 10**30)] == [0, 1, 2, 3, 5, 9]
        assert not archive.parts(TEST_SCOPE, 5, 2)

    def test_messages_put_in_are_known_by_their_hash_but_are_no_parts(self, archive: Archive) -> None:
        turn = make_summary("standing in")
        store_parts(archive, make_part("gone", 0), after=turn)
        assert archive.bodies(TEST_SCOPE, [turn.hash]) == {turn.hash: turn.body}
        assert _read_texts(archive) == ["gone"]

    def test_a_message_said_twice_is_there_twice_and_stored_again_is_not(self, archive: Archive) -> None:
        parts = [make_part("yes", 0), make_part("no", 1), make_part("yes", 2)]
        store_parts(archive, *parts)
        store_parts(archive, *parts, make_part("new", 3), key="k2")
        assert list(archive.parts(TEST_SCOPE)) == [*parts, make_part("new", 3)]

    def test_a_second_record_for_a_key_is_dropped_with_its_parts(self, archive: Archive) -> None:
        first = store_parts(archive, _FIRST_PART)
        assert store_parts(archive, _SECOND_PART, record_id="second") == first
        assert archive.record(TEST_SCOPE, "second") is None
        assert _read_texts(archive) == ["one"]

    def test_a_models_record_replaces_a_model_free_one_which_stays_readable(self, archive: Archive) -> None:
        free = store_parts(archive, _FIRST_PART)
        made = make_record([_FIRST_PART], model="m")
        assert archive.store(made, [_FIRST_PART]) == made
        assert list(archive.records(TEST_SCOPE)) == list(archive.newest(TEST_SCOPE)) == [made]
        assert archive.record(TEST_SCOPE, free.id) == free
        assert store_parts(archive, _FIRST_PART, model="other") == made
        assert store_parts(archive, _FIRST_PART) == made

    def test_a_retired_record_is_readable_and_frees_its_key(self, archive: Archive) -> None:
        first = store_parts(archive, _FIRST_PART)
        for retired in (first.id, first.id, "no such record"):
            archive.retire(TEST_SCOPE, retired)
        assert not archive.records(TEST_SCOPE)
        assert not archive.keyed(TEST_SCOPE, [first.key])
        assert archive.record(TEST_SCOPE, first.id) == first
        assert _read_texts(archive) == ["one"]
        second = make_record([_FIRST_PART])
        assert archive.store(second, [_FIRST_PART]) == second
        archive.retire(TEST_SCOPE, first.id)
        assert list(archive.records(TEST_SCOPE)) == list(archive.keyed(TEST_SCOPE, [first.key])) == [second]

    def test_storing_a_record_again_gives_the_same_and_revives_a_retired_one(self, archive: Archive) -> None:
        record = store_parts(archive, _FIRST_PART)
        assert archive.store(record, [_FIRST_PART]) == record
        archive.retire(TEST_SCOPE, record.id)
        assert archive.store(record, [_FIRST_PART]) == record
        assert list(archive.records(TEST_SCOPE)) == [record]
        assert _read_texts(archive) == ["one"]

    def test_a_record_is_located_within_its_namespace_only(self, archive: Archive) -> None:
        record = store_parts(archive, _FIRST_PART)
        store_parts(archive, _SECOND_PART, scope=_NEIGHBOUR_SCOPE)
        archive.retire(TEST_SCOPE, record.id)
        assert archive.locate(TEST_SCOPE.namespace, record.id) == TEST_SCOPE
        assert archive.locate(OTHER_SCOPE.namespace, record.id) is None
        assert archive.locate(TEST_SCOPE.namespace, "no such record") is None
        wanted = [record.id, "no such record", record.id, "\ud800"]
        assert archive.locate_each(TEST_SCOPE.namespace, wanted) == {record.id: TEST_SCOPE}
        assert archive.locate_each(OTHER_SCOPE.namespace, wanted) == {}
        assert archive.locate_each(TEST_SCOPE.namespace, []) == {}

    # R38
    def test_what_must_not_be_stored_leaves_nothing_behind(self, archive: Archive) -> None:
        lying = replace(_FIRST_PART, body=b"another")
        assert "codec.digest" in catch_archive_error(lambda: archive.store(make_record([_FIRST_PART]), [lying]))
        assert "refers to 1" in catch_archive_error(lambda: archive.store(make_record([_FIRST_PART]), []))
        assert not archive.threads(TEST_SCOPE.namespace)
        first = store_parts(archive, _FIRST_PART)
        again = partial(store_parts, archive, _SECOND_PART, key="other", record_id=first.id)
        assert "already taken" in catch_archive_error(again)
        # Whoever carries what the first made refers to it.
        other = make_record([_SECOND_PART], record_id=first.id, model="m")
        assert "already taken" in catch_archive_error(lambda: archive.store(other, [_SECOND_PART]))
        assert archive.record(TEST_SCOPE, first.id) == first
        assert _read_texts(archive) == ["one"]

    def test_a_record_may_refer_to_what_the_thread_already_holds(self, archive: Archive) -> None:
        old = make_summary("first summary")
        store_parts(archive, _FIRST_PART, after=old)
        second = make_record([old, _SECOND_PART], key="k2")
        assert archive.store(second, [_SECOND_PART]) == second
        assert not archive.verify()

    def test_records_come_oldest_first_or_newest_first(self, archive: Archive) -> None:
        assert list(archive.newest(TEST_SCOPE)) == []
        made = _store_records(archive, 70)
        assert list(archive.newest(TEST_SCOPE)) == made[::-1]
        assert next(archive.newest(TEST_SCOPE)) == made[-1]
        assert list(archive.newest(OTHER_SCOPE)) == list(archive.newest(_NEIGHBOUR_SCOPE)) == []
        archive.retire(TEST_SCOPE, made.pop(3).id)
        assert list(archive.records(TEST_SCOPE)) == list(archive.newest(TEST_SCOPE))[::-1] == made
        by_a_model = store_parts(archive, _FIRST_PART, key=made[0].key, model="m")
        assert list(archive.records(TEST_SCOPE)) == list(archive.newest(TEST_SCOPE))[::-1] == [*made[1:], by_a_model]

    def test_records_stored_or_retired_meanwhile_disturb_no_look_at_the_newest(self, archive: Archive) -> None:
        made = _store_records(archive, 20)
        looking = archive.newest(TEST_SCOPE)
        seen = [next(looking) for _ in range(5)]
        store_parts(archive, _FIRST_PART, key="later")
        archive.retire(TEST_SCOPE, made[19].id)
        seen += looking
        assert seen == made[::-1]

    def test_records_are_found_by_their_keys_and_no_others(self, archive: Archive) -> None:
        made = _store_records(archive, 12)
        store_parts(archive, make_part("there", 0), scope=OTHER_SCOPE, key="only there")
        found = archive.keyed(TEST_SCOPE, [made[7].key, "unknown", made[2].key, made[7].key, "only there", "\ud800"])
        assert sorted(found, key=lambda record: record.id) == [made[2], made[7]]
        assert list(archive.keyed(TEST_SCOPE, [])) == []
        assert list(archive.keyed(OTHER_SCOPE, [record.key for record in made])) == []
        many = [f"unknown {i}" for i in range(2_000)]
        assert list(archive.keyed(TEST_SCOPE, [*many, made[1].key, *many])) == [made[1]]


def _read_texts(archive: Archive) -> list[str]:
    return [part.text for part in archive.parts(TEST_SCOPE)]


def _store_records(archive: Archive, count: int) -> list[Record]:
    """So many records of one thread, in the order they were stored."""
    store = partial(store_parts, archive, _FIRST_PART)
    return [store(key=f"k{9 - i}", record_id=f"r{i}", created=float(i)) for i in range(count)]
