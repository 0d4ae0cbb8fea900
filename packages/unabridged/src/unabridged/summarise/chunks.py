"""What the summariser is shown of a conversation, as plain text, cut up so that every ask fits its window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from unabridged.asking.ask import AskFailed
from unabridged.authorship import whose_block
from unabridged.languages import sure_language
from unabridged.messages import Media, View
from unabridged.summarise.brief import RESERVE, SPARE, Brief, Live, Summariser
from unabridged.summarise.prompt import KEY, Question, Wording, sendable

FEWEST = 256
"""Tokens of conversation that must fit into one ask beside the prompt, or asking makes no sense."""
FAN_IN = 4
"""Notes that fit into one fold at least, so that the folds are at most a third of the chunks, and one a level."""
GOAL = 92
"""The share of its budget, in a hundred, that the model is told to use: what is a little longer is cut by rule."""
STAYS = 12
"""The share of the window, one in so many, in which the summariser is shown what stays."""
SMALL = 6_144
"""Tokens of a summariser's window below which it is asked in few words."""
RULES = 12
"""The share of the window, one in so many, in which the summariser is shown rules that were picked out before."""
FRAME = 12
"""Tokens that the label of one note takes."""

Count = Callable[[str], int]

_FAULT = "word " * 60
"""As long as the fault that a second ask may have to name."""
_RETOLD = "an earlier summary by another system, not the user"
_WHO = {"person": "user", "model": "assistant", "summary": _RETOLD}


# -- how it is cut up -------------------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """One message, or a part of one, as the summariser reads it."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Chunks:
    """How the conversation is shown: behind the live prompt, in one ask, or in chunks."""

    reserve: int
    goal: int
    """The tokens the model is told to stay within; what is accepted is a little more."""
    note: int
    """What the notes on one chunk may take."""
    fold_room: int
    """What fits into one fold."""
    chunks: list[list[str]]
    rules: tuple[str, ...]
    """The rules that were picked out before."""
    wording: Wording
    live: Live | None = None
    """The live prompt that is asked behind, if it is asked as a suffix."""
    tight: bool = False
    """Whether the reply behind it got less room than one apart would."""
    single: bool = False
    prior_note: str = ""
    """The earlier prose as the first of the notes, when there are chunks."""

    def folds(self, sizes: Sequence[int]) -> list[list[int]]:
        """Notes of these sizes, by their places, in runs that fit into one fold each."""
        return pack([size + FRAME for size in sizes], self.fold_room)


