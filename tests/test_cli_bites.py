"""A file too large for one sitting is compacted in bites, and nothing is lost between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_case import SESSION
from conversations import chat_round, responses_round, user
from unabridged import Compactor, check
from unabridged.cli.large_files import bites, fit_in_bites
from unabridged.sessions import load


@pytest.mark.parametrize("most", [1, 5_000, 40_000, 10_000_000])
def test_the_outcome_fits_is_legal_and_replays(most: int) -> None:
    loaded = load(SESSION)
    asked = {"thread": "t", "system": loaded.system, "tools": loaded.tools}
    steps: list[tuple[int, int]] = []
    with Compactor(window=12_000, archive="memory:", format=loaded.format) as compactor:
        before = compactor.plan(loaded.messages, **asked).tokens
        done = fit_in_bites(compactor, loaded, asked, lambda *step: steps.append(step), most)
        assert compactor.replay(done.messages, thread="t") == loaded.messages
        assert done.tokens_after <= compactor.limits.budget
    assert done.changed
    assert check(done.messages, format=loaded.format) == []
    assert steps[-1] == (105, 105)
    stayed = {id(message) for message in loaded.messages}
    assert id(done.messages[-1]) in stayed
    if len(steps) == 1:
        assert done.tokens_before == before


def test_a_bite_never_ends_where_a_call_waits_for_its_result(tmp_path: Path) -> None:
    chat = [message for i in range(4) for message in (user("go"), *chat_round(f"look{i}", "a", "b", "c"))]
    items = [item for i in range(4) for item in responses_round(f"look{i}", "a", "b", reasoning="sealed")]
    for messages in (chat, [user("go"), *items]):
        file = tmp_path / "x.json"
        file.write_text(json.dumps(messages))
        loaded = load(file)
        found = list(bites(loaded, 1))
        assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
        assert len(found) > 3
        for start, stop in found:
            assert check(loaded.messages[start:stop], format=loaded.format, pending=False) == []
