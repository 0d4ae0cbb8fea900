"""Any name as a name in a file system: readable where it can be, and never two names in one place.

Lower-case ASCII letters, digits and `-` stand for themselves, every other byte of the UTF-8 form as `_` and two digits.
So no name leaves its folder, none is special to a system, and neither case nor Unicode form can make two meet. A name
that would be too long keeps its beginning, followed by `.` and its hash, and stands written out in the files inside.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_LONGEST: Final = 100
_ESCAPE: Final = re.compile(rb"[^a-z0-9-]")
_RESERVED: Final = re.compile(rb"(con|prn|aux|nul|com[0-9]|lpt[0-9]|-.*)")  # devices of Windows; options of a shell
_EMPTY: Final = "_"


def to_folder(name: str) -> str:
    """The folder's name for this name."""
    raw = name.encode("utf-8", "surrogatepass")
    if not raw:
        return _EMPTY
    escaped = _ESCAPE.sub(lambda match: b"_%02x" % match[0][0], raw)
    if _RESERVED.fullmatch(escaped):
        escaped = b"_%02x" % raw[0] + escaped[1:]
    if len(escaped) <= _LONGEST:
        return escaped.decode("ascii")
    return f"{escaped[:_LONGEST].decode('ascii')}.{hashlib.sha256(raw).hexdigest()[:40]}"


def from_folder(folder: str) -> str | None:
    """The name that this folder stands for; None if only the files inside can say, or it is none of ours."""
    if folder == _EMPTY:
        return ""
    if not re.fullmatch(r"(?:[a-z0-9-]|_[0-9a-f]{2})+", folder):
        return None
    raw = re.sub(rb"_([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), folder.encode())
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
