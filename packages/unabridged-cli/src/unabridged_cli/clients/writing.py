"""A session written back into its place, while its client is closed: all of it or nothing, and nothing lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from unabridged.sessions.files import while_unchanged, write_whole
from unabridged.sessions.loaded import Lines, Loaded, SessionFileError
from unabridged.sessions.text import check_unchanged, reason


def write_back(loaded: Loaded, pieces: Iterable[bytes], *, keep: bool) -> Path | None:
    """Put the session into the place it was read from; the file as it was, if it is kept beside it.

    It is kept where it was asked for, and where its last line is cut off, which is not written again.
    """
    path = loaded.path.resolve()  # a link stays one
    info = path.stat()
    keep = keep or _is_cut_off(loaded)
    kept, same = _second_name(path, keep=keep)
    try:
        owner = (info.st_uid, info.st_gid)
        write_whole(path, while_unchanged(loaded, pieces), mode=info.st_mode & 0o777, owner=owner)
        if same and loaded.source is not None:
            # What a client wrote in the last moment is in the old file, which comes back.
            try:
                check_unchanged(kept, loaded.source.stamp, named=path)
            except SessionFileError:
                kept.replace(path)
                raise
    except BaseException:
        kept.unlink(missing_ok=True)
        raise
    if not keep:
        kept.unlink(missing_ok=True)
        return None
    with suppress(OSError):  # not every disk has modes
        kept.chmod(0o600)
    return kept


def require_names(loaded: Loaded) -> None:
    """Refuse a session whose entries have no ids, as pi's first ones: what was put in could not be told again.

    pi gives every entry of such a file a new id when it opens it, so ids of ours would not help either.
    """
    if isinstance(loaded.source, Lines) and loaded.source.session.facts.get("unnamed"):
        raise SessionFileError(
            f"{loaded.path} is in the first format of pi, whose entries have no ids: open the session once in pi, "
            "which writes it anew, and try again, or name -o OUT. Nothing was written"
        )


def _is_cut_off(loaded: Loaded) -> bool:
    return isinstance(loaded.source, Lines) and loaded.source.whole < loaded.source.stamp.size


def _second_name(path: Path, *, keep: bool) -> tuple[Path, bool]:
    """The file under a name that no client looks at, and whether it is the same file: else a copy, if it is kept."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    kept = path.with_name(f"{path.name}.{moment}.before")
    try:
        os.link(path, kept)
    except OSError:  # not every disk can
        if keep:
            _copy(path, kept)
        return kept, False
    return kept, True


def _copy(path: Path, kept: Path) -> None:
    try:
        shutil.copy2(path, kept)
    except OSError as error:
        kept.unlink(missing_ok=True)
        raise SessionFileError(f"can't write {kept}: {reason(error)}; nothing was written") from error
    with suppress(OSError, AttributeError):  # not on every system, and only for those who may
        info = path.stat()
        os.chown(kept, info.st_uid, info.st_gid)
