"""One thread in memory, as the memory and the directory store hold it: records, parts, and how they are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from unabridged.archive import rules
from unabridged.archive.protocol import Hit, Part, Record, Scope
from unabridged.archive.search import index


@dataclass(slots=True)
class Thread:
    """Records and parts in the order they were stored. Not safe by itself: its owner locks."""

    records: dict[str, Record] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    """From key to the id of the record that holds it."""
    held: dict[str, bytes] = field(default_factory=dict)
    """From hash to body."""
    searched: list[Part] = field(default_factory=list)
    """The parts that search sees: all but those that were put in."""
    _known: set[tuple[int, str]] = field(default_factory=set)
    _segments: list[tuple[int, bytes]] = field(default_factory=list)
    _indexed: int = 0

    def holder(self, record: Record, parts: Sequence[Part]) -> Record | None:
        """The record that keeps the key, or None when this one may be added; what must not be stored is refused."""
        rules.check_same_id(record, self.records.get(record.id))
        holder = self.records[self.live[record.key]] if record.key in self.live else None
        if holder is not None and not rules.wins(record, holder):
            return holder
        rules.check_references(record, parts, lambda _: self.held)
        return None

    def fresh(self, parts: Sequence[Part]) -> list[Part]:
        """Those of the parts that are not here yet."""
        return rules.new_parts(parts, self._known)

    def add(self, record: Record, fresh: Sequence[Part]) -> None:
        """Take the record in, with the parts that are new."""
        for part in fresh:
            self._known.add((part.turn, part.hash))
            self.held.setdefault(part.hash, part.body)
            if part.turn >= 0:
                self.searched.append(part)
        self.records.pop(record.id, None)
        self.records[record.id] = record
        self.live[record.key] = record.id

    def live_records(self) -> list[Record]:
        """Every live record, oldest first."""
        live = set(self.live.values())
        return [record for record in self.records.values() if record.id in live]

    def newest(self) -> list[Record]:
        """Every live record, newest first."""
        return [record for record in reversed(self.records.values()) if self.live.get(record.key) == record.id]

    def newest_time(self) -> float | None:
        """When the record that was stored last was made, retired or not; None without any."""
        return next((record.created for record in reversed(self.records.values())), None)

    def keyed(self, keys: Sequence[str]) -> list[Record]:
        """The live records that hold one of these keys."""
        return [self.records[self.live[key]] for key in dict.fromkeys(keys) if key in self.live]

    def retire(self, record_id: str) -> bool:
        """Take the record out of look-ups; whether it was in them."""
        record = self.records.get(record_id)
        if record is None or self.live.get(record.key) != record_id:
            return False
        del self.live[record.key]
        return True

    def in_turns(self, first: int, last: int | None) -> list[Part]:
        """The parts with first <= turn < last, in the order of turns."""
        chosen = [part for part in self.searched if first <= part.turn and (last is None or part.turn < last)]
        return sorted(chosen, key=lambda part: part.turn)

    def search(self, scope: Scope, query: str, limit: int) -> list[Hit]:
        """The parts that match best. The index is made at the first search, and then only of what is new."""
        new = self.searched[self._indexed :]
        if new:
            self._segments.append((self._indexed, index.build([(part.turn, part.text) for part in new])))
            self._indexed += len(new)
        found = index.search(query, limit, self._segments, lambda at: {n: self.searched[n].text for n in at})
        return [rules.hit(scope, self.searched[match.number], match.score) for match in found]

    def problems(self, scope: Scope) -> Iterator[str]:
        """A sentence for every body that is not what its hash says, and every reference to nothing."""
        for digest, body in self.held.items():
            if not rules.is_named(body, digest):
                yield f"{rules.name(scope)}: the stored message {digest[:20]}… was damaged. Restore it from a backup."
        yield from rules.dangling(scope, self.records.values(), self.held)
