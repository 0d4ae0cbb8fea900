"""Brings calls and answers together again, with as few changes as can be.

An answer that stands elsewhere is moved behind its call; a call that never got one is given a stub; what answers
nothing, or answers a second time, is left out; ids that are missing or come twice are replaced on both sides.
An orphaned result is not kept as text: it would come back in the user's voice.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from unabridged.formats.base import Message
from unabridged.legal.wires import Piece, Wire
from unabridged.messages import Call

NO_RESULT = "[No result was recorded for this call.]"
"""What a stub says. A real result that comes later takes its place."""


Stub = Callable[[Call, Message], Sequence[Piece]]
"""Makes an answer to a call of a message, or nothing when the call can't be answered so."""


@dataclass(frozen=True, slots=True)
class Style:
    """How the provider wants calls and answers to stand."""

    anywhere: bool = False
    """An answer may stand anywhere behind its call."""
    items: bool = False
    """One turn of the model is several messages: its calls are answered behind all of them."""
    unique: bool = False
    """An id may not come again later in the conversation."""
    pending: bool = False
    """The last round is still running."""


@dataclass(slots=True, eq=False)
class _Slot:
    """One call that waits for its answer."""

    call: Call
    id: str
    owner: int
    dropped: bool = False
    answer: int | None = None


@dataclass(slots=True)
class _Pairs:
    """Which piece answers which call."""

    slots: dict[int, list[_Slot]] = field(default_factory=dict)
    """Of each piece that calls."""
    answers: dict[int, _Slot] = field(default_factory=dict)
    """Of each piece that answers one of them."""


def rejoin(pieces: Sequence[Piece], wire: Wire, style: Style, stub: Stub) -> list[Piece]:
    """The pieces with every call answered where the provider looks for it; a call `stub` has no answer for goes."""
    numbers = _rounds(pieces, items=style.items)
    pairs = _Pairs(_slots(pieces, numbers, unique=style.unique))
    _match(pieces, numbers, pairs)
    running = _running(pieces, numbers) if style.pending else -1
    laid: list[Piece] = []
    waiting: list[_Slot] = []
    stubs: list[Piece] = []
    for index, piece in enumerate(pieces):
        answered = pairs.answers.get(index)
        if answered is not None and style.anywhere and answered.owner < index:
            laid.append(_addressed(piece, answered, wire))
        if piece.answer is not None:
            continue
        mine = pairs.slots.get(index, [])
        if numbers[index] != running:
            stubs += _stubs(mine, piece, stub)
        called = _called(piece, mine, wire)
        if called is not None:
            laid.append(called)
        waiting += [slot for slot in mine if slot.answer is not None]
        if index + 1 == len(pieces) or numbers[index + 1] != numbers[index]:
            laid += [*_answers(pieces, waiting, wire, style), *stubs]
            waiting, stubs = [], []
    return laid


def _rounds(pieces: Sequence[Piece], *, items: bool) -> list[int]:
    """The number of each piece's round: the model's pieces in a row are one where turns are made of items."""
    numbers: list[int] = []
    number, inside = 0, False
    for piece in pieces:
        model = piece.role == "assistant"
        if not (items and model and inside):
            number += 1
        inside = model
        numbers.append(number)
    return numbers


def _running(pieces: Sequence[Piece], numbers: Sequence[int]) -> int:
    """The round behind which there is nothing but answers."""
    return next((numbers[i] for i in range(len(pieces) - 1, -1, -1) if pieces[i].answer is None), -1)


def _slots(pieces: Sequence[Piece], numbers: Sequence[int], *, unique: bool) -> dict[int, list[_Slot]]:
    """A slot for each call. A repeated call with no answer of its own is dropped, else it gets a new id."""
    supply = Counter(piece.answer.call_id for piece in pieces if piece.answer is not None)
    fresh = _fresh_ids({call.id for piece in pieces for call in piece.calls} | set(supply))
    known: dict[tuple[int, str], list[_Slot]] = defaultdict(list)
    slots: dict[int, list[_Slot]] = {}
    for index, piece in enumerate(pieces):
        for call in piece.calls:
            slot = _Slot(call, call.id, index)
            same = known[0 if unique else numbers[index], call.id]
            if not call.id:
                slot.id = fresh("call")
            elif same:
                first = same[0].call
                slot.dropped = (call.name, call.arguments) == (first.name, first.arguments) and supply[call.id] <= len(
                    same
                )
                slot.id = call.id if slot.dropped else fresh(call.id)
            if not slot.dropped:
                same.append(slot)
            slots.setdefault(index, []).append(slot)
    return slots


