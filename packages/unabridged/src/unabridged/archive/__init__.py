"""The archive: an append-only, content-addressed store of what left a context, and of every compaction.

In reading order: `protocol` says what every archive does (`unabridged_testing.ArchiveContract` tests it), `codec` makes
bytes of a message and back, `search` finds it again by its `words`, `store_rules` decides what holds in every store.
`stores` read and write: `memory` and `directory`, whose threads are logs (`base_log`); `sqlite` and `postgres`, which
share `base_sql`. `encrypted` and `objects` wrap any of them.
"""

from unabridged.archive.opening import open_archive
from unabridged.archive.protocol import Archive, Hit, Part, Record, RecordData, Scope

__all__ = ["Archive", "Hit", "Part", "Record", "RecordData", "Scope", "open_archive"]
