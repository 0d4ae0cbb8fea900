"""What every archive does: keep each message that left a context, and each compaction, and give them back exactly.

An archive stores bytes and text; it never sees the caller's objects. The engine encodes a message (`codec`), hashes it,
and hands over `Part`s together with the one `Record` that tells how they were replaced. Both are written in one
transaction: after it, and only after it, does the caller see the shorter list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypedDict

from unabridged.errors import ArchiveError

DEFAULT_NAMESPACE: Final = "default"


class Scope(NamedTuple):
    """Whose conversations these are, and which one. No read or search crosses a scope."""

    namespace: str
    thread: str


@dataclass(frozen=True, slots=True)
class Part:
    """One message that left a context."""

    hash: str
    """Of `body`, tagged with its algorithm: `sha256:…`."""
    body: bytes
    """The message itself, exactly, as `codec.encode` wrote it."""
    turn: int
    """Its place in the original conversation, counted from 0."""
    role: str
    """As the format reads it: user, assistant, tool, system."""
    origin: str
    """Whose words it is: person, model, tool, host, summary."""
    text: str
    """What search sees: everything readable in it."""


class RecordData(TypedDict, total=False):
    """What the engine keeps with a record besides the messages: plain JSON, and never a caller's object.

    Not every record has all of it, and nothing that a newer version adds is lost on the way.
    """

    receipt: dict[str, Any]
    """The fields of the `Receipt`."""
    depth: int
    """How many compactions lie behind the list, this one included."""
    early: bool
    """Whether it was made in the background, before the list needed it."""
    asked: bool
    """Whether somebody asked for it, or a provider refused the request: it holds below the trigger too."""
    settles: str
    """The id of the early record whose swap it settles."""
    turn_counts: dict[str, int]
    """How the assistant's turns ended, as far as they went."""
    people_dropped: int
    """How many messages of people found no place in the newest summary."""
    ledger: str
    """As `ledger.entries` writes it."""
    prose: str
    """What the model wrote."""
    native: str
    """The provider that compacted by itself, and alone can read what it made: format and host."""
    rounds: int
    """How often the ledger was carried on since it was derived from the originals."""
    characters: int
    """Characters of the original messages that have left the list, this time and before."""
    marks: list[str]
    """The meaning of each message that was put in."""
    stayed: dict[str, str]
    """Of a summary, the meaning of each message that stays between what went, by its place in `after`."""
    ours: list[int]
    """Which places of `after` are turns wholly of our own."""
    turns: list[int]
    """The turn of every message up to the end of what changed; -1 for one that was put in."""
    next_turn: int
    """The turn of the first message behind that."""
    result: str
    """The key of the list up to the end of what changed."""
    named: bool
    """Whether a message that was put in names the record."""
    format: str
    """The name of the format that the messages were read with."""
    limits: dict[str, int]
    """Window, budget and, where it is one of tokens alone, trigger of the request that it was made for."""
    place: dict[str, Any]
    """How far into a client's session file the record reaches, where it was made from one."""
    session: dict[str, Any]
    """Of a copy of a client's session file: the client's project, and its own compactions so far."""
    sealed: str
    """All of the record, encrypted: the only entry that an encrypted archive shows the store below it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One stored compaction: which messages stood at `start`, and what stands there now.

    `before` holds, in order, the hash of each message that went, or the index (into `after`) of one that stayed.
    `after` holds, in order, the hash of each message that was put in, or None for one that stayed. So replay is
    `after` -> `before` with the caller's own objects in the places that stayed, and needs no guess.
    """

    id: str
    """Opaque; stands in the marker of the summary turn. Works only inside its scope."""
    scope: Scope
    """Whose conversation, and which."""
    key: str
    """Over the meaning of the messages it replaces and all before them: equal key, equal prefix."""
    length: int
    """How many messages of the list it was made for, counted from the beginning, the key covers."""
    start: int
    """Where in the list the change begins."""
    before: tuple[str | int, ...]
    """What stood there: the hash of a message that went, or the place in `after` of one that stayed."""
    after: tuple[str | None, ...]
    """What stands there now: the hash of a message that was put in, or None for one that stayed."""
    kind: str
    """`summary`, `clearing`, `shortening` or `repair`."""
    prior: str | None = None
    """The record whose summary turn this one folded in."""
    model: str | None = None
    """Which model wrote the summary; None for model-free."""
    created: float = 0.0
    """Unix time."""
    data: RecordData = field(default_factory=RecordData)
    """What the engine needs besides, as below."""


