"""The archive as a folder: JSONL files that any tool can read, and a transcript beside them for people.

    folder/namespace/thread/00000001.jsonl    one for each entry of its log, never changed
                            transcript.md     brought up to date after each, from those
          .unabridged                         that it is an archive, and of which version
          .locks/  .leases/  .notes/          who writes, who works, what the engine learned

A file appears whole, by renaming, so that a crash leaves the old or the new state. A thread's folder is complete in
itself: it can be copied, read and deleted by itself, at the price that a message two threads share is in both.
"""

from __future__ import annotations

import errno
import re
import shutil
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from unabridged.archive import store_rules
from unabridged.archive.address import folder_url
from unabridged.archive.protocol import Scope
from unabridged.archive.store_rules import hash_names
from unabridged.archive.stores import files, thread_files
from unabridged.archive.stores.base_log import Entry, LogArchive, Place, ThreadLog
from unabridged.archive.stores.files import to_folder_name
from unabridged.archive.stores.transcript_file import TranscriptSource, write_transcript
from unabridged.errors import ArchiveError

WRITE_STEPS: Final = ("locked", "written", "synced", "renamed", "transcribed")
"""The moments of a `store` at which a crash is tried: those before `renamed` leave the old state."""

TRANSCRIPT_FILE: Final = "transcript.md"
MARK_FILE: Final = ".unabridged"
"""The file that is written before anything else; an archive without it is of a version before the first release."""
_MARK_PATTERN: Final = re.compile(rb"unabridged archive (\d{1,9})\n")
_RECORD_FILE_NAME: Final = "{:08d}.jsonl"
_MAX_CACHED_THREADS: Final = 16  # threads held in memory
_REMEDIES: Final = {
    errno.EEXIST: "That is a file: name a folder.",
    errno.ENOTDIR: "A file stands where a folder is needed: name another.",
    errno.ENOSPC: "Free some space; nothing was written.",
    errno.EROFS: "Make the folder writable for this user; nothing was written.",
    errno.EACCES: "Make the folder readable and writable for this user.",
}


@dataclass(slots=True)
class _LoadedThread:
    """A thread as far as its files were read."""

    identity: tuple[int, ...] = ()
    thread: ThreadLog = field(default_factory=ThreadLog)
    count: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)


