"""The machinery of the comparison: the protocol, the fakes, the figures and the page. No peer is installed for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks import data, fakes, plot
from benchmarks.bench import cost, needed, rank
from benchmarks.driver import PEERS, Peer, PeerEndedError, Process, peers
from benchmarks.figures import figure, percent, points, ratio, table, times
from benchmarks.harness import MADE, Arm, Fit, Given, Originals, Server, conversation
from benchmarks.parts import scale, survival
from benchmarks.replay import Track, replay, tail
from benchmarks.replay import _said as said_without_time
from conversations import assistant, chat_round, system, user
from rows import rows
from unabridged.settings import Prices
from unabridged_testing import refusals

OURS = Peer("ours", ())


def recorded(messages: Sequence[dict[str, Any]]) -> data.Recorded:
    one = data.Recorded("test/0", "test", list(messages), even=False)
    one.prepare()
    return one


def toy(given: Given) -> Fit:
    """Return a `Fit` that asks its model after three messages, and sends the reply and the newest message."""
    seen: list[dict[str, Any]] = []

    def fit(new: list[dict[str, Any]], usage: int | None) -> list[dict[str, Any]]:
        del usage
        seen.extend(new)
        with given.clock:
            if len(seen) < 3:
                return list(seen)
            reply = given.model("\n".join(str(message["content"]) for message in seen))
            return [user(reply.text), seen[-1]]

    return fit


@rows("path", sorted(PEERS.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_a_peer_is_one_file_of_under_sixty_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60


def test_a_peer_names_its_packages_at_its_top() -> None:
    found = {peer.name: peer.packages for peer in peers()}
    assert found["langchain"] == ("langchain",)
    assert found["ours"] == ()
    assert {"deep_agents", "langmem", "pydantic_ai_harness", "masks"} <= set(found)


def test_a_request_is_the_numbers_of_its_messages_and_what_was_made_is_sent_once() -> None:
    server = Server({"toy": Arm(toy)})
    server.start("toy", 1_000)
    first = server.turn([user("one"), user("two")])
    assert (first["request"], first["made"], first["calls"]) == ([0, 1], {}, [])
    second = server.turn([user("three")])
    assert second["request"] == [MADE, 2]
    assert list(second["made"]) == [MADE]
    assert len(second["calls"]) == 1
    again = server.turn([])
    assert again["request"] == [MADE, 2]
    assert again["made"] == {}


def test_what_a_peer_raises_is_a_result() -> None:
    server = Server({"toy": Arm(toy)})
    server.start("toy", 1_000, fake="429")
    answer = server.turn([user("one"), user("two"), user("three")])
    assert answer["error"] == "RateLimitError: rate limit reached, status 429"
    assert len(answer["calls"]) == 1


def test_a_turn_waits_only_while_its_model_works() -> None:
    server = Server({"toy": Arm(toy)})
    server.start("toy", 1_000, seconds=0.05)
    assert server.turn([user("one")])["waited"] == 0
    assert server.turn([user("two"), user("three")])["waited"] > 0.02


def test_an_object_is_never_mistaken_for_another() -> None:
    originals = Originals()
    message = user("x")
    own = originals.add(object(), message)
    assert originals.get(own) is message
    assert originals.get(object()) is None


def test_ours_speaks_the_protocol_and_fits_the_window() -> None:
    with Process(OURS) as process:
        assert set(process.hello()["arms"]) >= {"ours", "ours, with a model", "ours, in the background"}
        run = replay(process, recorded([user("Fix src/a.py."), *conversation(80)]), arm="ours", window=4_000)
    assert run["error"] is None
    assert run["rewrites"] > 0
    assert (run["refused"], run["over"]) == (0, 0)


def test_a_peer_that_ends_is_an_error_that_says_why() -> None:
    with Process(Peer("no_such_peer", ())) as process, pytest.raises(PeerEndedError, match="no_such_peer"):
        process.hello()


def test_a_model_that_only_fails_ends_nothing_and_loses_nothing_with_ours() -> None:
    with Process(OURS) as process:
        for fault in ("empty", "connection lost"):
            process.ask("start", arm="ours, with a model", window=survival.WINDOW, fake=fault, settings={"retries": 0})
            assert survival._run(process, *survival.conversation(0)) == ("goes on", "")  # noqa: SLF001 - the loop itself


def test_raw_sends_everything_at_the_price_of_everything() -> None:
    given = recorded([system("s"), user("read src/a.py"), *chat_round("read", "x" * 400), assistant("done")])
    with Process(Peer("masks", ())) as process:
        run = replay(process, given, arm="raw", window=50)
    assert run["bill"] == run["raw"]
    assert cost(run) == 1.0
    assert run["over"] == 1
    assert run["turns"] == 2


def test_what_was_recorded_illegal_is_counted_apart_and_what_a_policy_breaks_is_not() -> None:
    call, result = chat_round("read", "x")
    aborted = [user("Go on."), call, user("Stop. Read src/b.py instead."), assistant("Done.")]
    with Process(Peer("masks", ())) as process:
        run = replay(process, recorded(aborted), arm="raw", window=1_000)
    assert (run["passed"], run["refused"], run["fine"], run["turns"]) == (1, 0, 2, 2)
    track = Track(recorded(aborted), 1_000, 0.0, {"refused": 0, "passed": 0, "over": 0, "fine": 0})
    track.lines = {MADE: recorded([result]).lines[0]}
    assert track._judge([0, 1, 2], 10, 3)  # noqa: SLF001 - as recorded
    assert not track._judge([0, MADE, 2], 10, 3)  # noqa: SLF001 - a result without its call is the policy's own doing
    assert (track.out["passed"], track.out["refused"]) == (1, 1)


def test_a_call_for_a_summary_that_its_window_would_not_take_is_counted() -> None:
    track = Track(recorded([user("some words " * 50)]), 50, 0.0, {"long": 0})
    answer = {"made": {}, "calls": [{"shown": 100, "reply": 10, "live": []}, {"shown": 9_000, "reply": 10, "live": []}]}
    track._learn(answer, 0.0)  # noqa: SLF001 - what is learned of one answer
    assert track.out["long"] == 1


def test_the_extractive_fake_keeps_to_its_budget_and_to_what_was_said() -> None:
    messages = [
        user(f"The importer stops at row {i} of the file invoices_{i % 7}.csv, says the log") for i in range(200)
    ]
    fake = fakes.Fake("extractive", budget=50)
    fake.hear(messages)
    prompt = "Summarise the file the importer reads, says the prompt\n" + "\n".join(m["content"] for m in messages)
    reply = fake(prompt)
    assert 0 < len(reply.text) <= 4 * 50
    assert "prompt" not in reply.text
    assert all(len(line.split()) <= 11 for line in reply.text.splitlines())
    assert fake(prompt).text == reply.text


def test_a_mark_of_perfect_memory_stands_for_all_that_was_shown() -> None:
    fake = fakes.Fake("echo", budget=50)
    first = fake("the secret word is heron")
    second = fake(f"and then {first.text}")
    assert abs(len(second.text) - 200) < 30
    track = Track(recorded([user(second.text)]), 1_000, 0.0, {})
    track.memory = {f"{i:04}": call.shown for i, call in enumerate(fake.calls)}
    assert "heron" in track.text([0])


@rows("fault", [fault for fault in fakes.FAULTS if fault != "hangs"])
def test_every_fault_is_an_exception_or_a_reply_no_one_should_use(fault: str) -> None:
    fake = fakes.Fake(fault)
    try:
        reply = fake("some words")
    except (ConnectionError, TimeoutError, fakes.RateLimitError):
        reply = None
    assert len(fake.calls) == 1
    assert reply is None or reply.stop != "end" or len(reply.text) < 50


def test_an_unknown_fake_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of extractive"):
        fakes.Fake("oracle")("x")


def test_a_tail_takes_exactly_so_many_tokens() -> None:
    lines = recorded([user("alpha " * 50), user("beta " * 50)]).lines
    assert "alpha" not in tail(lines, lines[1].tokens)
    assert tail(lines, lines[1].tokens + 10).count("alpha") in range(5, 12)
    assert tail(lines, 0) == ""


def test_a_figure_is_a_mean_with_an_interval_by_conversation() -> None:
    same = figure([0.5] * 10)
    assert same == (0.5, 0.5, 0.5, 10)
    wide = figure([0.0, 1.0] * 10)
    assert wide is not None
    assert wide.low < wide.mean == 0.5 < wide.high
    assert 0.2 < wide.high - wide.low < 0.6
    assert figure([0.0, 1.0] * 10) == wide
    assert figure([None, None]) is None


def test_figures_as_text() -> None:
    assert percent((0.982, 0.97, 0.99)) == "98.2 % (97.0 to 99.0)"
    assert points((0.1, -0.05, 0.2)) == "+10.0 (-5.0 to +20.0)"
    assert ratio((0.66, 0.6, 0.7)) == "0.66 (0.60 to 0.70)"
    assert (times(0.5), times(3.21), times(1234)) == ("0.50 x", "3.2 x", "1,234 x")
    assert table(["a", "b"], [[1, 2]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"


def point(files: int, names: int, *, sent: bool = True) -> dict[str, Any]:
    return {
        "kind": "cut",
        "sent": sent,
        "held": [files, 2, names, 8],
        "tail": [0, 2, 0, 8],
        "people": [1, 1],
        "tokens": 9,
    }


def test_a_request_that_is_not_taken_holds_nothing() -> None:
    assert needed({"points": [point(2, 8), point(2, 8, sent=False)]}) == 0.5
    assert needed({"points": [point(1, 4)]}, parts=(0,)) == 0.5
    assert needed({"points": []}) is None


def test_cost_is_relative_to_sending_everything() -> None:
    run = {"bill": [1_000, 100, 10, 1], "raw": [2_000, 100, 0, 1], "points": [point(2, 8)]}
    assert cost(run) == pytest.approx((100 + 125 + 10 + 5) / (200 + 125 + 5))
    assert cost(run, Prices(read=1.0, write=1.0)) == pytest.approx(1_115 / 2_105)


def test_settings_are_chosen_by_refused_runs_and_then_by_tokens_per_task() -> None:
    runs = [{"sent": 60.0, "summaries": 20.0, "fetches": 10.0, "refused_at": None}]
    dearer = [{**runs[0], "sent": 150.0}]
    assert rank(runs, dearer) == (0, 0.5)
    assert rank(dearer, dearer) == (0, 1.0)
    assert min(rank(runs, dearer), rank([{**runs[0], "refused_at": 3}], dearer)) == (0, 0.5)


def test_anthropic_blocks_become_openai_messages() -> None:
    blocks = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "A"}]},
    ]
    call, result = data.as_openai(blocks)
    assert call["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path": "a"}'}
    assert result == {"role": "tool", "tool_call_id": "t", "content": "A"}


def test_a_folder_is_halved_and_questions_find_their_evidence(tmp_path: Path) -> None:
    rows = [{"id": str(i), "messages": [{**user(f"[noon] Ann: tea {i}"), "id": "D1"}]} for i in range(4)]
    rows[1]["questions"] = [{"evidence": ["D1"]}, {"evidence": ["D9"]}]
    (tmp_path / "chat.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    odd = data.chosen(str(tmp_path), even=False)
    assert [one.name for one in odd] == ["chat/1", "chat/3"]
    assert odd[0].messages == [user("[noon] Ann: tea 1")]
    assert odd[0].questions == (("[noon] Ann: tea 1",),)
    assert len(data.chosen(str(tmp_path), even=True, limit=1)) == 1


def test_the_time_before_what_was_said_is_not_part_of_it() -> None:
    assert said_without_time("[1:56 pm on 8 May, 2023] Ann: tea") == "Ann: tea"


def test_generated_conversations_are_legal_and_the_same_every_time() -> None:
    first, second = list(data.generated(40)), list(data.generated(40))
    assert [one.messages for one in first] == [one.messages for one in second]
    assert all(refusals("openai-chat", one.messages) == [] for one in first)


def test_bars_stand_in_order_ours_first_and_on_a_ground_of_their_own() -> None:
    shown = plot.bars("T", "n", {"rival": (0.2, 0.1, 0.3), "ours": (0.9, 0.9, 0.9), "best": (0.5, 0.5, 0.5)}, best=1)
    assert shown.index(">ours<") < shown.index(">best<") < shown.index(">rival<")
    assert "prefers-color-scheme: dark" in shown
    assert 'class="ground"' in shown


def test_labels_never_touch() -> None:
    wanted = {f"arm {i}": 100.0 + i for i in range(8)} | {"far": 300.0}
    placed = sorted(plot._apart(wanted, 50, 400).values())  # noqa: SLF001 - the rule itself
    assert all(b - a >= 13.9 for a, b in pairwise(placed))
    assert placed[-1] == 304.0


def test_axes_have_round_ticks() -> None:
    assert all(1 < len(plot._ticks(top / 100)) <= 9 for top in range(1, 2_000))  # noqa: SLF001 - the rule itself
    assert plot._ticks(1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])  # noqa: SLF001 - the rule itself
    assert plot._ticks(47.1)[:3] == pytest.approx([0, 10, 20])  # noqa: SLF001 - the rule itself


def test_scale_says_where_plain_sqlite_is_ahead() -> None:
    ours = {"store": "unabridged", "messages": "9", "append, MB/s": 1.0, "one word, median ms": 1.0}
    assert "ahead in append, MB/s: 2.0 to 1.0." in scale.ahead(ours, {**ours, "append, MB/s": 2.0})
    assert "ahead in nothing" in scale.ahead(ours, {**ours, "one word, median ms": 3.0})
