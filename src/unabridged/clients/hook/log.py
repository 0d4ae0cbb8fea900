"""The hook's own log: for its owner alone, in the user's state folder, and nothing of a conversation is in it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from unabridged.clients.client import Environ, folder_from

_LARGEST: Final = 1_000_000
"""Bytes of the log, after which it begins anew; the one before is kept beside it."""
_LONGEST: Final = 600
"""Characters of a line."""


def log_file(environ: Environ) -> Path:
    """Where the hook says what it did, and what went wrong."""
    return folder_from(environ, "XDG_STATE_HOME", ".local", "state") / "unabridged" / "hook.log"


def log(line: str) -> None:
    """Add a line to the log. Where that can't be, nobody can be told: it is lost, and nothing else is."""
    with suppress(OSError):
        path = log_file(os.environ)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the folders above it as the user has them
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(path.with_suffix(".log.1"))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        told = "".join(sign if sign.isprintable() else " " for sign in " ".join(line.split())[:_LONGEST])
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{stamp} {os.getpid()} {told}\n".encode("utf-8", "replace"))
        finally:
            os.close(handle)
