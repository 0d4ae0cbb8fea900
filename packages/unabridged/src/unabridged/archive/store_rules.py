"""What holds in every store, decided in one place: what may be written, which record wins, who has a lease."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from unabridged.archive.address import scrub_data
from unabridged.archive.codec import decode, digest, encode
from unabridged.archive.names import check_name
from unabridged.archive.protocol import Archive, Hit, Note, Part, Record, Scope, StoredRecord
from unabridged.archive.references import make_reference
from unabridged.errors import ArchiveError, SettingsError

KEYED_HASH_PREFIX: Final = "hmac-sha256:"
"""The tag of a name made with the caller's key, as an encrypted archive gives them."""
OBJECT_HASH_PREFIX: Final = "at-"
"""How the name of a message begins that is elsewhere, as an archive on an object store gives them."""


ARCHIVE_VERSION: Final = 2
"""The version of all that is stored (tables, files, packed messages); older ones were never released."""

_RECORD_FIELDS: Final = ("id", "key", "length", "start", "kind", "prior", "model", "created", "data")


def record_fields(record: Record) -> dict[str, Any]:
    """Return everything of the record in plain types, but its scope, which is where it stands."""
    fields = {name: getattr(record, name) for name in _RECORD_FIELDS}
    return {**fields, "data": scrub_data(record.data), "before": list(record.before), "after": list(record.after)}


def record_from_fields(scope: Scope, fields: Any) -> Record:
    """Return the record that has these fields."""
    try:
        lists = {"before": tuple(fields["before"]), "after": tuple(fields["after"]), "data": dict(fields["data"])}
        return Record(**{**fields, **lists}, scope=scope)
    except (TypeError, KeyError, AttributeError) as error:
        where = describe_scope(scope)
        raise ArchiveError(f"a stored record of {where} can't be read: {error}. Run `verify`.") from error


def collect_hashes(record: Record) -> set[str]:
    """Return the hashes of every message the record tells about."""
    return {entry for entry in (*record.before, *record.after) if isinstance(entry, str)}


def rename_messages(record: Record, name: Callable[[str], str]) -> Record:
    """Return the record with other names for the messages that it tells about."""
    before = tuple(name(entry) if isinstance(entry, str) else entry for entry in record.before)
    after = tuple(name(entry) if isinstance(entry, str) else entry for entry in record.after)
    return replace(record, before=before, after=after)


def check_version(place: object, version: int | None, remedy: str = "move it away") -> None:
    """Refuse an archive of another version than this program writes; None is one of the versions without a number."""
    if version is None or version < ARCHIVE_VERSION:
        raise ArchiveError(
            f"{place} was written before the first release, by a version whose archives can't be read. It is left as "
            f"it is: {remedy}, or name another archive."
        )
    if version > ARCHIVE_VERSION:
        raise ArchiveError(f"{place} is of version {version}, this program knows {ARCHIVE_VERSION}. Update unabridged.")


def is_body_of_name(body: bytes, name: str) -> bool:
    """Return whether `name` is the hash of the body; of a wrapper's name, whether the body starts with its checksum."""
    if name.startswith((KEYED_HASH_PREFIX, OBJECT_HASH_PREFIX)):
        return body[:32] == hashlib.sha256(body[32:]).digest()
    return digest(body) == name


def check_body(body: bytes, name: str) -> bytes:
    """Return the body, and only if it is still what its name says."""
    if not is_body_of_name(body, name):
        raise ArchiveError(f"the stored message {name[:20]}… was damaged. Run `verify`, restore it from a backup.")
    return body


def check_names(namespace: Any, *thread: Any) -> None:
    """Refuse names that are not the text that a door makes of them, before anything is stored under them."""
    for what, name in zip(("namespace", "thread"), (namespace, *thread), strict=False):
        if not isinstance(name, str):
            raise SettingsError(f"{what} must be text in an archive; got {type(name).__name__}: use str(...)")
        check_name(name, what)


def check_parts(parts: Sequence[Part]) -> None:
    """Refuse a part whose hash is not its body's."""
    for part in parts:
        if not is_body_of_name(part.body, part.hash):
            raise ArchiveError(
                f"the part at turn {part.turn} says it is {part.hash[:20]}… but its {len(part.body):,} bytes are "
                f"{digest(part.body)[:20]}…. Hash the body with codec.digest."
            )


def check_references(record: Record, parts: Sequence[Part], held_hashes: Collection[str]) -> None:
    """Refuse a record that refers to a message neither given nor, by its hash, already held."""
    if missing := collect_hashes(record).difference(held_hashes, (part.hash for part in parts)):
        raise ArchiveError(
            f"record {record.id!r} refers to {len(missing)} messages that are neither among its {len(parts)} parts nor "
            f"in the thread, first {min(missing)[:20]}…. Store them with it."
        )


def find_key_holder(record: Record, namesake: Record | None, holder: Record | None) -> Record | None:
    """Return the record that keeps the key if this record is stored, or None if this record takes the key.

    Only a record with a model's summary may take the key of a model-free one. An id that already names another
    compaction of the thread is refused.
    """
    takes_it = holder is None or (holder.model is None and record.model is not None)
    if namesake is not None:
        same_change = (namesake.start, namesake.before, namesake.after) == (record.start, record.before, record.after)
        if namesake.key != record.key or (takes_it and not same_change):
            taken = f"record id {record.id!r} is already taken in this thread"
            raise ArchiveError(f"{taken}. Give each record an id of its own.")
    return None if takes_it else holder