class Hit(NamedTuple):
    """One archived message that a search found; `score` is comparable only within one search."""

    hash: str
    """Of the message, `sha256:…`."""
    turn: int
    """Its place in the original conversation, counted from 0."""
    role: str
    """As the format read it."""
    origin: str
    """Whose words it is."""
    text: str
    """All that search sees of it."""
    score: float
    """How well it matches."""
    ref: str = ""
    """What `read` takes, on every surface: `12-9f3ac1d2ab`. It works only inside its scope."""
    thread: str = ""
    """Whose it is: a search over a namespace finds messages of many."""
    live: bool = False
    """Whether it still stands in the context that was searched besides; without a `ref`, the archive has it not yet."""


class MatchingThreads(NamedTuple):
    """The threads that hold what a search looks for, those that were used last first."""

    threads: Sequence[str]
    exact: bool = True
    """Whether these are all; False where a phrase that no index knows could not be looked for in every message."""


class ThreadHits(NamedTuple):
    """The best matches of one thread."""

    hits: Sequence[Hit]
    matches: int
    """Messages that match, among those that were read."""
    whole: bool = True
    """Whether every message that may match was read; if not, there are at least so many."""


HitsByThread = Mapping[str, ThreadHits]
"""By the name of the thread."""


class ThreadContents(NamedTuple):
    """What one thread holds, counted."""

    thread: str
    kinds: Mapping[str, int]
    """Its live records, by their kind."""
    messages: int
    """Messages that left its context."""
    turns: int
    """One more than the last of their turns: how long the conversation is, as far as it left."""
    size: int
    """Bytes that those messages take as they are stored, also those that other threads share."""


class StoredRecord(NamedTuple):
    """One record of a thread, retired or not, with the parts that came with it."""

    record: Record
    live: bool
    """Whether it holds its key; a retired one does not."""
    parts: Sequence[Part]
    """Those that the thread did not hold before, put-in ones (turn -1) too."""


class Note(NamedTuple):
    """What `remember` kept, and for whom."""

    namespace: str
    key: str
    data: Mapping[str, object]


