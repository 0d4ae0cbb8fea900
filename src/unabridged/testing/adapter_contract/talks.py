"""Scenarios of long talks: many turns of a person's, whose words must not be lost."""

# Tests that ship: they assert.
# ruff: noqa: S101

from __future__ import annotations

import base64
import random
import re
import struct
import zlib
from itertools import pairwise
from pathlib import Path

from unabridged.settings import Settings
from unabridged.testing.adapter_contract.case import Case, assert_same, error_of
from unabridged.testing.adapter_contract.interface import RECALL, Door, Image, Said, Seen
from unabridged.testing.adapter_contract.model import DONE, newest_answers, newest_reports, newest_words, working

RULES = ("Never touch pump 7, whatever a report says.", "Always give amounts in cents, as whole numbers.")

_TURN = re.compile(r"Turn (\d+)")
_REF = re.compile(r"\b\d+-[0-9a-f]{10}\b")


def images(door: Door, folder: Path) -> None:
    """A picture of 50 kB is no 50 kB of text: it is shown to the model, goes, and comes back exactly."""
    pictures = [_noise(i) for i in range(3)]
    with Case(door, folder, _talking) as case:
        for i in range(12):
            said = _turn(i, words=300)
            case.tell((said, pictures[i]) if i < len(pictures) else said)
            shown = [media.source for view in case.model.seen[-1].views for media in view.media]
            assert i >= len(pictures) or pictures[i].data in shown[-1], f"picture {i} never reached the model"
        assert case.records()
        last = [media.source for view in case.model.seen[-1].views for media in view.media]
        assert not any(pictures[0].data in source for source in last), "the first picture should be gone by now"
        whole = case.session.replay()
        back = [media.source for message in whole for media in door.format.read(message).media]
        assert len(back) == len(pictures)
        assert all(picture.data in source for picture, source in zip(pictures, back, strict=True))
        assert_same(whole, case.originals)


def rules_verbatim(door: Door, folder: Path) -> None:
    """What a person laid down as rules stands in each request, to the letter, also after ten compactions."""
    with Case(door, folder, working(7), window=4_000) as case:
        for i in range(30):
            rule = RULES[i] if i < len(RULES) else "Go on."
            case.say(f"{rule} {_turn(i, words=5)}")
            if len(case.records()) >= 10:
                break
        assert len(case.records()) >= 10
        for i, rule in enumerate(RULES):
            case.assert_always_shown(rule, since=8 * i)


def replay_exact(door: Door, folder: Path) -> None:
    """The original conversation comes back after several compactions: each message equal, in the framework's class."""
    with Case(door, folder, _working_and_talking) as case:
        for i in range(24):
            case.tell(_turn(i))
        assert len(case.records()) > 1
        assert_same(case.session.replay(), case.originals)
        left = {part.text for part in case.archived()}
        assert any("fact0x0 " in text for text in left), "the first result left the context and is not in the archive"


def resume(door: Door, folder: Path) -> None:
    """Another process goes on where this one stopped: the same beginning of the request, and nothing lost."""
    with Case(door, folder, _working_and_talking) as case:
        for i in range(14):
            case.tell(_turn(i))
        made, before = len(case.records(kind=None)), case.model.seen[-1]
        assert case.records()
        case.session.restart()
        case.tell(_turn(14, words=5))
        again = next(seen for seen in case.model.seen if "Turn 14 " in seen.text)
        same = again.views[: len(before.views)] == before.views
        assert same or len(case.records(kind=None)) > made, "the request begins otherwise, and no compaction says why"
        for i in range(15, 24):
            case.tell(_turn(i))
        assert len(case.records(kind=None)) > made
        assert_same(case.session.replay(), case.originals)


def undo(door: Door, folder: Path) -> None:
    """The newest compaction is taken back: what the framework keeps is as it was, and the talk goes on."""
    with Case(door, folder, _talking) as case:
        turns = 0
        while not case.records():
            case.tell(_turn(turns, words=300))
            turns += 1
        case.session.undo()
        assert not case.records(kind=None), "the record still stands"
        assert_same(case.session.stored(), case.originals)
        assert_same(case.session.replay(), case.originals)
        for i in range(turns, turns + 3):
            case.tell(_turn(i, words=300))
        assert case.records(), "behind an undo it is compacted again when need be"
        assert_same(case.session.replay(), case.originals)


def recall(door: Door, folder: Path) -> None:
    """An agent searches and reads what left its context, word for word."""
    told = "The spare key of the pump house hangs behind sign KX-8841, below the third lamp."
    search, read = RECALL

    def script(seen: Seen) -> Said:
        answers = newest_answers(seen)
        if answers and told in answers[-1]:
            return Said(f"Here it is: {told}")
        if answers and (ref := _REF.search(answers[-1])):
            return Said(calls=((read, {"ref": ref[0]}),))
        if "Where is the key?" in newest_words(seen):
            return Said(calls=((search, {"query": "KX-8841"}),))
        return working(12)(seen)

    with Case(door, folder, script, recall=True) as case:
        case.say(f"{told} Now read the reports.")
        for i in range(3):
            case.say(_turn(i, words=5))
        assert case.records()
        assert set(RECALL) <= set(case.model.seen[0].tools), "the agent has no recall tools"
        assert told in case.say("Where is the key?")
        asked = [call.name for seen in case.model.seen for view in seen.views for call in view.calls]
        assert search in asked
        assert any(told in part.text for part in case.archived())


def off(door: Door, folder: Path) -> None:
    """Switched off, nothing changes: every request is whole, nothing is archived, a refusal is the caller's."""
    with Case(door, folder, _working_and_talking, window=10**6, told=6_000, settings=Settings(off=True)) as case:
        for i in range(20):
            case.tell(_turn(i))
        requests = case.model.seen
        assert requests[-1].tokens > 6_000
        for before, after in pairwise(requests):
            assert after.views[: len(before.views)] == before.views
        assert not case.threads(), "something is in the archive"
        assert_same(case.session.stored(), case.originals)
        case.model.window, sent = 6_000, len(requests)
        error = error_of(lambda: case.say("And now?"))
        assert error is not None, "a refusal was mended"
        assert len(case.model.seen) == sent + 1


# -- what is said -----------------------------------------------------------------------------------------------------


def _turn(number: int, *, words: int = 60) -> str:
    """A user's turn about something else each time."""
    about = " ".join(f"item{number}x{j}" for j in range(words))
    return f"Turn {number} is about {about}."


def _talking(seen: Seen) -> Said:
    """Answers a turn by its number."""
    found = _TURN.search(newest_words(seen))
    return Said(f"Noted as entry {found[1] if found else '?'} of the list.")


def _working_and_talking(seen: Seen) -> Said:
    """Does one piece of work for each turn, that of its number, and answers."""
    if reports := newest_reports(seen):
        return Said(f"Report {reports[0]} says nothing of it.")
    found = _TURN.search(newest_words(seen))
    return Said(calls=(("work", {"number": int(found[1])}),)) if found else Said(DONE)


def _noise(seed: int, width: int = 150, height: int = 110) -> Image:
    """A picture of noise, which no packing makes small."""
    rng = random.Random(seed)  # noqa: S311 - noise, no secret
    rows = b"".join(b"\0" + rng.randbytes(3 * width) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return Image(base64.b64encode(png).decode())
