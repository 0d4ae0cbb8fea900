"""What the engine remembers of a conversation between two calls, so that a call costs only what is new.

Nothing here is needed for correctness: a conversation that was forgotten is measured again. So memory is bounded, a
fork starts afresh, and an evicted conversation costs one slower call.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any

from unabridged import text_cache
from unabridged.archive.protocol import Scope
from unabridged.engine.resent_list import ResentList, build_resent_list
from unabridged.engine.state import State
from unabridged.engine.trigger import Attempts
from unabridged.formats import FORMATS, detect_message_format
from unabridged.formats.base import Format, Message, read_all_messages, read_message_at, require_list
from unabridged.formats.fields import get
from unabridged.marks import find_view_record_ids
from unabridged.messages import View
from unabridged.tokens.meter import Meter

_CONTENT_READERS: tuple[Callable[[Any], Any], ...] = (
    itemgetter("content"), attrgetter("content"), itemgetter("parts"), attrgetter("parts"),
)  # fmt: skip
"""The content of a dict, and of an object, by either of its names: whole lists of one are read in one go."""
MAX_CONVERSATIONS = 512
MAX_UNNAMED_COMPARED = 64
"""So many conversations without a name, the newest, are compared with a list for the one that it goes on."""


@dataclass(slots=True)
class MeasuredList:
    """The messages of a conversation as of the last call, by reference, with their views and sizes."""

    format: Format | None = None
    messages: list[Message] = field(default_factory=list)
    contents: list[Any] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    checked: int = 0
    """So many views are known to say what their messages say: those that follow are as of when they were measured."""
    sizes: list[int] = field(default_factory=list)
    total: int = 0
    fresh: int = 0
    """From this message on, all were read in the call that goes on."""

    def update(self, messages: list[Message], format_: Format, meter: Meter) -> int:
        """Take in what is new or was replaced since the last call; return the tokens of all messages together."""
        if self.format is not format_:
            self.format = format_
            self._forget_from(0)
        if not self._is_beginning_of(require_list(messages)):
            self._forget_from(self._find_first_change(messages))
        self.fresh = len(self.messages)
        new = messages[self.fresh :]
        views = read_all_messages(new, format_, self.fresh)
        sizes = list(map(meter.message, views, new))
        self.messages += new
        self.contents += list_contents(new)
        self.views += views
        self.sizes += sizes
        self.total += sum(sizes)
        if (start := max((i for i, view in enumerate(views, self.fresh) if view.resets), default=0)) > 0:
            self.sizes[:start] = [0] * start  # the provider drops what stands before
            self.total = sum(self.sizes)
        return self.total

    def read(self, format_: Format, meter: Meter) -> list[View]:
        """Return the views of all messages; those of an earlier call are read anew once, and measured if changed."""
        for i in range(self.checked, self.fresh):
            known, view = self.views[i], read_message_at(i, self.messages[i], format_)
            if view == known:
                continue
            if view == (same_words := known.with_origin(view.origin)):  # whose words they are takes no tokens
                self.views[i] = same_words
            else:
                self._measure(i, view, meter)  # first: where the counter fails, it is read and counted again
                self.views[i] = view
        self.checked = len(self.views)
        return list(self.views)

    def replace(self, state: State) -> None:
        """Remember what a compaction made of the list."""
        working = state.working
        self.format, self.checked = state.format, len(working.views)
        self.messages, self.contents = list(working.messages), list_contents(working.messages)
        self.views, self.sizes, self.total = list(working.views), list(working.sizes), working.tokens

    def _measure(self, index: int, view: View, meter: Meter) -> None:
        """Count a message that was changed and reads like this now; what a provider drops counts for nothing."""
        is_dropped = any(later.resets for later in self.views[index + 1 :])
        tokens = 0 if is_dropped else meter.message(view, self.messages[index])
        self.total += tokens - self.sizes[index]
        self.sizes[index] = tokens

    def _is_beginning_of(self, messages: Sequence[Message]) -> bool:
        """Return whether the list still begins with what is known. Identity makes it cheap; equality makes it right."""
        head = messages[: len(self.messages)]
        if head != self.messages:
            return False
        if head and head[0] is not self.messages[0]:  # built anew: the next list shares what these copies hold
            self.messages, self.contents = list(head), list_contents(head)
            return True
        return list_contents(self.messages) == self.contents

    def _find_first_change(self, messages: Sequence[Message]) -> int:
        known, now = zip(self.messages, self.contents, strict=True), zip(messages, list_contents(messages), strict=True)
        changed = (i for i, (old, new) in enumerate(zip(known, now, strict=False)) if old != new)
        return next(changed, min(len(self.messages), len(messages)))

    def _forget_from(self, index: int) -> None:
        if any(view.resets for view in self.views[index:]):
            index = 0  # what the provider dropped was not counted
        self.total -= sum(self.sizes[index:])
        self.checked = min(self.checked, index)
        for remembered in (self.messages, self.contents, self.views, self.sizes):
            del remembered[index:]


@dataclass(slots=True)
class ConversationCache:
    """One conversation as of the last call: its measured messages, what became of them, and what was tried."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    scope: Scope = field(default_factory=lambda: Scope("", ""))
    """By which it is known here: one without a name has a number."""
    measured: MeasuredList = field(default_factory=MeasuredList)
    attempts: Attempts = field(default_factory=Attempts)
    resent: ResentList | None = None
    """What the caller passed in when it was last compacted, and what became of it."""
    overhead: tuple[Any, Any, int] = (None, None, 0)
    """System prompt, tools, and what they take."""
    called_at: float | None = None
    """When the last call was, by the engine's clock; None before the first."""
    message_count: int = 0
    """How many messages were passed in with the last call."""

    def forget(self) -> None:
        """Forget what was measured and tried: what was half changed is good for nothing."""
        self.measured, self.attempts, self.resent = MeasuredList(), Attempts(), None

    def detect_format(self, messages: list[Message]) -> Format:
        """Return the format of the conversation; only what is new is looked at, until one message gives it away."""
        format_, known = self.measured.format, len(self.measured.messages)
        if format_ is None or not known:
            return detect_message_format(messages)
        odd = [message for message in require_list(messages)[known:] if not format_.claims(message)]
        return next((other for message in odd for other in FORMATS.values() if other.claims(message)), format_)

    def find_list_to_continue(self, messages: list[Message], format_: Format) -> list[Message]:
        """Return the list to go on from: this one, or what became of it when it was passed in before."""
        known = self.measured.messages
        if self.resent is None or require_list(messages)[: len(known)] == known:
            return messages
        result = self.resent.rebuild_result(messages, format_)
        if result is None:
            self.resent = None
        return messages if result is None else result

    def may_have_continued_elsewhere(self, messages: Sequence[Message], format_: Format, *, is_bound: bool) -> bool:
        """Return whether another process may have sent and compacted this conversation since the last call.

        So it is where the model answered more often than it was asked from here. A request may also have been sent
        again by way of another: that only costs a cache, unless what the model thought is bound to what it was sent.
        """
        first, answers, last = self.message_count, 0, ""
        for view in (read_message_at(i, message, format_) for i, message in enumerate(messages[first:], first)):
            answers += view.role == "assistant" != last
            last = view.role
            if answers > (first > 0) or (is_bound and view.reasoning):
                return True
        return False

    def count_overhead(self, meter: Meter, system: Any, tools: Any) -> int:
        """Return what system prompt and tools take; they are counted when they change."""
        if self.overhead[:2] != (system, tools):
            self.overhead = (system, tools, meter.overhead(system, tools))
        return self.overhead[2]

    def finish(self, state: State, why: str) -> None:
        """Go on from what a compaction made of the list; `why` is why it made nothing, and "" when it did."""
        self.attempts.failed_why, self.attempts.failed_at = why, state.estimate if why else 0
        if state.working.messages is not state.request.original:
            if state.request.is_by_hand:  # what was asked for by hand is not done again to a list that need not shrink
                self.resent = None
            else:
                self._remember_result(state)
            self.attempts.begun_at = 0
            self.measured.replace(state)

    def _remember_result(self, state: State) -> None:
        """Remember what became of the list, in case it is passed in again: only the next call shows it."""
        before = self.resent if state.request.start is not state.request.original else None
        views = self.measured.views
        if before is None:
            meanings, is_whole = [view.meaning_digest for view in views], not any(map(find_view_record_ids, views))
        else:
            new = (view.meaning_digest for view in views[len(before.result) :])
            meanings, is_whole = [*before.meanings, *new], before.is_whole
        tokens = self.measured.total if before is None else self.count_original_tokens()
        self.resent = build_resent_list(state, meanings, tokens, is_whole=is_whole)

    def count_original_tokens(self) -> int:
        """Return what the original takes, where the list to go on from is what became of it."""
        measured = self.measured
        if self.resent is None:
            return measured.total
        return self.resent.tokens + sum(measured.sizes[len(self.resent.result) :])

    def may_be_continued_by(self, messages: Sequence[Message]) -> bool:
        """Return whether this list may continue the conversation: its first and its last known message are in it."""
        lists = [self.measured.messages, *([self.resent.original] if self.resent is not None else [])]
        shorter = (known for known in lists if 0 < len(known) <= len(messages))
        return any(known[0] == messages[0] and known[-1] == messages[len(known) - 1] for known in shorter)