class DirectoryArchive(LogArchive, files.Forkable):
    """An archive in a folder, shared by the threads and processes of one machine."""

    def __init__(self, path: str | Path, *, wait: float = 60.0, step: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self._root = Path(path)
        self.url = folder_url(self._root)
        self._wait = wait
        self._step = step or (lambda _: None)
        self._closed = False
        self._is_checked = False
        files.register_forkable(self)

    def start_over(self) -> None:
        """Make a lock that nobody holds, and nothing read: at the beginning, and in a forked child."""
        self.lock = threading.Lock()
        self._cache: OrderedDict[Scope, _LoadedThread] = OrderedDict()

    def probe(self) -> None:
        """Make the folder if need be, and see that files can be made in it: an `ArchiveError` if not."""
        with self._explain_errors():
            self._write_mark()
            files.make_folder(self._root / ".locks")
            files.write_atomically(tried := self._root / f"{files.TEMPORARY_PREFIX}probe", b"")
            tried.unlink(missing_ok=True)

    @contextmanager
    def reading(self, scope: Scope) -> Iterator[ThreadLog]:
        """Read what is new in the thread's files, and give the thread."""
        with self._explain_errors():
            loaded = self._load(scope)
            with loaded.lock:
                yield loaded.thread

    @contextmanager
    def locked(self, scope: Scope | None) -> Iterator[None]:
        """Lock the thread's lock file, or every one there is: the others write nothing meanwhile."""
        # A few locks for all threads: two that share one only wait for each other, and no name is left behind.
        names = [hash_names(*scope)[:2]] if scope is not None else [f"{number:02x}" for number in range(256)]
        with self._explain_errors(), ExitStack() as stack:
            self._write_mark()
            locks = self._root / ".locks"
            files.make_folder(locks)
            for name in names:
                stack.enter_context(files.hold_file_lock(locks / name, self._wait))
            self._step("locked")
            yield

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        if self._closed:
            raise ArchiveError(f"the archive {self._root} is closed. Open it again.")
        try:
            if not self._is_checked:
                _is_archive_folder(self._root)
                self._is_checked = True
            yield
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "Check the folder and its disk.")
            raise ArchiveError(f"{self._root}: {error.strerror or error}. {remedy}") from error

    def _write_mark(self) -> None:
        """Write the version of the archive, before anything else is written into it."""
        if not _is_archive_folder(self._root):
            files.make_folder(self._root)
            files.write_atomically(self._root / MARK_FILE, b"unabridged archive %d\n" % store_rules.ARCHIVE_VERSION)

    def append(self, scope: Scope, entry: Entry, thread: ThreadLog) -> None:
        """Write the next file of the thread, and the transcript that goes with it."""
        folder = self._folder(scope)
        files.make_folder(folder)
        for left_over in folder.glob(f"{files.TEMPORARY_PREFIX}*"):
            left_over.unlink(missing_ok=True)
        data = thread_files.encode_entry(scope, entry, thread.bodies_by_hash)
        files.write_atomically(folder / _RECORD_FILE_NAME.format(len(_list_entry_files(folder)) + 1), data, self._step)
        with suppress(OSError):  # what counts is stored, and the next one makes it anew
            self._update_transcript(scope)
        self._step("transcribed")

    def extend(self, scope: Scope, entries: Sequence[Entry]) -> None:
        """Write the next files of the thread; those of a new thread appear all at once, with their folder."""
        folder, coming = self._folder(scope), self._staging_folder(scope)
        if _list_entry_files(folder):
            super().extend(scope, entries)
        elif entries:
            shutil.rmtree(coming, ignore_errors=True)
            files.make_folder(coming)
            held: set[str] = set()
            for number, entry in enumerate(entries, 1):
                data = thread_files.encode_entry(scope, entry, held)
                files.write_atomically(coming / _RECORD_FILE_NAME.format(number), data)
                held.update(part.hash for part in entry.parts)
            shutil.rmtree(folder, ignore_errors=True)  # what a crash left there is nothing whole
            coming.rename(folder)
            files.sync_folder(folder.parent)
            with suppress(OSError):
                self._update_transcript(scope)

    def transcript_path(self, scope: Scope) -> Path:
        """Return where the thread's transcript is as soon as anything of it is stored, as an absolute path."""
        return self._folder(scope).absolute() / TRANSCRIPT_FILE

    def transcript(self, scope: Scope) -> Path | None:
        """Return the readable file with everything archived of the thread, up to date; None when there is nothing."""
        with self.locked(scope):
            return self._update_transcript(scope)

    def _update_transcript(self, scope: Scope) -> Path | None:
        loaded = self._load(scope)
        if not loaded.count:
            return None
        path = self._folder(scope) / TRANSCRIPT_FILE
        with loaded.lock:
            write_transcript(path, scope, _make_transcript_source(loaded.thread))
        return path

    def scopes(self, namespace: str | None = None) -> Iterable[Scope]:
        """Return every thread that has files, of one namespace or of all."""
        with self._explain_errors():
            return [scope for _, scope in self._iterate_folders(namespace) if scope is not None]

    def record_ids(self, scope: Scope) -> Iterable[str]:
        """Return the ids of the thread's records; the first lines of its files say."""
        with self._explain_errors():
            heads = [_read_head(self._folder(scope) / name) for name in _list_entry_files(self._folder(scope))]
        return [head.record_id for head in heads if head is not None and head.record_id is not None]

    def remove(self, scope: Scope) -> None:
        """Remove the thread's folder, and its leases."""
        for left in (self._values_folder(("leases", *scope)), self._staging_folder(scope)):
            shutil.rmtree(left, ignore_errors=True)
        self._remove_at_once(folder := self._folder(scope))
        with suppress(OSError):
            folder.parent.rmdir()
        with self.lock:
            self._cache.pop(scope, None)

    def clear(self, namespace: str) -> None:
        """Remove the notes of the namespace, and the folder with all its threads."""
        shutil.rmtree(self._values_folder(("notes", namespace)), ignore_errors=True)
        self._remove_at_once(self._root / to_folder_name(namespace))

    def _remove_at_once(self, folder: Path) -> None:
        """Remove the folder, at one stroke for whoever looks: removing its files takes many."""
        if folder.is_dir():
            folder.rename(self._root / f".gone-{uuid.uuid4().hex}")
            files.sync_folder(folder.parent)
        for gone in self._root.glob(".gone-*"):
            shutil.rmtree(gone, ignore_errors=True)

    def get(self, place: Place, key: str) -> bytes | None:
        """Return the small value that was put there last, in a file of its own."""
        with self._explain_errors():
            try:
                return (self._values_folder(place) / hash_names(key)).read_bytes()
            except FileNotFoundError:
                return None

    def put(self, place: Place, key: str, value: bytes | None) -> None:
        """Keep a small value in the place of what was there; None removes it."""
        path = self._values_folder(place) / hash_names(key)
        if value is None:
            path.unlink(missing_ok=True)
            return
        files.make_folder(path.parent)
        files.write_atomically(path, value)

    def values(self, kind: str) -> Iterable[bytes]:
        """Return every small value that is kept under a place that begins so."""
        with self._explain_errors():
            found = sorted((self._root / f".{kind}").glob("*/[!.]*"))
            return [path.read_bytes() for path in found]

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """Return what is wrong with the stored thread, or with everything: a sentence each; empty when all is well."""
        with self._explain_errors():
            chosen = [(self._folder(scope), scope)] if scope is not None else self._iterate_folders()
            return [problem for folder, named in chosen for problem in _find_problems(folder, named)]

    def close(self) -> None:
        """Let go of everything read. Closing twice is harmless; any other use afterwards is an `ArchiveError`."""
        with self.lock:
            self._closed = True
            self._cache.clear()

    def _folder(self, scope: Scope) -> Path:
        return self._root / to_folder_name(scope.namespace) / to_folder_name(scope.thread)

    def _staging_folder(self, scope: Scope) -> Path:
        """Return where the files of a thread are until all are there; after a crash it means nothing."""
        return self._root / to_folder_name(scope.namespace) / f"{files.TEMPORARY_PREFIX}{hash_names(*scope)}"

    def _values_folder(self, place: Place) -> Path:
        return self._root / f".{place[0]}" / hash_names(*place[1:])

    def _iterate_folders(self, namespace: str | None = None) -> Iterator[tuple[Path, Scope | None]]:
        """Yield every thread's folder, of a namespace or of all, and whose it is as far as its first file says."""
        for folder in sorted(self._root.glob(f"{'[!.]*' if namespace is None else to_folder_name(namespace)}/[!.]*")):
            if any(folder.glob("*.jsonl")):
                head = _read_head(folder / _RECORD_FILE_NAME.format(1))
                yield folder, head.scope if head is not None else None

    def _load(self, scope: Scope) -> _LoadedThread:
        """Return the thread as its files say now; only what is new is read."""
        try:
            return self._read_new_files(scope, self._folder(scope))
        except FileNotFoundError:
            return _LoadedThread()  # forgotten while we looked

    def _read_new_files(self, scope: Scope, folder: Path) -> _LoadedThread:
        names = _list_entry_files(folder)
        identity = _file_identity(folder / names[0]) if names else ()
        with self.lock:
            if (loaded := self._cache.pop(scope, None)) is None or loaded.identity != identity:
                loaded = _LoadedThread(identity)
            if names:
                self._cache[scope] = loaded
            while len(self._cache) > _MAX_CACHED_THREADS:
                self._cache.popitem(last=False)
        with loaded.lock:
            for name in names[loaded.count :]:
                _apply_file(loaded.thread, folder / name, scope)
                loaded.count += 1
        return loaded


