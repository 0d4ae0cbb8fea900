"""Recorded conversations, where they are at hand: each compacts into any window, legal, and comes back exactly."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unabridged import Compactor, WontFit, check, repair
from unabridged.authorship import assign_origins, remove_host_words
from unabridged.formats import detect_message_format
from unabridged.summary.gather import gather_ledger

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
            name = detect_message_format(messages).name
            assert check(fitted.messages, name) == [], conversation["id"]
            assert engine.replay(fitted.messages, thread="t") == messages, conversation["id"]


@pytest.mark.skipif(not FILES, reason="needs recorded conversations: set BENCH_DATA to a folder of them")
def test_recorded_sessions_with_aborted_turns_are_mended() -> None:
    for line in (DATA / "coding_sessions_anthropic.jsonl").read_text().splitlines():
        messages = json.loads(line)["messages"]
        assert check(messages, "anthropic") != []
        assert check(repair(messages, "anthropic").messages, "anthropic") == []


@pytest.mark.skipif(not FILES, reason="needs recorded conversations: set BENCH_DATA to a folder of them")
@pytest.mark.parametrize(
    "name", ["coding_text", "coding_tools", "coding_compactions", "coding_sessions_anthropic", "service_tools"]
)
def test_every_message_of_a_recorded_person_is_in_the_ledger_and_nothing_else_is(name: str) -> None:
    for line in (DATA / f"{name}.jsonl").read_text().splitlines():
        conversation = json.loads(line)
        format_ = detect_message_format(conversation["messages"])
        views = assign_origins([format_.read(message) for message in conversation["messages"]])
        ledger = gather_ledger(views)
        said = {i: remove_host_words(view.text).strip() for i, view in enumerate(views) if view.origin == "person"}
        told = [message for message in ledger.people if not message.rejected]
        assert sum(message.times for message in told) == len(said), conversation["id"]
        assert all(message.text.startswith(said[message.turn]) for message in told), conversation["id"]
        assert [message.turn for message in ledger.people] == sorted(message.turn for message in ledger.people)


@pytest.mark.skipif(not FILES, reason="needs recorded conversations: set BENCH_DATA to a folder of them")
@pytest.mark.parametrize("name", ["coding_text", "coding_tools", "coding_compactions", "service_tools"])
def test_in_every_recorded_conversation_the_first_and_the_newest_message_of_a_person_stay(name: str) -> None:
    for line in (DATA / f"{name}.jsonl").read_text().splitlines():
        conversation = json.loads(line)
        messages = conversation["messages"]
        format_ = detect_message_format(messages)
        said = [
            view for view in assign_origins([format_.read(message) for message in messages]) if view.origin == "person"
        ]
        with Compactor(window=16_000, archive="memory:", namespace="n") as engine:
            fitted = engine.fit(messages, thread="t")
        text = "\n".join(format_.read(message).whole_text() for message in fitted.messages)
        for view in (said[0], said[-1]):
            whole = view.text[:60] in text  # its own message
            assert whole or remove_host_words(view.text).strip()[:60] in text, conversation["id"]
