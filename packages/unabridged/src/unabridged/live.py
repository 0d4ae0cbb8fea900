"""Write what a compactor does to a file as it happens, for `unabridged watch` and `unabridged inspect --follow`.

    from unabridged.live import live

    compactor = Compactor(on_event=live("run.jsonl"))

One JSON object a line: sizes, costs and names, nothing that anybody said. Any number of programs may write to one file.
"""

from __future__ import annotations

import json
import logging
import os
import time
from functools import partial
from pathlib import Path

from unabridged.errors import SettingsError
from unabridged.events import Event, Listener, combine_listeners, describe_sizes

log = logging.getLogger("unabridged")


def live(path: str | Path, *, also: Listener | None = None) -> Listener:
    """Return a function for `Compactor(on_event=...)` that appends every event, and the size at every call, to a file.

    `also` is called with every event, too: there is one `on_event`.
    """
    return combine_listeners(_EventFile(Path(path)), also)


def encode_event(event: Event) -> str:
    """Return the event as a line of JSON, with the time."""
    return json.dumps({"time": round(time.time(), 3), **describe_sizes(event)}) + "\n"


class _EventFile:
    every_call = True

    def __init__(self, path: Path) -> None:
        self._path, self._failed = path, False
        try:
            self._append(b"")
        except OSError as error:
            raise SettingsError(
                f"can't write to {path}: {error.strerror}. Name a file in a folder that is there"
            ) from error

    def __call__(self, event: Event) -> None:
        """Append the event; a disk that is full must not end a run, and is logged once."""
        try:
            self._append(encode_event(event).encode())
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("can't write to %s: %s; said once until it works again", self._path, error.strerror)
            self._failed = True

    def _append(self, line: bytes) -> None:
        with open(self._path, "ab", buffering=0, opener=_open_for_owner) as file:
            file.write(line)


_open_for_owner = partial(os.open, mode=0o600)
