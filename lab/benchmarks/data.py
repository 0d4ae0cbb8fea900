"""Conversations to measure on: a folder of recorded ones, or generated ones where there is none.

A folder holds JSON Lines files; each line has `messages` in OpenAI's or Anthropic's form, and may have an `id` and
`questions` whose `evidence` names the ids of messages. Even conversations are for choosing settings, odd ones for
reporting: which is which follows from their place in the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.policies import count, tokens_of
from unabridged.authorship import assign_origins
from unabridged.formats import get_format
from unabridged_corpus.evaluate.score import Needs, find_cuts, find_needs
from unabridged_corpus.evaluate.task_cost import MeasuredMessage, RecordedTask
from unabridged_testing import Shape, make_conversation, refusals
from unabridged_testing.wire import Ending, Kind

Message = dict[str, Any]
GENERATED = "generated"
_EXTRAS = ("reasoning", "media", "system", "twins", "giant", "interrupted")
_KINDS: tuple[Kind, ...] = ("agent", "agent", "marathon", "chat", "protocol")
_FEW = 40
"""How many generated conversations stand in for recorded ones."""


@dataclass
class Recorded:
    """One conversation as OpenAI messages; what is worked out about it is kept."""

    name: str
    data: str
    messages: list[Message]
    even: bool
    questions: tuple[tuple[str, ...], ...] = ()
    """For each question, the texts that answer it."""
    lines: list[MeasuredMessage] = field(default_factory=list, repr=False)
    people: tuple[int, ...] = ()
    """Where a person speaks."""
    rate: float = 0.25
    """Tokens a character."""
    _task: RecordedTask | None = field(default=None, init=False, repr=False)
    _needs: dict[int, Needs] = field(default_factory=dict, init=False, repr=False)
    _cuts: set[int] | None = field(default=None, init=False, repr=False)
    _faults: dict[int, frozenset[str]] = field(default_factory=dict, init=False, repr=False)

    def prepare(self) -> None:
        """Read and measure every message, once."""
        if self.lines:
            return
        read = get_format("openai-chat").read
        views = assign_origins([read(message) for message in self.messages])
        self.lines = [MeasuredMessage(m, view, tokens_of(view)) for m, view in zip(self.messages, views, strict=True)]
        self.rate = sum(line.tokens for line in self.lines) / sum(max(1, len(view.whole_text())) for view in views)
        self.people = tuple(i for i, view in enumerate(views) if view.origin == "person" and view.text)

    def starts(self) -> list[int]:
        """Return where each model call begins: all messages before it are its input."""
        roles = [message["role"] for message in self.messages]
        return [i for i, role in enumerate(roles) if role == "assistant" and i and roles[i - 1] != "assistant"]

    def cuts(self) -> set[int]:
        """Return the first model call after each 24,000 tokens, where needs-next is measured."""
        if self._cuts is None:
            starts = self.starts()
            found = (next((start for start in starts if start >= cut), None) for cut in find_cuts(self.messages))
            self._cuts = {start for start in found if start is not None}
        return self._cuts

    def faults(self, at: int) -> frozenset[str]:
        """Return what a provider would refuse in the recorded conversation up to here, before any policy changed it."""
        if at not in self._faults:
            self._faults[at] = frozenset(map(placeless, refusals("openai-chat", self.messages[:at])))
        return self._faults[at]

    def task(self) -> RecordedTask:
        """Return the conversation as a task, with what its calls copy from earlier results."""
        if self._task is None:
            self.prepare()
            self._task = RecordedTask(self.lines, count)
        return self._task

    def needs(self, at: int) -> Needs:
        """Return what the agent needs next."""
        if at not in self._needs:
            self._needs[at] = find_needs(self.messages[:at], self.messages[at:])
        return self._needs[at]


@lru_cache(maxsize=2)
def load(folder: str | None) -> list[Recorded]:
    """Return every conversation of the folder, file by file, or generated ones when there is no folder."""
    if folder is None:
        return [_long(seed) for seed in range(_FEW)]
    found = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        for place, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            row = json.loads(line)
            messages = list(as_openai(row["messages"]))
            name = f"{path.stem}/{row.get('id', place)}"
            found.append(Recorded(name, path.stem, messages, place % 2 == 0, _questions(row)))
    return found


@lru_cache(maxsize=8)
def chosen(folder: str | None, *, even: bool, limit: int | None = None, most: int | None = None) -> list[Recorded]:
    """Return one half of the conversations: at most `limit` of each file, and the first `most` messages of each."""
    seen: dict[str, int] = {}
    picked = []
    for one in load(folder):
        if one.even == even:
            seen[one.data] = seen.get(one.data, 0) + 1
            if limit is None or seen[one.data] <= limit:
                picked.append(one if most is None else _beginning(one, most))
    return picked


def _beginning(one: Recorded, most: int) -> Recorded:
    """Return the conversation up to its first `most` messages, with the questions that these answer."""
    kept = one.messages[:most]
    said = {str(message.get("content")) for message in kept}
    questions = tuple(evidence for evidence in one.questions if said.issuperset(evidence))
    return replace(one, messages=kept, questions=questions)


def generated(count: int, start: int = 0) -> Iterator[Recorded]:
    """Yield small conversations of every shape, the same ones every time."""
    for seed in range(start, start + count):
        yield _generated(seed)


def placeless(reason: str) -> str:
    """Return the reason for a refusal without its position in the list, which every policy moves."""
    place, _, rest = reason.partition(": ")
    return rest if place.isdigit() else reason


def fingerprint(folder: str | None) -> str:
    """Return a hash that changes when the data changes."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).glob("*.jsonl")) if folder else ():
        digest.update(f"{path.name} {path.stat().st_size}".encode())
    return digest.hexdigest()[:12] if folder else GENERATED


