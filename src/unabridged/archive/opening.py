"""From a URL to an archive. Nothing is connected or made until the archive is first used."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from unabridged.archive.protocol import Archive
from unabridged.errors import SettingsError

_FORMS: Final = "sqlite:///agent.db, dir:///folder, postgresql://user@host/database or memory:"


def open_archive(url: str | None = None) -> Archive:
    """The archive at this URL; by default the user's own, in one SQLite file in their data folder.

    `sqlite:///agent.db` and `dir:///folder` are relative to the working directory; four slashes begin at the root.
    """
    url = default_url() if url is None else url
    if url in {"memory:", "memory://"}:
        from unabridged.archive.memory import MemoryArchive  # noqa: PLC0415 - each store only when it is used

        return MemoryArchive()
    if url.startswith("sqlite:"):
        from unabridged.archive.sqlite import open_sqlite  # noqa: PLC0415 - likewise

        return open_sqlite(_path(url, "sqlite:///"))
    if url.startswith("dir:"):
        from unabridged.archive.directory import DirectoryArchive  # noqa: PLC0415 - likewise

        return DirectoryArchive(_path(url, "dir:///"))
    if url.startswith(("postgresql://", "postgres://")):
        from unabridged.archive.postgres import open_postgres  # noqa: PLC0415 - likewise

        return open_postgres(url)
    raise SettingsError(f"archive={_without_password(url)!r} is not an archive's URL: use {_FORMS}.")


def default_url() -> str:
    """Where the archive is when nobody says: durable, in the user's data folder."""
    import platformdirs  # noqa: PLC0415 - only for callers who name no archive

    return f"sqlite:///{platformdirs.user_data_path('unabridged', appauthor=False) / 'archive.db'}"


def _path(url: str, prefix: str) -> Path:
    path = url.removeprefix(prefix)
    if path == url or not path or path == ":memory:" or "\0" in path:
        raise SettingsError(f"archive={url!r} names no file or folder: use {_FORMS}.")
    return Path(path).expanduser()


def _without_password(url: str) -> str:
    """The beginning of a URL, up to where a password might stand: errors end up in logs."""
    return url.split(":", maxsplit=1)[0] + ":…" if "@" in url else url
