"""What the turns of an SDK hold, laid flat: a list that a host builds anew is told from the last one at little cost.

Models of pydantic compare themselves one by one, which takes microseconds each. Laid flat, a whole conversation
is compared in one go; what two copies share, texts above all, by reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, compress, repeat
from operator import attrgetter, getitem, is_not, itemgetter
from typing import Any

_PARTS, _ROLE = itemgetter("parts"), itemgetter("role")
_FIELDS, _SET = attrgetter("__dict__"), attrgetter("__pydantic_fields_set__")


@dataclass(frozen=True, slots=True)
class Held:
    """The roles of turns, how many parts each has, and what was set of each part: how many fields, which, to what."""

    kinds: set[type]
    """The class of the turns, and that of the parts."""
    roles: list[Any]
    counts: list[int]
    sizes: list[int]
    names: list[str]
    values: list[Any]

    def add(self, more: Held) -> Held:
        """This, with the turns that follow."""
        self.kinds.update(more.kinds)
        for own, others in zip(self.lists, more.lists, strict=True):
            own.extend(others)
        return self

    @property
    def lists(self) -> tuple[list[Any], ...]:
        """All but the classes."""
        return self.roles, self.counts, self.sizes, self.names, self.values

    def surely_is(self, other: Held) -> bool:
        """Whether the turns are equal; False where only they themselves can tell."""
        if self.kinds != other.kinds or self.lists[:-1] != other.lists[:-1]:
            return False
        apart = list(map(is_not, self.values, other.values))
        ours, theirs = list(compress(self.values, apart)), list(compress(other.values, apart))
        kinds = list(map(type, ours))
        if kinds == list(map(type, theirs)) and all(map(_is_its_fields, set(kinds))):
            return list(map(_FIELDS, ours)) == list(map(_FIELDS, theirs))
        return ours == theirs


def lay_flat(turns: Sequence[Any]) -> Held | None:
    """What the turns hold; None where these are not all models of one class, with a role and parts."""
    try:
        return _laid_flat(turns)
    except (AttributeError, KeyError):  # of a field that its class does not know
        return None


def _laid_flat(turns: Sequence[Any]) -> Held | None:
    if len(kinds := set(map(type, turns))) > 1 or not all(map(_is_turn, kinds)):
        return None
    fields = list(map(_FIELDS, turns))
    lists = list(map(_PARTS, fields))
    if None in lists:
        return None
    parts = list(chain.from_iterable(lists))
    if len(of_parts := set(map(type, parts))) > 1 or not all(map(_is_what_was_set, of_parts)):
        return None
    were_set = list(map(_SET, parts))
    sizes, names = list(map(len, were_set)), list(chain.from_iterable(were_set))
    values = map(getitem, chain.from_iterable(map(repeat, map(_FIELDS, parts), sizes)), names)
    return Held(kinds | of_parts, list(map(_ROLE, fields)), list(map(len, lists)), sizes, names, list(values))


@cache
def _is_its_fields(kind: type) -> bool:
    """Whether models of this class are equal when their fields are."""
    own = getattr(kind.__eq__, "__module__", "") == "pydantic.main" and not getattr(kind, "__private_attributes__", {})
    return own and getattr(kind, "model_config", {}).get("extra") != "allow"


@cache
def _is_turn(kind: type) -> bool:
    return _is_its_fields(kind) and kind.model_fields.keys() == {"parts", "role"}  # type: ignore[attr-defined]


@cache
def _is_what_was_set(kind: type) -> bool:
    """Whether each field is None until it is set."""
    fields = kind.model_fields.values() if _is_its_fields(kind) else ()  # type: ignore[attr-defined]
    return bool(fields) and all(field.default is None and field.default_factory is None for field in fields)