def as_openai(messages: Sequence[Message]) -> Iterator[Message]:
    """Convert Anthropic blocks to OpenAI messages; OpenAI messages only lose ids that no provider accepts."""
    for message in messages:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        if any(block.get("type") in {"tool_use", "tool_result", "thinking"} for block in blocks):
            yield from _unblocked(message["role"], blocks)
        else:
            yield {key: value for key, value in message.items() if key != "id"}


def _unblocked(role: str, blocks: Sequence[Message]) -> Iterator[Message]:
    calls = []
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    for block in blocks:
        if block["type"] == "tool_result":
            inner = block.get("content") or ""
            text = inner if isinstance(inner, str) else "\n".join(part.get("text", "") for part in inner)
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
        elif block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": json.dumps(block["input"])}
            calls.append({"id": block["id"], "type": "function", "function": function})
    if calls:
        yield {"role": role, "content": "\n".join(texts) or None, "tool_calls": calls}
    elif texts:
        yield {"role": role, "content": "\n".join(texts)}


def _questions(row: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    texts = {message["id"]: str(message["content"]) for message in row["messages"] if "id" in message}
    found = []
    for question in row.get("questions") or ():
        evidence = tuple(texts[name] for name in question.get("evidence") or () if name in texts)
        if evidence:
            found.append(evidence)
    return tuple(found)


def _generated(seed: int) -> Recorded:
    """Generate a small conversation."""
    kind = _KINDS[seed % len(_KINDS)]
    size = 2 + seed // 5 % 5
    rounds = {"marathon": 4 * size, "protocol": 4 * size}.get(kind, 1 + seed // 35 % 4)
    bulk = (300, 600, 900, 1_200)[seed // 140 % 4]
    ending: Any = ("working", "asked", "answered")[seed % 3]
    return _made(seed, kind, turns=size * (5 if kind == "chat" else 1), rounds=rounds, bulk=bulk, ending=ending)


def _long(seed: int) -> Recorded:
    """Generate a conversation that is larger than every window, in place of a recorded run."""
    kind = _KINDS[seed % len(_KINDS)]
    turns, rounds = {"chat": (200, 0), "marathon": (1, 90), "protocol": (1, 150)}.get(kind, (40, 4))
    return _made(seed, kind, turns=turns, rounds=rounds, bulk=1_200, ending="working")


def _made(seed: int, kind: Kind, *, turns: int, rounds: int, bulk: int, ending: Ending) -> Recorded:
    extras = tuple(name for bit, name in enumerate(_EXTRAS) if (seed * 2_654_435_761 >> (7 + bit)) & 1)
    shape = Shape("openai-chat", seed, kind, turns, rounds, 3, bulk, ending, extras)
    return Recorded(f"{GENERATED}/{seed}", f"{GENERATED} {kind}", make_conversation(shape).messages, seed % 2 == 0)
