"""Tokens per task with real arms in processes of their own, originals back, and misses drawn for readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import data, draw_misses
from benchmarks.bench import Bench
from benchmarks.driver import Peer, PeerEndedError, Process
from benchmarks.replay import replay
from benchmarks.tasks import replay_one
from conversations import assistant, chat_round, user

OURS, MASKS = Peer("ours", ()), Peer("masks", ())


def setting(number: int) -> str:
    """Return two lines with words that stand nowhere else, and that are no names which a summary would list."""
    end = f"{chr(97 + number % 26)}{chr(97 + number // 26)}"
    return f"of this part the kettle{end} and sugar{end} are set\nand of this part the saucer{end} and spoon{end} too"


def story(rounds: int = 40) -> list[dict[str, Any]]:
    """A run that reads many files, and copies two lines of each twenty files later."""
    messages = [user("Copy the settings of every part.")]
    for i in range(rounds):
        filler = "\n".join(f"filler {i} {j} of the file" for j in range(30))
        messages += chat_round(f"read_{i}", f"{filler}\n{setting(i)}\n{filler}", path=f"part_{i}.py")
        if i >= 20:
            messages += chat_round(f"write_{i}", "done", path=f"copy_{i}.py", text_to_write=setting(i - 20))
    return [*messages, assistant("Done.")]


def recorded() -> data.Recorded:
    return data.Recorded("test/0", "test", story(), even=False)


def test_an_arm_in_a_process_is_charged_for_what_it_sends_and_what_it_forgets() -> None:
    given = recorded()
    with Process(OURS) as process:
        ours = replay_one(process, given, arm="ours", window=8_000)
        asking = replay_one(process, given, arm="ours, with a model", window=8_000)
    assert ours["needs"] == 40
    assert 0 < ours["missed"] <= 40
    assert 2 * ours["fetched"] == ours["missed"]
    assert (ours["refused_at"], ours["summaries"], ours["ended"]) == (None, 0.0, False)
    assert asking["summaries"] > 0


def test_a_window_that_is_outgrown_ends_the_run_of_whoever_sends_everything() -> None:
    with Process(MASKS) as process:
        roomy = replay_one(process, recorded(), arm="raw", window=100_000)
        tight = replay_one(process, recorded(), arm="raw", window=8_000)
    assert (roomy["missed"], roomy["refused_at"]) == (0, None)
    assert tight["refused_at"] is not None
    assert tight["missed"] > 0
    assert tight["sent"] == roomy["sent"]


def test_with_recall_tools_the_archive_is_searched_and_the_schemas_are_sent() -> None:
    given = recorded()
    with Process(OURS) as process:
        found = replay_one(process, given, arm="ours, with recall tools", window=100_000)
        bare = replay_one(process, given, arm="ours", window=100_000)
        searched = replay_one(process, given, arm="ours, with recall tools", window=8_000)
    assert found["missed"] == bare["missed"] == 0
    assert found["sent"] > bare["sent"]
    assert searched["recalled"] > 0


def test_an_arm_whose_process_ends_is_out_of_the_run() -> None:
    given = recorded()

    class Ends(Process):
        """A process that ends after some turns."""

        turns = 0

        def ask(self, do: str, **command: Any) -> dict[str, Any]:
            self.turns += do == "turn"
            if self.turns == 10:
                self.close()
                raise PeerEndedError("it ended")
            return super().ask(do, **command)

    with Ends(OURS) as process:
        run = replay_one(process, given, arm="ours", window=100_000)
    assert (run["ended"], run["refused_at"], run["missed"], run["calls"]) == (True, 9, 40, len(given.task().calls))


@pytest.mark.parametrize(("arm", "peer", "back"), [("ours", OURS, 1.0), ("rolling mask", MASKS, 1.0)])
def test_originals_are_had_back_from_the_archive_or_the_callers_own_list(arm: str, peer: Peer, back: float) -> None:
    with Process(peer) as process:
        run = replay(process, recorded(), arm=arm, window=8_000)
    had, gone = run["back"]
    assert gone > 10
    assert had / gone == back
    assert run["compacting"] > 0


def test_who_keeps_nothing_has_nothing_back() -> None:
    with Process(Peer("strands", ())) as process:
        run = replay(process, recorded(), arm="Strands", window=8_000)
    had, gone = run["back"]
    assert gone > 10
    assert had == 0


@pytest.mark.long
def test_a_miss_is_a_page_for_a_reader_without_the_name_of_the_arm(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = "\n".join(json.dumps({"id": str(i), "messages": story()}) for i in range(2))
    (folder / "runs.jsonl").write_text(rows, encoding="utf-8")
    bench = Bench(str(folder), quick=True)
    bench.only = ("ours",)
    drawn = list(draw_misses.draw(bench, 3, 0))
    assert len({miss.needs[0].place for *_, miss in drawn}) == 3
    job, one, miss = drawn[0]
    text = draw_misses.describe(1, one, miss)
    assert draw_misses.QUESTION in text
    assert len(miss.needs) == 2
    assert [text.count(need.line) for need in miss.needs] == [3, 3], "as a line, in the call and in the source"
    assert job.arm == "ours" or job.arm not in text


def test_a_long_request_is_shown_from_both_ends() -> None:
    one = data.Recorded(
        "test/0", "test", [user("first " * 3_000), *(user(f"word {i} " * 200) for i in range(90))], even=False
    )
    shown = draw_misses.request(one.task().messages)
    assert "first" in shown
    assert "word 89" in shown
    assert "messages …]" in shown
    assert "characters left out" in shown
    assert len(shown) < draw_misses.WHOLE + 10_000


def test_the_part_of_a_text_around_a_line_is_found_whatever_its_white_space() -> None:
    text = f"{'before ' * 1_000}total  =\n sum(prices){' after' * 1_000}"
    shown = draw_misses.around(text, "total = sum(prices)")
    assert "sum(prices)" in shown
    assert shown.startswith("[…]")
    assert len(shown) < draw_misses.AROUND + 20
