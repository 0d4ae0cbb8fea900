"""Messages in an object store, S3 or what speaks like it: a wrapper around any archive. Needs the extra `s3`.

The archive below keeps the records, the search index, what search sees of a message, and in the place of its body the
name of an object. An object is written before the record that tells of it, and removed after it; so a crash, or a
writer that came second, leaves at most an object that nothing refers to, which `sweep` removes. Every name is used
once and never again: what is removed is never what somebody else has just stored.

Each thread has objects of its own. A message that two threads share is stored for each, and forgetting one of them
needs to ask nobody.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from unabridged.archive import store_rules
from unabridged.archive.address import hide_credentials
from unabridged.archive.codec import pack
from unabridged.archive.protocol import Archive, Hit, HitsByThread, Note, Part, Record, Scope, StoredRecord
from unabridged.archive.store_rules import hash_names
from unabridged.errors import ArchiveError, NotInstalled, SettingsError

PARALLEL_REQUESTS: Final = 16
"""Objects that are read or written at the same time."""
GRACE_SECONDS: Final = 3_600.0
"""Seconds for which an object that nothing refers to may still belong to a record that is being written."""
_THREAD_DIGITS: Final = 32  # hex digits of the thread in a name

_REQUEST_TIMEOUT: Final = timedelta(seconds=15)
"""For which a request is tried again."""
_HOME_SCOPE: Final = Scope("unabridged objects", "home")
"""For whom it is remembered where this archive's objects are."""
_HOME_KEY: Final = "home"
_process: Final[dict[str, int]] = {}

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