def _is_archive_folder(root: Path) -> bool:
    """Return whether the folder says that it is an archive of this version; one of any other version is refused."""
    try:
        mark = (root / MARK_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if not _is_unreleased(root):
            return False
        if (root / MARK_FILE).exists():  # another process has made the archive meanwhile
            return _is_archive_folder(root)
        store_rules.check_version(root, None)
    if (found := _MARK_PATTERN.fullmatch(mark)) is None:
        raise ArchiveError(f"{root / MARK_FILE} can't be read. Restore it from a backup.")
    store_rules.check_version(root, int(found[1]))
    return True


def _is_unreleased(root: Path) -> bool:
    """Return whether a folder without a mark has what an archive has; threads of this version may be copied there."""
    heads = map(_read_head, root.glob(f"[!.]*/[!.]*/{_RECORD_FILE_NAME.format(1)}"))
    return (root / ".locks").exists() or any(head is not None and head.is_unreleased for head in heads)


def _apply_file(thread: ThreadLog, path: Path, scope: Scope) -> None:
    thread.apply_entry(thread_files.decode_entry(path.read_bytes(), str(path), scope, thread.bodies_by_hash))


def _make_transcript_source(thread: ThreadLog) -> TranscriptSource:
    """Return a thread's log as the source of its transcript."""
    records, parts = thread.records, thread.searched_parts
    newest = next(reversed(records), "")
    return TranscriptSource(len(parts), newest, records.__contains__, lambda end: parts[end.messages if end else 0 :])


def _list_entry_files(folder: Path) -> list[str]:
    """Return the thread's files in order. Renaming is the last step of writing, so those that are there are whole."""
    names: list[str] = []
    for _ in range(50):
        try:
            names = sorted(path.name for path in folder.iterdir() if path.suffix == ".jsonl")
        except (FileNotFoundError, NotADirectoryError):
            return []
        if not names or names[-1] == _RECORD_FILE_NAME.format(len(names)):
            return names
        time.sleep(0.002)  # a listing made while files appear or go may skip some
    raise ArchiveError(f"{folder}: up to {names[-1]} only {len(names):,} are there. Restore the others from a backup.")


def _file_identity(first: Path) -> tuple[int, ...]:
    """Return whether these are still the files that were read: a thread forgotten and begun anew has others."""
    status = first.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_head(path: Path) -> thread_files.EntryHead | None:
    with suppress(FileNotFoundError), path.open("rb") as file:
        return thread_files.decode_head(file.readline())
    return None


def _find_problems(folder: Path, scope: Scope | None) -> Iterator[str]:
    if scope is None:
        yield f"{folder}: its first file can't be read, so nobody knows whose it is. Restore it from a backup."
        return
    thread = ThreadLog()
    try:
        names = _list_entry_files(folder)
    except ArchiveError as error:
        yield str(error)
        return
    if (to_folder_name(scope.namespace), to_folder_name(scope.thread)) != (folder.parent.name, folder.name):
        yield f"{folder} has what belongs to {store_rules.describe_scope(scope)}. Put it back where it was."
    for name in names:
        try:
            _apply_file(thread, folder / name, scope)
        except ArchiveError as error:
            yield str(error)
    yield from thread.find_problems(scope)