def _fresh_ids(taken: set[str]) -> Callable[[str], str]:
    """A maker of ids that nobody uses yet."""
    used: Counter[str] = Counter()

    def fresh(base: str) -> str:
        while True:
            used[base] += 1
            id_ = f"{base}-{used[base] + 1}"
            if id_ not in taken:
                taken.add(id_)
                return id_

    return fresh


def _match(pieces: Sequence[Piece], numbers: Sequence[int], pairs: _Pairs) -> None:
    """Give each answer to the latest call before it that waits for it, else to one behind it."""
    open_: dict[str, deque[_Slot]] = defaultdict(deque)
    recent: deque[_Slot] = deque()
    taken: dict[str, _Slot] = {}
    early: list[int] = []
    for index, piece in enumerate(pieces):
        mine = [slot for slot in pairs.slots.get(index, []) if not slot.dropped]
        if mine:
            open_round = bool(recent) and numbers[recent[-1].owner] == numbers[index]
            recent = recent if open_round else deque()
            recent.extend(mine)
            for slot in reversed(mine):
                open_[slot.call.id].append(slot)
        if piece.answer is None:
            continue
        id_ = piece.answer.call_id
        found = _waiting(open_[id_], last=True) if id_ else _waiting(recent, last=False)
        if found is None:
            early.append(index)
            continue
        _give(pairs, taken, found, index)
    for index in early:
        id_ = _answer_id(pieces[index])
        found = _waiting(open_[id_], last=False) if id_ else None
        if found is None and _text(pieces[index]) != NO_RESULT:
            found = _stubbed(pieces, pairs, taken.get(id_))
        if found is not None:
            _give(pairs, taken, found, index)


def _waiting(slots: deque[_Slot], *, last: bool) -> _Slot | None:
    while slots:
        slot = slots.pop() if last else slots.popleft()
        if slot.answer is None:
            return slot
    return None


def _give(pairs: _Pairs, taken: dict[str, _Slot], slot: _Slot, index: int) -> None:
    slot.answer = index
    pairs.answers[index] = slot
    taken[slot.call.id] = slot


def _stubbed(pieces: Sequence[Piece], pairs: _Pairs, slot: _Slot | None) -> _Slot | None:
    """The slot, free again, when nothing but a stub answered it."""
    if slot is None or slot.answer is None or _text(pieces[slot.answer]) != NO_RESULT:
        return None
    del pairs.answers[slot.answer]
    return slot


def _answer_id(piece: Piece) -> str:
    return piece.answer.call_id if piece.answer else ""


def _text(piece: Piece) -> str:
    return piece.answer.text if piece.answer else ""


def _called(piece: Piece, slots: Sequence[_Slot], wire: Wire) -> Piece | None:
    """The piece with its calls' ids as they are now."""
    ids = [None if slot.dropped else slot.id for slot in slots]
    if ids == [call.id for call in piece.calls]:
        return piece
    raw = wire.with_calls(piece.raw, ids)
    return None if raw is None else replace(piece, raw=raw)


def _addressed(piece: Piece, slot: _Slot, wire: Wire) -> Piece:
    return piece if _answer_id(piece) == slot.id else replace(piece, raw=wire.with_address(piece.raw, slot.id))


def _answers(pieces: Sequence[Piece], slots: Sequence[_Slot], wire: Wire, style: Style) -> Iterator[Piece]:
    """The answers that are to follow a round, in the order they came."""
    given = {slot.answer: slot for slot in slots if slot.answer is not None}
    for index in sorted(given):
        if not style.anywhere or index < given[index].owner:
            yield _addressed(pieces[index], given[index], wire)


def _stubs(slots: Sequence[_Slot], piece: Piece, stub: Stub) -> Iterator[Piece]:
    """An answer for each call that got none; a call that can't be answered is marked as dropped."""
    for slot in slots:
        if slot.answer is None and not slot.dropped:
            made = stub(replace(slot.call, id=slot.id), piece.raw)
            slot.dropped = not made
            yield from made
