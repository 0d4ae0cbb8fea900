"""What the engine remembers of a conversation between two calls, so that a call costs only what is new.

Nothing here is needed for correctness: a thread that was forgotten is measured again. So memory is bounded, a fork
starts afresh, and an evicted thread costs one slower call.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from unabridged import text_cache as remember
from unabridged.archive.protocol import Scope
from unabridged.compaction.state import State
from unabridged.formats import FORMATS, detect
from unabridged.formats.base import Format, Message, Texts, read_at, require_list, texts_of
from unabridged.formats.fields import get
from unabridged.formats.held import Held
from unabridged.marks import marked_ids
from unabridged.measure.meter import Meter
from unabridged.messages import View
from unabridged.runtime import resent
from unabridged.runtime.resent import Resent

_READERS: tuple[Callable[[Any], Any], ...] = (
    itemgetter("content"), attrgetter("content"), itemgetter("parts"), attrgetter("parts"),
)  # fmt: skip
"""The content of a dict, and of an object, by either of its names: whole lists of one are read in one go."""
_MISSING = object()
_LOOKED_AT = 64
"""So many conversations without a name, the newest, are looked at for the one that a list goes on."""


@dataclass(slots=True)
class Thread:
    """One conversation as of the last call: its messages by reference, their sizes, and their views once needed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    place: Scope | None = None
    """What work for it goes by while it has no name."""
    format: Format | None = None
    messages: list[Message] = field(default_factory=list)
    contents: list[Any] = field(default_factory=list)
    views: list[View | None] = field(default_factory=list)
    """None for a plain message until a compaction, or a look whether one pays, needs its view."""
    texts: list[Texts | None] = field(default_factory=list)
    """By what a plain message was measured: a change deep inside it shows here."""
    sizes: list[int] = field(default_factory=list)
    total: int = 0
    fresh: int = 0
    """From this message on, all were read in the call that goes on."""
    held: Held | None = None
    """What the messages hold, once it was needed."""
    anew: bool = False
    """Whether the list was built anew for the last call, and may be so for each."""
    fixed: tuple[Any, Any, int] = (None, None, 0)
    """System prompt, tools, and what they take."""
    failed_at: int = 0
    """The size at which a compaction came to nothing."""
    looked_at: int = 0
    """The size at which it was last looked whether clearing pays."""
    early_at: int = 0
    """The size at which a summary was last begun in the background."""
    sent: Resent | None = None
    """What the caller gave when it was last compacted, and what became of it."""
    called: float | None = None
    """When the last call was, by the engine's clock; None before the first."""
    taken: int = 0
    """How many messages were given with the last call."""
    failed_why: str = ""
    """Why nothing was changed the last time: said once, not at every call."""

    def format_of(self, messages: list[Message]) -> Format:
        """The format of the conversation; only what is new is looked at, until one message gives it away."""
        if self.format is None or not self.messages:
            return detect(messages)
        odd = [message for message in require_list(messages)[len(self.messages) :] if not self.format.claims(message)]
        return next((known for message in odd for known in FORMATS.values() if known.claims(message)), self.format)

    def working(self, messages: list[Message], format_: Format) -> list[Message]:
        """The list to go on from: this one, or what became of it when it was given before."""
        if self.sent is None or require_list(messages)[: len(self.messages)] == self.messages:
            return messages
        found = self.sent.follow(messages, format_)
        if found is None:
            self.sent = None
        return messages if found is None else found

    def went_on_elsewhere(self, messages: Sequence[Message], format_: Format, *, bound: bool) -> bool:
        """Whether another process may have sent this conversation since the last call here, and recorded something.

        So it is where the model answered more often than it was asked from here. A request may also have been sent
        again by way of another: that only costs a cache, unless what the model thought is `bound` to what it was sent.
        """
        views = (read_at(i, message, format_) for i, message in enumerate(messages[self.taken :], self.taken))
        answers, last = 0, ""
        for view in views:
            answers += view.role == "assistant" != last
            last = view.role
            if answers > (self.taken > 0) or (bound and view.reasoning):
                return True
        return False

    def overhead(self, meter: Meter, system: Any, tools: Any) -> int:
        """What system prompt and tools take; they are counted when they change."""
        known_system, known_tools, tokens = self.fixed
        if (system is known_system or system == known_system) and (tools is known_tools or tools == known_tools):
            return tokens
        self.fixed = (system, tools, meter.overhead(system, tools))
        return self.fixed[2]

    def finish(self, state: State, why: str) -> None:
        """Go on from what a compaction made of the list; `why` is why it made nothing, and "" when it did."""
        changed = state.messages is not state.given
        self.failed_why, self.failed_at = why, state.estimate if why else 0
        if changed:
            if state.by_hand:  # what was asked for by hand is not done again to a list that need not shrink
                self.sent = None
            else:
                self._remember(state)
            self.format, self.early_at = state.format, 0
            self.messages, self.contents = list(state.messages), contents_of(state.messages)
            self.views, self.sizes, self.total = list(state.views), list(state.sizes), sum(state.sizes)
            self.texts, self.held = [None] * len(self.views), None

    def _remember(self, state: State) -> None:
        """Remember what became of the list that was given, in case it is given again: only the next call shows it."""
        before = self.sent if state.begun is not state.given else None
        made = len(before.made) if before is not None else 0
        meanings = [*(before.meanings if before is not None else ()), *(view.meaning for view in self._known()[made:])]
        whole = before.whole if before is not None else not any(map(marked_ids, self._known()))
        tokens = self.given_tokens() if before is not None else self.total
        self.sent = resent.remember(state, meanings, tokens, whole=whole)

    def given_tokens(self) -> int:
        """What the messages take that were given, where the list to go on from is what became of them."""
        return self.sent.tokens + sum(self.sizes[len(self.sent.made) :]) if self.sent is not None else self.total

    def begins(self, messages: Sequence[Message]) -> bool:
        """Whether this conversation may be the one that is given: its first message and the last known stand there."""
        lists = [self.messages, *([self.sent.given] if self.sent is not None else [])]
        return any(
            known and len(known) <= len(messages) and known[0] == messages[0] and known[-1] == messages[len(known) - 1]
            for known in lists
        )

    def follow(self, messages: list[Message], format_: Format, meter: Meter) -> int:
        """Take in what is new or was replaced since the last call; the tokens of all messages together."""
        if self.format is not format_:
            self.format = format_
            self._forget_from(0)
        if not self._same(require_list(messages), format_):
            first = self._first_change(messages, contents_of(messages))
            self._forget_from(first)
        self.fresh = len(self.messages)
        new = messages[self.fresh :]
        self._hold(new, format_)
        for message, content in zip(new, contents_of(new), strict=True):
            view, texts = None, texts_of(message, format_)
            if texts is not None:
                tokens = meter.plain(texts, message)
            else:
                view = read_at(len(self.messages), message, format_)
                tokens = meter.message(view, message)
                if view.resets:  # the provider drops what stands before
                    self.sizes, self.total = [0] * len(self.sizes), 0
            self.messages.append(message)
            self.contents.append(content)
            self.views.append(view)
            self.texts.append(texts)
            self.sizes.append(tokens)
            self.total += tokens
        return self.total

    def _hold(self, new: Sequence[Message], format_: Format) -> None:
        """Lay flat what is new, where the rest is."""
        if self.held is not None and new:
            more = format_.held(new)
            self.held = self.held.add(more) if more is not None else None

    def read(self, format_: Format, meter: Meter) -> list[View]:
        """The views of all messages; one that was measured in an earlier call is so again if it says something else."""
        for i, message in enumerate(self.messages):
            if self.views[i] is None:
                self.views[i] = read_at(i, message, format_)
                if i < self.fresh and texts_of(message, format_) != self.texts[i]:
                    self._measure(i, meter)
                self.texts[i] = None
        return self._known()

    def _known(self) -> list[View]:
        """The views of the messages that were read so far."""
        return [view for view in self.views if view is not None]

    def _measure(self, index: int, meter: Meter) -> None:
        """Count a message that was changed and read anew; what a provider drops counts for nothing."""
        view = self.views[index]
        drops = any(view is not None and view.resets for view in self.views[index + 1 :])
        tokens = meter.message(view, self.messages[index]) if view is not None and not drops else 0
        self.total += tokens - self.sizes[index]
        self.sizes[index] = tokens

    def _same(self, messages: Sequence[Message], format_: Format) -> bool:
        """Whether the list still begins with what is known of it. Identity makes it cheap; equality makes it right."""
        known = len(self.messages)
        head = messages if len(messages) == known else messages[:known]
        if len(head) < known or not self._equals(head, format_):
            return False
        if known and head[0] is not self.messages[0]:  # built anew
            if not (self.anew and self._shares(head)):  # follow the objects that the caller has now
                self.messages, self.contents = list(head), contents_of(head)
            self.anew = True
            return True
        self.anew = False
        return contents_of(self.messages) == self.contents

    def _shares(self, head: Sequence[Message]) -> bool:
        """Whether the known messages hold the same objects as these copies: to compare the next ones is as quick."""
        return self.held is not None or contents_of(head[:1])[0] is self.contents[0]

    def _equals(self, head: Sequence[Message], format_: Format) -> bool:
        """Whether these messages are those that are known; objects that were built anew are compared laid flat."""
        if head and head[-1] is not self.messages[-1]:
            known, self.held = self.held or format_.held(self.messages), format_.held(head)
            if known is not None and self.held is not None and self.held.surely_is(known):
                return True
        return head == self.messages

    def reread(self, messages: list[Message], format_: Format, meter: Meter) -> None:
        """Like `follow`, but a change deep inside a message is noticed too: what is not fresh is read anew."""
        fresh = self.fresh
        self.follow(messages, format_, meter)
        self.fresh = min(fresh, self.fresh)
        before = self.views[: self.fresh]
        self.read(format_, meter)
        for i, known in enumerate(before):
            if known is None or (view := read_at(i, messages[i], format_)) == known:
                continue
            self.views[i] = said = known.said_by(view.origin)
            if view != said:  # more than whose words they are, which takes no tokens
                self.views[i] = view
                self._measure(i, meter)

    def _first_change(self, messages: Sequence[Message], contents: Sequence[Any]) -> int:
        for i, (old, new) in enumerate(zip(self.messages, messages, strict=False)):
            if not (old is new or old == new) or not (
                self.contents[i] is contents[i] or self.contents[i] == contents[i]
            ):
                return i
        return min(len(self.messages), len(messages))

    def _forget_from(self, index: int) -> None:
        if any(view is not None and view.resets for view in self.views[index:]):
            index = 0  # what the provider dropped was not counted
        self.total -= sum(self.sizes[index:])
        self.held = None if index < len(self.messages) else self.held
        for remembered in (self.messages, self.contents, self.views, self.texts, self.sizes):
            del remembered[index:]


