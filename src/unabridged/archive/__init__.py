"""The archive: an append-only, content-addressed store of what left a context, and of every compaction."""
