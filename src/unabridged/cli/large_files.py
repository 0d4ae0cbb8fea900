"""A conversation too large for one sitting, compacted as it grew: bite by bite, each folding what came before.

One compaction of hundreds of megabytes would hold the originals twice while they are archived. Bites hold one bite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from unabridged.compactor import Compaction, Compactor
from unabridged.formats import Message, format_named
from unabridged.sessions import Loaded

BITE = 16_000_000
"""Characters of text and media in one bite."""


def bites(loaded: Loaded, most: int = BITE) -> Iterator[tuple[int, int]]:
    """Where each bite starts and stops: only where no call is waiting for its result."""
    reader = format_named(loaded.format)
    waiting: set[str] = set()
    start, size, glued = 0, 0, False
    for index, message in enumerate(loaded.messages):
        view = reader.read(message)
        if size >= most and not waiting and not glued and not view.answers:
            yield start, index
            start, size = index, 0
        waiting.update(call.id for call in view.calls)
        waiting.difference_update(answer.call_id for answer in view.answers)
        glued = view.glued
        size += len(view.whole_text()) + sum(len(media.source) for media in view.media)
    yield start, len(loaded.messages)


def fit_in_bites(
    compactor: Compactor,
    loaded: Loaded,
    asked: dict[str, Any],
    step: Callable[[int, int], None],
    most: int = BITE,
) -> Compaction:
    """What `fit` gives for the whole, and each message that stays is the very same object."""
    carried: list[Message] = []
    done, changed, receipt, before, notes = None, False, None, 0, list[str]()
    for start, stop in bites(loaded, most):
        kept = done.tokens_after if done else 0
        done = compactor.fit([*carried, *loaded.messages[start:stop]], **asked)
        before += done.tokens_before - kept
        carried, changed, receipt = done.messages, changed or done.changed, done.receipt or receipt
        notes.append(f"messages {start:,} to {stop - 1:,}")
        step(stop, len(loaded.messages))
    if done is None:
        return compactor.fit(loaded.messages, **asked)
    if receipt is not None and len(notes) > 1:
        receipt = replace(receipt, notes=(*receipt.notes, f"compacted in {len(notes):,} bites, each with its record"))
    messages = carried if changed else loaded.messages
    return replace(done, messages=messages, changed=changed, receipt=receipt, tokens_before=before)
