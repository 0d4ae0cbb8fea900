"""Events followed and added up: of a file that grows, of a gateway, of conversations carried on and sent again."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cli_case import run
from conversations import assistant, user
from gateway_case import PATHS, body_of, say
from gateway_watched import watched
from patience import PATIENCE
from provider_app import ProviderApp
from unabridged import Compactor
from unabridged.errors import SettingsError
from unabridged.live import live
from unabridged_cli.event_source import TOKEN_VARIABLE, EventData, follow_events, parse_event
from unabridged_cli.live_view import LiveView, thin_out_points

TOKEN = "a-gateway-token-of-its-own"  # noqa: S105 - of this test
PRICED = "claude-sonnet-4-5"


def wait_until(holds: Callable[[], bool]) -> None:
    """Return as soon as it holds."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def work(path: Path, *, resent: bool, steps: int = 120) -> tuple[int, int]:
    """Let an agent run, its events in the file; return what all requests would have taken, and what they took."""
    whole: list[Any] = [user("Never push.")]
    messages = whole
    would = took = 0
    with (
        Compactor(window=8_000, agent=PRICED, archive="memory:", on_event=live(path)) as compactor,
        Compactor(window=10_000_000, agent=PRICED, archive="memory:") as measuring,
    ):
        for step in range(steps):
            fitted = compactor.fit(messages, thread="t")
            would += measuring.fit(whole, thread="t").tokens_after
            took += fitted.tokens_after
            new = [assistant(f"Step {step}: " + "I looked at the next file. " * 20), user("Go on.")]
            whole = [*whole, *new]
            messages = whole if resent else [*fitted.messages, *new]
    return would, took


@pytest.mark.parametrize("resent", [True, False], ids=["resent", "carried"])
def test_what_was_saved_is_what_the_whole_history_would_have_taken(tmp_path: Path, resent: bool) -> None:
    path = tmp_path / "run.jsonl"
    would, took = work(path, resent=resent)
    view = LiveView()
    for event in follow_events(str(path), once=True):
        view.add(event)
    totals = view.sum_up()
    assert (totals["requests"], totals["compactions"] > 1) == (120, True)
    assert totals["saved"] == pytest.approx(would - took, rel=0.01)
    assert totals["saved_dollars"] == pytest.approx(totals["saved"] * 0.3 / 1e6)


def test_watch_says_each_event_and_prints_it_as_json(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    work(path, resent=False, steps=60)
    lines = run("watch", path, "--once").out.splitlines()
    assert lines[1].startswith("t: 3 messages, ")
    assert any(
        re.search(r"t: compacted \(summary, model-free\) from 6,\d{3} to [1-5],\d{3} tokens", line) for line in lines
    )
    printed = [json.loads(line) for line in run("watch", path, "--once", "--json").out.splitlines()]
    assert printed == list(follow_events(str(path), once=True))


def test_a_file_is_followed_while_it_grows_and_when_it_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.touch()
    found: list[str] = []
    events = follow_events(str(path), interval=0.01)
    following = threading.Thread(target=lambda: found.extend(next(events)["thread"] for _ in range(4)))
    following.start()
    with path.open("a") as file:
        file.write('{"event": "undone", "thread": "a"}\nno event\n{"event": "undone", "thr')
        file.flush()
        wait_until(lambda: found == ["a"])
        file.write('ead": "b"}\n')
    wait_until(lambda: found == ["a", "b"])
    path.unlink()
    path.write_text(
        '{"event": "undone", "thread": "c"}\n{"event": 7, "thread": "x"}\n{"event": "undone", "thread": "d"}\n'
    )
    following.join()
    assert found == ["a", "b", "c", "d"]


def test_any_line_is_an_event_or_nothing_and_any_event_is_added() -> None:
    odd: list[Any] = [None, True, "x", -1, 1e300, [], {}, {"dollars": "much"}]
    view = LiveView()
    for value in odd:
        for name in ("tokens_before", "cost", "shares", "agent", "namespace", "words"):
            for kind in ("fitted", "compacted", "failed", "problem", "another"):
                event = parse_event(json.dumps({"event": kind, "thread": "t", name: value}))
                assert event is not None
                view.add(event)
    json.dumps(view.to_json())
    assert [parse_event(line) for line in ("", "[]", "{", '{"event": "fitted"}', b"\xff", '{"thread": "t"}')] == [
        None
    ] * 6


def test_every_fall_stays_in_a_chart_with_few_points() -> None:
    points = [[at, 100 * (at % 50)] for at in range(20_000)]
    thinned = thin_out_points(points)
    assert len(thinned) < 3_000
    falls = [point for before, point in pairwise(points) if point[1] < before[1]]
    assert all(point in thinned for point in falls)


def test_a_gateway_sends_a_tenant_its_own_events_and_an_operator_all(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {"alice": f"{TOKEN}-1", "bob": f"{TOKEN}-2"}
    options: dict[str, Any] = {"token": [f"{name}={token}" for name, token in tokens.items()], "operator": f"{TOKEN}-3"}
    found: dict[str, list[EventData]] = {"alice": [], "bob": [], "operator": []}
    with watched(ProviderApp(say, window=8_000), **options) as one:
        url = str(one.client.base_url)

        def ask(tenant: str, rounds: int) -> None:
            headers = {"x-unabridged-token": tokens[tenant], "x-unabridged-thread": f"of {tenant}"}
            assert one.client.post(PATHS["chat"], json=body_of("chat", rounds), headers=headers).status_code == 200

        ask("alice", 1)
        assert not one.gateway.monitor.feed.every_call, "while nobody listens nothing is measured for it"
        for reader, token in (*tokens.items(), ("operator", options["operator"])):
            monkeypatch.setenv(TOKEN_VARIABLE, token)
            collect(follow_events(url), found[reader])
        wait_until(lambda: one.gateway.monitor.feed.listeners == 3)
        ask("alice", 1)
        ask("bob", 100)
        wait_until(
            lambda: any(event["event"] == "fitted" and event["thread"] == "of bob" for event in found["operator"])
        )
        wait_until(lambda: len(found["alice"]) + len(found["bob"]) == len(found["operator"]))
        monkeypatch.setenv(TOKEN_VARIABLE, "wrong")
        with pytest.raises(SettingsError, match=f"answered 401: set {TOKEN_VARIABLE}"):
            next(follow_events(url))
        one.gateway.monitor.feed.close()
    assert {event["namespace"] for event in found["alice"]} == {"alice"}
    assert [event["event"] for event in found["alice"]] == ["fitted"]
    assert {event["namespace"] for event in found["bob"]} == {"bob"}
    assert [event["event"] for event in found["bob"]] == ["compacting", "compacted", "fitted"]
    assert "Step 1: look" not in json.dumps(found)


def collect(events: Iterator[EventData], into: list[EventData]) -> None:
    """Take the events in a thread of its own, for as long as there are any."""

    def take() -> None:
        for event in events:
            if event["event"] == "problem":
                return
            into.append(event)

    threading.Thread(target=take, daemon=True).start()


def test_a_source_that_is_not_there_is_an_error_in_one_line(tmp_path: Path) -> None:
    done = run("watch", "http://127.0.0.1:9")
    assert (done.code, "is the gateway running?" in done.line) == (2, True)
    assert "--once" in run("watch", "http://127.0.0.1:9", "--once").line
    assert run("watch", tmp_path / "none.jsonl").code != 0
    assert "start the program that writes it first" in run("inspect", "--follow", tmp_path / "none.jsonl").line