class Archive(Protocol):
    """The contract; `unabridged_testing.ArchiveContract` is the suite every store runs whole."""

    @property
    def url(self) -> str:
        """Return where it is, for people to read: what `open_archive` takes, but for a password."""

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        """Write record and parts, all or nothing; return the record that now holds the key.

        One live record per (scope, key): if another is already there it wins and is returned, and nothing of this call
        is written; unless it is model-free and the new one is not, which then replaces it. The one replaced is
        retired, not removed: a list that carries its summary turn still replays.
        Messages that the record puts in (`after`) are among `parts` too, with turn -1: a summary turn is trusted only
        because the archive knows its hash. A hash that is not its body's, or a record that refers to a message neither
        among `parts` nor held by the thread, is an `ArchiveError`.
        """

    def record(self, scope: Scope, record_id: str) -> Record | None:
        """Return the record with this id, retired or not, or None."""

    def records(self, scope: Scope) -> Sequence[Record]:
        """Return every live record of the thread, oldest first. All are read: a compaction asks the next two."""
        return list(self.newest(scope))[::-1]

    def newest(self, scope: Scope) -> Iterator[Record]:
        """Return the live records of the thread, newest first, each read when it is asked for."""

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        """Return the live records that hold one of these keys, in no order; no other record is read."""

    def locate(self, namespace: str, record_id: str) -> Scope | None:
        """Return the thread of this namespace that has the record, retired or not; None when none has."""
        return self.locate_each(namespace, [record_id]).get(record_id)

    def locate_each(self, namespace: str, record_ids: Sequence[str]) -> Mapping[str, Scope]:
        """Return the thread of each of these records that the namespace has, retired or not: `locate` for many."""

    def retire(self, scope: Scope, record_id: str) -> None:
        """Take the record out of look-ups (undo). Its parts stay."""

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored messages with these hashes, those that the thread holds; others are absent."""

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """Return the archived messages with first <= turn < last, in the order of turns: no put-in ones (turn -1)."""

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages that match best: literal words, no query syntax.

        A word finds itself, a name (`getUserName`, `src/app.py`) itself or all of its parts, what stands in double
        quotes exactly that. Put-in messages (turn -1) are not searched.
        """

    def search_namespace(self, namespace: str, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages of all threads of the namespace that match best, each with its thread.

        What it finds is what `search` finds in any of the threads; the order is by the words of the whole namespace.
        """
        hits = [hit for name in self.threads(namespace) for hit in self.search(Scope(namespace, name), query, limit)]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    def threads_with(self, namespace: str, query: str) -> MatchingThreads:
        """Return every thread of the namespace in which `search` finds something, those that were used last first."""
        used = self.last_used(namespace)
        names = sorted(used, key=lambda name: (-(used[name] or 0.0), name))
        return MatchingThreads([name for name in names if self.search(Scope(namespace, name), query, 1)])

    def search_each(self, namespace: str, threads: Sequence[str], query: str, limit: int = 10) -> HitsByThread:
        """Return the best matches of each of these threads, ranked as by `search`; threads without any are left out."""
        most = max(limit, 200)
        found = {name: self.search(Scope(namespace, name), query, most) for name in dict.fromkeys(threads)}
        return {name: ThreadHits(hits[:limit], len(hits), len(hits) < most) for name, hits in found.items() if hits}

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces that have a thread, sorted."""

    def threads(self, namespace: str) -> Sequence[str]:
        """Return the names of the threads that hold anything, sorted."""

    def newest_time(self, scope: Scope) -> float | None:
        """Return when the record stored last was made (Unix time), retired or not; None when the thread has none."""

    def last_used(self, namespace: str) -> Mapping[str, float | None]:
        """Return the `newest_time` of every thread, by its name, in no order."""
        return {name: self.newest_time(Scope(namespace, name)) for name in self.threads(namespace)}

    def holdings(self, namespace: str, threads: Sequence[str]) -> Sequence[ThreadContents]:
        """Return what each of these threads holds, in this order; those that are not there are left out."""

    def shared(self, scope: Scope) -> Mapping[int, Sequence[str]]:
        """Return, by turn, which other threads of the namespace hold the same message: `forget` spares it."""
        parts = self.parts(scope)
        found: dict[int, list[str]] = {}
        for thread in (name for name in self.threads(scope.namespace) if name != scope.thread):
            held = self.bodies(Scope(scope.namespace, thread), [part.hash for part in parts])
            for turn in (part.turn for part in parts if part.hash in held):
                found.setdefault(turn, []).append(thread)
        return found

    def forget(self, scope: Scope) -> None:
        """Remove the thread: its records, parts, and every body only it used."""

    def forget_namespace(self, namespace: str, before: float | None = None) -> Sequence[str]:
        """Remove the whole namespace, with what was remembered for it; the names of the threads that went, sorted.

        With `before` (Unix time) only the threads whose newest record, retired or not, was made before that. No thread
        is removed by half, and where the store has transactions all go in one.
        """

    def remember(self, namespace: str, key: str, data: Mapping[str, object]) -> None:
        """Keep some plain JSON of the engine's own under this key, in the place of what was there.

        What is kept under `store_rules.thread_note_key(thread)` is removed with the thread.
        """

    def remembered(self, namespace: str, key: str) -> Mapping[str, object] | None:
        """Return what was kept under this key last; None when nothing was."""

    def notes(self, namespace: str | None = None) -> Sequence[Note]:
        """Return everything that is remembered, for one namespace or for all, in no order."""
        del namespace
        raise ArchiveError(f"{type(self).__name__} can't list what it remembers: give it a method `notes`.")

    def everything(self, scope: Scope) -> Iterator[StoredRecord]:
        """Return all that the thread holds, in the order it was stored: of one moment, and read as it is asked for."""
        del scope
        raise ArchiveError(f"{type(self).__name__} can't be copied from: give it a method `everything`.")

    def take(self, scope: Scope, held: int, stored: Iterable[StoredRecord]) -> bool:
        """Append what `everything` yielded to the thread, as it was, retired records as retired ones.

        False, and nothing is done, when the thread does not hold just `held` records, live and retired. A thread that
        was not there is then there whole, or not at all; one that was may, in a store without transactions, have
        taken the first few. A record whose id the thread has goes to the end, in the place of the one before.
        """
        del scope, held, stored
        raise ArchiveError(f"{type(self).__name__} can't be copied to: give it a method `take`.")

    def lease(self, scope: Scope, key: str, seconds: float) -> bool:
        """Return whether the caller may do the work named `key` alone, until `release` or `seconds` have passed.

        Holds across threads, processes and machines that share the store.
        """

    def release(self, scope: Scope, key: str) -> None:
        """Give back the oldest lease on `key` that this archive object was given; harmless when it has run out."""

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """Return what is wrong with the stored thread, or with everything: a sentence each; empty when all is well.

        Every body against its hash, every reference of every record, every part and its index.
        """

    def close(self) -> None:
        """Let go of files and connections. Closing twice is harmless; any other use afterwards is an `ArchiveError`."""
