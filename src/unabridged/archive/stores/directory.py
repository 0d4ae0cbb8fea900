"""The archive as a folder: JSONL files that any tool can read, and a transcript beside them for people.

    folder/namespace/thread/00000001.jsonl    one for each `store` or `retire`, never changed
                            transcript.md     brought up to date after each, from those
          .locks/  .leases/  .notes/          who writes, who works, what the engine learned

A file appears whole, by renaming, so that a crash leaves the old or the new state. A thread's folder is complete in
itself: it can be copied, read and deleted by itself, at the price that a message two threads share is in both.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from unabridged.archive import codec, rules
from unabridged.archive.names import to_folder
from unabridged.archive.protocol import Hit, Part, Record, Scope
from unabridged.archive.stores import files, forks, jsonl, transcript
from unabridged.archive.stores.thread import Thread
from unabridged.errors import ArchiveError

STEPS: Final = ("locked", "written", "synced", "renamed", "transcribed")
"""The moments of a `store` at which a crash is tried: those before `renamed` leave the old state."""

TRANSCRIPT: Final = "transcript.md"
_FILE: Final = re.compile(r"\d{8,}\.jsonl")
_CACHED: Final = 16  # threads held in memory
_REMEDIES: Final = {
    errno.EEXIST: "That is a file: name a folder.",
    errno.ENOTDIR: "A file stands where a folder is needed: name another.",
    errno.ENOSPC: "Free some space; nothing was written.",
    errno.EROFS: "Make the folder writable for this user; nothing was written.",
    errno.EACCES: "Make the folder readable and writable for this user.",
}


@dataclass(slots=True)
class _Loaded:
    """A thread as far as its files were read."""

    identity: tuple[int, ...] = ()
    thread: Thread = field(default_factory=Thread)
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class DirectoryArchive:
    """An archive in a folder, shared by the threads and processes of one machine."""

    def __init__(
        self,
        path: str | Path,
        *,
        transcript: bool = True,
        wait: float = 60.0,
        step: Callable[[str], None] | None = None,
    ) -> None:
        self._root = Path(path)
        self.url = f"dir:///{path}"
        self._transcript = transcript
        self._wait = wait
        self._step = step or _ignore
        self._closed = False
        self._tokens = rules.Tokens()
        self.start_over()
        forks.watch(self)

    def probe(self) -> None:
        """Make the folder if need be, and see that files can be made in it: an `ArchiveError` if not."""
        with self._explained():
            files.make_folder(self._root / ".locks", self._root)
            files.try_writing(self._root)

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        """Write record and parts, all or nothing; return the record that now holds the key."""
        rules.check_parts(parts)
        with self._writing(record.scope) as folder:
            loaded = self._load(record.scope)
            with loaded.lock:
                holder = loaded.thread.holder(record, parts)
                if holder is not None:
                    return holder
                data = jsonl.write_entry(record, loaded.thread.fresh(parts), loaded.thread.held)
            self._append(folder, loaded, record.scope, data)
        return record

    def retire(self, scope: Scope, record_id: str) -> None:
        """Take the record out of look-ups (undo). Its parts stay."""
        with self._writing(scope) as folder:
            loaded = self._load(scope)
            with loaded.lock:
                record = loaded.thread.records.get(record_id)
                is_live = record is not None and loaded.thread.live.get(record.key) == record_id
            if is_live:
                self._append(folder, loaded, scope, jsonl.write_retirement(scope, record_id))

    def _append(self, folder: Path, loaded: _Loaded, scope: Scope, data: bytes) -> None:
        """Put the next file there, and the transcript that goes with it."""
        files.make_folder(folder, self._root)
        for left_over in folder.glob(f"{files.TEMPORARY}*"):
            left_over.unlink(missing_ok=True)
        files.write_whole(folder / f"{loaded.count + 1:08d}.jsonl", data, self._step)
        with suppress(OSError):  # what counts is stored, and the next one makes it anew
            self._transcribe(scope, folder)
        self._step("transcribed")

    def transcript(self, scope: Scope) -> Path | None:
        """The readable file with everything archived of the thread, up to date; None when there is nothing."""
        with self._writing(scope) as folder:
            self._transcribe(scope, folder)
            return path if (path := folder / TRANSCRIPT).is_file() else None

    def _transcribe(self, scope: Scope, folder: Path) -> None:
        loaded = self._load(scope)
        if self._transcript and loaded.count:
            with loaded.lock:
                transcript.bring_up_to_date(folder / TRANSCRIPT, scope, loaded.count, loaded.thread.searched)

    def record(self, scope: Scope, record_id: str) -> Record | None:
        """The record with this id, retired or not, or None."""
        with self._reading(scope) as thread:
            return thread.records.get(record_id)

    def locate(self, namespace: str, record_id: str) -> Scope | None:
        """The thread of this namespace that has the record, retired or not; None when none has."""
        return self.locate_each(namespace, [record_id]).get(record_id)

    def locate_each(self, namespace: str, record_ids: Sequence[str]) -> Mapping[str, Scope]:
        """For each of these records that the namespace has, retired or not, its thread."""
        found: dict[str, Scope] = {}
        wanted = set(record_ids)
        with self._explained():
            for folder, scope in self._folders(to_folder(namespace)) if wanted else ():
                named = {_record_in(folder / name) for name in _names(folder)} & wanted if scope is not None else ()
                found = {known: scope for known in named if known is not None and scope is not None} | found
        return found

    def records(self, scope: Scope) -> Sequence[Record]:
        """Every live record of the thread, oldest first."""
        with self._reading(scope) as thread:
            return thread.live_records()

    def newest(self, scope: Scope) -> Iterator[Record]:
        """The live records of the thread, newest first."""
        with self._reading(scope) as thread:
            return iter(thread.newest())

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        """The live records that hold one of these keys, in no order."""
        with self._reading(scope) as thread:
            return thread.keyed(keys)

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """The stored messages with these hashes, those that the thread holds; others are absent."""
        with self._reading(scope) as thread:
            return {digest: rules.sound(thread.held[digest], digest) for digest in hashes if digest in thread.held}

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """The archived messages with first <= turn < last, in the order of turns (put-in ones, turn -1, left out)."""
        with self._reading(scope) as thread:
            chosen = thread.in_turns(first, last)
        for part in chosen:
            rules.sound(part.body, part.hash)
        return chosen

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """The archived messages that match best: literal words, no query syntax."""
        with self._reading(scope) as thread:
            return thread.search(scope, query, limit)

    def namespaces(self) -> Sequence[str]:
        """The namespaces that have a thread, sorted."""
        with self._explained():
            spaces = (self._folders(space.name) for space in self._root.glob("[!.]*"))
            return sorted({scope.namespace for folders in spaces for _, scope in folders if scope is not None})

    def threads(self, namespace: str) -> Sequence[str]:
        """The names of the threads that hold anything, sorted."""
        with self._explained():
            return sorted(scope.thread for _, scope in self._folders(to_folder(namespace)) if scope is not None)

    def newest_time(self, scope: Scope) -> float | None:
        """When the record that was stored last was made, retired or not; None when the thread has none."""
        with self._reading(scope) as thread:
            return thread.newest_time()

    def forget(self, scope: Scope) -> None:
        """Remove the thread: its folder, with everything in it."""
        with self._writing(scope):
            self._remove(scope)

    def forget_namespace(self, namespace: str, before: float | None = None) -> Sequence[str]:
        """Remove the whole namespace, or its threads that are older than `before`; the names of those that went."""
        with self._writing_alone():
            found = [scope for _, scope in self._folders(to_folder(namespace)) if scope is not None]
            old = [scope for scope in found if before is None or rules.is_older(self.newest_time(scope), before)]
            if before is None:
                shutil.rmtree(self._notes(namespace), ignore_errors=True)
                self._take_away(self._root / to_folder(namespace))
            for scope in old:
                self._remove(scope)
            return sorted(scope.thread for scope in old)

    def _remove(self, scope: Scope) -> None:
        shutil.rmtree(self._leases(scope), ignore_errors=True)
        self._take_away(folder := self._folder(scope))
        with suppress(OSError):
            folder.parent.rmdir()
        with self._lock:
            self._cache.pop(scope, None)

    def _take_away(self, folder: Path) -> None:
        """Remove the folder, at one stroke for whoever looks: removing its files takes many."""
        if folder.is_dir():
            folder.rename(self._root / f".gone-{uuid.uuid4().hex}")
            files.sync_folder(folder.parent)
        for gone in self._root.glob(".gone-*"):
            shutil.rmtree(gone, ignore_errors=True)

    def remember(self, namespace: str, key: str, data: Mapping[str, object]) -> None:
        """Keep some plain JSON under this key, in the place of what was there."""
        with self._writing(Scope(namespace, "")):
            path = self._notes(namespace) / _digest(key)
            files.make_folder(path.parent, self._root)
            files.write_whole(path, codec.encode(dict(data)), _ignore)

    def remembered(self, namespace: str, key: str) -> Mapping[str, object] | None:
        """What was kept under this key last; None when nothing was."""
        with self._explained():
            try:
                return rules.note((self._notes(namespace) / _digest(key)).read_bytes())
            except FileNotFoundError:
                return None

    def lease(self, scope: Scope, key: str, seconds: float) -> bool:
        """Whether the caller may now do the work named `key` alone, until `release` or until `seconds` have passed."""
        rules.check_lease(seconds)
        with self._writing(scope):
            path = self._leases(scope) / _digest(key)
            _, expires = _read_lease(path)
            if expires > time.time():
                return False
            files.make_folder(path.parent, self._root)
            token = self._tokens.new()
            files.write_whole(path, json.dumps([token, time.time() + seconds]).encode(), _ignore)
            self._tokens.add(scope, key, token)
            return True

    def release(self, scope: Scope, key: str) -> None:
        """Give back the oldest lease on `key` that this archive object was given; harmless when it has run out."""
        token = self._tokens.oldest(scope, key)
        with self._writing(scope):
            path = self._leases(scope) / _digest(key)
            if token is not None and _read_lease(path)[0] == token:
                path.unlink(missing_ok=True)

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """What is wrong with the stored thread, or with everything: a sentence each; empty when all is well."""
        found: list[str] = []
        with self._explained():
            if scope is not None:
                return list(_problems(self._folder(scope), scope))
            for space in sorted(self._root.glob("[!.]*")):
                for folder, named in self._folders(space.name):
                    found += _problems(folder, named)
        return found

    def close(self) -> None:
        """Let go of everything read. Closing twice is harmless; any other use afterwards is an `ArchiveError`."""
        with self._lock:
            self._closed = True
            self._cache.clear()

    def pause(self) -> None:
        """Take the lock: a fork is coming."""
        self._lock.acquire()

    def resume(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def start_over(self) -> None:
        """A lock that nobody holds, and nothing read: at the beginning, and in a forked child."""
        self._lock = threading.Lock()
        self._cache: OrderedDict[Scope, _Loaded] = OrderedDict()

    @contextmanager
    def _reading(self, scope: Scope) -> Iterator[Thread]:
        with self._explained():
            loaded = self._load(scope)
            with loaded.lock:
                yield loaded.thread

    @contextmanager
    def _writing(self, scope: Scope) -> Iterator[Path]:
        """The thread's folder, with every other writer of it kept out."""
        with self._explained():
            locks = self._root / ".locks"
            files.make_folder(locks, self._root)
            # A few locks for all threads: two that share one only wait for each other, and no name is left behind.
            with files.locked(locks / _digest(*scope)[:2], self._wait):
                self._step("locked")
                yield self._folder(scope)

    @contextmanager
    def _writing_alone(self) -> Iterator[None]:
        """Every lock there is, in the order everybody takes them: no other writes anything meanwhile."""
        with self._explained(), ExitStack() as stack:
            locks = self._root / ".locks"
            files.make_folder(locks, self._root)
            for number in range(256):
                stack.enter_context(files.locked(locks / f"{number:02x}", self._wait))
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        if self._closed:
            raise ArchiveError(f"the archive {self._root} is closed. Open it again.")
        try:
            yield
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "Check the folder and its disk.")
            raise ArchiveError(f"{self._root}: {error.strerror or error}. {remedy}") from error

    def _folder(self, scope: Scope) -> Path:
        return self._root / to_folder(scope.namespace) / to_folder(scope.thread)

    def _leases(self, scope: Scope) -> Path:
        return self._root / ".leases" / _digest(*scope)

    def _notes(self, namespace: str) -> Path:
        return self._root / ".notes" / _digest(namespace)

    def _folders(self, space: str) -> Iterator[tuple[Path, Scope | None]]:
        """Every thread's folder of a namespace, and whose it is as far as its first file says."""
        for folder in sorted((self._root / space).glob("[!.]*")):
            names = _names(folder)
            if names:
                yield folder, _scope_of(folder / names[0])

    def _load(self, scope: Scope) -> _Loaded:
        """The thread as its files say now; only what is new is read."""
        try:
            return self._load_new(scope, self._folder(scope))
        except FileNotFoundError:
            return _Loaded()  # forgotten while we looked

    def _load_new(self, scope: Scope, folder: Path) -> _Loaded:
        names = _names(folder)
        identity = _identity(folder / names[0]) if names else ()
        with self._lock:
            loaded = self._cache.pop(scope, None)
            if loaded is None or loaded.identity != identity:
                loaded = _Loaded(identity)
            if names:
                self._cache[scope] = loaded
            while len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        with loaded.lock:
            for name in names[loaded.count :]:
                _apply(loaded.thread, folder / name, scope)
                loaded.count += 1
        return loaded


