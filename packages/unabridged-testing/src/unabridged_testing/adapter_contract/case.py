"""One scenario's agent, model and archive, and what is looked up in them."""

# Tests that ship: they assert.
# ruff: noqa: S101

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unabridged.archive import open_archive
from unabridged.archive.protocol import Archive, Record, Scope
from unabridged.formats.base import Family
from unabridged.history import DEFAULT
from unabridged.marks import ids_in, is_ours
from unabridged.measure.meter import Meter
from unabridged_testing.adapter_contract.interface import Content, Door, Session
from unabridged_testing.adapter_contract.model import Script, StrictModel, work

UNKNOWN: Family = "unknown"
WINDOW = 6_000
THREAD = "the-thread"


class Case:
    """An agent behind a door, on an archive of its own; what the model found wrong is told at the end.

    `window` is the model's, and the adapter's unless `told` says otherwise, in tokens of the family that counts most:
    for others it is smaller, so that as much goes in. Summaries are model-free unless `model` is given. Other
    `keywords` are the door's.
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
        reports: bool = True,
        **keywords: Any,
    ) -> None:
        family = door.format.family
        window, told = _as_roomy(window, family), _as_roomy(told or window, family)
        self.door = door
        self.model = StrictModel(script, window=window, family=family, heavier=heavier, reports=reports)
        self.archive = f"sqlite:///{folder / 'archive.db'}"
        self.originals: list[Any] = []
        """What was told so far, as the framework kept it before any of it went."""
        given = {"thread": THREAD, "tools": {"work": work}, "window": told, "archive": self.archive, "model": None}
        self.session: Session = door.open(self.model, **{**given, **keywords})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.session.close()
        if error is None or isinstance(error, AssertionError):  # then what the model found wrong is the reason
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
        places = [i for i, view in enumerate(views) if said in view.text and not is_ours(view)]
        assert places, f"the framework does not keep what the user said last: {said!r:.80}"
        self.originals += stored[places[-1] :]
        return answer

    # -- what is in the archive, read as another process would --------------------------------------------------------

    def records(self, thread: str = THREAD) -> list[Record]:
        """The compactions of the thread that stand."""
        return list(self._read(lambda archive: archive.records(Scope(DEFAULT, thread))))

    def summaries(self) -> int:
        """How many of them put a summary into the place of messages."""
        return sum(record.kind == "summary" for record in self.records())

    def archived(self, thread: str = THREAD) -> str:
        """All that is said in the messages of the thread that left its context."""
        parts = self._read(lambda archive: archive.parts(Scope(DEFAULT, thread)))
        return "\n".join(part.text for part in parts)

    def threads(self) -> set[str]:
        """The names of all threads."""
        return set(self._read(lambda archive: archive.threads(DEFAULT)))

    def _read(self, look: Callable[[Archive], Any]) -> Any:
        archive = open_archive(self.archive)
        try:
            return look(archive)
        finally:
            archive.close()

    def assert_compacted(self, thread: str = THREAD) -> None:
        """Some of the thread went into the archive."""
        assert self.records(thread), f"no compaction is in the archive as of the thread {thread!r}"

    # -- what the model saw -------------------------------------------------------------------------------------------

    def assert_requests(self, wanted: int, *, refused: int = 0) -> None:
        """The model was asked so often, and refused so many of these as too long."""
        refusals = self.model.refusals
        assert len(refusals) == refused, f"{len(refusals)} requests were refused, not {refused}: {refusals[:1]}"
        found = len(self.model.seen)
        assert found == wanted, f"{found} requests, not {wanted}: results were not shown, or one was sent twice"

    def assert_always_shown(self, words: str, *, since: int = 0) -> None:
        """These words stand in each request, to the letter."""
        without = [i for i, seen in enumerate(self.model.seen[since:], since) if words not in seen.text]
        assert not without, f"{words!r} is not in request {without[0]} ({len(without)} lack it)"

    def assert_told(self) -> None:
        """The last request tells that something went."""
        assert any(ids_in(view.text) for view in self.model.seen[-1].views), "the model is not shown the summary"

    def assert_prefix_kept(self) -> None:
        """Each request begins as the one before it, but where a compaction was made: a provider's cache needs that."""
        pairs = pairwise(self.model.seen)
        breaks = sum(after.views[: len(before.views)] != before.views for before, after in pairs)
        made = len(self.records())
        assert breaks <= made, f"{breaks} requests do not begin as the one before them, with {made} compactions"

    # -- what comes back ----------------------------------------------------------------------------------------------

    def assert_replayed(self) -> None:
        """The original conversation comes back: all that was told."""
        assert_same(self.session.replay(), self.originals)

    def replayed_calls(self) -> list[str]:
        """Every call in the original conversation: its name and its first argument."""
        views = [self.door.format.read(message) for message in self.session.replay()]
        calls = [call for view in views for call in view.calls]
        return [f"{call.name} {next(iter(json.loads(call.arguments).values()))}" for call in calls]


def _as_roomy(window: int, family: Family) -> int:
    """A window of a model of this family that holds as much as this one of an unknown model."""
    own, most = (_count_probe(Meter(family=kind)) for kind in (family, UNKNOWN))
    return round(window * own / most)


def _count_probe(meter: Meter) -> int:
    return meter.overhead(None, [{"name": "work"}]) + 14 * meter.text(work(20))


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
