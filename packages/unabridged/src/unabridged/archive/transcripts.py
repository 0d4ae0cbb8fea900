"""Where a conversation's transcript is, so that a summary turn can name it; and the files that a program asks for.

A directory archive keeps a transcript of every thread itself. With `Settings(transcript="logs/{thread}.md")` any other
archive's threads have one too: brought up to date after each compaction, removed when the thread is forgotten. The
archive remembers the paths, so that whoever forgets a thread removes its file, without these settings too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from unabridged.archive import store_rules
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Scope
from unabridged.archive.stores import files, transcript_file
from unabridged.errors import ArchiveError, SettingsError
from unabridged.text_tools import neutralise_markup, to_one_line

THREAD_FIELD: Final = "{thread}"
NAMESPACE_FIELD: Final = "{namespace}"
_NOTE_KEY: Final = "transcripts"
"""Under which an archive remembers, for each namespace, the paths of transcripts."""
_LOCK_FILE: Final = ".unabridged-transcripts.lock"
_LOCK_TIMEOUT_SECONDS: Final = 60.0
_MAX_NAME_CHARACTERS: Final = 160
_UNWRITABLE_REMEDY: Final = "Name a path that this user can write in Settings(transcript=…), or leave it out."
_REMOVE_REMEDY: Final = "Remove the file."


class TranscriptError(ArchiveError):
    """A transcript can't be kept where the settings say; the archive itself is well."""


def transcripts_for(template: str | Literal[False] | None, archive: Archive) -> Transcripts | None:
    """Return the transcripts that a summary turn may name: those that the settings ask for, else the archive's own."""
    if template is False:
        return None
    if template is None:
        path_of = getattr(archive, "transcript_path", None)
        return None if path_of is None else ArchiveTranscripts(path_of)
    if getattr(archive, "is_encrypted", False):
        raise SettingsError(
            f"transcript={template!r} would write in plain text what the archive encrypts: leave it out, or use an "
            "archive that is not encrypted"
        )
    return TranscriptFiles(template, archive)


class ArchiveTranscripts(NamedTuple):
    """Those that the archive keeps itself, as a directory does."""

    path_of: Callable[[Scope], Path]
    key_seed: str = "transcript"
    """What tells these settings from others in a record's key: the same in every process."""

    def name(self, scope: Scope) -> str:
        """Return the path of a thread's transcript as a summary turn names it: one line that can't pose as another.

        It is absolute: the agent's tools may work in another folder than this process.
        """
        path = self.path_of(scope)
        folder, inside = path.parents[2], path.parts[-3:]  # what stands for namespace and thread is harmless, and exact
        return str(Path(neutralise_markup(to_one_line(str(folder))), *inside))

    def check(self, scope: Scope) -> None:
        """Do nothing: each thread has its own folder."""

    def update(self, scope: Scope, record_id: str) -> None:
        """Do nothing: the archive wrote it with the record."""


class TranscriptFiles:
    """A file for each thread of an archive at this path, where `{thread}` and `{namespace}` are filled in.

    Names stand in it as a directory archive writes them. Where the path has no `{namespace}`, threads of another
    namespace than the default one are called `thread@namespace`. Without `{thread}` the first thread has the file.
    """

    def __init__(self, template: str, archive: Archive) -> None:
        self.template = template
        self.key_seed = f"transcript {template}"
        self._archive = archive
        self._place = _TranscriptPath(str(Path(template).expanduser().absolute()))

    def name(self, scope: Scope) -> str:
        """Return the path as the settings have it: the same in every process, wherever it works."""
        return _fill_in_names(neutralise_markup(to_one_line(str(Path(self.template).expanduser()))), scope)

    def check(self, scope: Scope) -> None:
        """Raise a `TranscriptError` if the file can't be written or is not this thread's, before a summary is paid for.

        One that threads would share is claimed.
        """
        with self._place.locked(scope, _UNWRITABLE_REMEDY) as path:
            self._require_own_file(path, scope)
            if not self._place.is_per_thread and not path.exists():
                transcript_file.write_empty_transcript(path, scope)

    def update(self, scope: Scope, record_id: str) -> None:
        """Write what is new in the archive to the file; this record was stored last."""
        with self._place.locked(scope, _UNWRITABLE_REMEDY) as path:
            self._require_own_file(path, scope)
            known = [place.template for place in _read_remembered_paths(self._archive, scope.namespace)]
            if self._place.template not in known:
                paths = [*known, self._place.template]
                self._archive.remember(scope.namespace, _NOTE_KEY, {"paths": paths})
            transcript_file.write_transcript(path, scope, _make_transcript_source(self._archive, scope, record_id))

    def _require_own_file(self, path: Path, scope: Scope) -> None:
        """Refuse a path at which something else stands: another thread's transcript, or a file that is none."""
        if transcript_file.is_transcript_of(path, scope) or not os.path.lexists(path):
            return
        remedy = f"Write {THREAD_FIELD} into the path, as in transcript='logs/{THREAD_FIELD}.md'."
        if self._place.is_per_thread:
            remedy = "Remove it, or name another path in Settings(transcript=…)."
        whose = store_rules.describe_scope(scope)
        raise TranscriptError(f"{path} is there and is not the transcript of {whose}. {remedy}")


