"""What plain JSON can't say of a message: packed into tagged objects, and made from them again.

An object is made without running any of its class's code: no constructor, no validator, no `__setstate__`. Which
classes that may be is for `classes` to say; an object of any other comes back as what it held.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import json
import logging
import os
import struct
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from unabridged.archive.codec.classes import DEEPEST, TAG, find, name_of, tell
from unabridged.archive.codec.leaves import LEAVES, pack_leaf
from unabridged.errors import ArchiveError

log = logging.getLogger("unabridged")

Above = tuple[int, ...]
"""The ids of all that a value stands in: how deep it is, and whether it stands within itself."""

_NOTHING: Final = object()
_BESIDE: Final = {"artifact"}
"""Fields of messages (of LangChain's) that only programs look at: one that is no data does not stop an archive."""


def pack(value: Any, place: str, above: Above = ()) -> Any:
    """The value in plain JSON types, tagged where JSON can't say it; `place` is what an error names."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind in LEAVES:
        return pack_leaf(value)
    if len(above) >= DEEPEST:
        raise ArchiveError(
            f"can't archive {place[:80]}…: nested deeper than {DEEPEST} levels. Pass the deep part as JSON text."
        )
    if id(value) in above:
        raise ArchiveError(f"can't archive {place[:80]}: it stands within itself. Take the circle out of the message.")
    return (_PACKERS.get(kind) or _object_packer(kind))(value, place, (*above, id(value)))


def _object_packer(kind: type) -> Callable[[Any, str, Above], Any]:
    if issubclass(kind, enum.Enum):
        return _pack_enum
    if _is_model(kind):
        return _pack_model
    if _field_names(kind) is not None:
        return _pack_fields
    return _pack_like if issubclass(kind, tuple(_HEIRS)) else _pack_data


def unpack(value: Any) -> Any:
    """What `pack` was given."""
    if type(value) is list:
        return [unpack(item) for item in value]
    if type(value) is not dict:
        return value
    if TAG not in value:
        return {key: unpack(item) for key, item in value.items()}
    kind = str(value[TAG])
    unpacker = _UNPACKERS.get(kind)
    if unpacker is None:
        raise ArchiveError(
            f"a stored message has a {kind!r} in it, which this version doesn't know. Update unabridged."
        )
    try:
        return unpacker(value)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, struct.error, RecursionError) as error:
        raise ArchiveError(f"a stored {kind} can't be read: {error!r}. Run `verify`.") from error


def _items(value: Any, place: str, above: Above) -> list[Any]:
    return [pack(item, f"{place}[{index}]", above) for index, item in enumerate(value)]


def _pack_dict(value: dict[Any, Any], place: str, above: Above) -> Any:
    simple = all(type(key) is str and key != TAG and pack_leaf(key) is key for key in value)
    if simple:
        return {key: pack(item, f"{place}[{key!r}]", above) for key, item in value.items()}
    pairs = [
        [pack(key, f"a key of {place}", above), pack(item, f"{place}[{key!r}]", above)] for key, item in value.items()
    ]
    return {TAG: "dict", "pairs": pairs}


def _unpack_dict(value: Mapping[str, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, item in value["pairs"]:
        plain = unpack(key)
        # An object that came back as data is no key any more: its text is.
        found[plain if _is_hashable(plain) else repr(plain)] = unpack(item)
    return found


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _as_set(kind: type[set[Any] | frozenset[Any]], packed: list[Any]) -> Any:
    items = [unpack(item) for item in packed]
    return kind(items) if all(map(_is_hashable, items)) else items


def _pack_set(value: set[Any] | frozenset[Any], place: str, above: Above) -> Any:
    # Sorted by what is written, so that equal sets are equal bytes.
    items = sorted((pack(item, f"an item of {place}", above) for item in value), key=json.dumps)
    return {TAG: type(value).__name__, "items": items}


def _pack_tuple(value: tuple[Any, ...], place: str, above: Above) -> Any:
    return {TAG: "tuple", "items": _items(value, place, above)}


def _is_model(kind: type) -> bool:
    """Whether this is a pydantic model, told without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _pack_model(value: Any, place: str, above: Above) -> Any:
    """A model by its own state, as pydantic pickles it: no field is dumped, coerced or left out.

    Private and computed attributes that are no data (a client, a lock) are left out, as a dump leaves them out.
    """
    kind = type(value)
    packed: dict[str, Any] = {TAG: "object", "class": name_of(kind)}
    fields = kind.__pydantic_fields__
    stated = {key: item for key, item in value.__dict__.items() if key in fields and not fields[key].exclude}
    packed["fields"] = {key: _pack_field(key, item, place, above) for key, item in stated.items()}
    packed["fields"] |= _what_is_data({key: item for key, item in value.__dict__.items() if key not in stated}, above)
    private = getattr(value, "__pydantic_private__", None)
    packed["extra"] = pack(getattr(value, "__pydantic_extra__", None), f"{place}.__pydantic_extra__", above)
    packed["private"] = None if private is None else _what_is_data(private, above)
    packed["set"] = pack(getattr(value, "__pydantic_fields_set__", None), f"{place}.model_fields_set", above)
    return packed


def _pack_field(key: str, item: Any, place: str, above: Above) -> Any:
    """A field of a model; None for what no model is shown of a message and is no data."""
    try:
        return pack(item, f"{place}.{key}", above)
    except ArchiveError as error:
        if key not in _BESIDE:
            raise
        log.warning("a message is archived without its %s: %s", key, error)
        return None


def _what_is_data(values: Mapping[str, Any], above: Above) -> dict[str, Any]:
    """Those of the attributes that can be packed, packed."""
    packed: dict[str, Any] = {}
    for key, item in values.items():
        with suppress(ArchiveError):
            packed[key] = pack(item, key, above)
    return packed


def _pack_fields(value: Any, place: str, above: Above) -> Any:
    """An object of a dataclass or of attrs, by its fields."""
    names = _field_names(type(value)) or ()
    state = {name: pack(getattr(value, name), f"{place}.{name}", above) for name in names if hasattr(value, name)}
    return {TAG: "object", "class": name_of(type(value)), "fields": state}


def _field_names(kind: type) -> list[str] | None:
    """The fields of a dataclass or a class of attrs; None for any other class."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


def _unpack_object(value: Mapping[str, Any]) -> Any:
    fields = {key: unpack(item) for key, item in value["fields"].items()}
    state = [unpack(value.get(key)) for key in ("extra", "private", "set")]
    kind = find(value["class"])
    if kind is not None:
        made = _make_object(kind, fields, *state)
        if made is not _NOTHING:
            return made
        tell(value["class"], "plain data")  # the installed version has other fields, or is no class of data
    return fields | state[0] if isinstance(state[0], dict) else fields


def _make_object(kind: type, fields: dict[str, Any], extra: Any, private: Any, given: Any) -> Any:
    """An object of the class with these fields, none of its code run; nothing where it is no class of data."""
    if hasattr(kind, "__del__"):  # code that would run all the same, once the object goes
        return _NOTHING
    if _is_model(kind):
        return _make_model(kind, fields, extra, private, given)
    known = _field_names(kind)
    if known is None or not fields.keys() <= set(known):
        return _NOTHING
    made: Any = object.__new__(kind)
    for key, item in fields.items():
        object.__setattr__(made, key, item)
    return made


def _make_model(kind: Any, fields: dict[str, Any], extra: Any, private: Any, given: Any) -> Any:
    if not all(part is None or isinstance(part, dict) for part in (extra, private)) or not isinstance(given, set):
        return _NOTHING
    for name, field in kind.__pydantic_fields__.items():
        # A field that is newer than what is stored: its default, where that is a value.
        if name not in fields and not field.is_required() and field.default_factory is None and name not in given:
            fields[name] = copy.copy(field.default)
    made: Any = object.__new__(kind)
    object.__setattr__(made, "__dict__", fields)
    object.__setattr__(made, "__pydantic_extra__", extra)
    object.__setattr__(made, "__pydantic_private__", private)
    object.__setattr__(made, "__pydantic_fields_set__", given)
    return made


def _pack_enum(value: enum.Enum, _place: str, above: Above) -> Any:
    packed = {TAG: "enum", "class": name_of(type(value)), "name": value.name}
    return packed | _what_is_data({"value": value.value}, above)


def _unpack_enum(value: Mapping[str, Any]) -> Any:
    kind = find(value["class"])
    plain = unpack(value["value"]) if "value" in value else value["name"]
    if kind is None or not issubclass(kind, enum.Enum):
        return plain
    if value["name"] in kind.__members__:
        return kind.__members__[value["name"]]
    if issubclass(kind, enum.Flag) and isinstance(plain, int):
        return kind(plain)  # several at once
    tell(value["class"], "plain data")
    return plain


def _pack_like(value: Any, place: str, above: Above) -> Any:
    """A value of a class that builds on a plain one: as that, with its class and what it has beside."""
    to_plain = next(to_plain for base, to_plain in _HEIRS.items() if isinstance(value, base))
    packed = {TAG: "like", "class": name_of(type(value)), "value": pack(to_plain(value), place, above)}
    state = getattr(value, "__dict__", None)
    return packed | {"state": _what_is_data(state, above)} if state else packed


def _unpack_like(value: Mapping[str, Any]) -> Any:
    plain = unpack(value["value"])
    base: Any = type(plain)
    kind = find(value["class"])
    if kind is None:
        return plain
    if base not in _HEIRS or not issubclass(kind, base) or issubclass(kind, defaultdict) or hasattr(kind, "__del__"):
        tell(value["class"], f"plain {base.__name__}")
        return plain
    made: Any = base.__new__(kind, plain)
    if isinstance(made, OrderedDict):
        for key, item in plain.items():
            OrderedDict.__setitem__(made, key, item)
    elif base.__init__ is not object.__init__:  # what can change begins empty
        base.__init__(made, plain)
    if "state" in value:
        made.__dict__.update({key: unpack(item) for key, item in value["state"].items()})
    return made


def _pack_data(value: Any, place: str, above: Above) -> Any:
    """Whatever else can be dumped, as its dump: it comes back as that, and the log says so."""
    dumped = _dump(value)
    kind = type(value)
    if dumped is _NOTHING:
        raise ArchiveError(
            f"can't archive {place}: it is a {kind.__module__}.{kind.__qualname__}, which is no data. Pass plain JSON "
            "types, the SDK's own objects, pydantic models, dataclasses or enums."
        )
    spelled = f"{kind.__module__}:{kind.__qualname__}"
    return {TAG: "data", "class": spelled, "value": pack(dumped, place, above)}


def _dump(value: Any) -> Any:
    """The value in plain types, as a framework would dump it to JSON; nothing where none could."""
    core: Any = sys.modules.get("pydantic_core")
    try:
        for base, dump in _DUMPS.items():
            if isinstance(value, base):
                return dump(value)
        if hasattr(value, "tolist"):  # numpy's, and those of its kin
            return value.tolist()
        no_data = core is None or isinstance(value, Iterator | type) or callable(value)
        return _NOTHING if no_data else core.to_jsonable_python(value)
    except Exception:  # noqa: BLE001 - the value's own code may run, and raise anything
        return _NOTHING


def _plain_moment(value: datetime | date | timedelta) -> Any:
    """The moment, or span of time, of a class that builds on a plain one; made as pickle would make it."""
    base: Any = next(base for base in (datetime, date, timedelta) if isinstance(value, base))
    return base(*base.__reduce_ex__(value, 4)[1])


def _unpack_data(value: Mapping[str, Any]) -> Any:
    plain = unpack(value["value"])
    tell(value["class"], f"plain {type(plain).__name__}")
    return plain


_PACKERS: Final[dict[type, Callable[[Any, str, Above], Any]]] = {
    dict: _pack_dict,
    list: _items,
    tuple: _pack_tuple,
    set: _pack_set,
    frozenset: _pack_set,
}
_HEIRS: Final[dict[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytearray(memoryview(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    dict: lambda value: dict(value.items() if isinstance(value, OrderedDict) else dict.items(value)),
}
"""The plain classes that others build on, and how a value of such a one becomes plain, its own methods unheard."""
_DUMPS: Final[dict[type, Callable[[Any], Any]]] = {
    **dict.fromkeys((date, timedelta), _plain_moment),
    Decimal: Decimal,
    UUID: lambda value: UUID(int=value.int),
    Mapping: dict,
    Sequence: list,
    AbstractSet: list,
    os.PathLike: os.fspath,
}
_UNPACKERS: Final[dict[str, Callable[[Mapping[str, Any]], Any]]] = {
    **{kind.__name__: leaf.unpack for kind, leaf in LEAVES.items()},
    "dict": _unpack_dict,
    "tuple": lambda value: tuple(unpack(item) for item in value["items"]),
    "set": lambda value: _as_set(set, value["items"]),
    "frozenset": lambda value: _as_set(frozenset, value["items"]),
    "object": _unpack_object,
    "enum": _unpack_enum,
    "like": _unpack_like,
    "data": _unpack_data,
}