class ConversationCaches:
    """The most recently used conversations, at most `most` of them; one lock each."""

    def __init__(self, most: int = MAX_CONVERSATIONS) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._number = 0
        self._caches: OrderedDict[Scope, ConversationCache] = OrderedDict()
        _live_caches.add(self)

    def find(self, scope: Scope, messages: Sequence[Message] = ()) -> ConversationCache:
        """Return the cache of the thread; without a name, of the conversation that the list goes on, else a new one.

        For a new one, the one used longest ago makes room.
        """
        with self._guard:
            key = self._find_key(scope, messages)
            if key in self._caches:
                self._caches.move_to_end(key)
                return self._caches[key]
            cache = self._caches[key] = ConversationCache(scope=key)
            self._number += 1
            for old in list(self._caches)[: max(0, len(self._caches) - self._most)]:
                if not self._caches[old].lock.locked():  # one in use stays, so that its lock keeps its meaning
                    del self._caches[old]
            return cache

    def _find_key(self, scope: Scope, messages: Sequence[Message]) -> Scope:
        """Return the thread's key; without a name, of the newest conversation that the list goes on, or a new one."""
        if scope.thread:
            return scope
        prefix = f"unnamed {os.getpid()} "
        unnamed = [key for key in self._caches if key.thread.startswith(prefix) and key.namespace == scope.namespace]
        newest = unnamed[: -MAX_UNNAMED_COMPARED - 1 : -1]
        known = (key for key in newest if self._caches[key].may_be_continued_by(messages))
        return next(known, Scope(scope.namespace, f"{prefix}{self._number}"))

    def drop(self, scope: Scope) -> None:
        """Forget the thread, and what was remembered of any text: its own may be among them."""
        with self._guard:
            for key, cache in list(self._caches.items()):
                if key == scope or (cache.resent is not None and cache.resent.scope == scope):
                    del self._caches[key]
        text_cache.clear_cache()

    def reset_after_fork(self) -> None:
        """Start afresh, with fresh locks: one held by another thread at a fork would never be released."""
        self._guard = threading.Lock()
        self._caches = OrderedDict()


def list_contents(messages: Sequence[Message]) -> list[Any]:
    """Return the content of each message, by reference, to notice a message whose text was replaced."""
    for read in _CONTENT_READERS:
        with suppress(KeyError, TypeError, AttributeError):
            return list(map(read, messages))
    return list(map(_read_content, messages))


def _read_content(message: Message) -> Any:
    """Return the same of one message, for lists of both and for items that hold something else."""
    if (content := get(message, "content")) is not None:
        return content
    return get(message, "parts") or get(message, "output") or get(message, "arguments")


_live_caches: weakref.WeakSet[ConversationCaches] = weakref.WeakSet()


def _reset_caches_after_fork() -> None:
    for caches in list(_live_caches):
        caches.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_caches_after_fork)
