"""A signal inside a call, whose handler raises: nothing is lost, and the next call goes on."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from unabridged import Compactor, Settings
from unabridged.archive import open_archive

pytestmark = pytest.mark.posix

NOTE = "The assistant answered question after question, and everything was as it had been before."


class Stopped(BaseException):
    """Raised by the handler, as KeyboardInterrupt is."""


@pytest.fixture
def stop_after() -> Iterator[Callable[[int], object]]:
    """Let a signal come after so many calls of functions; 0 for none."""
    left = 0

    def stop(*_: object) -> None:
        raise Stopped

    def count(frame: FrameType, *_: object) -> None:
        nonlocal left
        if frame.f_code is start.__code__:  # it ends the counting
            return
        left -= 1
        if left == 0:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGUSR1)

    def start(calls: int) -> None:
        nonlocal left
        left = calls
        sys.setprofile(count if calls else None)

    before = signal.signal(signal.SIGUSR1, stop)
    yield start
    sys.setprofile(None)
    signal.signal(signal.SIGUSR1, before)


def questions(turns: int, first: int) -> list[Any]:
    return [
        message
        for n in range(first, first + turns)
        for message in (
            {"role": "user", "content": f"Question {n}? " + "What about it, please? " * 8},
            {"role": "assistant", "content": f"Answer {n}. " + "It is as it was before. " * 20},
        )
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it came while something was let go
@pytest.mark.parametrize("model", [None, lambda _: NOTE], ids=["model-free", "with a model"])
@pytest.mark.parametrize("url", ["sqlite:///{}/a.db", "dir://{}/a", "memory:"])
def test_a_call_that_a_signal_ended_can_be_made_again(
    url: str, model: Any, tmp_path: Path, stop_after: Callable[[int], object]
) -> None:
    draw = random.Random(12)  # noqa: S311 - the same each time
    archive = open_archive(url.format(tmp_path))
    stopped, full, live = 0, list[Any](), list[Any]()
    with Compactor(model, window=4_000, archive=archive, settings=Settings(retries=0)) as engine:
        for turn in range(12):
            new = [*questions(6, 6 * turn), {"role": "user", "content": f"And {turn}?"}]
            full, live = [*full, *new], [*live, *new]
            for calls in (draw.randrange(1, 3_000), draw.randrange(1, 30_000), 0):
                try:
                    stop_after(calls)
                    fitted = engine.fit(live, thread="t")
                    break
                except Stopped:
                    stopped += 1
                finally:
                    stop_after(0)
            assert engine.replay(fitted.messages, thread="t") == full
            live = fitted.messages
        assert not archive.verify()
    assert stopped >= 5
