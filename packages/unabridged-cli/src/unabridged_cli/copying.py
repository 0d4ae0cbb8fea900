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
    """Count what `copy_archive` did; without `problems`, both archives now hold the same."""

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
        _check_can_be_copied(archive)
    _check_same_encryption(source, target)
    spaces = source.namespaces() if namespace is None else [namespace]
    scopes = [Scope(space, name) for space in spaces for name in source.threads(space) if thread in {None, name}]
    copied, whole = ArchiveCopy(), hashlib.sha256()
    for done, scope in enumerate(scopes):
        tell(done, len(scopes))
        try:
            one, digest = _copy_thread(source, target, scope)
        except (ArchiveError, SettingsError) as error:  # another store may have taken other names
            copied = replace(copied, problems=(*copied.problems, f"{store_rules.describe_scope(scope)}: {error}"))
        else:
            copied = _add_counts(copied, one)
            whole.update(store_rules.join_names(*scope) + digest)
    tell(len(scopes), len(scopes))
    copied = _copy_notes(source, target, namespace, thread, copied)
    return replace(copied, digest=f"sha256:{whole.hexdigest()}")


def _add_counts(copied: ArchiveCopy, one: ArchiveCopy) -> ArchiveCopy:
    counted = ("threads", "new", "grown", "records", "messages", "size")
    return replace(copied, **{name: getattr(copied, name) + getattr(one, name) for name in counted})


def _check_same_encryption(source: Archive, target: Archive) -> None:
    """Raise `ArchiveError` if one archive is encrypted and the other is not."""
    there = _is_encrypted(target)
    if there is not None and (here := _is_encrypted(source)) is not None and here != there:
        sealed, other = (source.url, target.url) if here else (target.url, source.url)
        raise ArchiveError(
            f"what {sealed} holds is encrypted, what {other} holds is not. Give the key of {sealed}, or another target."
        )


def _is_encrypted(archive: Archive) -> bool | None:
    """Return whether the records of the archive are encrypted, judged by its first thread; None if it has no thread."""
    scopes = (Scope(namespace, name) for namespace in archive.namespaces() for name in archive.threads(namespace))
    stored = next((one for scope in scopes for one in archive.everything(scope)), None)
    return None if stored is None else "sealed" in stored.record.data


def _check_can_be_copied(archive: Archive) -> None:
    """Raise `ArchiveError` for a custom archive class that lacks the methods needed for copying."""
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
    """Hold the digests of all records and messages of a thread, to compare it with its copy.

    Messages that a compaction inserted are listed apart from original ones: only within each list is the order fixed.
    """

    records: dict[str, _RecordDigest] = field(default_factory=dict)
    messages: bytearray = field(default_factory=bytearray)
    put_in: bytearray = field(default_factory=bytearray)

    def add_record(self, stored: StoredRecord) -> None:
        """Add a record without its parts."""
        record = stored.record
        said = hashlib.sha256(codec.encode(store_rules.record_fields(record))).digest()
        self.records[record.id] = _RecordDigest(record.key, said, stored.live)

    def add_part(self, part: Part) -> None:
        """Add the digest of one message: its position, author, searchable text and bytes."""
        named = store_rules.join_names(part.hash, str(part.turn), part.role, part.origin, part.text)
        self.digests_for(part).extend(hashlib.sha256(named + hashlib.sha256(part.body).digest()).digest())

    def digests_for(self, part: Part) -> bytearray:
        """Return the list of digests that this message belongs to: inserted messages or original ones."""
        return self.put_in if part.turn < 0 else self.messages

    def digest(self) -> bytes:
        """Return one digest over all records and messages of the thread."""
        whole = hashlib.sha256()
        for record_id, line in self.records.items():
            whole.update(store_rules.join_names(record_id, line.key, str(line.live)) + line.digest)
        for digests in (self.messages, self.put_in):
            whole.update(hashlib.sha256(digests).digest())
        return whole.digest()


def _digest_thread(archive: Archive, scope: Scope) -> _ThreadDigests:
    seen = _ThreadDigests()
    for stored in archive.everything(scope):
        seen.add_record(stored)
        for part in stored.parts:
            seen.add_part(part)
    return seen


