"""Pins for an adapter: texts that stand in every summary turn of a thread, from the next compaction on."""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.adapters.kit.engine import Engine
from unabridged.archive.names import Name


class PinMethods:
    """Gives an adapter `pin`, `unpin` and `pins`; it says which engine they go to."""

    def _pin_engine(self) -> Engine:
        """Return the engine whose archive holds the pins."""
        raise NotImplementedError

    def pin(self, text: str, *, thread: Name, namespace: Name | None = None) -> None:
        """Keep a text in every summary turn of the thread, byte for byte, from the next compaction on."""
        self._pin_engine().for_records().pin(text, thread=thread, namespace=namespace)

    def unpin(self, text: str, *, thread: Name, namespace: Name | None = None) -> bool:
        """Take a pin away from the next compaction on; return whether there was one with this text."""
        return self._pin_engine().for_records().unpin(text, thread=thread, namespace=namespace)

    def pins(self, *, thread: Name, namespace: Name | None = None) -> Sequence[str]:
        """Return the texts that are pinned to the thread, oldest first."""
        return self._pin_engine().for_records().pins(thread=thread, namespace=namespace)
