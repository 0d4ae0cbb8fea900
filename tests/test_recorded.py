"""Recorded conversations, where they are at hand: each compacts into any window, legal, and comes back exactly."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unabridged import Compactor, WontFit, check, repair
from unabridged.formats import detect
from unabridged.intent import with_origins
from unabridged.ledger.gather import open_indices

DATA = Path(os.environ.get("BENCH_DATA", "recorded"))
FILES = sorted(DATA.glob("*.jsonl")) if DATA.is_dir() else []


@pytest.mark.skipif(not FILES, reason="needs recorded conversations: set BENCH_DATA to a folder of them")
@pytest.mark.parametrize("window", [8_000, 16_000, 32_000, 0.4])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_conversations_compact_into_any_window(file: Path, window: float) -> None:
    for line in file.read_text().splitlines():
        conversation = json.loads(line)
        messages = conversation["messages"]
        tokens = int(window) if window > 1 else max(64, int(len(json.dumps(messages)) / 4 * window))
        engine = Compactor(window=tokens, archive="memory:", namespace="n")
        refused: WontFit | None = None
        try:
            fitted = engine.fit(messages, thread="t")
        except WontFit as error:
            refused = error
        if refused is not None:  # only where what can't go (a policy in the system prompt) leaves no room for the rest
            assert refused.overhead > 0.6 * refused.budget, conversation["id"]
            continue
        assert fitted.tokens_after <= engine.limits.budget, conversation["id"]
        if fitted.changed:
            name = detect(messages).name
            assert check(fitted.messages, name) == [], conversation["id"]
            assert engine.replay(fitted.messages, thread="t") == messages, conversation["id"]


@pytest.mark.skipif(not FILES, reason="needs recorded conversations: set BENCH_DATA to a folder of them")
def test_recorded_sessions_with_aborted_turns_are_mended() -> None:
    for line in (DATA / "coding_sessions_anthropic.jsonl").read_text().splitlines():
        messages = json.loads(line)["messages"]
        assert check(messages, "anthropic") != []
        assert check(repair(messages, "anthropic").messages, "anthropic") == []


@pytest.mark.skipif(not FILES, reason="needs recorded conversations: set BENCH_DATA to a folder of them")
@pytest.mark.parametrize("name", ["coding_tools", "coding_compactions", "coding_sessions_anthropic", "service_tools"])
def test_while_tools_work_on_what_a_recorded_person_said_something_is_open_and_never_a_pile(name: str) -> None:
    for line in (DATA / f"{name}.jsonl").read_text().splitlines():
        conversation = json.loads(line)
        format_ = detect(conversation["messages"])
        views = with_origins([format_.read(message) for message in conversation["messages"]])
        first = next(i for i, view in enumerate(views) if view.is_request)
        for cut in range(first + 2, len(views) + 1, max(2, len(views) // 12)):
            if views[cut - 1].calls or views[cut - 1].origin == "tool":
                assert 0 < len(open_indices(views[:cut])) <= 16, (conversation["id"], cut)
