"""A stream of events for the page: followed in a thread of its own, added up, and asked for by the browser."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from unabridged.archive.address import hide_credentials
from unabridged.errors import SettingsError, UnabridgedError
from unabridged_cli.event_source import PROBLEM, EventData, follow_events
from unabridged_cli.live_view import LiveView


class LiveFeed:
    """What the events of a source add up to so far."""

    def __init__(self, source: str) -> None:
        if "://" not in source and not Path(source).exists():
            raise SettingsError(f"there is no file {source}: start the program that writes it first")
        self._source, self._view, self._lock = source, LiveView(), threading.Lock()
        threading.Thread(target=self._follow, daemon=True).start()

    def read(self, version: int) -> dict[str, Any]:
        """Return all of it; only the version where the browser has that one."""
        with self._lock:
            if version == self._view.version:
                return {"version": version}
            return {"source": hide_credentials(self._source), **self._view.to_json()}

    def _follow(self) -> None:
        try:
            for event in follow_events(self._source, interval=0.3):
                self._add(event)
        except (UnabridgedError, OSError) as error:
            self._add({"event": PROBLEM, "thread": "", "words": str(error)})

    def _add(self, event: EventData) -> None:
        with self._lock:
            self._view.add(event)
