"""Names for the messages of a graph's state, with ids and without.

`add_messages`, the reducer of `create_agent`, gives every message an id when it is written, and the checkpoint holds
it. Deep Agents' channel stores the writes and reads them again each time. LangGraph gives ids to message objects and to
dicts before it stores them, but not to strings and to `(role, text)` pairs: those become messages without an id, new
objects at each reading. Nothing can address them, so a compaction tells them apart by what they say and what they
follow.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage

from unabridged.adapters.kit import PendingChange, apply_change, change_between

Messages = Sequence[BaseMessage]

_TEXT_NAME_PREFIX = "said-"


class MessageNames:
    """The name of each message in these lists: its id, or a digest of its text and of the name before it.

    The first list is the one that others were made from: a message that is in both has one name, at any position.
    `known` are names that a change goes by. A message may have got its id since: it then has the name from before.
    """

    def __init__(self, *lists: Messages, known: Iterable[str] = ()) -> None:
        self._lists = lists  # kept, so that no other object gets the identity of one of theirs
        self._known = frozenset(known)
        self._had_missing_ids = any(name.startswith(_TEXT_NAME_PREFIX) for name in self._known)
        self._names: dict[int, str] = {}
        for messages in lists:
            self._name_messages(messages)

    def __call__(self, message: BaseMessage) -> str | None:
        """Return the name of this very message."""
        return self._names.get(id(message)) or message.id

    def names_of(self, messages: Iterable[BaseMessage]) -> set[str | None]:
        """Return the names of these messages."""
        return {self(message) for message in messages}

    def _name_messages(self, messages: Messages) -> None:
        if not self._had_missing_ids and all(message.id for message in messages):
            return
        before = ""
        for message in messages:
            before = self._names.get(id(message)) or self._name_message(message, before)
            if before != message.id:
                self._names[id(message)] = before

    def _name_message(self, message: BaseMessage, before: str) -> str:
        if message.id and not (self._had_missing_ids and message.id not in self._known):
            return message.id
        name = name_by_text(message, before)
        return name if not message.id or name in self._known else message.id


def name_by_text(message: BaseMessage, before: str = "") -> str:
    """Return the name of a message without an id that follows the message with the name `before`."""
    text = json.dumps([before, message.type, message.content], sort_keys=True, default=str)
    return _TEXT_NAME_PREFIX + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def find_state_change(
    state: Messages, working: Messages, after: Messages, earlier: PendingChange | None = None
) -> PendingChange | None:
    """Return the change from `working`, which are messages of the state or were made from them, to `after`.

    `working` may have followed an `earlier` change: what went then is known too.
    """
    change = change_between(working, after, MessageNames(state, working, after))
    if change is None or earlier is None:
        return change
    return {"order": change["order"], "known": list(dict.fromkeys([*earlier["known"], *change["known"]]))}


def apply_state_change(state: Messages, working: Messages, change: PendingChange) -> list[BaseMessage]:
    """Return `working`, which are messages of the state or were made from them, after the change."""
    return apply_change(working, change, MessageNames(state, working, known=change["known"]))


def use_state_objects(state: Messages, restored: Messages) -> list[BaseMessage]:
    """Return the restored list with the state's own objects in place of equal messages that have no id."""
    here = {id(message) for message in restored}
    free: defaultdict[str, list[BaseMessage]] = defaultdict(list)
    for message in reversed(state):
        if not message.id and id(message) not in here:
            free[name_by_text(message)].append(message)
    own = {id(message) for message in state}

    def find(message: BaseMessage) -> BaseMessage:
        if message.id or id(message) in own:
            return message
        equal = free[name_by_text(message)]
        return equal.pop() if equal and equal[-1] == message else message

    return [find(message) for message in restored]
