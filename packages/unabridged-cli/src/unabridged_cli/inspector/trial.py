"""What other settings would have done: the conversation fed again, message by message, to a compactor without a model.

Nothing is stored: its archive is in memory, and gone afterwards. What still stands in the context is not in the
archive, so the conversation ends with the last message that left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from unabridged.archive import codec
from unabridged.archive.protocol import Archive, Part, Scope
from unabridged.compactor import Compactor
from unabridged.errors import ArchiveError, SettingsError, UnabridgedError
from unabridged.formats import Message, detect
from unabridged.settings import Settings
from unabridged.sizes import keep_of, number, trigger_of

PATIENCE: Final = 20.0
"""Seconds after which a trial ends where it is."""
_POINTS: Final = 1_500
_NEEDS: Final = "a trial needs the messages of the thread, and"


def run(archive: Archive, scope: Scope, window: str, trigger: str, keep: str) -> dict[str, Any]:
    """The tokens over the turns, and every compaction, with these settings."""
    settings: dict[str, Any] = {}
    if trigger.strip():
        settings["trigger"] = trigger_of(trigger.split(","))
    if keep.strip():
        settings["keep"] = keep_of(keep.split(","))
    tokens = number(window, "a window")
    messages = _messages(archive.parts(scope))
    until, points, made = time.monotonic() + PATIENCE, [[0, 0]], []
    sent = 0
    with Compactor(window=tokens, archive="memory:", settings=Settings(**settings)) as compactor:
        held: list[Message] = []
        turn, stopped = 0, ""
        for step in _steps(messages):
            held = [*held, *step]
            turn += len(step)
            try:
                fitted = compactor.fit(held, thread="trial")
            except UnabridgedError as error:
                stopped = str(error)
                break
            held = fitted.messages
            sent += fitted.tokens_after
            points.append([turn, fitted.tokens_before])
            if fitted.changed and fitted.receipt is not None:
                points.append([turn, fitted.tokens_after])
                made.append(
                    {"turn": turn, "kind": fitted.receipt.kind, "before": fitted.tokens_before,
                     "after": fitted.tokens_after, "reason": fitted.receipt.reason}
                )  # fmt: skip
            if time.monotonic() > until:
                stopped = f"it took longer than {PATIENCE:g} seconds"
                break
        limits = compactor.limits
    bounds = [condition["tokens"] for condition in limits.trigger if set(condition) == {"tokens"}]
    return {
        "turns": turn, "of": len(messages), "points": _thinned(points), "compactions": made, "sent": sent,
        "requests": len(points) - 1 - len(made), "last": points[-1][1], "stopped": stopped,
        "limits": {"window": limits.window, "budget": limits.budget, **({"trigger": min(bounds)} if bounds else {})},
    }  # fmt: skip


def _messages(parts: Sequence[Part]) -> list[Message]:
    """The conversation from its first turn on, as far as it is whole."""
    by_turn = {part.turn: part for part in reversed(parts)}
    turns = sorted(by_turn)
    if not turns:
        raise SettingsError(f"{_NEEDS} none of them left its context yet")
    found: list[Message] = []
    for turn in turns:  # what is missing between them still stands in the context
        try:
            found.append(codec.decode(by_turn[turn].body))
        except ArchiveError as error:
            raise SettingsError(f"{_NEEDS} turn {turn} can't be read here: {error}") from error
    return found


def _steps(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """What is new at each request: a model is asked after a person's message, or after all results of its calls."""
    if not messages:
        return
    format_ = detect(list(messages[:50]))
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


def _thinned(points: list[list[int]]) -> list[list[int]]:
    """So many points that a chart is whole to the eye: every fall stays."""
    if len(points) <= _POINTS:
        return points
    every = len(points) // _POINTS + 1
    falls = {i for i in range(1, len(points)) if points[i][1] < points[i - 1][1]}
    kept = falls | {i - 1 for i in falls} | set(range(0, len(points), every)) | {len(points) - 1}
    return [points[i] for i in sorted(kept)]
