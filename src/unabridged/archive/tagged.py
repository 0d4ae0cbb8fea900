"""What plain JSON can't say of a message: packed into tagged objects, restored only from the modules allowed."""

from __future__ import annotations

import base64
import dataclasses
import enum
import importlib
import json
import struct
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import isfinite
from typing import Any, Final, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from unabridged.archive.codec import DEEPEST, TAG
from unabridged.errors import ArchiveError

ALLOWED: Final[set[str]] = {
    "openai.types",
    "anthropic.types",
    "langchain_core.messages",
    "pydantic_ai.messages",
    "pydantic_ai.usage",
}
"""The modules, with all below them, whose classes may be restored. `codec.allow` adds to it."""

_BIG: Final = 1 << 1024
_MODEL_STATE: Final = ("__pydantic_extra__", "__pydantic_private__", "__pydantic_fields_set__")


def pack(value: Any, place: str, depth: int) -> Any:
    """The value in plain JSON types, tagged where JSON can't say it; `place` is what an error names."""
    if depth > DEEPEST:
        raise ArchiveError(
            f"can't archive {place[:80]}…: nested deeper than {DEEPEST} levels (or within itself). "
            "Pass the deep part as JSON text."
        )
    kind = type(value)
    if value is None or kind is bool:
        return value
    packer = _PACKERS.get(kind)
    if packer is not None:
        return packer(value, place, depth)
    if isinstance(value, enum.Enum):
        return {TAG: "enum", "class": _class_name(kind, place), "name": value.name}
    if _is_model(kind):
        return _pack_model(value, place, depth)
    if dataclasses.is_dataclass(kind):
        fields = [field.name for field in dataclasses.fields(kind) if hasattr(value, field.name)]
        state = {name: pack(getattr(value, name), f"{place}.{name}", depth + 1) for name in fields}
        return {TAG: "object", "class": _class_name(kind, place), "fields": state}
    raise ArchiveError(
        f"can't archive {place} exactly: it is a {_spelled(kind)}. Pass plain JSON types or the SDK's own objects, "
        f"or name its module with unabridged.archive.codec.allow({kind.__module__!r}) if it is a pydantic model, "
        "a dataclass or an enum."
    )


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


