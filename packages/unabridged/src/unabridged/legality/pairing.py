"""The rules that hold for every provider: calls and their answers, all of them, once each, where they are looked for.

Most look for the answers right behind the calls, round by round; some (`pairs_anywhere`) anywhere behind them. Strict
alternation is what many chat templates of local models demand, and no hosted provider does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from unabridged.formats.base import LEGACY_CALL_PREFIX, Finding, Outgoing
from unabridged.messages import Answer, Call, Role, View


class CallRound(NamedTuple):
    """Calls that stand together and the answers right behind them, each with its index; `stop` is what follows."""

    calls: list[tuple[int, Call]]
    answers: list[tuple[int, Answer]]
    stop: int


def find_rounds(views: Sequence[View], *, items: bool) -> Iterator[CallRound]:
    """Yield every round, in order; answers that follow no call make a round without calls."""
    start = 0
    while start < len(views):
        stop = _find_calls_end(views, start, items=items)
        end = _find_answers_end(views, stop)
        every_call = ((i, call) for i in range(start, stop) for call in views[i].calls)
        calls = [(i, call) for i, call in every_call if not call.id.startswith(LEGACY_CALL_PREFIX)]
        every_answer = ((i, answer) for i in range(stop, end) for answer in views[i].answers)
        answers = [(i, answer) for i, answer in every_answer if not answer.call_id.startswith(LEGACY_CALL_PREFIX)]
        if calls or answers:
            yield CallRound(calls, answers, end)
        start = max(end, start + 1)


def _find_calls_end(views: Sequence[View], start: int, *, items: bool) -> int:
    if items:
        return _find_role_end(views, start, "assistant")
    return start + 1 if views[start].calls else start


def _find_answers_end(views: Sequence[View], start: int) -> int:
    """Return where the answers end: tool messages in a row together, a user message with results alone."""
    stop = _find_role_end(views, start, "tool")
    if stop == start and start < len(views) and views[start].answers:
        return start + 1
    return stop


def _find_role_end(views: Sequence[View], start: int, role: Role) -> int:
    """Return where the messages of this role in a row end."""
    return next((i for i in range(start, len(views)) if views[i].role != role), len(views))


def find_unanswered_round(views: Sequence[View], *, items: bool = True) -> int | None:
    """Return the index of the first call of a last round that still waits for results; None where none waits.

    What a person says beside a result is a turn of its own: then the calls without one are broken, and wait no more.
    """
    stop = len(views)
    while stop and views[stop - 1].answers and not (views[stop - 1].role == "user" and views[stop - 1].text):
        stop -= 1
    start = stop
    while start and views[start - 1].role == "assistant" and (items or start == stop):
        start -= 1
    answered = {answer.call_id for view in views[stop:] for answer in view.answers}
    calls = [(i, call) for i in range(start, stop) for call in views[i].calls]
    waits = any(answered.isdisjoint(call.ids) for _, call in calls)
    return calls[0][0] if waits else None


IndexedIds = list[tuple[int, str]]
"""Indices of messages with an id each that is wrong there."""


def find_unpaired(outgoing: Outgoing) -> list[Finding]:
    """Return all faults in calls and answers, whoever the provider is, and an empty conversation."""
    rounds = list(find_rounds(outgoing.views, items=outgoing.format.items))
    found = [*_find_empty_conversation(outgoing), *_find_missing_ids(outgoing)]
    for rule in (_find_repeated_ids, _find_unanswered_calls, _find_orphan_answers):
        found += rule(outgoing, rounds)
    return found


def _find_empty_conversation(outgoing: Outgoing) -> Iterator[Finding]:
    """Find that there is no message but system messages that the provider takes from elsewhere."""
    if not any(view.role != "system" or not outgoing.provider.system_apart for view in outgoing.views):
        yield Finding("empty-conversation", 0, "there is no message for the model to answer: add a user message")


def _find_missing_ids(outgoing: Outgoing) -> Iterator[Finding]:
    """Find calls without an id, and answers that do not say which call they are to."""
    for index, view in enumerate(outgoing.views):
        calls = any(not call.id for call in view.calls)
        if calls or any(answer.call_id in {"", LEGACY_CALL_PREFIX} for answer in view.answers):
            what = "calls a tool without an id" if calls else "has a result without the id of its call"
            yield Finding("missing-id", index, f"message {index} {what}: give the call and its result the same id")


def _find_repeated_ids(outgoing: Outgoing, rounds: Sequence[CallRound]) -> Iterator[Finding]:
    """Find calls that share an id, in one round or in the whole conversation, and calls that are answered twice."""
    calls, answers = list[IndexedIds](), list[IndexedIds]()
    for round_ in rounds:
        places = {call.alias for _, call in round_.calls}
        calls.append([(i, call.id) for i, call in round_.calls if call.has_id])
        answers.append([(i, answer.call_id) for i, answer in round_.answers if answer.call_id not in places])
    again = _find_repeated_pairs(calls, together=outgoing.provider.unique_ids)
    yield from _build_findings("duplicate-call", again, "calls %s again: give each call an id of its own")
    again = _find_repeated_pairs(answers, together=outgoing.provider.pairs_anywhere)
    yield from _build_findings("duplicate-answer", again, "answers %s again: keep one result for each call")


def _find_unanswered_calls(outgoing: Outgoing, rounds: Sequence[CallRound]) -> Iterator[Finding]:
    """Find calls that are not answered where the provider looks for it."""
    last = {answer.call_id: index for index, view in enumerate(outgoing.views) for answer in view.answers}
    missing: IndexedIds = []
    for round_ in rounds:
        if outgoing.pending and round_.stop == len(outgoing.views):
            continue
        answered = {answer.call_id for _, answer in round_.answers}
        if outgoing.provider.pairs_anywhere:
            answered = {id_ for index, call in round_.calls for id_ in call.ids if last.get(id_, -1) > index}
        missing += [(index, call.id) for index, call in round_.calls if call.id and answered.isdisjoint(call.ids)]
    fault = "calls %s and no result follows directly: put one result for each call right behind it"
    if outgoing.provider.pairs_anywhere:
        fault = "calls %s and no result follows: put one result for each call behind it"
    return _build_findings("unanswered-call", missing, fault)


def _find_orphan_answers(outgoing: Outgoing, rounds: Sequence[CallRound]) -> Iterator[Finding]:
    """Find answers to no call before them; a call may hide behind a reference to an item that the provider stored."""
    anywhere = outgoing.provider.pairs_anywhere
    hidden = next((i for i, view in enumerate(outgoing.views) if view.opaque and anywhere), len(outgoing.views))
    called: set[str] = set()
    orphans: IndexedIds = []
    for round_ in rounds:
        called = {*(called if anywhere else ()), *(id_ for _, call in round_.calls for id_ in call.ids)}
        orphans += [(i, a.call_id) for i, a in round_.answers if a.call_id and a.call_id not in called and i < hidden]
    fault = "answers %s, which the message before it did not call: put the result behind its call, or leave it out"
    if anywhere:
        fault = "answers %s, which no message before it calls: put the result behind its call, or leave it out"
    return _build_findings("orphan-answer", orphans, fault)


def _find_repeated_pairs(parts: Iterable[IndexedIds], *, together: bool) -> IndexedIds:
    """Return each id that comes again within its part, or in any; a missing one is another rule's business."""
    twice: IndexedIds = []
    seen: set[str] = set()
    for part in parts:
        seen = seen if together else set()
        for index, id_ in part:
            if id_ in seen:
                twice.append((index, id_))
            elif id_:
                seen.add(id_)
    return twice


