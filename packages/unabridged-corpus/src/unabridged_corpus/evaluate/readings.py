"""Have a model write probes from what happened next, then mark texts whose authors it does not know.

It writes the probes before it sees a text; the texts stand under random letters, and a second reading shows them in the
order turned around. A reply that is not as asked is asked for once more; then the reading has failed, and that is said.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from unabridged.errors import SettingsError, UnabridgedError
from unabridged.sessions import write_file_atomically
from unabridged.summary.prompt import KEY_FIELD, draw_key, remove_unsendable
from unabridged_corpus.evaluate import candidates
from unabridged_corpus.evaluate.data import EvalConversation
from unabridged_corpus.evaluate.line_needs import fold_space
from unabridged_corpus.evaluate.reader import (
    PROBE_KINDS,
    Probe,
    ReadingModel,
    SaveText,
    fill_prompt_part,
    read_marks,
    read_probes,
    render_conversation,
    wrap_in_tags,
)

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters that say nothing about a place or a rank."""
MAX_GIVEN_TEXTS = 9
PROMPT_CHARACTERS = 10_000
"""Characters that the tasks and the probes take of an ask."""


@dataclass(frozen=True, slots=True)
class BlindReading:
    """One reading of one conversation's texts, by their names."""

    conversation: str
    number: int
    characters: Mapping[str, int]
    probes: Sequence[Probe]
    marks: Mapping[str, Sequence[Mapping[str, Any]]]
    """`points` and `reason` of each text, probe by probe."""
    preferred: Sequence[str]
    how: str
    false: Sequence[Mapping[str, Any]]
    """Statements about who said what that the reader calls false; `found` says whether the text has those words."""


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """The marks of one candidate in all readings."""

    candidate: str
    characters: int
    """Of its texts, on average."""
    points: int
    most: int
    share: float
    preferred: float
    """Readings in which it was preferred; a tie is shared out."""
    clear: int
    narrow: int
    tied: int
    false: int
    readings: int


