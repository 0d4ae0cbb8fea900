"""The ledger: what is carried verbatim beside the prose, as a value; two of them merged by rule, never by a model.

    Ledger
    ├── requests   what people asked, with what became of it: open, waiting, finished, withdrawn
    ├── rules      what people want always, never, or only so; lifted when they lift it
    ├── actions    what was done: deed, target, outcome; the newest in detail
    ├── faults     what failed and was not seen to work since
    ├── notes      what the assistant found and decided, in its words
    ├── sayings    where nothing but talk happens: what tells most of it, word for word
    ├── files      what happened to each file
    └── names      identifiers, numbers and commands, ranked

`gather` makes one from a block of messages, `merge` folds an older one in, `render` writes it within a budget. All
lists are bounded, so a ledger stays the same size however often it is merged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

State = Literal["open", "waiting", "finished", "withdrawn"]
Deed = Literal[
    "read", "search", "list", "create", "change", "delete", "move", "run", "fetch", "call", "mention", "attach"
]

HALF_LIFE = 60
"""Messages after which an occurrence counts half. Tuned on recorded coding sessions; 40 to 100 do equally well."""

MAX_REQUESTS, MAX_RULES, MAX_ACTIONS, MAX_FAULTS, MAX_NOTES, MAX_FILES, MAX_NAMES = 80, 80, 60, 8, 40, 160, 600
MAX_SAYINGS = 120


@dataclass(frozen=True, slots=True)
class Request:
    """One message of a person, and what became of it."""

    turn: int
    text: str
    kind: str = "new"
    """What the words do to the request before: `new`, `more`, `correct`, `resume`, `hold`, `withdraw`, `ack`."""
    worked: int = 0
    """0: nothing was done on it, 1: tools looked, 2: tools changed something."""
    answer: str = ""
    """The assistant's closing words before the next person spoke, shortened; empty while it was still at work."""
    answer_turn: int = -1
    asks: Literal["", "question", "offer"] = ""
    """Whether those words end by asking the person back, or by offering more."""
    state: State = "open"
    context: str = ""
    """What the assistant had asked or offered, when these words reply to it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A sentence in which a person says what holds from then on; a substring of their message."""

    turn: int
    text: str
    strength: int = 1
    """3: never, always, must; 2: a clear wish or limit; 1: perhaps only for the moment."""
    lifted: int = -1
    """The turn in which the person lifted it."""


@dataclass(frozen=True, slots=True)
class Lift:
    """A sentence in which a person takes a rule back; the rule may stand in an older ledger."""

    turn: int
    text: str
    used: bool = False
    """Whether it lifted a rule; one that did not is shown among the rules, as what the person said last."""


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
    answered: bool = True
    """Whether the tool answered at all; a call that was aborted has no result."""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence of the assistant's worth keeping."""

    turn: int
    text: str
    weight: float


@dataclass(frozen=True, slots=True)
class Saying:
    """A message, or a sentence of a long one, word for word; it does not fade."""

    turn: int
    by_person: bool
    text: str
    weight: float


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
    home: str = ""
    """The file it was last used with."""
    asked: bool = False
    """Whether a person named it: that does not fade."""
    opens: str = ""
    """How a line that begins with it is written in a call (`\\n` or `\\t`), when one did."""


@dataclass(frozen=True, slots=True)
class Lead:
    """What the block did before its first person spoke: it belongs to the last request of the block before."""

    worked: int = 0
    answer: str = ""
    answer_turn: int = -1
    asks: Literal["", "question", "offer"] = ""


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
    faults: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    sayings: tuple[Saying, ...] = ()
    files: tuple[File, ...] = ()
    names: tuple[Name, ...] = ()
    said: str = ""
    """The assistant's last words, shortened head and tail."""
    said_turn: int = -1
    dropped: tuple[tuple[str, int], ...] = ()
    """How many entries of each list fell to the bounds, over all merges."""

    @property
    def open(self) -> tuple[Request, ...]:
        """What people are still waiting for, in the order asked."""
        return tuple(request for request in self.requests if request.state in {"open", "waiting"})

    @property
    def finished(self) -> tuple[Request, ...]:
        """What was answered, or withdrawn, in the order asked."""
        return tuple(request for request in self.requests if request.state in {"finished", "withdrawn"})


_PARTS: dict[str, Any] = {
    "requests": Request, "rules": Rule, "lifts": Lift, "actions": Action, "faults": Action, "notes": Note,
    "sayings": Saying,     "files": File, "names": Name,
}  # fmt: skip


def to_json(ledger: Ledger) -> dict[str, Any]:
    """The ledger as plain JSON."""
    return asdict(ledger)


def from_json(data: Mapping[str, Any]) -> Ledger:
    """The ledger that `to_json` wrote; keys this version does not know are ignored, absent ones get their default."""
    values: dict[str, Any] = {key.name: data[key.name] for key in fields(Ledger) if key.name in data}
    for key, kind in _PARTS.items():
        values[key] = tuple(_entry(kind, entry) for entry in values.get(key) or ())
    values["lead"] = _entry(Lead, values.get("lead") or {})
    values["dropped"] = tuple((str(name), int(count)) for name, count in values.get("dropped") or ())
    return Ledger(**values)


def _entry(kind: Any, data: Mapping[str, Any]) -> Any:
    known = {key.name: data[key.name] for key in fields(kind) if key.name in data}
    if "paths" in known:
        known["paths"] = tuple(known["paths"])
    if "deeds" in known:
        known["deeds"] = tuple((deed, count) for deed, count in known["deeds"])
    return kind(**known)


