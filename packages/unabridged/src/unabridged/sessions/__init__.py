"""Read and write conversations as files: plain JSON and JSON Lines, and sessions of Claude Code, Codex CLI and pi.

In reading order: `base` (what `load` returns, and what it is made of), `files` (load and save, and which client's file
it is), `document` (plain files), `claude_code`, `codex` and `pi` (a client each: `is_own_line`, `read` lines into a
conversation, `append` lines after them), `text` (lines and bytes).
"""

from unabridged.sessions.base import KINDS, Kind, LoadedFile, ReportedUsage, SessionFileError
from unabridged.sessions.files import MAX_SIZE, load, save, write_file_atomically

__all__ = ["KINDS", "MAX_SIZE"]
__all__ += ["Kind", "LoadedFile", "ReportedUsage", "SessionFileError"]
__all__ += ["load", "save", "write_file_atomically"]
