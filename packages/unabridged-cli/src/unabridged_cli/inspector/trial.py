"""A trial of other settings: the conversation is fed again, message by message, to a compactor without a model.

Nothing is stored: its archive is in memory, and gone afterwards. What still stands in the context is not in the
archive, so the conversation ends with the last message that left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Part, Scope
from unabridged.compactor import Compactor, Outlook
from unabridged.errors import ArchiveError, SettingsError, UnabridgedError
from unabridged.formats import Message, detect_message_format
from unabridged.settings import Settings
from unabridged.sizes import keep_from_texts, parse_size, trigger_from_texts
from unabridged_cli.live_view import thin_out_points
from unabridged_cli.picture import group_by_fate

TIME_LIMIT_SECONDS: Final = 20.0
"""Time after which a trial ends where it is."""
_MISSING_MESSAGES_TEXT: Final = "a trial needs the messages of the thread, and"


def run_trial(archive: Archive, scope: Scope, window: str, trigger: str, keep: str) -> dict[str, Any]:
    """Return the tokens over the turns, and every compaction, with these settings."""
    settings: dict[str, Any] = {}
    if trigger.strip():
        settings["trigger"] = trigger_from_texts(trigger.split(","))
    if keep.strip():
        settings["keep"] = keep_from_texts(keep.split(","))
    tokens = parse_size(window, "a window")
    messages = _read_messages(archive.parts(scope))
    until, points, compactions = time.monotonic() + TIME_LIMIT_SECONDS, [[0, 0]], []
    sent = 0
    with Compactor(window=tokens, archive="memory:", settings=Settings(**settings)) as compactor:
        working: list[Message] = []
        turns: dict[int, int] = {}
        turn, stopped = 0, ""
        for step in _split_into_requests(messages):
            working = [*working, *step]
            turns |= {id(message): turn + place for place, message in enumerate(step)}
            turn += len(step)
            try:
                outlook = compactor.plan(working, thread="trial")
                fitted = compactor.fit(working, thread="trial")
            except UnabridgedError as error:
                stopped = str(error)
                break
            places, working = [turns.get(id(message)) for message in working], fitted.messages
            sent += fitted.tokens_after
            points.append([turn, fitted.tokens_before])
            if fitted.changed and fitted.receipt is not None:
                points.append([turn, fitted.tokens_after])
                compactions.append(
                    {"turn": turn, "kind": fitted.receipt.kind, "before": fitted.tokens_before,
                     "after": fitted.tokens_after, "reason": fitted.receipt.reason,
                     "messages": _describe_fates(outlook, places)}
                )  # fmt: skip
            if time.monotonic() > until:
                stopped = f"it took longer than {TIME_LIMIT_SECONDS:g} seconds"
                break
        limits = compactor.limits
    bounds = [condition["tokens"] for condition in limits.trigger if set(condition) == {"tokens"}]
    return {
        "turns": turn, "of": len(messages), "points": thin_out_points(points), "compactions": compactions,
        "sent": sent,
        "requests": len(points) - 1 - len(compactions), "last": points[-1][1], "stopped": stopped,
        "limits": {"window": limits.window, "budget": limits.budget, **({"trigger": min(bounds)} if bounds else {})},
    }  # fmt: skip


def _describe_fates(outlook: Outlook, turns: Sequence[int | None]) -> list[dict[str, Any]]:
    """Return what became of the list, in runs of one fate; what an earlier compaction put in has no turn."""
    runs = []
    for run in group_by_fate(outlook.messages):
        known = [turn for turn in (turns[one.index] for one in run) if turn is not None]
        span = [known[0], known[-1]] if known else None
        tokens = sum(one.tokens or 0 for one in run)
        runs.append({"turns": span, "fate": run[0].fate, "why": run[0].why, "count": len(run), "tokens": tokens})
    return runs


def _read_messages(parts: Sequence[Part]) -> list[Message]:
    """Return the conversation from its first turn on, as far as it is whole."""
    by_turn = {part.turn: part for part in reversed(parts)}
    turns = sorted(by_turn)
    if not turns:
        raise SettingsError(f"{_MISSING_MESSAGES_TEXT} none of them left its context yet")
    messages: list[Message] = []
    for turn in turns:  # what is missing between them still is in the context
        try:
            messages.append(codec.decode(by_turn[turn].body))
        except ArchiveError as error:
            raise SettingsError(f"{_MISSING_MESSAGES_TEXT} turn {turn} can't be read here: {error}") from error
    return messages


def _split_into_requests(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield what is new at each request: a model is asked after a person's message, or all results of its calls."""
    if not messages:
        return
    format_ = detect_message_format(list(messages[:50]))
    step: list[Message] = []
    waiting: set[str] = set()
    for message in messages:
        view = format_.read(message)
        step.append(message)
        waiting |= {call.id for call in view.calls if call.id}
        waiting -= {answer.call_id for answer in view.answers}
        if not waiting and view.role != "assistant":
            yield step
            step = []
    if step:
        yield step