class ObjectArchive:
    """Another archive, whose messages are objects at this URL: `s3://bucket/prefix`.

    Keys, region and endpoint come from the environment, as AWS's own tools take them (`AWS_ACCESS_KEY_ID`,
    `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`), or from the machine's role.
    """

    def __init__(self, archive: Archive, url: str) -> None:
        self._archive = archive
        # What has nothing to do with bodies is done by the archive below.
        self.locate, self.locate_each, self.retire = archive.locate, archive.locate_each, archive.retire
        self.namespaces, self.threads, self.threads_with = archive.namespaces, archive.threads, archive.threads_with
        self.newest_time, self.last_used, self.holdings = archive.newest_time, archive.last_used, archive.holdings
        self.remember, self.remembered, self.close = archive.remember, archive.remembered, archive.close
        self.lease, self.release = archive.lease, archive.release
        self._place = hide_credentials(url)
        self.url = f"{archive.url}{'&' if '?' in archive.url else '?'}bodies={self._place}"
        self._client = _load_client()
        self._failure: type[Exception] = self._client.exceptions.BaseError
        retries = {"max_retries": 3, "retry_timeout": _REQUEST_TIMEOUT}
        try:
            self._objects = self._client.store.from_url(url, retry_config=retries)
        except (self._failure, ValueError):
            raise SettingsError(f"bodies={self._place!r} is no place for objects: write s3://bucket/prefix.") from None
        self._home: str | None = None

    records, shared = Archive.records, Archive.shared

    @property
    def is_encrypted(self) -> bool:
        """Return whether the archive below is."""
        return bool(getattr(self._archive, "is_encrypted", False))

    @property
    def transcript_path(self) -> Callable[[Scope], Path] | None:
        """Return where the archive below keeps transcripts; None where it keeps none."""
        return getattr(self._archive, "transcript_path", None)

    def probe(self) -> None:
        """Find out now whether both can be used; a bucket that keeps versions can't forget, and is refused."""
        getattr(self._archive, "probe", lambda: None)()
        name = f"probe-{secrets.token_hex(8)}"
        self._put_object(name, b"")
        self._delete_objects([name])

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        """Write the messages and then the record, which is there with all of them or not at all."""
        store_rules.check_parts(parts)
        scope = record.scope
        written: dict[str, str] = {}
        stored = self._archive.store(self._name_record(record), self._write_objects(scope, parts, written))
        kept = self._find_paths(scope, list(written))
        # The thread had the others already.
        self._delete_objects(path for name, path in written.items() if kept.get(name) != path)
        return self._read_record(stored)

    def record(self, scope: Scope, record_id: str) -> Record | None:
        """Return the record with this id, retired or not, or None."""
        found = self._archive.record(scope, record_id)
        return None if found is None else self._read_record(found)

    def newest(self, scope: Scope) -> Iterator[Record]:
        """Return the live records of the thread, newest first, read as they are asked for."""
        return map(self._read_record, self._archive.newest(scope))

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        """Return the live records that hold one of these keys, in no order; no other record is read."""
        return [self._read_record(found) for found in self._archive.keyed(scope, keys)]

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored messages with these hashes, those that the thread holds; others are absent."""
        paths = self._find_paths(scope, [_to_object_name(scope, digest) for digest in dict.fromkeys(hashes)])
        bodies = self._map_in_parallel(lambda item: self._read_object(*item), paths.items())
        return dict(zip(map(_hash_from_name, paths), bodies, strict=True))

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """Return the archived messages with first <= turn < last, in the order of turns: no put-in ones (turn -1)."""
        return self._map_in_parallel(self._read_part, self._archive.parts(scope, first, last))

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages that match best: literal words, no query syntax. No object is read."""
        return _rename_hits(scope.namespace, self._archive.search(scope, query, limit))

    def search_namespace(self, namespace: str, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages of all threads of the namespace that match best, each with its thread."""
        return _rename_hits(namespace, self._archive.search_namespace(namespace, query, limit))

    def search_each(self, namespace: str, threads: Sequence[str], query: str, limit: int = 10) -> HitsByThread:
        """Return the best matches of each of these threads. No object is read."""
        found = self._archive.search_each(namespace, threads, query, limit)
        return {name: one._replace(hits=_rename_hits(namespace, one.hits)) for name, one in found.items()}

    def everything(self, scope: Scope) -> Iterator[StoredRecord]:
        """Yield all that the thread holds, in the order it was stored."""
        for record, live, parts in self._archive.everything(scope):
            yield StoredRecord(self._read_record(record), live, self._map_in_parallel(self._read_part, parts))

    def take(self, scope: Scope, held: int, stored: Iterable[StoredRecord]) -> bool:
        """Append what `everything` yielded to the thread; return False when it does not hold `held` records."""
        paths: dict[str, str] = {}
        self._find_home()  # before the archive below is locked
        return self._archive.take(scope, held, (self._place_stored(scope, one, paths) for one in stored))

    def forget(self, scope: Scope) -> None:
        """Remove the thread, then its messages; what a crash in between leaves is for `sweep`."""
        paths = self._find_thread_paths(scope)
        self._archive.forget(scope)
        self._delete_objects(paths)

    def forget_namespace(self, namespace: str, before: float | None = None) -> Sequence[str]:
        """Remove the whole namespace, or its threads that are older than `before`; the names of those that went."""
        paths = {name: self._find_thread_paths(Scope(namespace, name)) for name in self._archive.threads(namespace)}
        gone = self._archive.forget_namespace(namespace, before)
        self._delete_objects(path for name in gone for path in paths.get(name, ()))
        return gone

    def notes(self, namespace: str | None = None) -> Sequence[Note]:
        """Return everything that is remembered, but for where this archive's own objects are."""
        return [note for note in self._archive.notes(namespace) if note.namespace != _HOME_SCOPE.namespace]

    def sweep(self, grace: float = GRACE_SECONDS) -> int:
        """Remove the objects that nothing refers to and that are older than `grace` seconds; how many went.

        Only those of this archive: others may have theirs in the same place. A copy of its database is this archive
        too, so don't sweep with one.
        """
        oldest = time.time() - grace
        with self._explain_errors():
            pages = self._client.list(self._objects, prefix=self._find_home())
            stored = (one for page in pages for one in page)
            unused = {str(one["path"]) for one in stored if one["last_modified"].timestamp() < oldest}
        for scope in self._list_scopes():  # read after the list: what was stored since is not in it
            unused.difference_update(self._find_thread_paths(scope))
        self._delete_objects(unused)
        return len(unused)

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """Return what is wrong with the thread, or with everything, every object read: empty when all is well."""
        found = list(self._archive.verify(scope))
        for one in self._list_scopes() if scope is None else [scope]:
            try:
                for stored in self._archive.everything(one):
                    self._map_in_parallel(self._read_part, stored.parts)
            except ArchiveError as error:
                found.append(f"{store_rules.describe_scope(one)}: {error}")
        return found

    # -- objects and their names ---------------------------------------------------------------------------------------

    def _list_scopes(self) -> list[Scope]:
        spaces = self._archive.namespaces()
        return [Scope(namespace, name) for namespace in spaces for name in self._archive.threads(namespace)]

    def _place_stored(self, scope: Scope, stored: StoredRecord, paths: dict[str, str]) -> StoredRecord:
        store_rules.check_parts(stored.parts)
        named = self._name_record(stored.record)
        return StoredRecord(named, stored.live, self._write_objects(scope, stored.parts, paths))

    def _find_home(self) -> str:
        """Return the folder of this archive's objects; its first writer names it, by one of its users at a time."""
        while self._home is None:
            if (found := self._archive.remembered(_HOME_SCOPE.namespace, _HOME_KEY)) is not None:
                self._home = str(found[_HOME_KEY])
            elif self._archive.lease(_HOME_SCOPE, _HOME_KEY, 60):
                if self._archive.remembered(_HOME_SCOPE.namespace, _HOME_KEY) is None:
                    self._archive.remember(_HOME_SCOPE.namespace, _HOME_KEY, {_HOME_KEY: secrets.token_hex(8)})
                self._archive.release(_HOME_SCOPE, _HOME_KEY)
            else:
                time.sleep(0.02)
        return self._home

    def _write_objects(self, scope: Scope, parts: Sequence[Part], paths: dict[str, str]) -> list[Part]:
        """Return the parts as the archive below takes them, an object written for each message that has no path yet.

        One that the thread holds already is written again: the thread may be forgotten meanwhile, and that object too.
        """
        bodies = {_to_object_name(scope, part.hash): part.body for part in parts}
        home = self._find_home()
        new = {name: f"{home}/{_make_path(scope, name)}" for name in bodies if name not in paths}
        self._map_in_parallel(lambda item: self._put_object(item[1], bodies[item[0]]), new.items())
        paths.update(new)
        named = [(part, _to_object_name(scope, part.hash)) for part in parts]
        return [replace(part, hash=name, body=_make_reference(paths[name])) for part, name in named]

    def _put_object(self, path: str, body: bytes) -> None:
        with self._explain_errors():
            version = self._client.put(self._objects, path, pack.pack(body)).get("version")
        if version:
            raise ArchiveError(
                f"{self._place} keeps every version of an object, so nothing in it could be forgotten. Name a bucket "
                "without versioning."
            )

    def _read_object(self, name: str, path: str) -> bytes:
        """Return the message, and only if it is still what its hash says."""
        with self._explain_errors():
            packed = bytes(self._client.get(self._objects, path).bytes())
        return store_rules.check_body(pack.unpack(packed), _hash_from_name(name))

    def _read_part(self, part: Part) -> Part:
        body = self._read_object(part.hash, _read_reference(part.body))
        return replace(part, hash=_hash_from_name(part.hash), body=body)

    def _delete_objects(self, paths: Iterable[str]) -> None:
        if waiting := list(paths):
            with self._explain_errors():
                self._client.delete(self._objects, waiting)

    def _find_paths(self, scope: Scope, names: Sequence[str]) -> dict[str, str]:
        """Return where the messages of these names are, those that the thread holds."""
        return {name: _read_reference(body) for name, body in self._archive.bodies(scope, names).items()}

    def _find_thread_paths(self, scope: Scope) -> set[str]:
        """Return where all messages of the thread are."""
        return {_read_reference(part.body) for stored in self._archive.everything(scope) for part in stored.parts}

    def _map_in_parallel(self, work: Callable[[_Item], _Made], items: Iterable[_Item]) -> list[_Made]:
        """Return the work done on every item, several at once, in their order."""
        waiting = list(items)
        if len(waiting) < 2:
            return [work(item) for item in waiting]
        with ThreadPoolExecutor(min(PARALLEL_REQUESTS, len(waiting))) as pool:
            return list(pool.map(work, waiting))

    def _name_record(self, record: Record) -> Record:
        return store_rules.rename_messages(record, lambda digest: _to_object_name(record.scope, digest))

    def _read_record(self, record: Record) -> Record:
        return store_rules.rename_messages(record, _hash_from_name)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        _check_process()
        try:
            yield
        except (self._failure, OSError) as error:
            said = str(error).partition("\n")[0].partition(": <?xml")[0]
            raise ArchiveError(
                f"{self._place}: {said}. Check that the bucket is there, AWS_ENDPOINT_URL, and that the keys in "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY may read, write, list and delete in it."
            ) from None


def _load_client() -> Any:
    """Return the library that talks to the object store."""
    try:
        import obstore.exceptions  # noqa: PLC0415 - only with the extra
        import obstore.store  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise NotInstalled("an archive with its messages in an object store", "unabridged[s3]", error) from error
    return obstore


def _check_process() -> None:
    """Refuse a process that was forked from one that used an object store: the client's own threads are not in it."""
    if _process.setdefault("first", os.getpid()) != os.getpid():
        raise ArchiveError(
            "an object store that was used before a fork can't be used after it: open it in the child alone, or start "
            "the child with spawn."
        )


def _rename_hits(namespace: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return what the archive below found, under the names that the messages have here."""
    named = ((hit, Part(_hash_from_name(hit.hash), b"", hit.turn, hit.role, hit.origin, hit.text)) for hit in hits)
    return [store_rules.make_hit(Scope(namespace, hit.thread), part, hit.score) for hit, part in named]


def _to_object_name(scope: Scope, digest: str) -> str:
    """Return what the archive below calls a message of the thread: its hash, and whose it is."""
    return f"{store_rules.OBJECT_HASH_PREFIX}{digest}{hash_names(*scope)[:_THREAD_DIGITS]}"


def _hash_from_name(name: str) -> str:
    """Return the hash of a message, from what the archive below calls it."""
    return name.removeprefix(store_rules.OBJECT_HASH_PREFIX)[:-_THREAD_DIGITS]


def _make_path(scope: Scope, name: str) -> str:
    """Return a path that no other object has or had, below folders whose names hide the namespace and the thread."""
    folder = f"{hash_names(scope.namespace)[:_THREAD_DIGITS]}/{hash_names(*scope)[:_THREAD_DIGITS]}"
    return f"{folder}/{_hash_from_name(name).replace(':', '-')}-{secrets.token_hex(6)}"


def _make_reference(path: str) -> bytes:
    """Return what stands in the place of the body: the object's path, behind its own checksum."""
    place = pack.REFERENCE_PREFIX + path.encode()
    return hashlib.sha256(place).digest() + place


def _read_reference(body: bytes) -> str:
    return body[32 + len(pack.REFERENCE_PREFIX) :].decode()