def _build_findings(rule: str, pairs: IndexedIds, fault: str) -> Iterator[Finding]:
    """Yield a finding for each message, in order, with all its ids."""
    found: dict[int, list[str]] = {}
    for index, id_ in pairs:
        found.setdefault(index, []).append(repr(id_))
    for index, ids in found.items():
        yield Finding(rule, index, f"message {index} {fault % ', '.join(ids)}")


def find_alternation_faults(outgoing: Outgoing) -> Iterator[Finding]:
    """Find where user and assistant do not take turns, the user first; calls, results and system do not count."""
    for index, role in find_missing_turns(outgoing.views):
        fault = f"needs a turn of the {role} before it: put one there"
        yield Finding("strict-alternation", index, f"message {index} {fault}")


def find_missing_turns(views: Sequence[View]) -> Iterator[tuple[int, Literal["user", "assistant"]]]:
    """Yield each index before which a turn is missing, and whose turn.

    The user's goes in front of the reasoning and the system messages that lead up to the assistant's, except the
    system messages that everything begins with.
    """
    before, start, begun = "assistant", 0, False
    for index, view in enumerate(views):
        passed_over = view.calls or view.answers or view.opaque or view.glued
        role = view.role if view.role in {"user", "assistant"} and not passed_over else None
        if role == before == "assistant":
            yield start, "user"
        elif role == before == "user":
            yield index, "assistant"
        before = role or before
        begun = begun or view.role != "system"
        if not view.glued and not (begun and view.role == "system"):
            start = index + 1
