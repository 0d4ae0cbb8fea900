"""The ledger: what is carried verbatim beside the prose, as a value; two of them merged by rule, never by a model.

    Ledger
    ├── requests   what people asked, with what became of it: open, waiting, interrupted, finished, withdrawn
    ├── rules      what people want always, never, or only so; lifted when they lift it
    ├── sayings    what people and the assistant said, word for word
    ├── actions    what was done: deed, target, outcome
    ├── todo       the assistant's own list of what is to be done
    ├── files      what happened to each file
    └── names      identifiers, numbers and commands, ranked

`gather` makes one from a block of messages, `merge` folds an older one in, `render` writes it within a budget. All
lists are bounded (`bounds`), so a ledger stays the same size however often it is merged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from unabridged.intent import GOING, Lead, Lift, Request, Rule

Deed = Literal[
    "read", "search", "list", "create", "change", "delete", "move", "run", "fetch", "call", "mention", "attach"
]

CHANGES: frozenset[Deed] = frozenset({"create", "change", "delete", "move"})
"""The deeds after which something is not as it was."""
HALF_LIFE = 90
"""Messages after which an occurrence counts half. Tuned on recorded coding sessions; 60 to 140 do equally well."""


def fade(weight: float, messages: int) -> float:
    """What a weight is worth after so many more messages."""
    return weight * math.pow(2.0, -max(messages, 0) / HALF_LIFE)


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call and how it went."""

    turn: int
    deed: Deed
    tool: str
    target: str
    outcome: str = ""
    failed: bool = False
    paths: tuple[str, ...] = ()
    gist: str = ""
    """The beginning of what was written."""
    rejection: str = ""
    """What a person said who rejected it, in the frame of a known host."""
    answered: bool = True
    """Whether the tool answered at all; a call that was aborted has no result."""


@dataclass(frozen=True, slots=True)
class Saying:
    """What somebody said, word for word: a message, or of a long one what tells most of it."""

    turn: int
    by_person: bool
    text: str
    weight: float
    retold: bool = False
    """Whether it is from a summary that another system wrote earlier; `by_person` as well, whether it may be."""
    rejected: str = ""
    """The call that the person rejected with these words, where they stood in its result."""
    lasts: bool = False
    """Whether it tells a decision of the assistant's: that holds until another is made, where a finding is soon old."""


@dataclass(frozen=True, slots=True)
class File:
    """A file or artifact; `deeds` counts what happened to it, the last deed last."""

    path: str
    turn: int
    weight: float
    deeds: tuple[tuple[Deed, int], ...] = ()

    @property
    def named(self) -> bool:
        """Whether a person named it."""
        return any(deed == "mention" for deed, _ in self.deeds)


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
    """Whether it was told on its own, not in a crowd: by a person, or by anybody where it is an id or a number."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a stretch of conversation leaves behind. The turns are those of the original conversation, [first, end)."""

    first: int = 0
    end: int = 0
    language: str = ""
    lead: Lead = field(default_factory=Lead)
    requests: tuple[Request, ...] = ()
    rules: tuple[Rule, ...] = ()
    lifts: tuple[Lift, ...] = ()
    actions: tuple[Action, ...] = ()
    sayings: tuple[Saying, ...] = ()
    files: tuple[File, ...] = ()
    names: tuple[Name, ...] = ()
    todo: str = ""
    """The assistant's list of what is to be done, as it last wrote it."""
    todo_turn: int = -1

    @property
    def open(self) -> tuple[Request, ...]:
        """What people are still waiting for, in the order asked."""
        return tuple(request for request in self.requests if request.state in GOING and not request.doubtful)

    @property
    def doubtful(self) -> tuple[Request, ...]:
        """What they may be waiting for, though it reads like another system's summary; also what stands beside it."""
        return tuple(r for r in self.requests if r.state in GOING and (r.doubtful or r.beside))

    @property
    def finished(self) -> tuple[Request, ...]:
        """What was answered, withdrawn or left, in the order asked."""
        return tuple(request for request in self.requests if request.state not in GOING)


_PARTS: dict[str, Any] = {
    "requests": Request, "rules": Rule, "lifts": Lift, "actions": Action,
    "sayings": Saying, "files": File, "names": Name,
}  # fmt: skip


def to_json(ledger: Ledger) -> str:
    """The ledger as JSON text: a record is read more often than its ledger, which is parsed when it is needed."""
    parts = {key: tuple(map(_plain, getattr(ledger, key))) for key in _PARTS}
    return json.dumps({**_plain(ledger), **parts, "lead": _plain(ledger.lead)}, separators=(",", ":"))


def from_json(written: str | Mapping[str, Any]) -> Ledger:
    """The ledger that `to_json` wrote; keys this version does not know are ignored, absent ones get their default.

    Earlier versions stored the mapping itself.
    """
    data: Mapping[str, Any] = json.loads(written) if isinstance(written, str) else written
    parts = {key: tuple(_entry(kind, entry) for entry in data.get(key) or ()) for key, kind in _PARTS.items()}
    ledger: Ledger = _entry(Ledger, {**data, **parts, "lead": _entry(Lead, data.get("lead") or {})})
    return ledger


def _plain(entry: Any) -> dict[str, Any]:
    return {key: getattr(entry, key) for key in entry.__slots__}


def _entry(kind: Any, data: Mapping[str, Any]) -> Any:
    known = kind.__slots__
    return kind(**{k: _frozen(item) if type(item) is list else item for k, item in data.items() if k in known})


def _frozen(items: list[Any]) -> tuple[Any, ...]:
    return tuple(_frozen(item) if type(item) is list else item for item in items)
