"""Bring calls and answers together again, with as few changes as can be.

An answer that stands elsewhere is moved behind its call; a call that never got one is given a stub; what answers
nothing, or answers a second time, is left out; ids that are missing or come twice are replaced on both sides.
An orphaned result is not kept as text: it would come back in the user's voice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from unabridged.formats.base import Format, Message, Outgoing, RepairUnit
from unabridged.messages import Answer, Call

NO_RESULT = "[No result was recorded for this call.]"
"""The text of a stub. A real result that comes later takes its place."""


StubMaker = Callable[[Call, Message], Sequence[RepairUnit]]
"""Makes an answer to a call of a message, or nothing when the call can't be answered so."""


@dataclass(slots=True, eq=False)
class _CallSlot:
    """One call that waits for its answer."""

    call: Call
    id: str
    """Its id from now on."""
    owner: int
    """Which unit calls."""
    place: int
    """Where it stands among all calls."""
    dropped: bool = False
    answer: int | None = None
    """Which unit answers."""


def rejoin_calls_and_answers(units: Sequence[RepairUnit], outgoing: Outgoing, stub: StubMaker) -> list[RepairUnit]:
    """Return the units with every call answered where the provider looks; a call that `stub` can't answer goes."""
    anywhere = outgoing.is_own_format and outgoing.provider.pairs_anywhere
    numbers = _number_rounds(units, items=outgoing.format.items)
    slots = _open_slots(units, numbers, unique=outgoing.provider.unique_ids)
    _match_answers(units, numbers, slots)
    answered = {slot.answer: slot for mine in slots for slot in mine if slot.answer is not None}
    # The round behind which there is nothing but answers.
    last = next((numbers[i] for i in range(len(units) - 1, -1, -1) if units[i].answer is None), -1)
    laid, replies = list[RepairUnit](), list[tuple[_CallSlot, RepairUnit]]()
    stubs: list[tuple[_CallSlot, RepairUnit]] = []
    for index, unit in enumerate(units):
        if unit.answer is not None:
            if anywhere and index in answered and answered[index].owner < index:
                laid.append(_set_answered_call(unit, answered[index], outgoing.format))
            continue
        if not (outgoing.pending and numbers[index] == last):
            stubs += _make_stubs(slots[index], unit, stub)
        if (called := _set_call_ids(unit, slots[index], outgoing.format)) is not None:
            laid.append(called)
        mine = [(slot, slot.answer) for slot in slots[index] if slot.answer is not None]
        follow = [(slot, i) for slot, i in mine if not anywhere or i < index]
        replies += [(slot, _set_answered_call(units[i], slot, outgoing.format)) for slot, i in follow]
        if numbers[index] not in numbers[index + 1 : index + 2]:
            laid += _order_answers(replies, stubs)
            replies, stubs = [], []
    return laid


def _number_rounds(units: Sequence[RepairUnit], *, items: bool) -> list[int]:
    """Return the number of each unit's round: the model's units in a row are one where turns are made of items."""
    numbers: list[int] = []
    number, inside = 0, False
    for unit in units:
        model = unit.role == "assistant"
        if not (items and model and inside):
            number += 1
        inside = model
        numbers.append(number)
    return numbers


def _open_slots(units: Sequence[RepairUnit], numbers: Sequence[int], *, unique: bool) -> list[list[_CallSlot]]:
    """Return a slot for each call of each unit; a repeated one without an answer is dropped, or gets a new id."""
    supply = Counter(unit.answer.call_id for unit in units if unit.answer is not None)
    taken = {call.id for unit in units for call in unit.calls} | set(supply)

    def fresh(base: str) -> str:
        id_ = next(new for n in count(2) if (new := f"{base}-{n}") not in taken)
        taken.add(id_)
        return id_

    known: dict[tuple[int, str], list[_CallSlot]] = defaultdict(list)
    slots: list[list[_CallSlot]] = [[] for _ in units]
    for index, unit in enumerate(units):
        for call in unit.calls:
            slot = _CallSlot(call, call.id or fresh("call"), index, sum(map(len, slots)))
            same = known[0 if unique and call.has_id else numbers[index], call.id]
            if call.id and same:
                again = (call.name, call.arguments) == (same[0].call.name, same[0].call.arguments)
                slot.dropped = again and supply[call.id] <= len(same)
                slot.id = call.id if slot.dropped else fresh(call.id)
            if not slot.dropped:
                same.append(slot)
            slots[index].append(slot)
    return slots


