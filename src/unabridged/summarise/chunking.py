"""What is to be summarised, and how it is cut up so that every ask fits the summariser's window. Numbers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from unabridged.asking.ask import AskFailed
from unabridged.languages import sure_language
from unabridged.ledger.entries import Ledger
from unabridged.messages import View
from unabridged.summarise.instructions import Question, Wording
from unabridged.summarise.shown import Piece, newest, packed, pieces

RESERVE = 4_096
"""Tokens left free for what the summariser writes."""
FEWEST = 256
"""Tokens of conversation that must fit into one ask beside the prompt, or asking makes no sense."""
FAN_IN = 4
"""Notes that fit into one fold at least, so that the folds are at most a third of the chunks, and one a level."""
FRAME = 12
"""Tokens that the label of one note takes."""

_FAULT = "word " * 60
"""As long as the fault that a second ask may have to name."""


@dataclass(frozen=True, slots=True)
class Live:
    """The live prompt, for asking in its continuation: the very objects the agent's next request would send."""

    messages: Sequence[Any]
    tokens: int
    """What the whole of it takes."""
    system: Any = None
    tools: Any = None
    kept: int = 0
    """How many of the newest messages stay after the compaction."""
    tail: int = 0
    """What those take."""

    def older(self) -> Live:
        """The prompt up to what stays: a beginning of it, which a provider's cache serves as well."""
        if not 0 < self.kept < len(self.messages):
            return self
        return replace(self, messages=self.messages[: -self.kept], tokens=self.tokens - self.tail, kept=0, tail=0)