Transcripts = ArchiveTranscripts | TranscriptFiles
"""The transcripts of an archive's threads."""


class _TranscriptPath(NamedTuple):
    """The absolute path of transcripts, with the fields that are filled in."""

    template: str

    @property
    def is_per_thread(self) -> bool:
        """Return whether each thread has its own file."""
        return THREAD_FIELD in self.template

    @property
    def folder(self) -> Path:
        """Return the folder that they all are in or below, where the lock is."""
        return Path(self.template.partition("{")[0] + "x").parent

    def path(self, scope: Scope) -> Path:
        """Return the path of this thread's file."""
        return Path(_fill_in_names(self.template, scope))

    def locked_folder(self) -> AbstractContextManager[None]:
        """Keep other writers out of the folder."""
        return files.hold_file_lock(self.folder / _LOCK_FILE, _LOCK_TIMEOUT_SECONDS, TranscriptError)

    @contextmanager
    def locked(self, scope: Scope, remedy: str) -> Iterator[Path]:
        """Make the folders of the thread's file and keep other writers out; an `OSError` is told with this remedy."""
        path = self.path(scope)
        try:
            files.make_folder(path.parent)
            with self.locked_folder():
                yield path
        except OSError as error:
            raise TranscriptError(f"{path}: {error.strerror or error}. {remedy}") from error


def _make_transcript_source(archive: Archive, scope: Scope, newest: str) -> transcript_file.TranscriptSource:
    """Return a thread of any archive as the source of its transcript; where others wrote too, their number tells."""
    return transcript_file.TranscriptSource(
        sum(held.messages for held in archive.holdings(scope.namespace, [scope.thread])),
        newest,
        lambda record_id: archive.record(scope, record_id) is not None,
        lambda end: archive.parts(scope, end.turn + 1 if end else 0),
    )


# -- forgetting -------------------------------------------------------------------------------------------------------


def forget_thread(archive: Archive, scope: Scope) -> None:
    """Remove the thread from the archive, and the transcripts of it that were written beside the archive."""
    places = _read_remembered_paths(archive, scope.namespace)
    archive.forget(scope)
    _remove_transcripts(places, [scope])


def forget_namespace(archive: Archive, namespace: str, before: float | None = None) -> Sequence[str]:
    """Remove a namespace or its threads older than `before`, and their transcripts; the names of those that went."""
    places = _read_remembered_paths(archive, namespace)
    gone = archive.forget_namespace(namespace, before)
    _remove_transcripts(places, [Scope(namespace, thread) for thread in gone])
    return gone


def _read_remembered_paths(archive: Archive, namespace: str) -> list[_TranscriptPath]:
    """Return where transcripts of the namespace were ever kept."""
    note: Any = archive.remembered(namespace, _NOTE_KEY) or {}
    paths = note.get("paths", ())
    return [_TranscriptPath(path) for path in paths if isinstance(path, str) and Path(path).is_absolute()]


def _remove_transcripts(places: Sequence[_TranscriptPath], scopes: Sequence[Scope]) -> None:
    """Remove the transcripts of these threads: only files whose first lines say that they are that."""
    failed: list[TranscriptError] = []
    emptied: dict[Path, _TranscriptPath] = {}
    for place, scope in product(places, scopes):
        try:
            if _remove_transcript(place, scope):
                emptied[place.path(scope).parent] = place
        except TranscriptError as error:
            failed.append(error)
    for folder, place in emptied.items():
        _remove_leftovers(folder, place)
    if failed:
        raise TranscriptError(f"{len(failed):,} transcripts of forgotten threads are still there: {failed[0]}")


def _remove_transcript(place: _TranscriptPath, scope: Scope) -> bool:
    """Remove the thread's transcript; return whether there was one."""
    try:
        if not transcript_file.is_transcript_of(place.path(scope), scope):
            return False
    except OSError as error:
        raise TranscriptError(f"{place.path(scope)}: {error.strerror or error}. {_REMOVE_REMEDY}") from error
    with place.locked(scope, _REMOVE_REMEDY) as path:
        if transcript_file.is_transcript_of(path, scope):
            path.unlink()
    return True


def _remove_leftovers(folder: Path, place: _TranscriptPath) -> None:
    """Remove what a crash left half written, and folders that are empty now: their names are names of threads."""
    with suppress(OSError, TranscriptError), place.locked_folder():
        for left_over in folder.glob(f"{files.TEMPORARY_PREFIX}*"):
            left_over.unlink(missing_ok=True)
        while folder != place.folder and place.folder in folder.parents:
            folder.rmdir()
            folder = folder.parent


# -- paths ------------------------------------------------------------------------------------------------------------


def _fill_in_names(template: str, scope: Scope) -> str:
    """Return the path with the names of namespace and thread in it, as a directory archive writes names."""
    thread, namespace = files.to_folder_name(scope.thread), files.to_folder_name(scope.namespace)
    if NAMESPACE_FIELD not in template and scope.namespace != DEFAULT_NAMESPACE:
        thread = f"{thread}@{namespace}"
    if len(thread) > _MAX_NAME_CHARACTERS:
        thread = f"{thread[:100]}.{store_rules.hash_names(*scope)[:40]}"
    return template.replace(NAMESPACE_FIELD, namespace).replace(THREAD_FIELD, thread)
