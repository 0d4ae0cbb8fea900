"""`make clients` without the clients: what it seeds, what its provider answers, and what it reports."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE
from real_clients.clients import DRIVERS, new_id
from real_clients.loopback import Loopback, kind_of, serving
from real_clients.recorded import Outcome, wanted_of
from real_clients.report import keep, page, read_kept
from real_clients.seeds import Recorded, made_up
from real_clients.streams import Answer, Call
from unabridged.formats import get_format
from unabridged.sessions import load
from unabridged_corpus.evaluate.score import NeedsScore

TURN: dict[str, Any] = {"model": "m", "tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": "Go on."}]}
ASKED: dict[str, Any] = {"role": "user", "content": "Your task is to create a detailed summary of the conversation."}


@pytest.mark.parametrize("name", DRIVERS)
def test_a_seeded_session_reads_as_the_conversation_it_was_made_from(name: str, tmp_path: Path) -> None:
    recorded = made_up(5)
    loaded = load(DRIVERS[name].seed(tmp_path, tmp_path / "project", new_id(), recorded))
    assert loaded.kind == name
    views = [get_format(loaded.format).read(message) for message in loaded.messages]
    said = "\n".join(view.whole_text() for view in views)
    assert recorded.messages[0]["content"] in said
    assert all(f"Reading station {number}." in said for number in range(5))
    assert all(f"station {number} level 299 cm" in said for number in range(5))
    assert sum(len(view.calls) for view in views) == 5


def test_the_last_words_of_a_person_are_the_prompt_and_not_yet_in_the_history() -> None:
    recorded = made_up(1)
    assert recorded.prompt == "Please continue."
    asked = replace(recorded, messages=[*recorded.messages, {"role": "user", "content": "And the report?"}])
    assert asked.prompt == "And the report?"
    assert asked.history == recorded.messages


def test_every_message_of_a_person_is_wanted_word_for_word_whatever_was_done_since() -> None:
    messages = made_up(1).messages
    first = messages[0]["content"]
    done = [*messages, {"role": "assistant", "content": "Every station is checked."}]
    beside = "<system-reminder>Be brief.</system-reminder>\nNow the legend."
    said = [*done, {"role": "user", "content": beside}, {"role": "user", "content": "Now the legend."}]
    assert wanted_of(Recorded("at work", messages, "", [], 1)).people == (first,)
    assert wanted_of(Recorded("done", done, "", [], 1)).people == (first,)
    assert wanted_of(Recorded("said again", said, "", [], 1)).people == (first, "Now the legend.")


def test_a_request_is_a_turn_a_compaction_or_an_aside() -> None:
    assert kind_of("/v1/messages", TURN) == "turn"
    assert kind_of("/v1/messages", {**TURN, "messages": [ASKED]}) == "compaction"
    assert kind_of("/v1/messages/count_tokens", TURN) == "aside"
    assert kind_of("/v1/messages", {"messages": TURN["messages"]}) == "aside"


def post(url: str, body: dict[str, Any]) -> str:
    """Return the answer of this test's server."""
    data, kind = json.dumps(body).encode(), {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, kind), timeout=PATIENCE) as answer:  # noqa: S310
        return str(answer.read().decode())


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_provider_answers_turns_by_their_number_and_compactions_by_the_summary(
    path: str, *, streamed: bool
) -> None:
    def say(number: int, _request: object) -> Answer:
        return Answer(f"Turn {number}.", Call("Bash", {"command": "ls"}))

    with serving(Loopback("What was done.", say)) as upstream:
        body = {**TURN, "stream": streamed}
        assert "Turn 0." in post(upstream.url + path, body)
        assert upstream.after_compaction() is None
        assert "What was done." in post(upstream.url + path, {**body, "messages": [ASKED]})
        answered = post(upstream.url + path, body)
    assert "Turn 1." in answered
    assert "Bash" in answered
    assert upstream.after_compaction() is upstream.requests[-1]


def outcomes() -> list[Outcome]:
    alone = Outcome(
        "x-0", "pi", ours=False, exit=0, tokens=100, needs=NeedsScore(1, 2, 3, 6), people=(0, 1), lost=("a",)
    )
    ours = replace(
        alone, ours=True, tokens=300, needs=NeedsScore(2, 2, 5, 6), people=(1, 1), archived=(9, 9), found=(1, 1)
    )
    return [alone, ours, replace(alone, name="y-0", trouble="it did not compact")]


def test_the_page_gives_each_session_a_row_and_says_what_went_wrong() -> None:
    text = page(outcomes())
    assert "| 1 | 4 of 8 | 7 of 8 | 0 of 1 | 1 of 1 | 9 of 9 | 1 of 1 | 100 → 300 |" in text
    assert "| **all** | 8 of 16 | 7 of 8 |" in text
    assert "2 alone: it did not compact." in text
    assert "x-0" not in text


def test_what_was_measured_is_kept_and_read_back(tmp_path: Path) -> None:
    keep(outcomes(), tmp_path / "outcomes.json")
    assert list(read_kept(tmp_path / "outcomes.json").values()) == outcomes()
    assert (tmp_path / "outcomes.json").stat().st_mode & 0o777 == 0o600
    assert read_kept(tmp_path / "nothing.json") == {}
