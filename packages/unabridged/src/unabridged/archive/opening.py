"""`open_archive`: the archive that a URL names, connected and written to once, so that a bad one is found at once."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path
from typing import Final, Protocol

from unabridged.archive.address import folder_from_url, hide_credentials
from unabridged.archive.protocol import Archive
from unabridged.errors import ArchiveError, SettingsError

log = logging.getLogger("unabridged")

_announced_archives: Final[set[tuple[str, str]]] = set()
_CREATED_MESSAGE: Final = (
    "the archive %s was made: whole conversations are kept in it from now on. To choose another, name it "
    "(archive='sqlite:///agent.db'; on the command line --archive or UNABRIDGED_ARCHIVE); to keep none, say "
    "archive='memory:'"
)
_DEFAULT_FILE_NAME: Final = "archive.db"
_URL_EXAMPLES: Final = (
    "sqlite:///agent.db, dir:folder, dir:///absolute/folder, postgresql://user@host/database or memory:"
)


def open_archive(url: str | None = None, *, probe: bool = True, wait: float = 60.0) -> Archive:
    """Return the archive at this URL; by default the user's own, in one SQLite file in their data folder.

    `sqlite:///agent.db` is relative to the working folder, four slashes begin at the root. `dir:folder` is relative,
    `dir:///tmp/folder` is the absolute path /tmp/folder, as in a file URL.
    It is tried at once: opened or connected to, its tables made, nothing stored. What can't be used is an
    `ArchiveError` with the remedy, and so is a folder that there is not: only the default's is made, and that is logged
    once. Without `probe` that comes out at the first use. `wait` is how long, in seconds, to
    wait for other writers of a SQLite file.
    """
    where = default_url() if url is None else url
    archive = _open_without_probe(where, wait)
    if not probe:
        return archive
    is_default = url is None or (where.endswith(_DEFAULT_FILE_NAME) and where == default_url())
    first = is_default and not local_path(where).exists()
    try:
        if not is_default:
            _require_folder(where)
        archive.probe()
    except ArchiveError as error:
        archive.close()
        if url is not None:
            raise
        raise ArchiveError(
            f"the default archive can't be used: {error} In a program, archive='sqlite:///agent.db' names another, and "
            "archive='memory:' keeps originals only as long as it runs."
        ) from error
    if first:
        log.warning(_CREATED_MESSAGE, local_path(where))
    return archive


def _require_folder(url: str) -> None:
    """Refuse a file or folder in a folder that there is not: its name may be wrong. Only the default's is made."""
    itself, _ = split_bodies(url)
    if is_local(itself) and not (folder := local_path(itself).parent).is_dir():
        raise ArchiveError(
            f"there is no folder {folder} for the archive {hide_credentials(itself)}. Check its name, make it "
            f"(mkdir -p {shlex.quote(str(folder))}), or name another."
        )


def open_or_keep_archive(archive: str | Archive | None, *, probe: bool = True) -> Archive:
    """Return the archive passed by the caller, or open the one that the URL names."""
    return open_archive(archive, probe=probe) if archive is None or isinstance(archive, str) else archive


class _ProbedArchive(Archive, Protocol):
    """An archive that can be tried."""

    def probe(self) -> None: ...


def split_bodies(url: str) -> tuple[str, str | None]:
    """Return the URL of the archive itself, and where its messages are if that is elsewhere (`bodies=`)."""
    itself, *bodies = re.split("[?&]bodies=", url, maxsplit=1)
    return itself, bodies[0] if bodies else None


def _open_without_probe(url: str, wait: float) -> _ProbedArchive:
    itself, bodies = split_bodies(url)
    if bodies is not None:
        from unabridged.archive.objects import ObjectArchive  # noqa: PLC0415 - only with the extra

        return ObjectArchive(_open_without_probe(itself, wait), bodies)
    if url in {"memory:", "memory://"}:
        from unabridged.archive.stores.memory import MemoryArchive  # noqa: PLC0415 - each store only when it is used

        return MemoryArchive()
    if url.startswith("sqlite:"):
        from unabridged.archive.stores.sqlite import open_sqlite  # noqa: PLC0415 - likewise

        return open_sqlite(local_path(url), wait=wait)
    if url.startswith("dir:"):
        from unabridged.archive.stores.directory import DirectoryArchive  # noqa: PLC0415 - likewise

        return DirectoryArchive(local_path(url))
    if url.startswith(("postgresql://", "postgres://")):
        from unabridged.archive.stores.postgres import open_postgres  # noqa: PLC0415 - likewise

        return open_postgres(url)
    raise SettingsError(f"archive={hide_credentials(url)!r} is not an archive's URL: use {_URL_EXAMPLES}.")


def log_archive_once(archive: Archive, namespace: str) -> str:
    """Return where the archive is, as it may be shown, and log it once for each archive and namespace."""
    where = hide_credentials(str(getattr(archive, "url", type(archive).__name__)))
    if (where, namespace) not in _announced_archives:
        _announced_archives.add((where, namespace))
        same = "the same archive, namespace and thread are one conversation"
        log.info("archive %s namespace %r: %s", where, namespace, same)
    return where


def default_url() -> str:
    """Return where the archive is when nobody says: durable, in the user's data folder."""
    import platformdirs  # noqa: PLC0415 - only for callers who name no archive

    return f"sqlite:///{platformdirs.user_data_path('unabridged', appauthor=False) / _DEFAULT_FILE_NAME}"


def is_local(url: str) -> bool:
    """Return whether the URL names a file or a folder of this machine."""
    return url.startswith(("sqlite:", "dir:"))


def local_path(url: str) -> Path:
    """Return the file or folder that the URL names, without `bodies=`; a `SettingsError` where it names none."""
    path = folder_from_url(url) if url.startswith("dir:") else url.removeprefix("sqlite:///")
    if path == url or not path.strip("/") or path == ":memory:" or "\0" in path:
        raise SettingsError(f"archive={hide_credentials(url)!r} names no file or folder: use {_URL_EXAMPLES}.")
    return Path(path).expanduser()
