"""One scenario's agent, model and archive, and what is looked up in them."""

# Tests that ship: they assert.
# ruff: noqa: S101

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Part, Record, Scope
from unabridged.history.namespace import DEFAULT
from unabridged.marks import is_our_summary
from unabridged.testing.adapter_contract.interface import Content, Door, Session
from unabridged.testing.adapter_contract.model import Script, StrictModel, work

WINDOW = 6_000
THREAD = "the-thread"


class Case:
    """An agent behind a door, on an archive of its own; what the model found wrong is told at the end.

    `window` is the model's, and the adapter's unless `told` says otherwise; other `keywords` are the door's.
    """

    def __init__(
        self,
        door: Door,
        folder: Path,
        script: Script,
        *,
        window: int = WINDOW,
        heavier: float = 1.0,
        told: int | None = None,
        **keywords: Any,
    ) -> None:
        self.door, self.model = door, StrictModel(script, window=window, heavier=heavier)
        self.archive = f"sqlite:///{folder / 'archive.db'}"
        self.originals: list[Any] = []
        """What was told so far, as the framework kept it before any of it went."""
        given = {"thread": THREAD, "tools": {"work": work}, "window": told or window, "archive": self.archive}
        self.session: Session = door.open(self.model, **{**given, **keywords})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.session.close()
        if error is None:
            assert not self.model.problems, "\n".join(self.model.problems[:10])

    def say(self, content: Content) -> str:
        """The agent's answer."""
        return self.session.say(content)

    def tell(self, content: Content) -> str:
        """The agent's answer; this turn, as the framework keeps it now, is added to the originals."""
        answer = self.session.say(content)
        said = content if isinstance(content, str) else str(content[0])
        stored = deepcopy(self.session.stored())
        views = [self.door.format.read(message) for message in stored]
        places = [i for i, view in enumerate(views) if said in view.text and not is_our_summary(view)]
        assert places, f"the framework does not keep what the user said last: {said!r:.80}"
        self.originals += stored[places[-1] :]
        return answer

    # -- what is in the archive, read as another process would --------------------------------------------------------

    def records(self, thread: str = THREAD, *, kind: str | None = "summary") -> list[Record]:
        """The compactions of the thread that stand, of this kind or of any."""
        found = self._read(lambda archive: archive.records(Scope(DEFAULT, thread)))
        return [record for record in found if kind is None or record.kind == kind]

    def archived(self, thread: str = THREAD) -> list[Part]:
        """The messages of the thread that left its context."""
        return list(self._read(lambda archive: archive.parts(Scope(DEFAULT, thread))))

    def threads(self) -> set[str]:
        """The names of all threads."""
        return set(self._read(lambda archive: archive.threads(DEFAULT)))

    def _read(self, look: Callable[[Archive], Any]) -> Any:
        archive = open_archive(self.archive)
        try:
            return look(archive)
        finally:
            archive.close()

    # -- what the model saw -------------------------------------------------------------------------------------------

    def assert_always_shown(self, words: str, *, since: int = 0) -> None:
        """These words stand in each request, to the letter."""
        without = [i for i, seen in enumerate(self.model.seen[since:], since) if words not in seen.text]
        assert not without, f"{words!r} is not in request {without[0]} ({len(without)} lack it)"

    def assert_prefix_kept(self) -> None:
        """Each request begins as the one before it, but where a compaction was made: a provider's cache needs that."""
        requests = self.model.seen
        breaks = sum(after.views[: len(before.views)] != before.views for before, after in pairwise(requests))
        made = len(self.records(kind=None))
        assert breaks <= made, f"{breaks} requests do not begin as the one before them, with {made} compactions"


def error_of(act: Callable[[], object]) -> Exception | None:
    """What it raises."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - that is the question
        return error
    return None


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    """The same messages, of the same classes."""
    assert len(found) == len(wanted), f"{len(found)} messages in the place of {len(wanted)}"
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert type(one) is type(other), f"message {i} is a {type(one).__name__}, not a {type(other).__name__}"
        assert one == other, f"message {i} is {one!r:.200}, not {other!r:.200}"
