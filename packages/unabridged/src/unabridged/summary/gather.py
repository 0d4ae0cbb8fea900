"""Gather a block of messages into a ledger in one pass, and merge two ledgers by rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unabridged.authorship import find_rejection, remove_host_words
from unabridged.languages.detection import detect_language
from unabridged.marks import is_trusted_summary
from unabridged.messages import View
from unabridged.summary.actions import ToolUse, find_todo, find_tool_uses, find_written_action, is_todo_tool
from unabridged.summary.bounds import limit_ledger
from unabridged.summary.ledger import CHANGING_DEEDS, Ledger, Name, fade_weight
from unabridged.summary.names import TextPiece, collect_files, collect_names, merge_files
from unabridged.summary.people import collect_people_messages, cut_to_last_sentences, merge_people_messages
from unabridged.summary.remarks import collect_talk_remarks, collect_work_remarks, find_retold_summaries, is_mere_talk


def gather_ledger(
    views: Sequence[View], *, prior: Ledger | None = None, first_turn: int = 0, turns: Sequence[int] | None = None
) -> Ledger:
    """Return what these messages leave behind, folded into the ledger of what went before.

    `turns` gives each message its place in the original conversation where they don't simply count on from
    `first_turn`.
    """
    turns = list(turns) if turns is not None else list(range(first_turn, first_turn + len(views)))
    done = list(find_tool_uses(views, turns))
    people = collect_people_messages(views, turns, (step.action for step in done), _find_unanswered_words(prior))
    pieces = list(_iterate_text_pieces(views, turns, done))
    talk = is_mere_talk([*done, *(prior.actions if prior else ())], len(people) + (len(prior.people) if prior else 0))
    todo, todo_turn = find_todo(views, turns)
    pairs = ((step.action, *pair) for step in done for pair in step.touched)
    # An edit that ended in an error changed nothing.
    touched = [(a.turn, path, deed) for a, path, deed in pairs if not (a.failed and deed in CHANGING_DEEDS)]
    touched += [(turns[i], media.name, "attach") for i, view in enumerate(views) for media in view.media if media.name]
    said = collect_talk_remarks(views, turns) if talk else collect_work_remarks(pieces)
    ledger = Ledger(
        first=turns[0] if turns else first_turn,
        end=turns[-1] + 1 if turns else first_turn,
        language=_detect_people_language(views),
        people=people,
        actions=tuple(step.action for step in done if not is_todo_tool(step.action.tool)),
        remarks=(*find_retold_summaries(views, turns), *said),
        files=collect_files(pieces, touched),
        names=collect_names(pieces),
        todo=todo,
        todo_turn=todo_turn,
    )
    ledger = limit_ledger(ledger)
    return ledger if prior is None else merge_ledgers(prior, ledger)


def _find_unanswered_words(prior: Ledger | None) -> str:
    """Return the assistant's last sentences in an earlier ledger, if nobody has answered them."""
    last = prior.remarks[-1] if prior and prior.remarks else None
    if prior is None or last is None or not last.closing:
        return ""
    answered = any(max(message.turn, message.last) > last.turn for message in prior.people[-1:])
    return "" if answered else cut_to_last_sentences(last.text)


def _iterate_text_pieces(views: Sequence[View], turns: Sequence[int], done: Sequence[ToolUse]) -> Iterator[TextPiece]:
    """Yield every text in order, with its origin."""
    by_place: dict[int, list[ToolUse]] = {}
    for step in done:
        by_place.setdefault(step.place, []).append(step)
    for i, view in enumerate(views):
        if view.role == "system" or is_trusted_summary(view):
            continue
        here = by_place.get(i, [])
        yield _build_own_piece(view, turns[i], acts=bool(here))
        for step in here:
            yield TextPiece(turns[i], "call", step.wrote)
            if step.action.failed:
                yield TextPiece(turns[i], "fault", _remove_rejection_frame(step.action.outcome))
        told = (_remove_rejection_frame(answer.text) for answer in view.answers)
        yield from (TextPiece(turns[i], "tool", text) for text in (*view.inserted, *view.attached, *told))


def _remove_rejection_frame(text: str) -> str:
    """Return what a result says without a host's frame for a rejection, which names nothing of the task."""
    return text.removeprefix(find_rejection(text, "")[0])


def _build_own_piece(view: View, turn: int, *, acts: bool) -> TextPiece:
    """Return a message's own text. An action that the model wrote into it is told apart: it is a call."""
    if view.origin == "person":
        return TextPiece(turn, "person", remove_host_words(view.text))
    if view.origin == "model":
        found = find_written_action(view.text) if acts and not view.calls else None
        return TextPiece(turn, "model", found[2] if found else view.text, acts=acts)
    return TextPiece(turn, "tool", view.text)


def _detect_people_language(views: Sequence[View]) -> str:
    """Return the language most messages of people are in; else the model's."""
    said = detect_language(dict.fromkeys(view.text for view in views if view.origin == "person"))
    return said or detect_language(view.text for view in views if view.origin == "model")


# -- two ledgers as one ------------------------------------------------------------------------------------------------


def merge_ledgers(older: Ledger, newer: Ledger) -> Ledger:
    """Return what both hold, each thing once, within the bounds.

    A ledger that is already part of the older one changes nothing, so folding the same block twice is harmless.
    """
    if older == Ledger():
        return newer
    if newer.end <= older.end and newer.first >= older.first:
        return older
    people = merge_people_messages(older.people, newer.people)
    # The language that most messages of people are in: it does not change with a few words in another.
    said = detect_language(dict.fromkeys(message.text for message in people))
    again = {remark.turn for remark in newer.remarks}  # of a message that is met again what the newer one made of it
    merged = Ledger(
        first=min(older.first, newer.first),
        end=max(older.end, newer.end),
        language=said or older.language or newer.language,
        people=people,
        rules=(*older.rules, *(rule for rule in newer.rules if rule not in older.rules)),
        actions=(*older.actions, *newer.actions),
        remarks=(*(remark for remark in older.remarks if remark.turn not in again), *newer.remarks),
        files=merge_files((*older.files, *newer.files)),
        names=_merge_names(older, newer),
        todo=newer.todo or older.todo,
        todo_turn=newer.todo_turn if newer.todo else older.todo_turn,
    )
    return limit_ledger(merged)


def _merge_names(older: Ledger, newer: Ledger) -> tuple[Name, ...]:
    found = {name.text: name for name in older.names}
    for name in newer.names:
        known = found.setdefault(name.text, name)
        if known is not name:
            weight, uses = name.weight + fade_weight(known.weight, name.turn - known.turn), name.uses + known.uses
            asked, told = name.asked or known.asked, name.told or known.told
            found[name.text] = Name(name.text, max(name.turn, known.turn), weight, uses, asked, told)
    return tuple(sorted(found.values(), key=lambda name: (name.turn, name.text)))