def _copy_thread(source: Archive, target: Archive, scope: Scope) -> tuple[ArchiveCopy, bytes]:
    """Copy one thread to the target; return what was written and the digest that both sides now share."""
    done = ArchiveCopy(threads=1)
    there = _digest_thread(target, scope)
    for _ in range(_MAX_TRIES):
        here = _digest_thread(source, scope) if there.records else _ThreadDigests()
        _check_is_earlier_state(here, there, target)
        if there.records and here.digest() == there.digest():
            return done, here.digest()
        coming = _MissingRecords(there, _count_unchanged_records(here, there))
        if target.take(scope, len(there.records), coming.select_missing(source.everything(scope))):
            _retire_records(target, scope, coming.source_digests, there)
            new = done.new or not there.records
            sums = done.records + coming.records, done.messages + coming.messages, done.size + coming.size
            done = ArchiveCopy(1, int(new), int(not new), *sums)
        there = _digest_thread(target, scope)
        if there.digest() == coming.source_digests.digest():
            return done, there.digest()
    remedy = "Copy it when they are done, or verify both."
    raise ArchiveError(f"after {_MAX_TRIES} times both sides still differ: others write to it. {remedy}")


def _retire_records(target: Archive, scope: Scope, here: _ThreadDigests, there: _ThreadDigests) -> None:
    """Retire the records in the target that have been retired in the source since the last copy."""
    for record_id, line in there.records.items():
        if line.live and not here.records.get(record_id, line).live:
            target.retire(scope, record_id)


def _check_is_earlier_state(here: _ThreadDigests, there: _ThreadDigests, target: Archive) -> None:
    """Raise `ArchiveError` unless the target holds an earlier state of the source's conversation."""
    keys = {record_id: line.key for record_id, line in here.records.items()}
    strange = sum(keys.get(record_id) != line.key for record_id, line in there.records.items())
    began_alike = here.messages.startswith(there.messages) and here.put_in.startswith(there.put_in)
    if strange or not began_alike:
        what = f"{strange:,} of its {len(there.records):,} records are" if strange else "some of its messages are"
        raise ArchiveError(
            f"{target.url} holds another conversation under this name: {what} not in the source. Nothing of it was "
            "copied. Forget it there, or copy into another archive."
        )


def _count_unchanged_records(here: _ThreadDigests, there: _ThreadDigests) -> int:
    """Return how many records at the beginning are the same on both sides, or differ only by being retired since."""
    count = 0
    for (one, ours), (other, theirs) in zip(here.records.items(), there.records.items(), strict=False):
        if one != other or ours.digest != theirs.digest or (ours.live and not theirs.live):
            break
        count += 1
    return count


class _MissingRecords:
    """Select the records that the target lacks, and collect the digests of all records of the source on the way."""

    def __init__(self, there: _ThreadDigests, first: int) -> None:
        self.source_digests = _ThreadDigests()
        self.records = self.messages = self.size = 0
        self._target_digests, self._first_missing = there, first

    def select_missing(self, stored: Iterable[StoredRecord]) -> Iterator[StoredRecord]:
        """Yield the records from the first that the target lacks, each with the parts it lacks."""
        waiting: list[Part] = []
        for number, one in enumerate(stored):
            self.source_digests.add_record(one)
            for part in one.parts:
                if len(self.source_digests.digests_for(part)) >= len(self._target_digests.digests_for(part)):
                    waiting.append(part)
                self.source_digests.add_part(part)
            if number >= self._first_missing:
                self.records += 1
                self.messages += len(waiting)
                self.size += sum(len(part.body) for part in waiting)
                yield one._replace(parts=waiting)
                waiting = []


def _copy_notes(
    source: Archive, target: Archive, namespace: str | None, thread: str | None, copied: ArchiveCopy
) -> ArchiveCopy:
    """Copy the notes of the source, replacing notes of the same key in the target.

    When only one thread is copied, notes about other threads are left out.
    """
    of_a_thread, of_the_thread = store_rules.thread_note_key(""), store_rules.thread_note_key(thread or "")
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
