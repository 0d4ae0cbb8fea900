"""The ledger: what a stretch of conversation leaves behind, as a value, merged by rule and never by a model.

    Ledger
    ├── people     every message of a person, word for word
    ├── rules      sentences of people that a model named as rules, each a verbatim quotation
    ├── remarks    what the assistant said, word for word, and summaries of other systems
    ├── actions    what was done: deed, target, result
    ├── todo       the assistant's own list of what is to be done
    ├── files      which calls named each file
    └── names      identifiers, numbers and commands, ranked

`gather` makes one from a block of messages, `merge` folds an older one in, `render` writes it within a budget. All
lists are bounded (`bounds`), so a ledger stays the same size however often it is merged. No entry has a state: nothing
is open, finished or withdrawn, because the structure of a list does not show that.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

Deed = Literal[
    "read", "search", "list", "create", "change", "delete", "move", "run", "fetch", "call", "mention", "attach"
]

CHANGING_DEEDS: frozenset[Deed] = frozenset({"create", "change", "delete", "move"})
"""The deeds after which something is not as it was."""
HALF_LIFE_MESSAGES = 90
"""Messages after which an occurrence counts half. Tuned on recorded coding sessions; 60 to 140 do equally well."""


def fade_weight(weight: float, messages: int) -> float:
    """Return what a weight is worth after so many more messages."""
    return weight * math.pow(2.0, -max(messages, 0) / HALF_LIFE_MESSAGES)


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """One message of a person, or several equal ones in a row."""

    turn: int
    text: str
    """Their own words, without what a host put beside them; attachments are named below."""
    speaker: str = ""
    reply: str = ""
    """The last sentences of the assistant right before a message of few words."""
    times: int = 1
    last: int = -1
    """The number of the last of several equal ones."""
    rejected: str = ""
    """The call that the person rejected with these words, where they stood in its result."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A sentence of a person that a model named as a rule; a substring of their message."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call and its result."""

    turn: int
    deed: Deed
    tool: str
    target: str
    outcome: str = ""
    status: str = ""
    """`error` or `exit 1`, where the protocol says so; "" for any other result."""
    paths: tuple[str, ...] = ()
    gist: str = ""
    """The beginning of what was written."""
    rejection: str = ""
    """What a person said who rejected it, in the frame of a known host."""
    answered: bool = True
    """Whether the tool answered at all; a call that was aborted has no result."""

    @property
    def failed(self) -> bool:
        """Return whether the protocol calls the result an error."""
        return bool(self.status)


@dataclass(frozen=True, slots=True)
class Remark:
    """What the assistant said, word for word: a message, or of a long one lines of its beginning and its end."""

    turn: int
    text: str
    weight: float
    closing: bool = False
    """Whether it is the last that was said before a person spoke, and called no tool."""
    retold: bool = False
    """Whether it is from a summary that another system wrote earlier."""


@dataclass(frozen=True, slots=True)
class File:
    """A file or artifact; `deeds` counts what happened to it, the last deed last."""

    path: str
    turn: int
    weight: float
    deeds: tuple[tuple[Deed, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Name:
    """Something the next steps may have to name; `weight` fades, `uses` does not."""

    text: str
    turn: int
    weight: float
    uses: float = 0.0
    asked: bool = False
    """Whether a person named it: that does not fade."""
    told: bool = False
    """Whether it stood on its own, not in a crowd: said by a person, or by anybody where it is an id or a number."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a stretch of conversation leaves behind. The turns are those of the original conversation, [first, end)."""

    first: int = 0
    end: int = 0
    language: str = ""
    people: tuple[PersonMessage, ...] = ()
    rules: tuple[Rule, ...] = ()
    actions: tuple[Action, ...] = ()
    remarks: tuple[Remark, ...] = ()
    files: tuple[File, ...] = ()
    names: tuple[Name, ...] = ()
    todo: str = ""
    """The assistant's list of what is to be done, as it last wrote it."""
    todo_turn: int = -1


_ENTRY_CLASSES: dict[str, Any] = {
    "people": PersonMessage, "rules": Rule, "actions": Action, "remarks": Remark, "files": File, "names": Name,
}  # fmt: skip


def to_json(ledger: Ledger) -> str:
    """Return the ledger as JSON text: a record is read more often than its ledger, which is parsed when needed."""
    return json.dumps(asdict(ledger), separators=(",", ":"))


def from_json(written: str) -> Ledger:
    """Return the ledger that `to_json` wrote; keys that this version does not know are ignored."""
    data = json.loads(written)
    for key, kind in _ENTRY_CLASSES.items():
        data[key] = tuple(_build_ledger_entry(kind, entry) for entry in data.get(key) or ())
    ledger: Ledger = _build_ledger_entry(Ledger, data)
    return ledger


def _build_ledger_entry(kind: Any, data: dict[str, Any]) -> Any:
    known = kind.__slots__
    return kind(**{k: _to_tuple(item) if type(item) is list else item for k, item in data.items() if k in known})


def _to_tuple(items: list[Any]) -> tuple[Any, ...]:
    return tuple(_to_tuple(item) if type(item) is list else item for item in items)