def _apply(thread: Thread, path: Path, scope: Scope) -> None:
    entry = jsonl.read_entry(path.read_bytes(), str(path), thread.held)
    if entry.scope != scope:
        raise ArchiveError(f"{path} belongs to {rules.name(entry.scope)}. Put it back where it was.")
    if entry.record is not None:
        thread.add(entry.record, thread.fresh(entry.parts))
    if entry.retired is not None:
        thread.retire(entry.retired)


def _names(folder: Path) -> list[str]:
    """The thread's files in order. Renaming is the last step of writing, so those that are there are whole."""
    names: list[str] = []
    for _ in range(50):
        try:
            with os.scandir(folder) as entries:
                names = sorted((entry.name for entry in entries if _FILE.fullmatch(entry.name)), key=_number)
        except (FileNotFoundError, NotADirectoryError):
            return []
        if [_number(name) for name in names] == list(range(1, len(names) + 1)):
            return names
        time.sleep(0.002)  # a listing made while files appear or go may skip some
    raise ArchiveError(
        f"{folder}: of the files 1 to {_number(names[-1]):,} only {len(names):,} are there. Restore them from a backup."
    )


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _identity(first: Path) -> tuple[int, ...]:
    """Whether these are still the files that were read: a thread forgotten and begun anew has others."""
    status = first.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _scope_of(path: Path) -> Scope | None:
    with suppress(ArchiveError, FileNotFoundError), path.open("rb") as file:
        return jsonl.scope_of(file.readline())
    return None


