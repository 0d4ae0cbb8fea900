"""What a released version has stored is read by every later one, and worked on."""

from __future__ import annotations

import json
import uuid
from contextlib import closing
from pathlib import Path

import pytest

import unabridged
from store_samples import SAMPLES, STORES, THREAD, WORD, unpack
from unabridged import Compactor
from unabridged.archive import Scope

RELEASED = sorted(SAMPLES.glob("*.zip"))


def test_there_is_a_sample_of_the_version_that_is_made() -> None:
    assert SAMPLES / f"{unabridged.__version__}.zip" in RELEASED


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("sample", RELEASED, ids=lambda path: path.stem)
def test_an_archive_of_a_release_is_read_and_worked_on(sample: Path, store: str, tmp_path: Path) -> None:
    folder = tmp_path / f"sample-{uuid.uuid4().hex}"
    open_again, original, carried = unpack(sample, store, folder)
    assert len(carried) < len(original) / 2, "the sample has a conversation that was compacted"
    with closing(open_again()) as archive:
        assert not archive.verify()
        compactor = Compactor(window=2_000, archive=archive)
        assert compactor.replay(carried, thread=THREAD) == original
        (hit,) = archive.search(Scope("default", THREAD), WORD, limit=1)
        assert WORD in hit.text
        undone = compactor.undo(carried, thread=THREAD)
        assert len(undone) > len(carried)
        assert compactor.replay(undone, thread=THREAD) == original
        for number in range(9):
            more = {"role": "user", "content": f"Go on with plank {number}. " * 60}
            original.append(more)
            carried = compactor.fit([*carried, more, {"role": "assistant", "content": "Done."}], thread=THREAD).messages
            original.append({"role": "assistant", "content": "Done."})
        assert compactor.replay(carried, thread=THREAD) == original
        assert not archive.verify()
    with closing(open_again()) as archive:
        assert Compactor(window=2_000, archive=archive).replay(carried, thread=THREAD) == original
    assert WORD not in json.dumps(carried)
