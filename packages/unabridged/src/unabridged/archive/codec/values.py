"""Write what plain JSON can't say of a message as tagged objects, and make it again from them.

An object is made without running any of its class's code: no constructor, no validator, no `__setstate__`. Which
classes that may be is decided by `classes`; an object of any other comes back as what it held.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import enum
import json
import logging
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import isfinite
from os import PathLike, fspath
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from unabridged.archive.codec import MAX_DEPTH, MAX_INTEGER, TYPE_KEY
from unabridged.archive.codec.classes import find_class, register_class_name, report_substitute
from unabridged.errors import ArchiveError

log = logging.getLogger("unabridged")

Ancestors = tuple[int, ...]
"""The ids of all values that a value is inside of: they show its depth, and whether it is inside itself."""
Writer = Callable[[Any, str, Ancestors], Any]

_MISSING: Final = object()
_OPTIONAL_FIELDS: Final = {"artifact"}
"""Fields of messages (LangChain's) that only programs look at: one that is no data does not stop an archive."""


def to_json(value: Any, place: str, ancestors: Ancestors = ()) -> Any:
    """Return the value in plain JSON types, tagged where JSON can't say it; an error names the `place`."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind in _LEAF_CONVERTERS:
        written = _LEAF_CONVERTERS[kind][0](value)
        return value if written is value else {TYPE_KEY: kind.__name__, "value": written}
    if len(ancestors) >= MAX_DEPTH:
        deep = f"nested deeper than {MAX_DEPTH} levels. Pass the deep part as JSON text."
        raise ArchiveError(f"can't archive {place[:80]}…: {deep}")
    if id(value) in ancestors:
        raise ArchiveError(f"can't archive {place[:80]}: it stands within itself. Take the circle out of the message.")
    return _writer_for(kind)(value, place, (*ancestors, id(value)))


def from_json(value: Any) -> Any:
    """Return what `to_json` was given."""
    if type(value) is list:
        return [from_json(item) for item in value]
    if type(value) is not dict:
        return value
    if TYPE_KEY not in value:
        return {key: from_json(item) for key, item in value.items()}
    kind = str(value[TYPE_KEY])
    if kind not in _READERS and kind not in _OBJECT_READERS:
        unknown = "which this version doesn't know. Update unabridged."
        raise ArchiveError(f"a stored message has a {kind!r} in it, {unknown}")
    try:
        return _READERS[kind](value["value"]) if kind in _READERS else _OBJECT_READERS[kind](value)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, struct.error, RecursionError) as error:
        raise ArchiveError(f"a stored {kind} can't be read: {error!r}. Run `verify`.") from error


# -- single values -----------------------------------------------------------------------------------------------------


def _write_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON's own \ud83d escapes would melt two lone surrogates that meet into one character.
        return value.encode("unicode_escape").decode("ascii")
    return value


def _write_bytes(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


def _write_datetime(value: datetime | time) -> list[Any]:
    return [value.replace(tzinfo=None, fold=0).isoformat(), _write_zone(value), value.fold]


def _write_zone(moment: datetime | time) -> Any:
    """Return a zone of the standard library or of pydantic; of any other what it says of this moment."""
    zone, offset = moment.tzinfo, moment.utcoffset()
    if zone is None or type(zone) is timezone or (type(zone) is ZoneInfo and zone.key):
        return to_json(zone, "a time zone")
    if offset is None:
        raise ArchiveError(f"can't archive a time of day whose zone is a {type(zone).__name__}. Use datetime.timezone.")
    if type(zone).__module__.startswith("pydantic_core"):
        return {TYPE_KEY: "TzInfo", "value": int(offset.total_seconds())}
    name = f"{type(zone).__module__}:{type(zone).__qualname__}"
    return {TYPE_KEY: "data", "class": name, "value": to_json(timezone(offset, str(moment.tzname())), "a time zone")}


def _write_fixed_zone(zone: timezone) -> list[Any]:
    # The constructor's arguments, as pickle reads them: a name is there only when one was given.
    return [zone.utcoffset(None).total_seconds(), *zone.__getinitargs__()[1:]]  # type: ignore[attr-defined]


def _read_datetime(kind: Any, iso: str, zone: Any, fold: int) -> Any:
    return kind.fromisoformat(iso).replace(tzinfo=from_json(zone), fold=fold)


def _read_pydantic_zone(seconds: int) -> tzinfo:
    from pydantic_core import TzInfo  # noqa: PLC0415 - only for what a pydantic model parsed

    return TzInfo(seconds)


# -- containers --------------------------------------------------------------------------------------------------------


def _write_items(value: Iterable[Any], place: str, ancestors: Ancestors) -> list[Any]:
    return [to_json(item, f"{place}[{index}]", ancestors) for index, item in enumerate(value)]


def _write_dict(value: dict[Any, Any], place: str, ancestors: Ancestors) -> Any:
    if all(type(key) is str and key != TYPE_KEY and _write_text(key) is key for key in value):
        return {key: to_json(item, f"{place}[{key!r}]", ancestors) for key, item in value.items()}
    keys = [to_json(key, f"a key of {place}", ancestors) for key in value]
    items = [to_json(item, f"{place}[{key!r}]", ancestors) for key, item in value.items()]
    return {TYPE_KEY: "dict", "value": list(zip(keys, items, strict=True))}


def _write_tuple(value: tuple[Any, ...], place: str, ancestors: Ancestors) -> Any:
    return {TYPE_KEY: "tuple", "value": _write_items(value, place, ancestors)}


def _write_set(value: set[Any] | frozenset[Any], place: str, ancestors: Ancestors) -> Any:
    # Sorted by what is written, so that equal sets are equal bytes.
    items = sorted((to_json(item, f"an item of {place}", ancestors) for item in value), key=json.dumps)
    return {TYPE_KEY: type(value).__name__, "value": items}


def _read_dict(pairs: list[list[Any]]) -> dict[Any, Any]:
    keys = [from_json(key) for key, _ in pairs]
    # An object that came back as data is no key any more: its text is.
    names = [key if _is_hashable(key) else repr(key) for key in keys]
    return {name: from_json(item) for name, (_, item) in zip(names, pairs, strict=True)}


def _read_set(kind: Callable[[list[Any]], Any], written: list[Any]) -> Any:
    items = [from_json(item) for item in written]
    return kind(items) if all(map(_is_hashable, items)) else items


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


# -- objects -----------------------------------------------------------------------------------------------------------


def _writer_for(kind: type) -> Writer:
    if kind in _WRITERS:
        return _WRITERS[kind]
    if issubclass(kind, enum.Enum):
        return _write_enum
    if _is_model(kind):
        return _write_model
    return _write_other if _field_names(kind) is None else _write_fields


def _is_model(kind: type) -> bool:
    """Return whether this is a pydantic model, without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _field_names(kind: type) -> list[str] | None:
    """Return the fields of a dataclass or a class of attrs; None for any other class."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


def _write_fields(value: Any, place: str, ancestors: Ancestors) -> Any:
    names = [name for name in _field_names(type(value)) or () if hasattr(value, name)]
    fields = {name: to_json(getattr(value, name), f"{place}.{name}", ancestors) for name in names}
    return {TYPE_KEY: "object", "class": register_class_name(type(value)), "fields": fields}


def _write_model(value: Any, place: str, ancestors: Ancestors) -> Any:
    """Return a model by its own state, as pydantic pickles it: no field is dumped, coerced or left out.

    Private, computed and excluded attributes that are no data (a client, a lock) are left out, as a dump does.
    """
    known = type(value).__pydantic_fields__
    required = {key for key in value.__dict__ if key in known and not known[key].exclude}
    private, deleted = value.__pydantic_private__, [key for key in known if key not in value.__dict__]
    return {
        TYPE_KEY: "object",
        "class": register_class_name(type(value)),
        "fields": _write_attributes(value.__dict__, place, ancestors, required),
        "extra": to_json(value.__pydantic_extra__, f"{place}.__pydantic_extra__", ancestors),
        "private": None if private is None else _write_attributes(private, place, ancestors),
        "set": to_json(value.__pydantic_fields_set__, f"{place}.model_fields_set", ancestors),
        **({"deleted": deleted} if deleted else {}),  # LiteLLM deletes the fields of a message that are None
    }


def _write_attributes(
    values: Mapping[str, Any], place: str, ancestors: Ancestors, required: Collection[str] = ()
) -> dict[str, Any]:
    """Return the attributes, without those that are no data and not required."""
    written: dict[str, Any] = {}
    for key, item in values.items():
        try:
            written[key] = to_json(item, f"{place}.{key}", ancestors)
        except ArchiveError as error:
            if key in required and key not in _OPTIONAL_FIELDS:
                raise
            if key in required:
                written[key] = None
                log.warning("a message is archived without its %s: %s", key, error)
    return written


def _read_object(value: Mapping[str, Any]) -> Any:
    fields = {key: from_json(item) for key, item in value["fields"].items()}
    extra, private, fields_set, deleted = (from_json(value.get(key)) for key in ("extra", "private", "set", "deleted"))
    if (kind := find_class(value["class"])) is not None:
        without = deleted if isinstance(deleted, list) else ()
        instance = _make_object(kind, fields, extra, private, fields_set, deleted=without)
        if instance is not _MISSING:
            return instance
        report_substitute(value["class"], "plain data")  # the installed class has other fields, or is none of data
    return fields | extra if isinstance(extra, dict) else fields


def _make_object(
    kind: Any, fields: dict[str, Any], extra: Any, private: Any, fields_set: Any, *, deleted: Collection[Any]
) -> Any:
    """Return an object of the class with these fields, none of its code run; `_MISSING` if it is no class of data."""
    if hasattr(kind, "__del__"):  # code that would run all the same, once the object goes
        return _MISSING
    state = fields
    if _is_model(kind):
        if not all(isinstance(part, dict | None) for part in (extra, private)) or not isinstance(fields_set, set):
            return _MISSING
        for name, field in kind.__pydantic_fields__.items():
            # A field that is newer than what is stored: its default, where that is a value.
            is_stored = name in fields or name in fields_set or name in deleted
            if not is_stored and not field.is_required() and not field.default_factory:
                fields[name] = copy.copy(field.default)
        state = dict(zip(_MODEL_STATE, (fields, extra, private, fields_set), strict=True))
    elif (names := _field_names(kind)) is None or not fields.keys() <= set(names):
        return _MISSING
    instance: Any = object.__new__(kind)
    for key, item in state.items():
        object.__setattr__(instance, key, item)
    return instance


def _write_enum(value: enum.Enum, place: str, ancestors: Ancestors) -> Any:
    written = _write_attributes({"value": value.value}, place, ancestors)
    return {TYPE_KEY: "enum", "class": register_class_name(type(value)), "name": value.name, **written}


def _read_enum(value: Mapping[str, Any]) -> Any:
    kind = find_class(value["class"])
    plain = from_json(value["value"]) if "value" in value else value["name"]
    if kind is None or not issubclass(kind, enum.Enum):
        return plain
    if value["name"] in kind.__members__:
        return kind.__members__[value["name"]]
    if issubclass(kind, enum.Flag) and isinstance(plain, int):
        return kind(plain)  # several at once
    report_substitute(value["class"], "plain data")
    return plain


def _write_other(value: Any, place: str, ancestors: Ancestors) -> Any:
    """Return a value of a class that builds on a plain one as that; any other as its dump."""
    kind = type(value)
    base = next((base for base in _PLAIN_FORMS if isinstance(value, base)), None)
    plain = _dump_to_plain(value) if base is None else _PLAIN_FORMS[base](value)
    if plain is _MISSING:
        raise ArchiveError(
            f"can't archive {place}: it is a {kind.__module__}.{kind.__qualname__}, which is no data. Pass plain JSON "
            "types, the SDK's own objects, pydantic models, dataclasses or enums."
        )
    is_exact = base in _IMMUTABLE and not getattr(value, "__dict__", None)
    name = register_class_name(kind) if is_exact else f"{kind.__module__}:{kind.__qualname__}"
    return {TYPE_KEY: "like" if is_exact else "data", "class": name, "value": to_json(plain, place, ancestors)}


def _dump_to_plain(value: Any) -> Any:
    """Return the value in plain types, as a framework would dump it to JSON; `_MISSING` where none could."""
    core: Any = sys.modules.get("pydantic_core")
    try:
        if hasattr(value, "tolist"):  # numpy's, and those of its kin
            return value.tolist()
        is_no_data = core is None or isinstance(value, Iterator | type) or callable(value)
        return _MISSING if is_no_data else core.to_jsonable_python(value)
    except Exception:  # noqa: BLE001 - the value's own code may run, and raise anything
        return _MISSING


def _to_plain_datetime(value: datetime | date | timedelta) -> Any:
    """Return the moment, or span of time, of a class that builds on a plain one, made as pickle would make it."""
    base: Any = next(base for base in (datetime, date, timedelta) if isinstance(value, base))
    return base(*base.__reduce_ex__(value, 4)[1])


def _read_subclass(value: Mapping[str, Any]) -> Any:
    plain = from_json(value["value"])
    base: Any = type(plain)
    kind = find_class(value["class"]) if value[TYPE_KEY] == "like" else None
    if kind is not None and base in _IMMUTABLE and issubclass(kind, base) and not hasattr(kind, "__del__"):
        return base.__new__(kind, plain)
    report_substitute(value["class"], f"plain {base.__name__}")
    return plain


_MODEL_STATE: Final = ("__dict__", "__pydantic_extra__", "__pydantic_private__", "__pydantic_fields_set__")
_IMMUTABLE: Final = (str, int, float, bytes, tuple)
_PLAIN_FORMS: Final[dict[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes(memoryview(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    **dict.fromkeys((date, timedelta), _to_plain_datetime),
    bytearray: bytes,
    Mapping: dict,
    Sequence: list,
    AbstractSet: list,
    PathLike: fspath,
}
"""What a value of a class that builds on one of these is written as; of the immutable ones it is made again."""
_WRITERS: Final[dict[type, Writer]] = {dict: _write_dict, list: _write_items, tuple: _write_tuple}
_WRITERS.update(dict.fromkeys((set, frozenset), _write_set))
_LEAF_CONVERTERS: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    str: (_write_text, lambda written: written.encode("ascii").decode("unicode_escape")),
    int: (lambda value: value if -MAX_INTEGER < value < MAX_INTEGER else hex(value), lambda written: int(written, 16)),
    float: (
        lambda value: value if isfinite(value) else struct.pack(">d", value).hex(),
        lambda written: struct.unpack(">d", bytes.fromhex(written))[0],
    ),
    bytes: (_write_bytes, base64.b64decode),
    bytearray: (_write_bytes, lambda written: bytearray(base64.b64decode(written))),
    datetime: (_write_datetime, lambda written: _read_datetime(datetime, *written)),
    time: (_write_datetime, lambda written: _read_datetime(time, *written)),
    date: (date.isoformat, date.fromisoformat),
    timedelta: (lambda value: [value.days, value.seconds, value.microseconds], lambda written: timedelta(*written)),
    timezone: (_write_fixed_zone, lambda written: timezone(timedelta(seconds=written[0]), *written[1:])),
    ZoneInfo: (lambda value: value.key, ZoneInfo),
    Decimal: (str, Decimal),
    UUID: (str, UUID),
}
"""How a single value is written, as the very object where JSON says it as it is; and how it is read."""
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    **{kind.__name__: read for kind, (_, read) in _LEAF_CONVERTERS.items()},
    "TzInfo": _read_pydantic_zone,
    "dict": _read_dict,
    "tuple": lambda written: tuple(from_json(item) for item in written),
    "set": lambda written: _read_set(set, written),
    "frozenset": lambda written: _read_set(frozenset, written),
}
"""How a value is read, by the kind that its tag names."""
_OBJECT_READERS: Final = {"object": _read_object, "enum": _read_enum, "like": _read_subclass, "data": _read_subclass}
"""How an object is read, from all of what is tagged."""
