"""A session written back into its place, while its client is closed: all of it or nothing, and nothing lost."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from unabridged.sessions.base import LineFile, LoadedFile, SessionFileError
from unabridged.sessions.files import write_file_atomically, yield_if_unchanged
from unabridged.sessions.text import check_unchanged, describe_os_error


def write_back(loaded: LoadedFile, pieces: Iterable[bytes], *, keep: bool) -> Path | None:
    """Write the session back to its file; return the path of a backup if one is kept.

    A backup is kept if `keep` is set, or if the file's last line is incomplete and would be lost.
    """
    path = loaded.path.resolve()  # a link stays one
    info = path.stat()
    keep = keep or _has_cut_off_line(loaded)
    copy, is_same_file = _make_backup(path, keep=keep)
    try:
        owner = (info.st_uid, info.st_gid)
        write_file_atomically(path, yield_if_unchanged(loaded, pieces), mode=info.st_mode & 0o777, owner=owner)
        if is_same_file and loaded.source is not None:
            # What a client wrote in the last moment is in the old file, which comes back.
            try:
                check_unchanged(copy, loaded.source.stamp, named=path)
            except SessionFileError:
                copy.replace(path)
                raise
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    if not keep:
        copy.unlink(missing_ok=True)
        return None
    with suppress(OSError):  # not every disk has modes
        copy.chmod(0o600)
    return copy


def require_entry_ids(loaded: LoadedFile) -> None:
    """Raise `SessionFileError` if the session's entries have no ids, which a compaction has to refer to.

    pi gives the entries of such a file new ids when it opens it, so adding ids here would not help.
    """
    if isinstance(loaded.source, LineFile) and loaded.source.session.facts.get("unnamed"):
        raise SessionFileError(
            f"{loaded.path} is in the first format of pi, whose entries have no ids: open the session once in pi, "
            "which writes it anew, and try again, or name -o OUT. Nothing was written"
        )


def _has_cut_off_line(loaded: LoadedFile) -> bool:
    return isinstance(loaded.source, LineFile) and loaded.source.complete_size < loaded.source.stamp.size


def _make_backup(path: Path, *, keep: bool) -> tuple[Path, bool]:
    """Return the file under a name that no client looks at, and whether it is a link: else a copy, if it is kept."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    copy = path.with_name(f"{path.name}.{moment}.before")
    try:
        os.link(path, copy)
    except OSError:  # not every disk can
        if keep:
            _copy_file(path, copy)
        return copy, False
    return copy, True


def _copy_file(path: Path, copy: Path) -> None:
    try:
        shutil.copy2(path, copy)
    except OSError as error:
        copy.unlink(missing_ok=True)
        raise SessionFileError(f"can't write {copy}: {describe_os_error(error)}; nothing was written") from error
    if sys.platform != "win32":
        with suppress(OSError):  # only for those who may
            info = path.stat()
            os.chown(copy, info.st_uid, info.st_gid)
