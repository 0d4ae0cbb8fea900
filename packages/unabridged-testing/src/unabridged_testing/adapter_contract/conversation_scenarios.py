"""Scenarios of long talks: many turns of a person's, whose words must not be lost."""

# Tests that ship: they assert.
# ruff: noqa: S101

from __future__ import annotations

import base64
import random
import re
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unabridged.errors import SettingsError
from unabridged.messages import View
from unabridged.settings import Settings
from unabridged_testing.adapter_contract import strict_model
from unabridged_testing.adapter_contract.case import WINDOW, ScenarioCase, assert_same, catch_error
from unabridged_testing.adapter_contract.interface import RECALL_TOOLS, Door, Image, ModelReply, Seen

RULES = ("Never touch pump 7, whatever a report says.", "Always give amounts in cents, as whole numbers.")
MANY_COMPACTIONS = 10
"""Compactions after which a rule must still be shown to the letter."""
MAX_TURNS = 18

ODD_NAME = "Zürich 7, a"
INVALID_NAME = "bell\a"

_TURN_PATTERN = re.compile(r"Turn (\d+)")
_REFERENCE_PATTERN = re.compile(r"\b\d+-[0-9a-f]{10}\b")


def check_images(door: Door, folder: Path) -> None:
    """Check that pictures of 20 kB are no 20 kB of text: each is shown to the model, goes, and comes back exactly."""
    pictures = [_make_noise_image(i) for i in range(10)]
    with ScenarioCase(door, folder, _answer_turn) as case:
        for i, picture in enumerate(pictures):
            case.say_and_record((_make_turn(i, words=150), picture))
            shown = "".join(_list_picture_sources(case.model.seen[-1].views))
            assert picture.data in shown, f"picture {i} never reached the model"
        case.assert_requests(len(pictures))
        case.assert_compacted()
        assert pictures[0].data not in shown, "the first picture should be gone by now"
        back = _list_picture_sources([door.format.read(message) for message in case.session.replay()])
        assert len(back) == len(pictures), f"{len(back)} pictures came back, not {len(pictures)}"
        for i, picture in enumerate(pictures):
            assert picture.data in back[i], f"picture {i} came back as another one"
        case.assert_replayed()


def check_rules_verbatim(door: Door, folder: Path) -> None:
    """Check that a person's rules are in each request, to the letter, also after ten compactions."""
    with ScenarioCase(door, folder, strict_model.make_working_script(3), window=4_000) as case:
        turns = 0
        while turns < MAX_TURNS and case.count_summaries() < MANY_COMPACTIONS:
            rule = RULES[turns] if turns < len(RULES) else "Go on."
            case.say(f"{rule} {_make_turn(turns, words=5)}")
            for i, shown in enumerate(RULES[: turns + 1]):
                case.assert_always_shown(shown, since=4 * i)
            turns += 1
        assert case.count_summaries() >= MANY_COMPACTIONS, (
            f"{case.count_summaries()} compactions in {turns} turns, and there should be {MANY_COMPACTIONS}"
        )


def check_thread_names(door: Door, folder: Path) -> None:
    """Check that a thread is kept under the very name it has, and that a wrong name is refused before all else."""
    with ScenarioCase(door, folder, strict_model.make_working_script(12), thread=ODD_NAME) as case:
        refused = catch_error(lambda: case.session.beside(INVALID_NAME).say("Hello."))
        assert _is_settings_error(refused), f"{INVALID_NAME!r} gave {refused!r}"
        case.assert_requests(0)
        assert not case.threads(), "something is stored although the name was refused"
        assert case.say("Work through all reports.") == strict_model.DONE
        assert case.threads() == {ODD_NAME}, f"the archive has the threads {case.threads()}"
        case.assert_compacted(ODD_NAME)


def _is_settings_error(error: BaseException | None) -> bool:
    """Return whether it is one, or was raised because of one: a framework may wrap what its plugins raise."""
    while error is not None and not isinstance(error, SettingsError):
        error = error.__cause__ or error.__context__
    return error is not None


def check_exact_replay(door: Door, folder: Path) -> None:
    """Check that the original comes back after three compactions: each message equal, in the framework's class."""
    with ScenarioCase(door, folder, _work_then_answer_turn) as case:
        for i in range(10):
            case.say_and_record(_make_turn(i))
        case.assert_requests(20)
        assert case.count_summaries() >= 3, f"{case.count_summaries()} compactions, and there should be three at least"
        case.assert_replayed()
        assert "fact0x0 " in case.read_archived_text(), "the first result left the context and is not in the archive"


def check_resume(door: Door, folder: Path) -> None:
    """Check that another process goes on where this one stopped: the request begins the same, and nothing is lost."""
    with ScenarioCase(door, folder, _work_then_answer_turn) as case:
        for i in range(5):
            case.say_and_record(_make_turn(i))
        case.assert_compacted()
        records, requests = len(case.records()), len(case.model.seen)
        case.session.restart()
        case.say_and_record(_make_turn(5, words=5))
        before, after = case.model.seen[requests - 1 : requests + 1]
        is_explained = after.begins_as(before) or len(case.records()) > records
        assert is_explained, "the request begins otherwise, and no compaction says why"
        for i in range(6, 9):
            case.say_and_record(_make_turn(i))
        case.assert_requests(2 * 9)
        assert len(case.records()) > records, "nothing was compacted after the restart"
        case.assert_replayed()