def select_new_parts(parts: Sequence[Part], known: Collection[tuple[int, str]]) -> list[Part]:
    """Return those of the parts that the thread does not hold yet, each once, those that search sees last and in order.

    That order makes them one run of numbers, which is how a segment of the index names its messages.
    """
    fresh: dict[tuple[int, str], Part] = {}
    for part in parts:
        if (part.turn, part.hash) not in known:
            fresh.setdefault((part.turn, part.hash), part)
    return sorted(fresh.values(), key=lambda part: part.turn >= 0)


def group_parts_by_record(records: Iterable[tuple[Record, bool]], parts: Iterable[Part]) -> Iterator[StoredRecord]:
    """Yield each record with the parts that were stored with it; the last record gets all remaining parts."""
    waiting, seen_hashes = iter(parts), set[str]()
    before: tuple[Record, bool] | None = None
    record_parts: list[Part] = []
    for record, live in records:
        if before is not None:
            yield StoredRecord(*before, record_parts)
        before, record_parts, missing = (record, live), [], collect_hashes(record) - seen_hashes
        while missing and (part := next(waiting, None)) is not None:
            record_parts.append(part)
            seen_hashes.add(part.hash)
            missing.discard(part.hash)
    if before is not None:
        yield StoredRecord(*before, [*record_parts, *waiting])


def find_dangling_references(scope: Scope, records: Iterable[Record], held_hashes: Collection[str]) -> Iterator[str]:
    """Yield a sentence for every record that refers to a message the thread does not hold."""
    for record in records:
        if missing := collect_hashes(record) - set(held_hashes):
            yield (
                f"{describe_scope(scope)}: record {record.id!r} refers to {len(missing)} messages that are not there, "
                f"first {min(missing)[:20]}…"
            )


def describe_scope(scope: Scope) -> str:
    """Return the scope as problems name it."""
    return f"thread {scope.thread!r} of namespace {scope.namespace!r}"


def join_names(*names: str) -> bytes:
    """Return the names as one, such that no other names give the same."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    return b"".join(b"%d:%b" % (len(name), name) for name in encoded)


def hash_names(*names: str) -> str:
    """Return a digest of the names as one."""
    return hashlib.sha256(join_names(*names)).hexdigest()


class LeaseTokens:
    """The leases this archive object was given: so that one that ran out is never given back in another's stead.

    Without a lock, which a fork could leave closed for ever: each operation on a dict or deque is whole by itself.
    """

    def __init__(self) -> None:
        self._tokens_by_key: dict[tuple[Scope, str], deque[str]] = {}

    def add(self, scope: Scope, key: str, token: str) -> None:
        """Remember a lease that was granted."""
        self._tokens_by_key.setdefault((scope, key), deque()).append(token)

    def take_oldest(self, scope: Scope, key: str) -> str | None:
        """Return the token to give back next, forgotten here; None when there is none."""
        try:
            return self._tokens_by_key[scope, key].popleft()
        except (KeyError, IndexError):
            return None


def make_hit(scope: Scope, part: Part, score: float) -> Hit:
    """Return the part as a search gives it."""
    ref = make_reference(scope, part.turn, part.hash)
    return Hit(part.hash, part.turn, part.role, part.origin, part.text, score, ref, scope.thread)


def is_older(newest: float | None, before: float | None) -> bool:
    """Return whether a thread with its newest record at `newest` is older than `before`; None is all of them."""
    return before is None or (newest is not None and newest < before)


def thread_note_key(thread: str) -> str:
    """Return the key of what is remembered of one thread: every store removes it with the thread."""
    return f"thread:{thread}"


def encode_note(namespace: str, key: str, data: Mapping[str, object]) -> bytes:
    """Return what `remember` keeps where the place of a note does not tell whose it is."""
    return encode([namespace, key, dict(data)])


def find_cutoff_for_size(archive: Archive, namespace: str, size: int) -> float | None:
    """Return the Unix time before which threads have to go, the longest unused first, to keep within `size` bytes.

    Counted are the messages as they are stored, those that threads share for each. None when nothing has to go.
    """
    used = archive.last_used(namespace)
    held = {holding.thread: holding.size for holding in archive.holdings(namespace, list(used))}
    total, moment = sum(held.values()), None
    for last, name in sorted((last, name) for name, last in used.items() if last is not None):
        if total <= size:
            break
        total, moment = total - held.get(name, 0), math.nextafter(last, math.inf)
    return moment


def decode_note(data: bytes | None) -> Note | None:
    """Return what `encode_note` wrote; None where there is nothing, or nothing that can be read."""
    match decode_note_data(data):
        case [str(namespace), str(key), dict(kept)]:
            return Note(namespace, key, kept)
    return None


def decode_note_data(data: bytes | None) -> Any:
    """Return what a note keeps, from its bytes; None where there is nothing, or nothing that can be read."""
    try:
        return None if data is None else decode(data)
    except ArchiveError:
        return None  # it is only of use, never needed


def check_lease(seconds: float) -> None:
    """Refuse a lease that would already have run out, or never would."""
    if not 0 < seconds <= 86_400:
        raise ArchiveError(f"a lease of {seconds} s: it must be more than 0 and at most 86,400 (a day).")
