r"""Messages as bytes and back, exactly: what comes back equals what went in, type for type.

The body is JSON in UTF-8. A message of plain JSON types, which nearly every message is, is written as it stands. What
JSON can't say is a tagged object, `{"$unabridged": kind, …}`:

    str         text with lone surrogates, escaped        bytes, bytearray        base64
    int         beyond 1,024 bits, in hexadecimal         tuple, set, frozenset   their items
    float       nan and the infinities, by their bits     dict                    pairs: other keys, or our own tag
    datetime    …, date, time, timedelta, Decimal, UUID   object, enum            a class and its fields
    like        a class that builds on a plain one        data                    anything else that can be dumped

A body is data, and may come from anyone: a class is looked for only in the modules allowed and among those that this
process wrote itself (`classes`), and only a model, a dataclass or an enum is ever made, its fields set without running
its code. What can't be made comes back as plain data, and the log says so once. Only what is no data at all (a
function, a lock, a circle) is refused when it is written, with the place it stands at.
"""

from unabridged.archive.codec.body import decode, digest, encode
from unabridged.archive.codec.classes import allow

__all__ = ["allow", "decode", "digest", "encode"]
