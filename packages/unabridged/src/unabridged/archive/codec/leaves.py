"""Single values that JSON can't say, packed and made again: texts, numbers, bytes, moments."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NamedTuple, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from unabridged.archive.codec.classes import LARGEST, TAG, tell
from unabridged.errors import ArchiveError


class Leaf(NamedTuple):
    """How a value of one class becomes fields of a tagged object, None where JSON says it as it is; and back."""

    pack: Callable[[Any], Mapping[str, Any] | None]
    unpack: Callable[[Mapping[str, Any]], Any]


def pack_leaf(value: Any) -> Any:
    """The value as it is, or as a tagged object. Its class is one of `LEAVES`."""
    fields = LEAVES[type(value)].pack(value)
    return value if fields is None else {TAG: type(value).__name__, **fields}


def _pack_str(value: str) -> Mapping[str, Any] | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON's own \ud83d escapes would melt two lone surrogates that meet into one character.
        return {"escaped": value.encode("unicode_escape").decode("ascii")}
    return None


def _pack_bytes(value: bytes | bytearray) -> Mapping[str, Any]:
    return {"base64": base64.b64encode(value).decode("ascii")}


def _pack_clock(value: datetime | time) -> Mapping[str, Any]:
    bare = value.replace(tzinfo=None, fold=0).isoformat()
    zone = None if value.tzinfo is None else _pack_zone(value.tzinfo, value)
    return {"iso": bare, "zone": zone, "fold": value.fold}


def _pack_zone(zone: tzinfo, moment: datetime | time) -> Any:
    """A zone of the standard library or of pydantic by its name; any other by what it says of this moment."""
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        # The constructor's arguments, as pickle reads them: a name is there only when one was given.
        name = zone.__getinitargs__()[1:]  # type: ignore[attr-defined]
        return {"fixed": pack_leaf(offset), "name": list(name)}
    if type(zone) is ZoneInfo and zone.key:
        return {"key": zone.key}
    if type(zone).__module__.startswith("pydantic_core"):
        offset = cast("timedelta", zone.utcoffset(None))
        return {"pydantic": int(offset.total_seconds())}
    then = moment.utcoffset()
    if then is None:
        raise ArchiveError(f"can't archive a time of day whose zone is a {type(zone).__name__}. Use datetime.timezone.")
    spelled = f"{type(zone).__module__}:{type(zone).__qualname__}"
    return {"fixed": pack_leaf(then), "name": [str(moment.tzname())], "class": spelled}


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


LEAVES: Final[dict[type, Leaf]] = {
    str: Leaf(_pack_str, lambda of: of["escaped"].encode("ascii").decode("unicode_escape")),
    int: Leaf(lambda value: None if -LARGEST < value < LARGEST else {"hex": hex(value)}, lambda of: int(of["hex"], 16)),
    float: Leaf(
        lambda value: None if isfinite(value) else {"bits": struct.pack(">d", value).hex()},
        lambda of: struct.unpack(">d", bytes.fromhex(of["bits"]))[0],
    ),
    bytes: Leaf(_pack_bytes, lambda of: base64.b64decode(of["base64"])),
    bytearray: Leaf(_pack_bytes, lambda of: bytearray(base64.b64decode(of["base64"]))),
    datetime: Leaf(
        _pack_clock,
        lambda of: datetime.fromisoformat(of["iso"]).replace(tzinfo=_unpack_zone(of["zone"]), fold=of["fold"]),
    ),
    time: Leaf(
        _pack_clock, lambda of: time.fromisoformat(of["iso"]).replace(tzinfo=_unpack_zone(of["zone"]), fold=of["fold"])
    ),
    timedelta: Leaf(
        lambda value: {"parts": [value.days, value.seconds, value.microseconds]}, lambda of: timedelta(*of["parts"])
    ),
    date: Leaf(lambda value: {"iso": value.isoformat()}, lambda of: date.fromisoformat(of["iso"])),
    Decimal: Leaf(lambda value: {"text": str(value)}, lambda of: Decimal(of["text"])),
    UUID: Leaf(lambda value: {"hex": value.hex}, lambda of: UUID(of["hex"])),
}
"""By class, whose name is the kind that the tag says."""