def _items(value: Any, place: str, depth: int) -> list[Any]:
    return [pack(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]


def _pack_str(value: str, _place: str, _depth: int) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON's own \ud83d escapes would melt two lone surrogates that meet into one character.
        return {TAG: "str", "escaped": value.encode("unicode_escape").decode("ascii")}
    return value


def _pack_int(value: int, _place: str, _depth: int) -> Any:
    # Decimal digits beyond a limit the interpreter sets are refused; hexadecimal is not.
    return value if -_BIG < value < _BIG else {TAG: "int", "hex": hex(value)}


def _pack_float(value: float, _place: str, _depth: int) -> Any:
    return value if isfinite(value) else {TAG: "float", "bits": struct.pack(">d", value).hex()}


def _pack_dict(value: dict[Any, Any], place: str, depth: int) -> Any:
    simple = all(type(key) is str and key != TAG and _pack_str(key, place, depth) is key for key in value)
    if simple:
        return {key: pack(item, f"{place}[{key!r}]", depth + 1) for key, item in value.items()}
    pairs = [
        [pack(key, f"a key of {place}", depth + 1), pack(item, f"{place}[{key!r}]", depth + 1)]
        for key, item in value.items()
    ]
    return {TAG: "dict", "pairs": pairs}


def _pack_list(value: list[Any], place: str, depth: int) -> Any:
    return _items(value, place, depth)


def _pack_set(value: set[Any] | frozenset[Any], place: str, depth: int) -> Any:
    # Sorted by what is written, so that equal sets are equal bytes.
    items = sorted((pack(item, f"an item of {place}", depth + 1) for item in value), key=json.dumps)
    return {TAG: type(value).__name__, "items": items}


def _pack_tuple(value: tuple[Any, ...], place: str, depth: int) -> Any:
    return {TAG: "tuple", "items": _items(value, place, depth)}


def _pack_bytes(value: bytes | bytearray, _place: str, _depth: int) -> Any:
    return {TAG: type(value).__name__, "base64": base64.b64encode(value).decode("ascii")}


def _pack_clock(value: datetime | time, place: str, depth: int) -> Any:
    bare = value.replace(tzinfo=None, fold=0).isoformat()
    zone = None if value.tzinfo is None else _pack_zone(value.tzinfo, place, depth)
    return {TAG: type(value).__name__, "iso": bare, "zone": zone, "fold": value.fold}


def _pack_zone(zone: tzinfo, place: str, depth: int) -> Any:
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        # The constructor's arguments, as pickle reads them: a name is there only when one was given.
        name = zone.__getinitargs__()[1:]  # type: ignore[attr-defined]
        return {"fixed": pack(offset, place, depth), "name": list(name)}
    if type(zone) is ZoneInfo and zone.key:
        return {"key": zone.key}
    if type(zone).__module__.startswith("pydantic_core"):
        offset = cast("timedelta", zone.utcoffset(None))
        return {"pydantic": int(offset.total_seconds())}
    raise ArchiveError(
        f"can't archive {place} exactly: its time zone is a {_spelled(type(zone))}. "
        "Use datetime.timezone, zoneinfo.ZoneInfo or an ISO text."
    )


def _unpack_zone(zone: Any) -> tzinfo | None:
    if zone is None:
        return None
    if "fixed" in zone:
        return timezone(unpack(zone["fixed"]), *zone["name"])
    if "key" in zone:
        return ZoneInfo(zone["key"])
    from pydantic_core import TzInfo  # noqa: PLC0415 - only for what a pydantic model parsed

    return cast("tzinfo", TzInfo(zone["pydantic"]))


def _is_model(kind: type) -> bool:
    """Whether this is a pydantic model, told without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _pack_model(value: Any, place: str, depth: int) -> Any:
    """A model by its own state, as pydantic pickles it: no field is dumped, coerced or left out."""
    packed: dict[str, Any] = {TAG: "object", "class": _class_name(type(value), place)}
    packed["fields"] = {key: pack(item, f"{place}.{key}", depth + 1) for key, item in value.__dict__.items()}
    for name, key in zip(_MODEL_STATE, ("extra", "private", "set"), strict=True):
        packed[key] = pack(getattr(value, name, None), f"{place}.{name}", depth + 1)
    return packed


def _unpack_object(value: Mapping[str, Any]) -> Any:
    kind = _class(value["class"])
    fields = {key: unpack(item) for key, item in value["fields"].items()}
    made: Any = object.__new__(kind)
    if _is_model(kind):
        object.__setattr__(made, "__dict__", fields)
        for name, key in zip(_MODEL_STATE, ("extra", "private", "set"), strict=True):
            object.__setattr__(made, name, unpack(value[key]))
        return made
    if not dataclasses.is_dataclass(kind):
        raise ArchiveError(f"a stored message names {_spelled(kind)}, which is neither a model nor a dataclass.")
    known = {field.name for field in dataclasses.fields(kind)}
    for key, item in fields.items():
        if key not in known:
            raise ArchiveError(f"{_spelled(kind)} has no field {key!r} in the installed version. Install the former.")
        object.__setattr__(made, key, item)
    return made


def _unpack_enum(value: Mapping[str, Any]) -> Any:
    kind = _class(value["class"])
    if not issubclass(kind, enum.Enum):
        raise ArchiveError(f"a stored message names {_spelled(kind)} as an enum, which it is not.")
    return kind[value["name"]]


def _class_name(kind: type, place: str) -> Any:
    """The class by module and name, or for a generic model by its origin and arguments, if it can be restored."""
    generic = getattr(kind, "__pydantic_generic_metadata__", None) or {}
    if generic.get("origin") is not None:
        arguments = [_argument_name(argument, place) for argument in generic["args"]]
        named: Any = [_class_name(generic["origin"], place), arguments]
    else:
        named = f"{kind.__module__}:{kind.__qualname__}"
    try:
        found = _class(named)
    except ArchiveError as error:
        raise ArchiveError(f"can't archive {place} exactly: {error}") from error
    if found is not kind:
        raise ArchiveError(
            f"can't archive {place} exactly: {_spelled(kind)} is not the class its module has under that name."
        )
    return named


def _argument_name(argument: Any, place: str) -> Any:
    if argument is None:
        return None
    if isinstance(argument, type):
        return f"builtins:{argument.__name__}" if argument in _PLAIN_CLASSES else _class_name(argument, place)
    if hasattr(argument, "__name__") and hasattr(argument, "__module__"):  # a type variable
        return f"{argument.__module__}:{argument.__name__}"
    raise ArchiveError(f"can't archive {place} exactly: its class is generic over {argument!r}. Dump it to a dict.")


def _class(named: Any) -> type:
    """The class of that name, from an allowed module and nowhere else."""
    if isinstance(named, list):
        origin, arguments = named
        items = tuple(_argument(argument) for argument in arguments)
        return cast("type", cast("Any", _class(origin))[items[0] if len(items) == 1 else items])
    found = _named(named)
    if not isinstance(found, type) or found.__module__ != named.partition(":")[0]:
        raise ArchiveError(f"{named} is not a class of that module in the installed version.")
    return found


def _argument(named: Any) -> Any:
    if named is None:
        return None
    if isinstance(named, str) and named.startswith("builtins:"):
        return {kind.__name__: kind for kind in _PLAIN_CLASSES}[named.removeprefix("builtins:")]
    return _class(named) if isinstance(named, list) else _named(named)


def _named(named: str) -> Any:
    module, _, path = named.partition(":")
    if not any(module == prefix or module.startswith(prefix + ".") for prefix in ALLOWED):
        raise ArchiveError(
            f"{module}.{path} is not in a module that may be restored. Pass plain dicts, "
            f"or allow it: unabridged.archive.codec.allow({module!r})."
        )
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = vars(found)[name]
    except (ImportError, LookupError, TypeError) as error:
        raise ArchiveError(f"{module}.{path} is not installed here ({error}). Install what wrote it.") from error
    return found


def _spelled(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _pack_delta(value: timedelta, _place: str, _depth: int) -> Any:
    return {TAG: "timedelta", "parts": [value.days, value.seconds, value.microseconds]}


_Packer = Callable[[Any, str, int], Any]
_PACKERS: Final[dict[type, _Packer]] = {
    str: _pack_str,
    int: _pack_int,
    float: _pack_float,
    dict: _pack_dict,
    list: _pack_list,
    tuple: _pack_tuple,
    set: _pack_set,
    frozenset: _pack_set,
    bytes: _pack_bytes,
    bytearray: _pack_bytes,
    datetime: _pack_clock,
    time: _pack_clock,
    timedelta: _pack_delta,
    date: lambda value, _place, _depth: {TAG: "date", "iso": value.isoformat()},
    Decimal: lambda value, _place, _depth: {TAG: "Decimal", "text": str(value)},
    UUID: lambda value, _place, _depth: {TAG: "UUID", "hex": value.hex},
}
_PLAIN_CLASSES: Final = (type(None), bool, str, int, float, dict, list)
_UNPACKERS: Final[dict[str, Callable[[Mapping[str, Any]], Any]]] = {
    "str": lambda value: value["escaped"].encode("ascii").decode("unicode_escape"),
    "int": lambda value: int(value["hex"], 16),
    "float": lambda value: struct.unpack(">d", bytes.fromhex(value["bits"]))[0],
    "dict": lambda value: {unpack(key): unpack(item) for key, item in value["pairs"]},
    "tuple": lambda value: tuple(unpack(item) for item in value["items"]),
    "set": lambda value: {unpack(item) for item in value["items"]},
    "frozenset": lambda value: frozenset(unpack(item) for item in value["items"]),
    "bytes": lambda value: base64.b64decode(value["base64"]),
    "bytearray": lambda value: bytearray(base64.b64decode(value["base64"])),
    "datetime": lambda value: datetime.fromisoformat(value["iso"]).replace(
        tzinfo=_unpack_zone(value["zone"]), fold=value["fold"]
    ),
    "time": lambda value: time.fromisoformat(value["iso"]).replace(
        tzinfo=_unpack_zone(value["zone"]), fold=value["fold"]
    ),
    "timedelta": lambda value: timedelta(*value["parts"]),
    "date": lambda value: date.fromisoformat(value["iso"]),
    "Decimal": lambda value: Decimal(value["text"]),
    "UUID": lambda value: UUID(value["hex"]),
    "object": _unpack_object,
    "enum": _unpack_enum,
}
