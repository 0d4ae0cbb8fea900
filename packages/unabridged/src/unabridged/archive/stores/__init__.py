"""Where archives are kept: SQLite, PostgreSQL, a directory, memory.

To add one: build on `base_log.LogArchive` or follow `archive.protocol`, give it a URL in `archive.opening`, and run
`unabridged_testing.ArchiveContract` on it.
"""
