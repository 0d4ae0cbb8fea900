"""One archive copied into another, whatever stores they are: whole threads, in order, and both sides compared.

    copied = copy_archive(open_archive("sqlite:///agent.db"), open_archive("postgresql://user@host/database"))

A thread is there whole or not at all, so a copy that was ended at any instant goes on where it was when it is called
again: what is the same on both sides is left, what grew since is brought up to date. What the target holds of a thread
must be an earlier state of what the source holds; anything else is another conversation, and refused. Nothing is ever
removed from either side. Leases are not copied, and the search index is made by the target's store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from unabridged.archive import codec, store_rules
from unabridged.archive.names import Name, optional_name
from unabridged.archive.protocol import Archive, Part, Scope, StoredRecord
from unabridged.errors import ArchiveError, SettingsError

_MAX_TRIES: Final = 5
"""How often a thread is looked at again that others write to at the same time."""


@dataclass(frozen=True, slots=True)
class ArchiveCopy:
    """What a copy did, in numbers; without `problems` both sides now hold the same."""

    threads: int = 0
    """Threads that were compared, each whole on both sides."""
    new: int = 0
    """Those that were not in the target before."""
    grown: int = 0
    """Those of which the target held an earlier state."""
    records: int = 0
    """Records that were written, retired ones included."""
    messages: int = 0
    """Messages that were written with them, those that compactions had put in included."""
    size: int = 0
    """Bytes of those messages."""
    notes: int = 0
    """Notes of the engine's own that were written."""
    digest: str = ""
    """Over every record and message of these threads, and the same on both sides."""
    problems: tuple[str, ...] = ()
    """What could not be copied, or differs: a sentence each."""


def copy_archive(
    source: Archive,
    target: Archive,
    *,
    namespace: Name | None = None,
    thread: Name | None = None,
    tell: Callable[[int, int], None] = lambda _done, _all: None,
) -> ArchiveCopy:
    """Bring everything of the source into the target, or of one namespace, or of one of its threads; what was done.

    `tell` hears how many threads are done, and how many there are. A thread that can't be copied is among the
    `problems`, and the others are copied all the same.
    """
    if thread is not None and namespace is None:
        raise ArchiveError("a thread is one of a namespace: name that too.")
    namespace, thread = optional_name(namespace, "namespace"), optional_name(thread)
    for archive in (source, target):
        _check_able(archive)
    _check_sealing(source, target)
    spaces = source.namespaces() if namespace is None else [namespace]
    scopes = [Scope(space, name) for space in spaces for name in source.threads(space) if thread in {None, name}]
    copied, whole = ArchiveCopy(), hashlib.sha256()
    for done, scope in enumerate(scopes):
        tell(done, len(scopes))
        try:
            one, digest = _copy_thread(source, target, scope)
        except (ArchiveError, SettingsError) as error:  # another store may have taken other names
            copied = replace(copied, problems=(*copied.problems, f"{store_rules.describe(scope)}: {error}"))
        else:
            copied = _add(copied, one)
            whole.update(store_rules.join_names(*scope) + digest)
    tell(len(scopes), len(scopes))
    copied = _copy_notes(source, target, namespace, thread, copied)
    return replace(copied, digest=f"sha256:{whole.hexdigest()}")


def _add(copied: ArchiveCopy, one: ArchiveCopy) -> ArchiveCopy:
    counted = ("threads", "new", "grown", "records", "messages", "size")
    return replace(copied, **{name: getattr(copied, name) + getattr(one, name) for name in counted})


def _check_sealing(source: Archive, target: Archive) -> None:
    """Refuse to put open messages among sealed ones, and the other way round."""
    there = _is_sealed(target)
    if there is not None and (here := _is_sealed(source)) is not None and here != there:
        sealed, other = (source.url, target.url) if here else (target.url, source.url)
        raise ArchiveError(
            f"what {sealed} holds is encrypted, what {other} holds is not. Give the key of {sealed}, or another target."
        )


def _is_sealed(archive: Archive) -> bool | None:
    """Return whether what the archive gives is sealed, as far as its first thread tells; None where it has none."""
    for namespace in archive.namespaces():
        for name in archive.threads(namespace):
            if (stored := next(archive.everything(Scope(namespace, name)), None)) is not None:
                return "sealed" in stored.record.data
    return None


def _check_able(archive: Archive) -> None:
    """Refuse an archive of somebody's own that was made before archives could be copied."""
    missing = [name for name in ("everything", "take", "notes") if not hasattr(archive, name)]
    if missing:
        raise ArchiveError(
            f"{type(archive).__name__} can't be copied: it has no {', '.join(f'`{name}`' for name in missing)}, which "
            "unabridged.archive.Archive describes. A subclass of LogArchive has them."
        )


class _RecordDigest(NamedTuple):
    """One record of a thread: its key, the digest of all that it says, and whether it is live."""

    key: str
    digest: bytes
    live: bool