@dataclass(frozen=True)
class Block:
    """What is to be summarised, and within which limits. Sizes in tokens, as `count` counts them."""

    views: Sequence[View]
    """What goes, without earlier summary turns."""
    budget: int
    """What the prose may take."""
    window: int
    """The summariser's own."""
    count: Callable[[str], int]
    turns: Sequence[int] = ()
    """The number of each message in the original conversation; from 0 on when left out."""
    prior: str = ""
    """The prose of the earlier summary."""
    ledger_text: str = ""
    """What is carried word for word anyway; the model is told not to repeat it."""
    mode: Literal["standalone", "suffix"] = "standalone"
    live: Live | None = None
    instruction: str | None = None
    """A prompt in the place of the built-in one; taken as it is."""
    max_input: int | None = None
    """Show at most so much, the newest; by default everything is shown."""
    language: str = ""
    """The language to write in, by its code; by default the conversation's."""
    reserve: int = RESERVE
    beside: Sequence[View] = ()
    """What stays in the context: a summary may rest on that too."""
    ledger: Ledger | None = None
    """What is carried word for word, as entries: people's words in it are people's."""
    also: str = ""
    """What else the summariser may know of: system prompt, tools, pins, the host's state."""
    gone: Sequence[Any] = ()
    """What goes, as the caller's own objects."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """How the block is shown: as a suffix, in one ask, or in chunks."""

    reserve: int
    goal: int
    """The tokens the model is told to stay within; what is accepted is a little more."""
    note: int
    """What the notes on one chunk may take."""
    fold_room: int
    """What fits into one fold."""
    chunks: list[list[Piece]]
    ledger: str
    wording: Wording
    live: Live | None = None
    """What is asked behind, if it is asked as a suffix."""
    tight: bool = False
    """Whether the reply behind it got less room than one apart would."""
    single: bool = False
    prior_note: str = ""
    """The earlier prose as the first of the notes, when there are chunks."""

    @property
    def suffix(self) -> bool:
        """Whether it is asked behind the live prompt."""
        return self.live is not None

    def folds(self, sizes: Sequence[int]) -> list[list[int]]:
        """Notes of these sizes, by their places, in runs that fit into one fold each."""
        runs = packed([Piece(str(i), size + FRAME) for i, size in enumerate(sizes)], self.fold_room)
        return [[int(piece.text) for piece in run] for run in runs]


def make_chunks(block: Block) -> Chunks:
    """How to show the block so that every ask, its reply included, fits; `AskFailed` when the window is too small."""
    count, window = block.count, block.window
    reserve = min(max(block.reserve, block.budget * 5 // 4), window // 4)
    goal = min(block.budget, reserve) * 4 // 5
    ledger = _head(block.ledger_text, window // 8, count)
    wording = Wording(block.instruction, _language(block))
    free = window - reserve - window // 20  # the count may be off: a twentieth is left for that

    def room(question: Question) -> int:
        return free - count(question.text)

    single_room = room(wording.record([], tokens=goal, prior=block.prior, ledger=ledger, fault=_FAULT))
    chunk_room = room(wording.record([], tokens=goal, part=True, fault=_FAULT))
    fold_room = room(wording.fold([], tokens=goal, ledger=ledger, fault=_FAULT))
    if min(chunk_room, fold_room) < FEWEST:
        taken = free - min(chunk_room, fold_room)
        raise AskFailed(
            "too-long",
            f"a window of {window:,} tokens is too small to summarise with: the prompt takes {taken:,} and {reserve:,} "
            "are reserved for the reply. Use a summariser with a larger window, or a shorter instruction.",
        )
    shown = _shown(block, max(single_room, FEWEST))
    total = sum(piece.tokens for piece in shown)
    plan = Chunks(
        reserve, goal, min(reserve * 4 // 5, fold_room // FAN_IN - FRAME), fold_room, [shown], ledger, wording
    )
    if block.mode == "suffix" and block.live is not None:
        for live in (block.live, block.live.older()):
            if behind := _behind(plan, block, live):
                return behind
    if total <= single_room:
        return replace(plan, single=True)
    shown = _shown(block, chunk_room)
    prior = block.prior
    if prior and count(prior) > fold_room // 2:  # too long to stand beside the notes: it is read like the rest
        summary = View("user", "summary", prior)
        shown = [*pieces([summary], [-1], count, chunk_room), *shown]
        prior = ""
    return replace(plan, chunks=packed(shown, chunk_room), prior_note=prior)


def _behind(plan: Chunks, block: Block, live: Live) -> Chunks | None:
    """The plan for one ask behind this prompt; None without room there for half of what the prose may take.

    Near the trigger little room is left. What is kept elsewhere anyway gives way before the reply does.
    """
    count, window = block.count, block.window
    bare = plan.wording.suffix(tokens=plan.goal, kept=live.kept, fault=_FAULT)
    left = window - window // 20 - live.tokens - count(bare.text)
    if left < max(FEWEST, block.budget // 2):
        return None
    reply = min(plan.reserve, max(min(block.budget * 5 // 4, left), left - count(plan.ledger)))
    return replace(
        plan,
        reserve=reply,
        goal=min(block.budget, reply) * 4 // 5,
        ledger=_head(plan.ledger, left - reply - FRAME, count),
        live=live,
        tight=reply < plan.reserve,
    )


def _shown(block: Block, room: int) -> list[Piece]:
    turns = block.turns or range(len(block.views))
    if block.max_input is None:
        return pieces(block.views, turns, block.count, room)
    return newest(pieces(block.views, turns, block.count, min(room, block.max_input)), block.max_input)


def _language(block: Block) -> str:
    """The language of the summary; a caller's own prompt may want any, so nothing is assumed beside one."""
    if block.language or block.instruction is not None:
        return block.language
    people = sure_language(view.text for view in block.views if view.is_request)
    return people or sure_language(view.text for view in block.views if view.origin in {"person", "model"})


def _head(text: str, room: int, count: Callable[[str], int]) -> str:
    """As many whole lines from the beginning as fit."""
    lines = text.split("\n")
    while lines and count("\n".join(lines)) > room:
        lines = lines[: len(lines) * 4 // 5]
    return "\n".join(lines)


def calls_bound(block: Block) -> int:
    """The most model calls that a summary of the block takes: two for each chunk and for each fold.

    A reply that was cut off where there was little room for it is asked for once more, apart.
    """
    plan = make_chunks(block)
    if plan.tight:
        return 2 + calls_bound(replace(block, mode="standalone"))
    if plan.suffix or plan.single:
        return 2
    asks = len(plan.chunks)
    sizes = [block.count(plan.prior_note)] * bool(plan.prior_note) + [plan.note] * asks
    while len(runs := plan.folds(sizes)) > 1:
        asks += len(runs)
        sizes = [plan.note] * len(runs)
    return 2 * (asks + 1)