def faded(weight: float, messages: int) -> float:
    """What a weight is worth after so many more messages."""
    return weight * math.pow(2.0, -max(messages, 0) / HALF_LIFE)


def bounded(ledger: Ledger) -> Ledger:
    """The ledger with each list within its bound; what matters least goes first, and is counted."""
    dropped = dict(ledger.dropped)
    kept = {
        "requests": _bounded_requests(ledger.requests),
        "rules": _best(ledger.rules, MAX_RULES, lambda rule: (rule.lifted < 0, rule.strength, rule.turn)),
        "lifts": ledger.lifts[-MAX_RULES:],
        "actions": _bounded_actions(ledger.actions),
        "faults": ledger.faults[-MAX_FAULTS:],
        "notes": tuple(sorted(by_rank(ledger)[:MAX_NOTES], key=lambda note: (note.turn, note.text))),
        "sayings": _best(ledger.sayings, MAX_SAYINGS, lambda saying: (saying.weight, saying.turn)),
        "files": _best(ledger.files, MAX_FILES, lambda file: (file_rank(file, ledger.end), file.path)),
        "names": _best(ledger.names, MAX_NAMES, lambda name: (name_rank(name, ledger.end), name.text)),
    }
    for key, entries in kept.items():
        lost = len(getattr(ledger, key)) - len(entries)
        if lost and key not in {"lifts", "sayings"}:
            dropped[key] = dropped.get(key, 0) + lost
    changes: dict[str, Any] = {**kept, "dropped": tuple(sorted(dropped.items()))}
    return replace(ledger, **changes)


def name_rank(name: Name, end: int) -> float:
    """How likely the next steps need this name: lately used first; what a person named or was used a lot lasts."""
    return faded(name.weight, end - name.turn) + 0.02 * math.sqrt(name.uses) + 0.1 * name.asked


_DECIDES = re.compile(
    r"\b(?:decid|decision|chose\b|agreed\b|settled on|went with|entschied|entschloss|beschl|décid|choisi|optó|eleg)"
    r"|决定|決定|选择|選択",
    re.IGNORECASE,
)


def by_rank(ledger: Ledger) -> list[Note]:
    """The notes, what the next steps need most first: telling and new; but what was decided long ago still holds.

    So every second place goes to a decision, from all over the conversation, and then to what else told most there.
    """
    fresh = sorted(ledger.notes, key=lambda note: (note.weight - (ledger.end - note.turn) / 100, note.turn))
    lasting = [*decisions(ledger), *_in_turn(_quarters(ledger, ledger.notes), (0, 1, 2, 3))]
    return _in_turn([fresh, lasting[::-1]], (0, 1))


def decisions(ledger: Ledger) -> list[Note]:
    """The notes that tell a decision, from all over the conversation, its beginning before the rest."""
    deciding = [note for note in ledger.notes if _DECIDES.search(note.text)]
    return _in_turn(_quarters(ledger, deciding), (0, 1, 0, 2, 0, 3))


def _quarters(ledger: Ledger, notes: Sequence[Note]) -> list[list[Note]]:
    """The notes of each quarter of the conversation, the best last."""
    stretch = max(1, ledger.end - ledger.first)
    quarters: list[list[Note]] = [[], [], [], []]
    for note in sorted(notes, key=lambda note: (bool(_DECIDES.search(note.text)), note.weight, -note.turn)):
        quarters[min(3, max(0, note.turn - ledger.first) * 4 // stretch)].append(note)
    return quarters


def _in_turn(lists: Sequence[list[Note]], order: Sequence[int]) -> list[Note]:
    """The last of each list, taken in this order over and over until all are empty; each note once."""
    ranked: dict[Note, None] = {}
    place = 0
    while any(lists):
        source = lists[order[place % len(order)]]
        place += 1
        while source:
            if (note := source.pop()) not in ranked:
                ranked[note] = None
                break
    return list(ranked)


_DEED_RANK = {
    "create": 0.6,
    "change": 0.6,
    "delete": 0.3,
    "move": 0.3,
    "attach": 0.3,
    "run": 0.2,
    "read": 0.1,
    "mention": 0.6,
}


def file_rank(file: File, end: int) -> float:
    """How likely the next steps need this file: what was changed stays longer than what was only seen."""
    lasting = max((_DEED_RANK.get(deed, 0.0) for deed, _ in file.deeds), default=0.0)
    return faded(file.weight, end - file.turn) + lasting


def _best(entries: tuple[Any, ...], most: int, key: Any) -> tuple[Any, ...]:
    """The highest ranked entries, in the order they stood."""
    if len(entries) <= most:
        return entries
    places = sorted(range(len(entries)), key=lambda i: key(entries[i]), reverse=True)[:most]
    return tuple(entries[i] for i in sorted(places))


def _bounded_requests(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Open ones always stay; of the finished ones the first (it set the scene) and the newest."""
    over = len(requests) - MAX_REQUESTS
    if over <= 0:
        return requests
    finished = [i for i, request in enumerate(requests) if request.state in {"finished", "withdrawn"}]
    go = set(finished[1 : 1 + over])
    return tuple(request for i, request in enumerate(requests) if i not in go)


def _bounded_actions(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """The newest, and of the older ones rather those that changed something."""
    if len(actions) <= MAX_ACTIONS:
        return actions
    newest = actions[-MAX_ACTIONS * 2 // 3 :]
    older = actions[: -len(newest)]
    lasting = [action for action in older if action.deed in {"create", "change", "delete", "move"} or action.failed]
    return (*lasting[-(MAX_ACTIONS - len(newest)) :], *newest)