@dataclass(slots=True)
class _ThreadDigests:
    """All that a thread holds, as digests: enough to tell whether two are the same, or one the beginning of the other.

    Put-in messages and the others are counted apart: only within each of the two does the order mean anything.
    """

    records: dict[str, _RecordDigest] = field(default_factory=dict)
    messages: bytearray = field(default_factory=bytearray)
    put_in: bytearray = field(default_factory=bytearray)

    def add(self, stored: StoredRecord) -> None:
        """Take in what comes next."""
        self.add_record(stored)
        for part in stored.parts:
            self.add_part(part)

    def add_record(self, stored: StoredRecord) -> None:
        """Take in a record, without its parts."""
        record = stored.record
        said = hashlib.sha256(codec.encode(store_rules.record_fields(record))).digest()
        self.records[record.id] = _RecordDigest(record.key, said, stored.live)

    def add_part(self, part: Part) -> None:
        """Take in a message: where and whose it is, what search sees of it, and its bytes."""
        named = store_rules.join_names(part.hash, str(part.turn), part.role, part.origin, part.text)
        self.list_of(part).extend(hashlib.sha256(named + hashlib.sha256(part.body).digest()).digest())

    def list_of(self, part: Part) -> bytearray:
        """Return the digests of the messages among which this one is counted."""
        return self.put_in if part.turn < 0 else self.messages

    def digest(self) -> bytes:
        """Over everything."""
        whole = hashlib.sha256()
        for record_id, line in self.records.items():
            whole.update(store_rules.join_names(record_id, line.key, str(line.live)) + line.digest)
        for digests in (self.messages, self.put_in):
            whole.update(hashlib.sha256(digests).digest())
        return whole.digest()


def _see(archive: Archive, scope: Scope) -> _ThreadDigests:
    seen = _ThreadDigests()
    for stored in archive.everything(scope):
        seen.add(stored)
    return seen


def _copy_thread(source: Archive, target: Archive, scope: Scope) -> tuple[ArchiveCopy, bytes]:
    """Bring one thread to the state that the source has; what was done, and the digest of both sides."""
    done = ArchiveCopy(threads=1)
    there = _see(target, scope)
    for _ in range(_MAX_TRIES):
        here = _see(source, scope) if there.records else _ThreadDigests()
        _check_same(here, there, target)
        if there.records and here.digest() == there.digest():
            return done, here.digest()
        coming = _MissingRecords(there, _count_same(here, there))
        if target.take(scope, len(there.records), coming.of(source.everything(scope))):
            _retire(target, scope, coming.here, there)
            new = done.new or not there.records
            sums = done.records + coming.records, done.messages + coming.messages, done.size + coming.size
            done = ArchiveCopy(1, int(new), int(not new), *sums)
        there = _see(target, scope)
        if there.digest() == coming.here.digest():
            return done, there.digest()
    raise ArchiveError(
        f"after {_MAX_TRIES} times both sides still differ: others write to it. "
        "Copy it when they are done, or verify both."
    )


def _retire(target: Archive, scope: Scope, here: _ThreadDigests, there: _ThreadDigests) -> None:
    """Retire what the source has retired since."""
    for record_id, line in there.records.items():
        if line.live and not here.records.get(record_id, line).live:
            target.retire(scope, record_id)


def _check_same(here: _ThreadDigests, there: _ThreadDigests, target: Archive) -> None:
    """Refuse a target that holds what the source does not: it is no earlier state of the same conversation."""
    keys = {record_id: line.key for record_id, line in here.records.items()}
    strange = sum(keys.get(record_id) != line.key for record_id, line in there.records.items())
    if strange or not all(ours.startswith(theirs) for ours, theirs in _pairs(here, there)):
        what = f"{strange:,} of its {len(there.records):,} records are" if strange else "some of its messages are"
        raise ArchiveError(
            f"{target.url} holds another conversation under this name: {what} not in the source. Nothing of it was "
            "copied. Forget it there, or copy into another archive."
        )


def _pairs(here: _ThreadDigests, there: _ThreadDigests) -> Iterable[tuple[bytearray, bytearray]]:
    return (here.messages, there.messages), (here.put_in, there.put_in)


def _count_same(here: _ThreadDigests, there: _ThreadDigests) -> int:
    """Return how many records, from the first, need not be written again: they are the same, or only retired since."""
    count = 0
    for (one, ours), (other, theirs) in zip(here.records.items(), there.records.items(), strict=False):
        if one != other or ours.digest != theirs.digest or (ours.live and not theirs.live):
            break
        count += 1
    return count


class _MissingRecords:
    """What the target lacks, told apart from what it has as it goes by, and all of it seen."""

    def __init__(self, there: _ThreadDigests, first: int) -> None:
        self.here = _ThreadDigests()
        self.records = self.messages = self.size = 0
        self._there, self._first = there, first

    def of(self, stored: Iterable[StoredRecord]) -> Iterator[StoredRecord]:
        """Yield the records from the first that the target lacks, each with the parts it lacks."""
        waiting: list[Part] = []
        for number, one in enumerate(stored):
            self.here.add_record(one)
            for part in one.parts:
                if len(self.here.list_of(part)) >= len(self._there.list_of(part)):
                    waiting.append(part)
                self.here.add_part(part)
            if number >= self._first:
                self.records += 1
                self.messages += len(waiting)
                self.size += sum(len(part.body) for part in waiting)
                yield one._replace(parts=waiting)
                waiting = []


def _copy_notes(
    source: Archive, target: Archive, namespace: str | None, thread: str | None, copied: ArchiveCopy
) -> ArchiveCopy:
    """Bring what was remembered, in the place of what the target remembers under the same name.

    Where one thread is copied, what is remembered of other threads stays behind.
    """
    of_a_thread, of_the_thread = store_rules.thread_note(""), store_rules.thread_note(thread or "")
    written, problems = 0, list(copied.problems)
    try:
        for space, key, data in source.notes(namespace):
            if thread is not None and key.startswith(of_a_thread) and key != of_the_thread:
                continue
            if target.remembered(space, key) != data:
                target.remember(space, key, data)
                written += 1
                if target.remembered(space, key) != data:
                    problems.append(f"the note {key!r} of namespace {space!r} differs after it was copied.")
    except ArchiveError as error:
        problems.append(f"what was remembered could not be copied: {error}")
    return replace(copied, notes=written, problems=tuple(problems))