class _Unnamed(NamedTuple):
    """Stands for the name of a conversation that has none."""

    namespace: str
    number: int


class Threads:
    """The most recently used conversations, at most `most` of them; one lock each."""

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._number = 0
        self._threads: OrderedDict[object, Thread] = OrderedDict()
        _alive.add(self)

    def get(self, key: object) -> Thread:
        """The thread's memory; the one used longest ago makes room."""
        with self._guard:
            thread = self._threads.get(key)
            if thread is None:
                thread = self._threads[key] = Thread()
                self._evict()
            else:
                self._threads.move_to_end(key)
            return thread

    def unnamed(self, namespace: str, messages: Sequence[Message]) -> Thread:
        """The memory of a conversation that nobody named: the one that this list goes on, else a new one."""
        with self._guard:
            recent = [key for key in self._threads if isinstance(key, _Unnamed) and key.namespace == namespace]
            for key in recent[: -_LOOKED_AT - 1 : -1]:
                if self._threads[key].begins(messages):
                    self._threads.move_to_end(key)
                    return self._threads[key]
            self._number += 1
            thread = Thread(place=Scope(namespace, f"unnamed {os.getpid()} {self._number}"))
            self._threads[_Unnamed(namespace, self._number)] = thread
            self._evict()
            return thread

    def drop(self, scope: Scope) -> None:
        """Forget the thread, and what was remembered of any text: its own may be among them."""
        with self._guard:
            for key, thread in list(self._threads.items()):
                if key == scope or (thread.sent is not None and thread.sent.scope == scope):
                    del self._threads[key]
        remember.forget()

    def _evict(self) -> None:
        for key in list(self._threads)[: max(0, len(self._threads) - self._most)]:
            if not self._threads[key].lock.locked():  # one in use stays, so that its lock keeps its meaning
                del self._threads[key]

    def renew(self) -> None:
        """Start afresh, with fresh locks: one held by another thread at a fork would never be released."""
        self._guard = threading.Lock()
        self._threads = OrderedDict()


def contents_of(messages: Sequence[Message]) -> list[Any]:
    """What each message holds, by reference: a message whose text was replaced shows here."""
    for read in _READERS:
        try:
            return list(map(read, messages))
        except (KeyError, TypeError, AttributeError):
            continue
    return [
        message["content"] if type(message) is dict and "content" in message else _content_of(message)
        for message in messages
    ]


def _content_of(message: Message) -> Any:
    """The same as from a whole list, for lists of both and for items that hold something else."""
    if type(message) is dict:
        return message.get("output") or message.get("arguments") or message.get("parts")
    content = get(message, "content", _MISSING)
    if content is not _MISSING:
        return content
    return get(message, "output") or get(message, "arguments") or get(message, "parts")


_alive: weakref.WeakSet[Threads] = weakref.WeakSet()


def _renew_all() -> None:
    for threads in list(_alive):
        threads.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