def make_chunks(brief: Brief, model: Summariser) -> Chunks:
    """How to show it so that every ask, its reply included, fits; `AskFailed` when the window is too small."""
    count, window = brief.count, model.window
    reserve = _reserve(brief, model)
    goal = min(brief.budget, reserve) * GOAL // 100
    rules = _known_rules(brief, window // RULES) if model.instruction is None else ()
    stays = _newest(brief, window // STAYS) if brief.source is None else ()  # else the host says what is shown
    short = window < SMALL
    wording = Wording(model.instruction, _language(brief, model), _density(brief), stays, short=short)
    free = window - reserve - window // 20  # the count may be off: a twentieth is left for that

    def room(question: Question) -> int:
        return free - count(question.text)

    single_room = room(wording.record([], tokens=goal, prior=brief.prior, rules=rules, fault=_FAULT))
    chunk_room = room(wording.record([], tokens=goal, part=True, fault=_FAULT))
    fold_room = room(wording.fold([], tokens=goal, rules=rules, last=True, fault=_FAULT))
    if min(chunk_room, fold_room) < FEWEST:
        taken = free - min(chunk_room, fold_room)
        raise AskFailed(
            "too-long",
            f"a window of {window:,} tokens is too small to summarise with: the prompt takes {taken:,} and {reserve:,} "
            "are reserved for the reply. Use a summariser with a larger window, a shorter instruction, or a smaller "
            "Settings(summary_reserve=…).",
        )
    shown = _pieces_within(brief, model, max(single_room, FEWEST))
    note = min(reserve * 4 // 5, fold_room // FAN_IN - FRAME)
    plan = Chunks(reserve, goal, note, fold_room, [[piece.text for piece in shown]], rules, wording)
    for live in (model.live, model.live.older()) if model.live is not None else ():
        if behind := _behind(plan, brief, window, live):
            return behind
    if sum(piece.tokens for piece in shown) <= single_room:
        return replace(plan, single=True)
    shown = _pieces_within(brief, model, chunk_room)
    prior = brief.prior
    if prior and count(prior) > fold_room // 2:  # too long to stand beside the notes: it is read like the rest
        shown = [*pieces([(-1, View("user", "summary", prior))], count, chunk_room), *shown]
        prior = ""
    runs = pack([piece.tokens for piece in shown], chunk_room)
    return replace(plan, chunks=[[shown[i].text for i in run] for run in runs], prior_note=prior)


def _reserve(brief: Brief, model: Summariser) -> int:
    """Return the tokens left free for a reply: as the caller says, else 4,096 or all that the prose may take."""
    if model.reserve is not None:
        return max(1, min(model.reserve, model.window // 2))
    return min(max(RESERVE, brief.budget + brief.budget // SPARE), model.window // 4)


def calls_bound(brief: Brief, model: Summariser) -> int:
    """The most model calls that a summary takes: two for each chunk and for each fold.

    A reply that was cut off where there was little room for it is asked for once more, apart.
    """
    plan = make_chunks(brief, model)
    if plan.tight:
        return 2 + calls_bound(brief, replace(model, live=None))
    if plan.live is not None or plan.single:
        return 2
    asks = len(plan.chunks)
    sizes = [brief.count(plan.prior_note)] * bool(plan.prior_note) + [plan.note] * asks
    while len(runs := plan.folds(sizes)) > 1:
        asks += len(runs)
        sizes = [plan.note] * len(runs)
    return 2 * (asks + 1)


def _behind(plan: Chunks, brief: Brief, window: int, live: Live) -> Chunks | None:
    """The plan for one ask behind this prompt; None without room there for half of what the prose may take.

    Near the trigger little room is left.
    """
    bare = plan.wording.suffix(tokens=plan.goal, kept=live.kept, rules=plan.rules, fault=_FAULT)
    left = window - window // 20 - live.tokens - brief.count(bare.text)
    if left < min(plan.reserve, max(FEWEST, brief.budget // 2)):
        return None
    reply = min(plan.reserve, left)
    return replace(
        plan,
        reserve=reply,
        goal=min(brief.budget, reply) * GOAL // 100,
        live=live,
        tight=reply < plan.reserve,
    )


def _pieces_within(brief: Brief, model: Summariser, room: int) -> list[Shown]:
    """The conversation in pieces of at most `room` tokens; with `max_input`, the newest of them."""
    left = model.max_input
    if left is None:
        return pieces(brief.numbered(), brief.count, room)
    kept: list[Shown] = []
    for piece in reversed(pieces(brief.numbered(), brief.count, min(room, left))):
        left -= piece.tokens
        if left < 0:
            break
        kept.append(piece)
    return kept[::-1]


def _language(brief: Brief, model: Summariser) -> str:
    """The language of the summary; a caller's own prompt may want any, so nothing is assumed beside one."""
    if model.language or model.instruction is not None:
        return model.language
    people = sure_language(view.text for view in brief.views if view.origin == "person")
    return people or sure_language(view.text for view in brief.views if view.origin in {"person", "model"})


_OF_A_RECORD = 3.0
"""Characters a token of a record in a language with spaces has, counted on records that models wrote."""


def _density(brief: Brief) -> float:
    """Characters a token of a record has: as what people and the assistant say, but full of names and numbers."""
    texts = [view.text for view in brief.views if view.origin in {"person", "model"} and view.text]
    said = max(sum(map(len, texts)), 1) / max(sum(map(brief.count, texts)), 1)
    return min(said, _OF_A_RECORD) if texts else _OF_A_RECORD


def _newest(brief: Brief, room: int) -> tuple[str, ...]:
    """What stays, as the summariser reads it; of a long tail the end."""
    found: list[str] = []
    for piece in reversed(pieces(brief.stays, brief.count, max(room // 4, FEWEST))):
        room -= piece.tokens
        if room < 0:
            break
        found.append(piece.text)
    return tuple(reversed(found))


def _known_rules(brief: Brief, room: int) -> tuple[str, ...]:
    """Return the rules that were picked out before, the newest as far as so many tokens take them."""
    found: list[str] = []
    for rule in reversed(brief.ledger.rules if brief.ledger else ()):
        room -= brief.count(rule.text) + 2
        if room < 0:
            break
        found.append(rule.text)
    return tuple(reversed(found))


def pack(sizes: Sequence[int], room: int) -> list[list[int]]:
    """The places of these sizes in runs of at most `room` tokens, in order, each in one of them."""
    runs: list[list[int]] = []
    left = 0
    for place, size in enumerate(sizes):
        if not runs or size > left:
            runs.append([])
            left = room
        runs[-1].append(place)
        left -= size
    return runs


# -- a message as text ------------------------------------------------------------------------------------------------


def pieces(numbered: Sequence[tuple[int, View]], count: Count, room: int) -> list[Shown]:
    """Every message as one piece, in order; one that is larger than `room` tokens as several."""
    names = {id_: call.name for _, view in numbered for call in view.calls for id_ in call.ids}
    found: list[Shown] = []
    for turn, view in numbered:
        for who, text in _speeches(view, turn, names):
            found += _split(f"{KEY} [{turn}] {who}", sendable(text), count, room)
    return found


def describe(media: Media, turn: int) -> str:
    """An image or file in words: its kind, its size or address, and the message it stood in."""
    words = [media.kind, media.mime if media.mime != media.kind else "", media.name]
    if media.source.startswith(("http://", "https://", "file", "gs://", "s3://")) and len(media.source) <= 300:
        words.append(media.source)
    elif media.source:
        data = media.source.partition("base64,")[2] or media.source
        size = len(data) * 3 // 4
        words.append(f"{size / 1_000:,.0f} kB" if size >= 1_000 else f"{size} bytes")
    return f"[{' '.join(filter(None, words))}, turn {turn}]"


def _speeches(view: View, turn: int, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What a message says, by whose words they are: thinking, text, calls, what is attached, answers, media."""
    who = _WHO.get(view.origin, view.origin)
    if thought := "\n".join(block.text for block in view.reasoning if block.text):
        yield f"{who}, thinking", thought
    if said := "\n".join(filter(None, [view.text, *(describe(item, turn) for item in view.media)])):
        yield who, said
    for call in view.calls:
        yield f"{who} calls {_tool_name(call.name)}", call.arguments
    for text in view.inserted:
        yield _WHO.get(whose_block(text), "host"), text
    for text in view.attached:
        yield "tool of the provider" if who == "assistant" else f"attached, not the words of the {who}", text
    for answer in view.answers:
        failed = ", an error" if answer.error else ""
        tool = _tool_name(names.get(answer.call_id, ""))
        yield f"tool {tool} answers{failed}" if tool else f"tool answers{failed}", answer.text


def _tool_name(name: str) -> str:
    """A tool's name as it may stand in a header: on one line, and no longer than names are."""
    return sendable(" ".join(name.split()))[:80]


def _split(header: str, text: str, count: Count, room: int) -> Iterator[Shown]:
    """The text below its header, in as many parts as it takes."""
    whole = f"{header}\n{text}\n"
    size = count(whole)
    if size <= room:
        yield Shown(whole, size)
        return
    part = 1
    while text:
        label = f"{header}, part {part}\n"
        end = fitting(text, room - count(label) - 2, count)
        piece = f"{label}{text[:end]}\n"
        yield Shown(piece, count(piece))
        text, part = text[end:], part + 1


def fitting(text: str, room: int, count: Count) -> int:
    """How many characters of the text take at most `room` tokens; at least one, and whole lines or words."""
    end = min(len(text), max(1, room * 4))
    while end > 1 and (size := count(text[:end])) > room:
        end = max(1, min(end - 1, int(end * room / size * 0.97)))
    if end == len(text):
        return end
    for mark in "\n ":
        if (found := text.rfind(mark, end * 3 // 4, end)) > 0:
            return found + 1
    return end