@dataclass(frozen=True, slots=True)
class Readings:
    """Everything that was read, what failed, and what it cost."""

    reader: str
    cost: Mapping[str, Mapping[str, float]]
    """Of the reader and the writer: calls, tokens and, where prices are known, dollars."""
    rows: list[CandidateRow] = field(default_factory=list)
    readings: list[BlindReading] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Conversations in which no window of that size is full."""


def read_all_conversations(
    conversations: Iterable[EvalConversation],
    reader: Any,
    *,
    model: Any = None,
    window: int = 24_000,
    budget: int = 3_000,
    probes: int = 10,
    readings: int = 2,
    texts: Mapping[str, Path] | None = None,
    folder: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Readings:
    """Cut each conversation once, make the texts that stand in for its past, and have the reader mark them.

    `reader` and `model`, who writes, are functions or `"provider:name"`. Everything asked, answered and compared is
    kept in `folder`, where the texts stand under their letters; the folder `letters` in it says whose they are.
    """
    brought = dict(texts or {})
    if taken := [name for name in brought if name in candidates.OWN_NAMES]:
        raise SettingsError(f"{taken[0]!r} is the name of a text that is made here: call yours something else")
    if len(brought) > MAX_GIVEN_TEXTS:
        raise SettingsError(f"{len(brought)} texts are too many for one reader: bring at most {MAX_GIVEN_TEXTS}")
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} is there and not empty: name a new folder to keep the readings in")
    save, voice, writer = _make_saver(folder), ReadingModel(reader), None if model is None else ReadingModel(model)
    found = Readings(voice.asker.name, cost={"reader": voice.cost} | ({"writer": writer.cost} if writer else {}))
    with ExitStack() as stack:
        for one in filter(None, (voice, writer)):
            stack.callback(one.asker.close)
        for number, conversation in enumerate(conversations, 1):
            name, place = conversation.name, candidates.choose_cut(conversation, window)
            if place is None:
                found.skipped.append(name)
                continue
            with _collect_failure(f"{name}: the texts and the probes", found.failed, tell):
                made = candidates.make_candidates(conversation, place, budget, writer, brought)
                kept = f"{number:03}-{candidates.conversation_to_file_name(name)}"
                sheet = _ReadingSheet(kept, made, voice, save)
                asked = sheet.ask_probes(probes)
                for turn in range(1, readings + 1):
                    with _collect_failure(f"{name}: reading {turn} of {readings}", found.failed, tell):
                        found.readings.append(sheet.read(turn, asked))
    names = dict.fromkeys(name for reading in found.readings for name in reading.characters)
    for name in names:
        found.rows.append(_summarise_candidate(name, [one for one in found.readings if name in one.marks]))
    save("report.json", json.dumps(asdict(found), indent=1))
    return found


@contextmanager
def _collect_failure(what: str, failed: list[str], tell: Callable[[str], None]) -> Iterator[None]:
    """Print what is done in this block; where it fails, note why and go on behind it."""
    tell(what)
    try:
        yield
    except UnabridgedError as error:
        failed.append(f"{what}: {error}")


class _ReadingSheet:
    """One conversation at its cut, as a reader gets it: texts under letters, and what came before and after."""

    def __init__(self, folder: str, made: candidates.Candidates, voice: ReadingModel, save: SaveText) -> None:
        conversation, place = made.conversation, made.place
        self.made, self.voice = made, voice
        self.save: SaveText = lambda file, text: save(f"{folder}/{file}", text)
        dealt = Random(conversation.name).sample(LETTERS, len(made.texts))  # noqa: S311 - dealt the same way again
        self.letters = dict(sorted(zip(dealt, made.texts, strict=True)))
        after = render_conversation(
            conversation.views[place : place + candidates.MESSAGES_AFTER], place, voice.room // 5
        )
        left = voice.room - len(after) - sum(map(len, made.texts.values())) - PROMPT_CHARACTERS
        before = render_conversation(conversation.views[:place], 0, left)
        self.key = draw_key(before, after, *made.texts.values())
        blocks = [wrap_in_tags("conversation", before, self.key), wrap_in_tags("after", after, self.key)]
        self.head = "\n\n".join([fill_prompt_part("intro", cut=place, key=self.key), *blocks])
        for letter, text in (*self.texts(1).items(), ("before", before), ("after", after)):
            self.save(f"{letter}.md", text.replace(KEY_FIELD, "#"))
        save(f"letters/{folder}.json", json.dumps(self.letters, indent=1))

    def texts(self, turn: int) -> dict[str, str]:
        """Return the texts by letter, in the order of this reading: every other one is turned around."""
        order = list(self.letters)[:: 1 if turn % 2 else -1]
        return {letter: self.made.texts[self.letters[letter]] for letter in order}

    def ask_probes(self, wanted: int) -> list[Probe]:
        """Return so many probes on the conversation, written before any text is seen."""
        kinds = "\n".join(f"- {kind}: {what}" for kind, what in PROBE_KINDS.items())
        prompt = f"{self.head}\n\n{fill_prompt_part('probes', probes=wanted, kinds=kinds)}"
        return self.voice.ask_until_valid(prompt, lambda value: read_probes(value, wanted), self.save, "probes")

    def read(self, turn: int, probes: Sequence[Probe]) -> BlindReading:
        """Return the reader's marks on the probes, by the names of the texts."""
        texts = self.texts(turn)

        def save(file: str, text: str) -> None:
            self.save(f"reading-{turn}-{file}", text)

        def accept(value: Any) -> dict[str, Any]:
            return read_marks(value, list(texts), len(probes))

        prompt = f"{self.head}\n\n{self._build_marks_task(texts, probes)}"
        judged = self.voice.ask_until_valid(prompt, accept, save, "marks")
        false = []
        for row in judged["false"]:
            is_found = fold_space(row["statement"]) in fold_space(texts[row["text"]])
            false.append({**row, "text": self.letters[row["text"]], "found": is_found})
        marks = {name: judged["marks"][letter] for letter, name in self.letters.items()}
        preferred = [self.letters[letter] for letter in judged["preferred"]]
        sizes = {name: len(text) for name, text in self.made.texts.items()}
        return BlindReading(self.made.conversation.name, turn, sizes, probes, marks, preferred, judged["how"], false)

    def _build_marks_task(self, texts: Mapping[str, str], probes: Sequence[Probe]) -> str:
        asked = "\n".join(f"{i}. {probe['question']} — {probe['answer']}" for i, probe in enumerate(probes, 1))
        stays = ", ".join(f"[{place}]" for place in self.made.stays) or "none"
        shown = [wrap_in_tags(f"text {letter}", remove_unsendable(text), self.key) for letter, text in texts.items()]
        asked = wrap_in_tags("probes", remove_unsendable(asked), self.key)
        given = {"texts": "\n\n".join(shown), "asked": asked, "stays": stays, "letters": ", ".join(texts)}
        return fill_prompt_part("marks", **given, probes=len(probes))


def _summarise_candidate(name: str, readings: Sequence[BlindReading]) -> CandidateRow:
    points = sum(mark["points"] for reading in readings for mark in reading.marks[name])
    most = sum(2 * len(reading.probes) for reading in readings)
    first = [reading for reading in readings if name in reading.preferred]
    hows = Counter(reading.how for reading in first)
    characters = int(fmean(reading.characters[name] for reading in readings))
    preferred = sum(1 / len(reading.preferred) for reading in first), hows["clear"], hows["narrow"], hows["tie"]
    false = sum(row["text"] == name and row["found"] for reading in readings for row in reading.false)
    return CandidateRow(name, characters, points, most, points / most, *preferred, false, len(readings))


def _make_saver(folder: Path | None) -> SaveText:
    """Return a function that writes a text into the folder, for its owner alone; nowhere without a folder."""

    def save(name: str, text: str) -> None:
        if folder is not None:
            path = folder / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file_atomically(path, [remove_unsendable(text).encode()])

    return save
