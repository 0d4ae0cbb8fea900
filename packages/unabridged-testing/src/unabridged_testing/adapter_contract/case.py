"""One scenario's agent, model and archive, and assertions about them."""

# Tests that ship: they assert.
# ruff: noqa: S101

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unabridged.archive import open_archive
from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Record, Scope
from unabridged.formats.base import Family
from unabridged.marks import find_record_ids, is_generated_turn
from unabridged.tokens.meter import Meter
from unabridged_testing.adapter_contract.interface import Content, Door, Session
from unabridged_testing.adapter_contract.strict_model import Script, StrictModel, work

UNKNOWN_FAMILY: Family = "unknown"
WINDOW = 6_000
THREAD = "the-thread"


class ScenarioCase:
    """An agent behind a door, on an archive of its own; what the model found wrong is raised at the end.

    `window` is the model's, and the adapter's unless `adapter_window` says otherwise, in tokens of the family that
    counts most: for others it is smaller, so that as much goes in. Summaries are model-free unless `model` is given.
    Other `keywords` are the door's.
    """

    def __init__(
        self,
        door: Door,
        folder: Path,
        script: Script,
        *,
        window: int = WINDOW,
        heavier: float = 1.0,
        adapter_window: int | None = None,
        reports: bool = True,
        **keywords: Any,
    ) -> None:
        family = door.format.family
        window, adapter_window = _scale_window(window, family), _scale_window(adapter_window or window, family)
        self.door = door
        self.model = StrictModel(script, window=window, family=family, heavier=heavier, reports=reports)
        self.archive = f"sqlite:///{folder / 'archive.db'}"
        self.originals: list[Any] = []
        """The conversation so far, as the framework kept it before any of it went."""
        defaults = {"thread": THREAD, "tools": {"work": work}, "archive": self.archive, "model": None}
        self.session: Session = door.open(self.model, **{**defaults, "window": adapter_window, **keywords})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.session.close()
        if error is None or isinstance(error, AssertionError):  # then what the model found wrong is the reason
            assert not self.model.problems, "\n".join(self.model.problems[:10])

    def say(self, content: Content) -> str:
        """Return the agent's answer."""
        return self.session.say(content)

    def say_and_record(self, content: Content) -> str:
        """Send a user turn and return the agent's answer; add the messages of the turn to `originals`."""
        answer = self.session.say(content)
        text = content if isinstance(content, str) else str(content[0])
        stored = deepcopy(self.session.stored())
        views = [self.door.format.read(message) for message in stored]
        indices = [i for i, view in enumerate(views) if text in view.text and not is_generated_turn(view)]
        assert indices, f"the framework does not keep what the user said last: {text!r:.80}"
        self.originals += stored[indices[-1] :]
        return answer

    def say_and_record_until(self, is_done: Callable[[], bool], turns: Iterator[str]) -> int:
        """Say these turns until something is done, or all of them are said; return how many were."""
        count = 0
        while not is_done() and (turn := next(turns, None)) is not None:
            self.say_and_record(turn)
            count += 1
        return count

    # -- the archive, read as another process would -------------------------------------------------------------------

    def records(self, thread: str = THREAD) -> list[Record]:
        """Return the compactions of the thread that stand."""
        return list(self._read_archive(lambda archive: archive.records(Scope(DEFAULT_NAMESPACE, thread))))

    def count_summaries(self) -> int:
        """Return how many of them put a summary into the place of messages."""
        return sum(record.kind == "summary" for record in self.records())

    def read_archived_text(self, thread: str = THREAD) -> str:
        """Return all that is said in the messages of the thread that left its context."""
        parts = self._read_archive(lambda archive: archive.parts(Scope(DEFAULT_NAMESPACE, thread)))
        return "\n".join(part.text for part in parts)

    def threads(self) -> set[str]:
        """Return the names of all threads."""
        return set(self._read_archive(lambda archive: archive.threads(DEFAULT_NAMESPACE)))

    def _read_archive(self, look: Callable[[Archive], Any]) -> Any:
        with closing(open_archive(self.archive)) as archive:
            return look(archive)

    def assert_compacted(self, thread: str = THREAD) -> None:
        """Assert that some of the thread went into the archive."""
        assert self.records(thread), f"no compaction is in the archive as of the thread {thread!r}"

    # -- what the model saw -------------------------------------------------------------------------------------------

    def assert_requests(self, wanted: int, *, refused: int = 0) -> None:
        """Assert that the model was asked so often, and refused so many of these as too long."""
        refusals = self.model.refusals
        assert len(refusals) == refused, f"{len(refusals)} requests were refused, not {refused}: {refusals[:1]}"
        count = len(self.model.seen)
        assert count == wanted, f"{count} requests, not {wanted}: results were not shown, or one was sent twice"

    def assert_compacted_and_always_shown(self, words: str) -> None:
        """Assert that some of the thread went into the archive, and that these words are in each request."""
        self.assert_compacted()
        self.assert_always_shown(words)

    def assert_always_shown(self, words: str, *, since: int = 0) -> None:
        """Assert that these words are in each request, to the letter."""
        without = [i for i, seen in enumerate(self.model.seen[since:], since) if words not in seen.text]
        assert not without, f"{words!r} is not in request {without[0]} ({len(without)} lack it)"

    def assert_summary_shown(self) -> None:
        """Assert that the last request shows a summary."""
        shown = any(find_record_ids(view.text) for view in self.model.seen[-1].views)
        assert shown, "the model is not shown the summary"

    def assert_untouched(self) -> None:
        """Assert that each request begins as the one before it, and that nothing is archived or changed."""
        for before, after in pairwise(self.model.seen):
            assert after.begins_as(before), "a request does not begin as the one before it"
        assert not self.threads(), "something is in the archive"
        assert_same(self.session.stored(), self.originals)

    def assert_prefix_kept(self) -> None:
        """Assert that each request begins as the one before it, but after a compaction, as a provider's cache needs."""
        breaks = sum(not after.begins_as(before) for before, after in pairwise(self.model.seen))
        records = len(self.records())
        assert breaks <= records, f"{breaks} requests do not begin as the one before them, with {records} compactions"

    # -- what comes back ----------------------------------------------------------------------------------------------

    def assert_replayed(self) -> None:
        """Assert that the original conversation comes back: all that was told."""
        assert_same(self.session.replay(), self.originals)

    def list_replayed_calls(self) -> list[str]:
        """Return every call in the original conversation: its name and its first argument."""
        views = [self.door.format.read(message) for message in self.session.replay()]
        calls = [call for view in views for call in view.calls]
        return [f"{call.name} {next(iter(json.loads(call.arguments).values()))}" for call in calls]


def _scale_window(window: int, family: Family) -> int:
    """Scale a window to the token counts of this family, so that it holds as much text as for an unknown model."""
    own, most = (_count_probe(Meter(family=kind)) for kind in (family, UNKNOWN_FAMILY))
    return round(window * own / most)


def _count_probe(meter: Meter) -> int:
    return meter.overhead(None, [{"name": "work"}]) + 7 * meter.text(work(20))


def catch_error(act: Callable[[], object]) -> Exception | None:
    """Return what it raises; None where it raises nothing."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - that is the question
        return error
    return None


def assert_same(actual: list[Any], expected: list[Any]) -> None:
    """Assert that these are the same messages, of the same classes."""
    assert len(actual) == len(expected), f"{len(actual)} messages in the place of {len(expected)}"
    for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
        assert type(one) is type(other), f"message {i} is a {type(one).__name__}, not a {type(other).__name__}"
        assert one == other, f"message {i} is {one!r:.200}, not {other!r:.200}"
