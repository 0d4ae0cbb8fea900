"""One pass over a block of messages: everything it leaves to the ledger; and two ledgers as one, by rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from unabridged.intent import GOING, find_requests, find_rules, join_requests, merge_rules, own_words, rejection_in
from unabridged.languages import detect
from unabridged.ledger.actions import Step, effort, efforts, find_todo, keeps_todo, steps, written_action
from unabridged.ledger.bounds import within_bounds
from unabridged.ledger.entries import Ledger, Name, fade
from unabridged.ledger.names import Piece, collect_files, collect_names, unite_files
from unabridged.ledger.sayings import is_talk, rejections, retold, sayings_at_work, sayings_in_talk
from unabridged.marks import is_our_summary
from unabridged.messages import View


def gather(
    views: Sequence[View],
    *,
    prior: Ledger | None = None,
    first_turn: int = 0,
    answered: bool,
    at_work: bool = False,
    turns: Sequence[int] | None = None,
) -> Ledger:
    """What these messages contribute, folded into the ledger of what went before.

    `answered`: the block ends where a person speaks next, so the assistant's last words closed its turn. Otherwise the
    last request is still being worked on; `at_work` when tools are seen to do so behind the block. `turns` gives each
    message its place in the original conversation where they don't simply count on from `first_turn`.
    """
    turns = list(turns) if turns is not None else list(range(first_turn, first_turn + len(views)))
    done = list(steps(views, turns))
    requests, lead = find_requests(views, turns, efforts(views), answered=answered, at_work=at_work)
    rules, lifts = find_rules(views, turns, requests)
    pieces = list(_pieces(views, turns, done))
    talk = is_talk([*done, *(prior.actions if prior else ())], len(requests) + (len(prior.requests) if prior else 0))
    beside = [*retold(views, turns), *rejections(step.action for step in done)]
    todo, todo_turn = find_todo(views, turns)
    pairs = ((step.action, *pair) for step in done for pair in step.touched)
    # An edit that was refused or failed changed nothing.
    touched = [(a.turn, path, "mention" if a.failed and effort(deed) == 2 else deed) for a, path, deed in pairs]
    touched += [(turns[i], media.name, "attach") for i, view in enumerate(views) for media in view.media if media.name]
    ledger = within_bounds(
        Ledger(
            first=turns[0] if turns else first_turn,
            end=turns[-1] + 1 if turns else first_turn,
            language=_language(views),
            lead=lead,
            requests=requests,
            rules=rules,
            lifts=lifts,
            actions=tuple(step.action for step in done if not keeps_todo(step.action.tool)),
            sayings=(*beside, *(sayings_in_talk(views, turns) if talk else sayings_at_work(pieces))),
            files=collect_files(pieces, touched),
            names=collect_names(pieces),
            todo=todo,
            todo_turn=todo_turn,
        )
    )
    return ledger if prior is None else merge(prior, ledger)


def open_indices(views: Sequence[View]) -> tuple[int, ...]:
    """Indices of the messages in which people ask for what is still open at the end of these views."""
    requests, _ = find_requests(views, range(len(views)), efforts(views), answered=True)
    return tuple(request.turn for request in requests if request.state in GOING)


def _pieces(views: Sequence[View], turns: Sequence[int], done: Sequence[Step]) -> Iterator[Piece]:
    """Every stretch of text, in order, with whose it is."""
    by_place: dict[int, list[Step]] = {}
    for step in done:
        by_place.setdefault(step.place, []).append(step)
    for i, view in enumerate(views):
        if view.role == "system" or is_our_summary(view):
            continue
        here = by_place.get(i, [])
        yield _spoken(view, turns[i], acts=bool(here))
        for step in here:
            yield Piece(turns[i], "call", step.wrote)
            if step.action.failed:
                yield Piece(turns[i], "fault", _unframed(step.action.outcome))
        told = (_unframed(answer.text) for answer in view.answers)
        yield from (Piece(turns[i], "tool", text) for text in (*view.inserted, *view.attached, *told))


def _unframed(text: str) -> str:
    """What a result says without a host's frame for a rejection, which names nothing of the task."""
    return text.removeprefix(rejection_in(text, "")[0])


def _spoken(view: View, turn: int, *, acts: bool) -> Piece:
    """A message's own text. An action that the model wrote into it is told apart: it is a call."""
    if view.origin == "person":
        return Piece(turn, "person", own_words(view.text))
    if view.origin == "model":
        found = written_action(view.text) if acts and not view.calls else None
        return Piece(turn, "model", found[2] if found else view.text)
    return Piece(turn, "tool", view.text)


def _language(views: Sequence[View]) -> str:
    """The language most messages of people are in; else the model's."""
    said = detect(dict.fromkeys(view.text for view in views if view.origin == "person"))
    return said or detect(view.text for view in views if view.origin == "model")


# -- two ledgers as one ------------------------------------------------------------------------------------------------


def merge(older: Ledger, newer: Ledger) -> Ledger:
    """What both hold, each thing once, within the bounds; what the newer one answers of the older is finished.

    A ledger that is already part of the older one changes nothing, so folding the same block twice is harmless.
    """
    if older == Ledger():
        return newer
    if newer.end <= older.end and newer.first >= older.first:
        return older
    # The language that most messages of people are in: it does not change with a few words in another.
    said = detect(dict.fromkeys(request.text for request in (*older.requests, *newer.requests)))
    again = {saying.turn for saying in newer.sayings}  # of a message that is met again what the newer one made of it
    requests = join_requests(older.requests, newer.lead, newer.requests, tools=bool(older.actions or newer.actions))
    # What happened before the first person spoke: when none did in the older one, the newer one's comes after it.
    lead = replace(newer.lead, worked=max(older.lead.worked, newer.lead.worked))
    lead = older.lead if older.requests or newer.lead == Ledger().lead else lead
    rules, lifts = merge_rules((*older.rules, *newer.rules), (*older.lifts, *newer.lifts), requests)
    return within_bounds(
        Ledger(
            first=min(older.first, newer.first),
            end=max(older.end, newer.end),
            language=said or older.language or newer.language,
            lead=lead,
            requests=requests,
            rules=rules,
            lifts=lifts,
            actions=(*older.actions, *newer.actions),
            sayings=(*(saying for saying in older.sayings if saying.turn not in again), *newer.sayings),
            files=unite_files((*older.files, *newer.files)),
            names=_joint_names(older, newer),
            todo=newer.todo or older.todo,
            todo_turn=newer.todo_turn if newer.todo else older.todo_turn,
        )
    )


def _joint_names(older: Ledger, newer: Ledger) -> tuple[Name, ...]:
    found = {name.text: name for name in older.names}
    for name in newer.names:
        known = found.setdefault(name.text, name)
        if known is not name:
            weight, uses = name.weight + fade(known.weight, name.turn - known.turn), name.uses + known.uses
            asked, told = name.asked or known.asked, name.told or known.told
            found[name.text] = Name(name.text, max(name.turn, known.turn), weight, uses, asked, told)
    return tuple(sorted(found.values(), key=lambda name: (name.turn, name.text)))
