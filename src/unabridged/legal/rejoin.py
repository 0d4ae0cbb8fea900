"""Brings calls and answers together again, with as few changes as can be.

An answer that stands elsewhere is moved behind its call; a call that never got one is given a stub; what answers
nothing, or answers a second time, is left out; ids that are missing or come twice are replaced on both sides.
An orphaned result is not kept as text: it would come back in the user's voice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from unabridged.formats.base import Conversation, Format, Message, Piece
from unabridged.messages import Answer, Call

NO_RESULT = "[No result was recorded for this call.]"
"""What a stub says. A real result that comes later takes its place."""


Stub = Callable[[Call, Message], Sequence[Piece]]
"""Makes an answer to a call of a message, or nothing when the call can't be answered so."""


@dataclass(slots=True, eq=False)
class _Slot:
    """One call that waits for its answer."""

    call: Call
    id: str
    """Its id from now on."""
    owner: int
    """Which piece calls."""
    dropped: bool = False
    answer: int | None = None
    """Which piece answers."""


def rejoin(pieces: Sequence[Piece], given: Conversation, stub: Stub) -> list[Piece]:
    """The pieces with every call answered where the provider looks for it; a call `stub` has no answer for goes."""
    anywhere = given.own and given.provider.pairs_anywhere
    numbers = _number_rounds(pieces, items=given.format.items)
    slots = _open_slots(pieces, numbers, unique=given.provider.unique_ids)
    _match(pieces, numbers, slots)
    answered = {slot.answer: slot for mine in slots for slot in mine if slot.answer is not None}
    # The round behind which there is nothing but answers.
    last = next((numbers[i] for i in range(len(pieces) - 1, -1, -1) if pieces[i].answer is None), -1)
    laid: list[Piece] = []
    follow: list[int] = []
    stubs: list[Piece] = []
    for index, piece in enumerate(pieces):
        if piece.answer is not None:
            if anywhere and index in answered and answered[index].owner < index:
                laid.append(_address(piece, answered[index].id, given.format))
            continue
        if not (given.pending and numbers[index] == last):
            stubs += _make_stubs(slots[index], piece, stub)
        if (called := _name_calls(piece, slots[index], given.format)) is not None:
            laid.append(called)
        mine = [slot.answer for slot in slots[index] if slot.answer is not None]
        follow += [answer for answer in mine if not anywhere or answer < index]
        if numbers[index] not in numbers[index + 1 : index + 2]:
            laid += [_address(pieces[i], answered[i].id, given.format) for i in sorted(follow)]
            laid += stubs
            follow, stubs = [], []
    return laid


def _number_rounds(pieces: Sequence[Piece], *, items: bool) -> list[int]:
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


def _open_slots(pieces: Sequence[Piece], numbers: Sequence[int], *, unique: bool) -> list[list[_Slot]]:
    """A slot for each call of each piece. A repeated one with no answer of its own is dropped, or gets a new id."""
    supply = Counter(piece.answer.call_id for piece in pieces if piece.answer is not None)
    taken = {call.id for piece in pieces for call in piece.calls} | set(supply)

    def fresh(base: str) -> str:
        id_ = next(new for n in count(2) if (new := f"{base}-{n}") not in taken)
        taken.add(id_)
        return id_

    known: dict[tuple[int, str], list[_Slot]] = defaultdict(list)
    slots: list[list[_Slot]] = [[] for _ in pieces]
    for index, piece in enumerate(pieces):
        for call in piece.calls:
            slot = _Slot(call, call.id or fresh("call"), index)
            same = known[0 if unique else numbers[index], call.id]
            if call.id and same:
                again = (call.name, call.arguments) == (same[0].call.name, same[0].call.arguments)
                slot.dropped = again and supply[call.id] <= len(same)
                slot.id = call.id if slot.dropped else fresh(call.id)
            if not slot.dropped:
                same.append(slot)
            slots[index].append(slot)
    return slots


def _match(pieces: Sequence[Piece], numbers: Sequence[int], slots: Sequence[Sequence[_Slot]]) -> None:
    """Give each answer to the latest call before it that waits for it, else to one behind it, else for a stub."""
    by_id: dict[str, list[_Slot]] = defaultdict(list)
    latest: dict[str, _Slot] = {}
    recent: list[_Slot] = []
    early: list[tuple[int, Answer]] = []
    for index, piece in enumerate(pieces):
        mine = [slot for slot in slots[index] if not slot.dropped]
        if mine:
            goes_on = recent and numbers[recent[-1].owner] == numbers[index]
            recent = [*recent, *mine] if goes_on else mine
            for slot in reversed(mine):
                by_id[slot.call.id].append(slot)
        if piece.answer is None:
            continue
        id_ = piece.answer.call_id
        found = _find_waiting(reversed(by_id[id_]) if id_ else recent)
        if found is None:
            early.append((index, piece.answer))
        else:
            found.answer = index
            latest[found.call.id] = found
    for index, answer in early:
        found = _find_waiting(by_id[answer.call_id]) if answer.call_id else None
        if found is None and answer.text != NO_RESULT:
            found = latest.get(answer.call_id)
            found = found if found is not None and _is_stub(pieces[found.answer or 0]) else None
        if found is not None:
            found.answer = index
            latest[found.call.id] = found


def _find_waiting(slots: Iterable[_Slot]) -> _Slot | None:
    return next((slot for slot in slots if slot.answer is None), None)


def _is_stub(piece: Piece) -> bool:
    return piece.answer is not None and piece.answer.text == NO_RESULT


def _name_calls(piece: Piece, slots: Sequence[_Slot], fmt: Format) -> Piece | None:
    """The piece with its calls' ids as they are now; None when nothing is left of it."""
    ids = [None if slot.dropped else slot.id for slot in slots]
    if ids == [call.id for call in piece.calls]:
        return piece
    raw = fmt.with_calls(piece.raw, ids)
    return None if raw is None else replace(piece, raw=raw)


def _address(piece: Piece, id_: str, fmt: Format) -> Piece:
    """The answer, to the call with this id."""
    same = piece.answer is not None and piece.answer.call_id == id_
    return piece if same else replace(piece, raw=fmt.with_address(piece.raw, id_))


def _make_stubs(slots: Sequence[_Slot], piece: Piece, stub: Stub) -> list[Piece]:
    """An answer for each call that got none; a call that can't be answered is marked as dropped."""
    stubs: list[Piece] = []
    for slot in slots:
        if slot.answer is None and not slot.dropped:
            made = stub(replace(slot.call, id=slot.id), piece.raw)
            slot.dropped = not made
            stubs += made
    return stubs