def check_undo(door: Door, folder: Path) -> None:
    """Check that the newest compaction can be taken back: the framework's list is as it was, and the talk goes on."""
    with ScenarioCase(door, folder, _answer_turn) as case:
        turns = (_make_turn(number, words=300) for number in range(MAX_TURNS))
        count = case.say_and_record_until(lambda: bool(case.records()), turns)
        case.assert_compacted()
        case.session.undo()
        assert not case.records(), "the record still stands"
        assert_same(case.session.stored(), case.originals)
        count += case.say_and_record_until(lambda: bool(case.records()), turns)
        case.assert_requests(count)
        case.assert_compacted()
        case.assert_replayed()


def check_recall(door: Door, folder: Path) -> None:
    """Check that an agent searches and reads what left its context, word for word."""
    fact = "The spare key of the pump house hangs behind sign KX-8841, below the third lamp."
    search, read = RECALL_TOOLS

    def script(seen: Seen) -> ModelReply:
        answers = strict_model.find_newest_answers(seen)
        called = [call.name for view in seen.views for call in view.calls][-1:]
        if answers and called == [read]:
            return ModelReply(f"It says: {answers[-1]}")
        if answers and called == [search]:
            found = _REFERENCE_PATTERN.search(answers[-1])
            return ModelReply(calls=((read, {"ref": found[0]}),)) if found else ModelReply("Nothing was found.")
        if "Where is the key?" in strict_model.find_newest_words(seen):
            return ModelReply(calls=((search, {"query": "KX-8841"}),))
        return strict_model.make_working_script(5)(seen)

    with ScenarioCase(door, folder, script, recall=True) as case:
        case.say(f"{fact} Now read the reports.")
        turns = 0
        while turns < MAX_TURNS // 3 and fact not in case.read_archived_text():
            case.say(_make_turn(turns, words=5))
            turns += 1
        assert set(RECALL_TOOLS) <= set(case.model.seen[0].tools), f"the agent's tools are {case.model.seen[0].tools}"
        assert fact in case.read_archived_text(), "what was said in the first turn has not left the context"
        answer = case.say("Where is the key?")
        assert fact in answer, f"the agent read {answer!r:.200}"


def check_off(door: Door, folder: Path) -> None:
    """Check that nothing changes while off: requests are whole, nothing is archived, a refusal is the caller's."""
    options: dict[str, Any] = {"window": 10**6, "adapter_window": WINDOW, "settings": Settings(off=True)}
    with ScenarioCase(door, folder, _work_then_answer_turn, **options) as case:
        for i in range(6):
            case.say_and_record(_make_turn(i))
        assert case.model.seen[-1].tokens > WINDOW, "a request of more than the adapter's window was made shorter"
        case.assert_untouched()
        case.model.window = WINDOW
        assert catch_error(lambda: case.say("And now?")) is not None, "a refusal did not reach the caller"
        case.assert_requests(2 * 6 + 1, refused=1)


def check_below_trigger(door: Door, folder: Path) -> None:
    """Check that below the trigger every request leaves as it came, though clearing would pay."""
    with ScenarioCase(door, folder, strict_model.make_working_script(10), window=10**6, adapter_window=50_000) as case:
        for i in range(2):
            case.model.script = strict_model.make_working_script(10, first=100 * i)
            case.say_and_record(f"{i}: work through all reports.")
        case.assert_untouched()


# -- turns and answers ------------------------------------------------------------------------------------------------


def _list_picture_sources(views: Sequence[View]) -> list[str]:
    """Return the sources of all pictures, in order."""
    return [media.source for view in views for media in view.media]


def _make_turn(number: int, *, words: int = 120) -> str:
    """Return a user's turn about something else each time."""
    about = " ".join(f"item{number}x{j}" for j in range(words))
    return f"Turn {number} is about {about}."


def _answer_turn(seen: Seen) -> ModelReply:
    """Answer a turn by its number."""
    found = _TURN_PATTERN.search(strict_model.find_newest_words(seen))
    return ModelReply(f"Noted as entry {found[1] if found else '?'} of the list.")


def _work_then_answer_turn(seen: Seen) -> ModelReply:
    """Do one piece of work for each turn, that of its number, and answer."""
    if reports := strict_model.find_newest_reports(seen):
        return ModelReply(f"Report {reports[0]} says nothing of it.")
    found = _TURN_PATTERN.search(strict_model.find_newest_words(seen))
    return ModelReply(calls=(("work", {"number": int(found[1])}),)) if found else ModelReply(strict_model.DONE)


def _make_noise_image(seed: int, width: int = 90, height: int = 60) -> Image:
    """Return a picture of noise, which no packing makes small."""
    rng = random.Random(seed)  # noqa: S311 - noise, no fact
    rows = b"".join(b"\0" + rng.randbytes(3 * width) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return Image(base64.b64encode(png).decode())
