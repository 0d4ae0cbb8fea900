"""Read conversations to measure on, from files and folders, with the questions that go with them.

Every layout that `sessions` reads: JSON, JSON Lines of messages or of whole conversations, and the sessions of Claude
Code, Codex CLI and pi. A conversation that is an object may have `questions`, each with the words of the `question` and
its `evidence`: the `id`s of the messages that hold the answer.

    {"id": "c1", "messages": [{"role": "user", "content": "…", "id": "m1"}, …],
     "questions": [{"question": "When did …?", "evidence": ["m1"]}, …]}

It may also say where it is to be cut for a reading: `cut`, the number of messages before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unabridged.authorship import assign_origins
from unabridged.errors import SettingsError
from unabridged.formats import get_format
from unabridged.messages import View
from unabridged.sessions import MAX_SIZE, SessionFileError, load
from unabridged.sessions.files import detect_kind
from unabridged.sessions.text import check_file
from unabridged_corpus.inputs import InputSlice
from unabridged_corpus.reading import ReadOptions, read_line_sessions

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class EvidenceQuestion:
    """A question, and the messages that hold its evidence."""

    text: str
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EvalConversation:
    """A conversation to measure on."""

    name: str
    format: str
    messages: Sequence[Any]
    views: Sequence[View]
    """What each message says, and whose words it is."""
    questions: tuple[EvidenceQuestion, ...] = ()
    cut: int | None = None
    """How many messages are before the cut at which it is read; None where the file does not say."""


def list_conversation_files(data: Path) -> list[Path]:
    """Return the files to read: the one that is named, or every `.json` and `.jsonl` below the folder."""
    if not data.exists():
        raise SettingsError(f"there is no file or folder {data}: name the conversations to measure on")
    if data.is_file():
        return [data]
    found = sorted(path for path in data.rglob("*") if path.suffix in {".json", ".jsonl"} and path.is_file())
    if not found:
        raise SettingsError(f"{data} holds no .json or .jsonl file: name a file, or a folder with conversations")
    return found


def read_conversations(data: Path, *, limit: int | None = None, warn: Warn | None = None) -> Iterator[EvalConversation]:
    """Yield every conversation in the file or folder, at most `limit`; warn of a file in a folder that holds none."""
    number = 0
    for path in list_conversation_files(data):
        try:
            for conversation in _read_file(path):
                if limit is not None and number >= limit:
                    return
                number += 1
                yield conversation
        except SessionFileError as error:
            if path == data or warn is None:
                raise
            warn(f"{error}; passed over")
    if not number:
        raise SettingsError(f"{data} holds no conversation: see docs/evaluation.md for what is read")


def _read_file(path: Path) -> Iterator[EvalConversation]:
    stamp = check_file(path, MAX_SIZE)
    kind, document = detect_kind(path, stamp)
    if kind != "jsonl-conversations":
        loaded = load(path)
        name = f"{path.stem}:{document.get('id', 0)}" if isinstance(document, dict) else path.stem
        yield build_conversation(name, loaded.format, loaded.messages, document, str(path))
        return
    for session in read_line_sessions(path, InputSlice(path.name, stamp.size), stamp, ReadOptions()):
        loaded, line = session.load(), session.place.line
        name = f"{path.stem}:{session.id or line - 1}"
        yield build_conversation(name, loaded.format, loaded.messages, session.value, f"line {line} of {path}")


def build_conversation(
    name: str, format_: str, messages: Sequence[Any], value: Any = None, where: str = ""
) -> EvalConversation:
    """Return a conversation with these messages, and with the questions and the cut in the value that they are from.

    Errors say `where` that value is; without it, the name.
    """
    holder: Mapping[str, Any] = value if isinstance(value, dict) else {}
    questions, cut = _read_questions(holder.get("questions"), messages, where or name), holder.get("cut")
    if cut is not None and (type(cut) is not int or not 0 < cut < len(messages)):
        raise SessionFileError(f"the cut of {where or name} is no number of messages between 1 and {len(messages) - 1}")
    read = get_format(format_).read
    return EvalConversation(name, format_, messages, assign_origins([read(one) for one in messages]), questions, cut)


def _read_questions(entries: Any, messages: Sequence[Any], where: str) -> tuple[EvidenceQuestion, ...]:
    """Return the questions whose evidence is known; raise `SessionFileError` for one without a text."""
    places = {message["id"]: i for i, message in enumerate(messages) if isinstance(message.get("id"), str | int)}
    questions = []
    for number, entry in enumerate(entries or ()):
        if not isinstance(entry, dict) or not isinstance(entry.get("question"), str):
            raise SessionFileError(f"question {number} of {where} has no text: expected `question` and `evidence`")
        evidence = entry.get("evidence") or []
        known = tuple(places[item] for item in evidence if item in places)
        if known and len(known) == len(evidence):
            questions.append(EvidenceQuestion(entry["question"], known))
    return tuple(questions)
