"""Where archives are kept: SQLite, PostgreSQL, a directory, memory."""
