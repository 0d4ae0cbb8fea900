"""Single values that JSON can't say, packed and made again: texts, numbers, bytes, moments."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import isfinite
from typing import Any, Final, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from unabridged.archive.codec.bounds import LARGEST, TAG
from unabridged.archive.codec.classes import tell
from unabridged.errors import ArchiveError


def pack_str(value: str) -> Any:
    """The text as it is, or escaped where it has lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON's own \ud83d escapes would melt two lone surrogates that meet into one character.
        return {TAG: "str", "escaped": value.encode("unicode_escape").decode("ascii")}
    return value


def pack_int(value: int) -> Any:
    """The number as it is, or in hexadecimal."""
    return value if -LARGEST < value < LARGEST else {TAG: "int", "hex": hex(value)}


def pack_float(value: float) -> Any:
    """The number as it is, or by its bits."""
    return value if isfinite(value) else {TAG: "float", "bits": struct.pack(">d", value).hex()}


def pack_bytes(value: bytes | bytearray) -> Any:
    """The bytes in base64."""
    return {TAG: type(value).__name__, "base64": base64.b64encode(value).decode("ascii")}


def pack_clock(value: datetime | time) -> Any:
    """The moment in ISO's form, its zone apart."""
    bare = value.replace(tzinfo=None, fold=0).isoformat()
    zone = None if value.tzinfo is None else _pack_zone(value.tzinfo, value)
    return {TAG: type(value).__name__, "iso": bare, "zone": zone, "fold": value.fold}


def _pack_zone(zone: tzinfo, moment: datetime | time) -> Any:
    """A zone of the standard library or of pydantic by its name; any other by what it says of this moment."""
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        # The constructor's arguments, as pickle reads them: a name is there only when one was given.
        name = zone.__getinitargs__()[1:]  # type: ignore[attr-defined]
        return {"fixed": pack_delta(offset), "name": list(name)}
    if type(zone) is ZoneInfo and zone.key:
        return {"key": zone.key}
    if type(zone).__module__.startswith("pydantic_core"):
        offset = cast("timedelta", zone.utcoffset(None))
        return {"pydantic": int(offset.total_seconds())}
    then = moment.utcoffset()
    if then is None:
        raise ArchiveError(f"can't archive a time of day whose zone is a {type(zone).__name__}. Use datetime.timezone.")
    spelled = f"{type(zone).__module__}:{type(zone).__qualname__}"
    return {"fixed": pack_delta(then), "name": [str(moment.tzname())], "class": spelled}


def _unpack_zone(zone: Any) -> tzinfo | None:
    if zone is None:
        return None
    if "class" in zone:
        tell(zone["class"], "a fixed offset")
    if "fixed" in zone:
        return timezone(timedelta(*zone["fixed"]["parts"]), *zone["name"])
    if "key" in zone:
        return ZoneInfo(zone["key"])
    from pydantic_core import TzInfo  # noqa: PLC0415 - only for what a pydantic model parsed

    return cast("tzinfo", TzInfo(zone["pydantic"]))


def pack_delta(value: timedelta) -> Any:
    """The span by its three numbers."""
    return {TAG: "timedelta", "parts": [value.days, value.seconds, value.microseconds]}


PACKERS: Final[dict[type, Callable[[Any], Any]]] = {
    str: pack_str,
    int: pack_int,
    float: pack_float,
    bytes: pack_bytes,
    bytearray: pack_bytes,
    datetime: pack_clock,
    time: pack_clock,
    timedelta: pack_delta,
    date: lambda value: {TAG: "date", "iso": value.isoformat()},
    Decimal: lambda value: {TAG: "Decimal", "text": str(value)},
    UUID: lambda value: {TAG: "UUID", "hex": value.hex},
}
UNPACKERS: Final[dict[str, Callable[[Mapping[str, Any]], Any]]] = {
    "str": lambda value: value["escaped"].encode("ascii").decode("unicode_escape"),
    "int": lambda value: int(value["hex"], 16),
    "float": lambda value: struct.unpack(">d", bytes.fromhex(value["bits"]))[0],
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
}
