"""The archive: an append-only, content-addressed store of what left a context, and of every compaction.

In reading order: `protocol` says what every archive does, `codec` (and `tagged`) how a message becomes bytes and back,
`words` and `index` how it is found again, `rules` what holds in every store. The stores: `memory`; `directory`;
`sqlite` and `postgres`, which share `sql` and its tables in `schema`; `encrypted`, which wraps any of them.
"""

from unabridged.archive.opening import open_archive
from unabridged.archive.protocol import Archive, Hit, Part, Record, RecordData, Scope

__all__ = ["Archive", "Hit", "Part", "Record", "RecordData", "Scope", "open_archive"]
