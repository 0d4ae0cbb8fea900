"""Compare a list of an SDK's turns that a host builds anew for each request with the last one, at little cost.

Models of pydantic compare themselves one by one, which takes microseconds each. Flattened, a whole conversation is
compared in one go; what two copies share, texts above all, by reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain, compress, repeat
from operator import attrgetter, getitem, is_not, itemgetter
from typing import Any, NamedTuple

_PARTS, _ROLE = itemgetter("parts"), itemgetter("role")
_FIELDS, _FIELDS_SET = attrgetter("__dict__"), attrgetter("__pydantic_fields_set__")


class FlatTurns(NamedTuple):
    """Turns taken apart into flat lists."""

    classes: set[type]
    """The class of the turns, and that of the parts."""
    layout: tuple[list[Any], ...]
    """The role of each turn, how many parts it has, how many fields of each part were set, and which."""
    values: list[Any]
    """The value of each field that was set."""

    def add(self, more: FlatTurns) -> FlatTurns:
        """Append the turns that follow; return these."""
        self.classes.update(more.classes)
        for own, others in zip((*self.layout, self.values), (*more.layout, more.values), strict=True):
            own.extend(others)
        return self

    def is_equal_to(self, other: FlatTurns) -> bool:
        """Return whether the turns are equal; False, too, where only they themselves can tell."""
        if self.classes != other.classes or self.layout != other.layout:
            return False
        differ = list(map(is_not, self.values, other.values))
        ours, theirs = list(compress(self.values, differ)), list(compress(other.values, differ))
        classes = list(map(type, ours))
        if classes == list(map(type, theirs)) and all(map(_is_equal_by_fields, set(classes))):
            return list(map(_FIELDS, ours)) == list(map(_FIELDS, theirs))
        return ours == theirs


def flatten_turns(turns: Sequence[Any]) -> FlatTurns | None:
    """Return the turns flattened; None unless they are all models of one class, with a role and parts."""
    if not all(map(_is_turn_class, map(type, turns[:1]))):  # told before all are looked at: most lists are of dicts
        return None
    try:
        return _flatten_known_classes(turns)
    except (AttributeError, KeyError):  # of a field that its class does not know
        return None


def _flatten_known_classes(turns: Sequence[Any]) -> FlatTurns | None:
    if len(turn_classes := set(map(type, turns))) > 1 or not all(map(_is_turn_class, turn_classes)):
        return None
    fields = list(map(_FIELDS, turns))
    lists = list(map(_PARTS, fields))
    if None in lists:
        return None
    parts = list(chain.from_iterable(lists))
    if len(part_classes := set(map(type, parts))) > 1 or not all(map(_is_none_unless_set, part_classes)):
        return None
    fields_set = list(map(_FIELDS_SET, parts))
    sizes, names = list(map(len, fields_set)), list(chain.from_iterable(fields_set))
    values = map(getitem, chain.from_iterable(map(repeat, map(_FIELDS, parts), sizes)), names)
    layout = (list(map(_ROLE, fields)), list(map(len, lists)), sizes, names)
    return FlatTurns(turn_classes | part_classes, layout, list(values))


@cache
def _is_equal_by_fields(kind: type) -> bool:
    """Return whether models of this class are equal when their fields are."""
    own = getattr(kind.__eq__, "__module__", "") == "pydantic.main" and not getattr(kind, "__private_attributes__", {})
    return own and getattr(kind, "model_config", {}).get("extra") != "allow"


@cache
def _is_turn_class(kind: type) -> bool:
    return _is_equal_by_fields(kind) and kind.model_fields.keys() == {"parts", "role"}  # type: ignore[attr-defined]


@cache
def _is_none_unless_set(kind: type) -> bool:
    """Return whether each field is None until it is set."""
    fields = kind.model_fields.values() if _is_equal_by_fields(kind) else ()  # type: ignore[attr-defined]
    return bool(fields) and all(field.default is None and field.default_factory is None for field in fields)