def _match_answers(units: Sequence[RepairUnit], numbers: Sequence[int], slots: Sequence[Sequence[_CallSlot]]) -> None:
    """Give each answer to the latest call before it that has none, else to a later call, else in place of a stub."""
    by_id: dict[str, list[_CallSlot]] = defaultdict(list)
    latest, recent = dict[str, _CallSlot](), list[_CallSlot]()
    early: list[tuple[int, Answer]] = []
    for index, unit in enumerate(units):
        mine = [slot for slot in slots[index] if not slot.dropped]
        if mine:
            goes_on = recent and numbers[recent[-1].owner] == numbers[index]
            recent = [*recent, *mine] if goes_on else mine
            for slot in reversed(mine):
                for id_ in slot.call.ids:
                    by_id[id_].append(slot)
        if unit.answer is None:
            continue
        id_ = unit.answer.call_id
        found = _find_unanswered(reversed(by_id[id_]) if id_ else recent)
        if found is None:
            early.append((index, unit.answer))
        else:
            found.answer = index
            latest.update(dict.fromkeys(found.call.ids, found))
    for index, answer in early:
        found = _find_unanswered(by_id[answer.call_id]) if answer.call_id else None
        if found is None and answer.text != NO_RESULT:
            found = latest.get(answer.call_id)
            found = found if found is not None and _is_stub(units[found.answer or 0]) else None
        if found is not None:
            found.answer = index
            latest.update(dict.fromkeys(found.call.ids, found))


def _find_unanswered(slots: Iterable[_CallSlot]) -> _CallSlot | None:
    return next((slot for slot in slots if slot.answer is None), None)


def _is_stub(unit: RepairUnit) -> bool:
    return unit.answer is not None and unit.answer.text == NO_RESULT


def _set_call_ids(unit: RepairUnit, slots: Sequence[_CallSlot], fmt: Format) -> RepairUnit | None:
    """Return the unit with its calls' ids as they are now; None when nothing is left of it."""
    ids = [None if slot.dropped else slot.id for slot in slots]
    if ids == [call.id for call in unit.calls]:
        return unit
    raw = fmt.with_call_ids(unit.raw, ids)
    return None if raw is None else replace(unit, raw=raw)


def _set_answered_call(unit: RepairUnit, slot: _CallSlot, fmt: Format) -> RepairUnit:
    """Return the answer, to this call by the id that it has now."""
    named = slot.call.ids if slot.id == slot.call.id else (slot.id,)
    same = unit.answer is not None and unit.answer.call_id in named
    return unit if same else replace(unit, raw=fmt.with_answered_id(unit.raw, slot.id))


def _order_answers(
    replies: Sequence[tuple[_CallSlot, RepairUnit]], stubs: Sequence[tuple[_CallSlot, RepairUnit]]
) -> list[RepairUnit]:
    """Return the answers as they came, then the stubs; in the order of their calls where only that pairs them."""
    laid = [*sorted(replies, key=lambda pair: pair[0].answer or 0), *stubs]
    by_place = [slot.call.name for slot, unit in laid if slot.call.alias and _is_paired_by_place(slot, unit)]
    for name in by_place:
        places = [slot.place for slot, _ in laid if slot.call.name == name]
        if places != sorted(places):
            laid.sort(key=lambda pair: pair[0].place)
    return [unit for _, unit in laid]


def _is_paired_by_place(slot: _CallSlot, unit: RepairUnit) -> bool:
    """Return whether the answer is paired with its call by its place, not by an id."""
    return slot.id == slot.call.alias or (unit.answer is not None and unit.answer.call_id == slot.call.alias)


def _make_stubs(slots: Sequence[_CallSlot], unit: RepairUnit, stub: StubMaker) -> list[tuple[_CallSlot, RepairUnit]]:
    """Return an answer for each call that got none; a call that can't be answered is marked as dropped."""
    stubs: list[tuple[_CallSlot, RepairUnit]] = []
    for slot in slots:
        if slot.answer is None and not slot.dropped:
            made = stub(replace(slot.call, id=slot.id), unit.raw)
            slot.dropped = not made
            stubs += [(slot, one) for one in made]
    return stubs
