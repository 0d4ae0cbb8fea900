"""What reports taught is kept across restarts, for the model it was learned of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conversations import long_chat
from engine_case import compactor
from unabridged import Compactor
from unabridged.archive import open_archive
from unabridged.archive.stores.memory import MemoryArchive
from unabridged.engine.calibrations import SAVE_INTERVAL_SECONDS, StoredCalibration
from unabridged.tokens.calibrate import Usage

AGENT = "gpt-5"


def made(url: Any, **options: Any) -> Compactor:
    return Compactor(window=100_000, archive=url, **{"agent": AGENT, "namespace": "n", **options})


def taught(engine: Compactor, times: int = 3, ratio: float = 1.4) -> None:
    for number in range(times):
        fitted = engine.fit(long_chat(3 + number), thread=f"t{number}")
        engine.observe(fitted, {"prompt_tokens": int(fitted.estimate * ratio), "completion_tokens": 1})


def factor(engine: Compactor) -> float:
    """How much larger a conversation is taken to be than it was counted."""
    fitted = engine.fit(long_chat(30), thread="asked")
    return fitted.tokens_before / fitted.estimate


@pytest.mark.parametrize("place", ["sqlite:///{}/a.db", "dir://{}/a"])
def test_a_restart_need_not_learn_again(place: str, tmp_path: Path) -> None:
    url = place.format(tmp_path)
    with made(url) as first:
        taught(first)
        learned = factor(first)
    assert learned == pytest.approx(1.4, abs=0.02)
    with made(url) as second:
        assert factor(second) == pytest.approx(learned, abs=1e-6)


def test_it_is_kept_while_the_process_runs_and_not_at_every_report() -> None:
    archive, now = MemoryArchive(), [0.0]
    learned = StoredCalibration(archive, "n", "k", clock=lambda: now[0])
    for _ in range(2):
        learned.observe(100, Usage(140))
    assert archive.remembered("n", "calibration k") is None
    learned.observe(100, Usage(140))
    assert archive.remembered("n", "calibration k") == learned.value.to_json("k")
    learned.observe(100, Usage(120))
    assert archive.remembered("n", "calibration k") != learned.value.to_json("k")
    now[0] += SAVE_INTERVAL_SECONDS
    learned.observe(100, Usage(120))
    assert archive.remembered("n", "calibration k") == learned.value.to_json("k")


def test_a_compactor_that_is_closed_keeps_even_one_report(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    with made(url) as first:
        taught(first, times=1)
    with made(url) as second:
        assert second._calibration.value.factor > 1.3  # noqa: SLF001 - one report is believed half, which a size hides


@pytest.mark.parametrize("other", [{"agent": "claude-opus-5-5"}, {"namespace": "m"}, {"counter": lambda *_: 9}])
def test_another_model_namespace_or_counter_starts_from_nothing(other: dict[str, Any]) -> None:
    archive = MemoryArchive()
    first = made(archive)
    taught(first)
    first.close()
    assert made(archive)._calibration.value.factor > 1.3  # noqa: SLF001 - see above
    assert made(archive, **other)._calibration.value.factor == 1.0  # noqa: SLF001 - see above


def test_without_a_models_name_nothing_is_kept() -> None:
    archive = MemoryArchive()
    engine = compactor(100_000, archive=archive, namespace="n")
    taught(engine)
    engine.close()
    assert archive._values == {}  # noqa: SLF001 - nothing at all


def test_an_archive_that_fails_costs_only_what_was_calibration(tmp_path: Path) -> None:
    archive = open_archive(f"sqlite:///{tmp_path}/a.db")
    engine = made(archive)
    archive.close()
    taught(engine)
    assert factor(engine) == pytest.approx(1.4, abs=0.02)
    engine.close()


def test_nonsense_in_its_place_is_no_calibration() -> None:
    archive = MemoryArchive()
    key = made(archive)._calibration._key  # noqa: SLF001 - the place to put nonsense
    for nonsense in ({}, {"key": key}, {"key": key, "ratios": "x"}, {"key": key, "ratios": [None, "1", -1, 0]}):
        archive.remember("n", f"calibration {key}", nonsense)
        assert made(archive)._calibration.value.factor == 1.0  # noqa: SLF001 - see above
