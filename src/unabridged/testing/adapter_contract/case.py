"""One scenario's agent, model and archive, and what is looked up in them."""

# Tests that ship: they assert.
# ruff: noqa: S101

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unabridged.archive import open_archive
from unabridged.archive.protocol import Part, Record, Scope
from unabridged.history.namespace import DEFAULT
from unabridged.testing.adapter_contract.interface import Door, Session
from unabridged.testing.adapter_contract.model import Script, StrictModel, work

WINDOW = 6_000
THREAD = "the-thread"


class Case:
    """An agent behind a door, on an archive of its own; what the model found wrong is told at the end.

    `keywords` are the door's and the adapter's; the window is the model's unless another is given.
    """

    def __init__(
        self, door: Door, folder: Path, script: Script, *, window: int = WINDOW, heavier: float = 1.0, **keywords: Any
    ) -> None:
        self.door, self.model = door, StrictModel(script, window=window, heavier=heavier)
        self.archive = f"sqlite:///{folder / 'archive.db'}"
        given = {"thread": THREAD, "tools": {"work": work}, "window": window, "archive": self.archive}
        self.session: Session = door.open(self.model, **{**given, **keywords})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.session.close()
        if error is None:
            assert not self.model.problems, "\n".join(self.model.problems[:10])

    def say(self, content: Any) -> str:
        """The agent's answer."""
        return self.session.say(content)

    # -- what is in the archive, read as another process would --------------------------------------------------------

    def records(self, thread: str = THREAD, *, kind: str = "summary") -> list[Record]:
        """The compactions of the thread."""
        archive = open_archive(self.archive)
        try:
            return [record for record in archive.records(Scope(DEFAULT, thread)) if record.kind == kind]
        finally:
            archive.close()

    def archived(self, thread: str = THREAD) -> list[Part]:
        """The messages of the thread that left its context."""
        archive = open_archive(self.archive)
        try:
            return list(archive.parts(Scope(DEFAULT, thread)))
        finally:
            archive.close()
