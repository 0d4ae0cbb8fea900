"""Keep in the archive what reports on real requests taught about our counts, so that a restart need not learn again."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from unabridged.archive.protocol import Archive
from unabridged.errors import ArchiveError
from unabridged.tokens.calibrate import Calibration, Usage

log = logging.getLogger("unabridged")

REPORTS_BEFORE_SAVING = 3
"""Reports after which it is kept for the first time."""
SAVE_INTERVAL_SECONDS = 300.0
"""Seconds between two times that it is kept; what was learned since is kept when the compactor is closed."""


class StoredCalibration:
    """A calibration that outlives the process. An archive that can't be read or written only costs what was learned.

    `key` tells how and for which model was counted; None keeps nothing: without a model's name nobody can tell whose
    reports they are.
    """

    def __init__(
        self, archive: Archive, namespace: str, key: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._archive, self._namespace, self._key, self._clock = archive, namespace, key, clock
        self._entry = f"calibration {key}"
        self._reports = 0
        self._saved_at: float | None = None
        self.value = Calibration()
        if key is not None:
            try:
                self.value = Calibration.from_json(archive.remembered(namespace, self._entry), key)
            except ArchiveError as error:
                log.debug("what earlier reports taught can't be read: %s", error)

    def observe(self, estimated: int, usage: Usage) -> None:
        """Learn from one report, and save what was learned every now and then."""
        self.value.observe(estimated, usage)
        self._reports += 1
        first = self._saved_at is None and self._reports >= REPORTS_BEFORE_SAVING
        if first or (self._saved_at is not None and self._clock() - self._saved_at >= SAVE_INTERVAL_SECONDS):
            self._save_without_blocking()

    def _save_without_blocking(self) -> None:
        """Save it; an event loop does not wait for that."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.save()
        else:
            threading.Thread(target=self.save, name="unabridged-calibration", daemon=True).start()

    def save(self) -> None:
        """Save it, if anything was learned since the last time."""
        if self._key is None or not self._reports:
            return
        self._saved_at, self._reports = self._clock(), 0
        try:
            self._archive.remember(self._namespace, self._entry, self.value.to_json(self._key))
        except ArchiveError as error:
            log.debug("what reports taught can't be kept: %s", error)