def _record_in(path: Path) -> str | None:
    """The id of the record that the file is about; its first line says."""
    with suppress(ArchiveError, FileNotFoundError), path.open("rb") as file:
        return jsonl.record_id(file.readline())
    return None


def _problems(folder: Path, scope: Scope | None) -> Iterator[str]:
    thread = Thread()
    try:
        names = _names(folder)
    except ArchiveError as error:
        yield str(error)
        return
    if scope is None:
        yield f"{folder}: its first file can't be read, so nobody knows whose it is. Restore it from a backup."
        return
    if (to_folder(scope.namespace), to_folder(scope.thread)) != (folder.parent.name, folder.name):
        yield f"{folder} has what belongs to {rules.name(scope)}. Put it back where it was."
    for name in names:
        try:
            _apply(thread, folder / name, scope)
        except ArchiveError as error:
            yield str(error)
    yield from thread.problems(scope)


def _read_lease(path: Path) -> tuple[str | None, float]:
    with suppress(FileNotFoundError, ValueError):
        token, expires = json.loads(path.read_bytes())
        return str(token), float(expires)
    return None, 0.0


def _digest(*names: str) -> str:
    digest = hashlib.sha256()
    for name in names:
        encoded = name.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(encoded), encoded))
    return digest.hexdigest()


def _ignore(_step: str) -> None:
    """Do nothing: no crash is being tried."""
